"""The peers' generators: mlx-lm token by token, and mlx-lm's batch generator, under the masks of a guide.

Both are given what makes them fastest through documented parameters only:

- Masks are made while the device runs the pass: the pass is started before they are asked for.
- A batch's masks are made in parallel, uploaded at once and put on all rows by one operation.
- The beginning that the prompts share is read once, and its cache is used again.
- A row ends as soon as its form is complete, without a pass for the end of sequence.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fillengine.bench.bitmask import Bitmask, Bits, num_words
from fillengine.bench.contenders import Answer, Setting, Turn
from fillengine.bench.guides import Guide, Guides
from fillengine.bench.records import Record
from fillengine.bench.script import Script, instead_of, token_at
from fillengine.extraction.prompt import build_messages
from fillengine.generation.models import LoadedModel

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)
from mlx_lm.generate import BatchGenerator, generate_step  # isort: skip
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache  # isort: skip

# Tokens of a prompt in one pass, mlx-lm's own default.
PREFILL_STEP = 2048

Encode = Callable[[Any], list[int]]


@dataclass(slots=True)
class _Row:
    """A text on its way.

    sampled, place      the last step's choices, and which of them is this row's
    script              what is written in place of the choices (None: they are); num_chosen: choices so far
    """

    guide: Guide
    prompt: list[int]
    script: Sequence[int] | None = None
    num_chosen: int = 0
    token_ids: list[int] = field(default_factory=list)
    is_cut: bool = False
    sampled: _Sampled | None = None
    place: int = 0

    def catch_up(self) -> None:
        """Let the guide know the last token, which the device must have chosen by now."""
        if self.sampled is not None and not self.guide.is_stopped:
            self.guide.consume(self.sampled.token_ids[self.place])


class _Sampled:
    """The choices of one step. They are fetched from the device together, when the first is asked for."""

    def __init__(self, array: mx.array) -> None:
        self._array = array
        self._token_ids: list[int] | None = None

    @property
    def token_ids(self) -> list[int]:
        if self._token_ids is None:
            self._token_ids = np.asarray(self._array).tolist()
        return self._token_ids


class MaskedSampler:
    """Chooses for some rows at once, under the masks of their guides."""

    def __init__(self, guides: Guides, temperature: float) -> None:
        self._guides = guides
        self._temperature = temperature
        self.bitmask = Bitmask()

    def choose(self, rows: Sequence[_Row], logprobs: mx.array) -> mx.array:
        """logprobs: float[len(rows), num_logits], not computed yet. Returns token ids, int[len(rows)]."""
        mx.async_eval(logprobs)  # type: ignore[no-untyped-call]
        for row in rows:
            row.catch_up()
        open_places = [place for place, row in enumerate(rows) if not row.guide.is_stopped]
        bits: Bits = np.full((len(rows), num_words(logprobs.shape[-1])), 0xFFFFFFFF, np.uint32)
        if len(open_places) == len(rows):
            self._guides.fill([row.guide for row in rows], bits)
        elif open_places:
            # What is chosen for the others is thrown away.
            part = np.ascontiguousarray(bits[open_places])
            self._guides.fill([rows[place].guide for place in open_places], part)
            bits[open_places] = part
        masked = self.bitmask.apply(logprobs, bits)
        if self._temperature > 0:
            choices = mx.random.categorical(masked * (1 / self._temperature))
        else:
            choices = mx.argmax(masked, axis=-1)
        if any(row.script is not None for row in rows):
            choices = instead_of(choices, [token_at(row.script or (0,), row.num_chosen) for row in rows])
        sampled = _Sampled(choices)
        for place, row in enumerate(rows):
            row.sampled, row.place = sampled, place
            row.num_chosen += 1
        return choices


class SharedBeginning:
    """One cache that holds what the last prompt began with: a new prompt is read from where it differs."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.tokens: list[int] = []
        self.cache: Any = None

    def read(self, tokens: Sequence[int]) -> Any:
        """The cache with exactly these tokens in it. It is used up by whoever writes behind them: see `wrote`."""
        shared = _num_common(self.tokens, tokens)
        if self.cache is not None and can_trim_prompt_cache(self.cache):
            trim_prompt_cache(self.cache, len(self.tokens) - shared)
        else:
            self.cache, shared = make_prompt_cache(self._model), 0
        for start in range(shared, len(tokens), PREFILL_STEP):
            self._model(mx.array([tokens[start : start + PREFILL_STEP]]), cache=self.cache)
            mx.eval([layer.state for layer in self.cache])
        self.tokens = list(tokens)
        return self.cache

    def wrote(self, tokens: Sequence[int]) -> None:
        """The cache holds these tokens, too, and more behind them that nobody knows: drop those."""
        if not can_trim_prompt_cache(self.cache):
            self.tokens, self.cache = [], None
            return
        trim_prompt_cache(self.cache, int(self.cache[0].offset) - len(tokens))
        self.tokens = list(tokens)


class TokenByToken:
    """mlx-lm's `generate_step`, one text after the other."""

    def __init__(
        self,
        loaded: LoadedModel,
        encode: Encode,
        guides: Guides,
        setting: Setting,
        *,
        script: Script | None = None,
    ) -> None:
        self.name = f"{guides.name}, token by token"
        self.family = guides.name
        self._loaded = loaded
        self.encode = encode
        self.guides = guides
        self._setting = setting
        self.script = script
        self.sampler = MaskedSampler(guides, setting.temperature)
        self._beginning = SharedBeginning(loaded.model)

    def run(self, records: Sequence[tuple[int, Record]]) -> Turn:
        prefill = decode = 0.0
        answers = []
        for index, record in records:
            mx.random.seed(self._setting.seed + index)
            row = _row(self, index, record)
            begun = time.perf_counter()
            cache = self._beginning.read(row.prompt[:-1])
            read = time.perf_counter()
            self._write(row, cache)
            decode += time.perf_counter() - read
            prefill += read - begun
            # The pass behind the last token is on its way: it must not fall into the next contender's time.
            mx.synchronize()
            self._beginning.wrote(row.prompt[:-1])
            answers.append(_answer(self._loaded, row))
        return Turn(answers, prefill, decode)

    def _write(self, row: _Row, cache: Any) -> None:
        ends = self._loaded.eos_ids
        steps = generate_step(
            mx.array(row.prompt[-1:]),
            self._loaded.model,
            max_tokens=self._setting.max_tokens,
            sampler=lambda logprobs: self.sampler.choose([row], logprobs),
            prompt_cache=cache,
            prefill_step_size=PREFILL_STEP,
        )
        row.is_cut = True
        for token_id, _ in steps:
            if token_id in ends:
                row.is_cut = False
                break
            row.token_ids.append(token_id)
            if row.guide.is_stopped:
                row.is_cut = False
                break
        steps.close()


class InBatches:
    """mlx-lm's `BatchGenerator`: rows join and leave between steps.

    Its logits processors, one a row, only tell which rows a step is for; the sampler, which it calls for all rows
    at once where they share one, masks and chooses.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        encode: Encode,
        guides: Guides,
        setting: Setting,
        *,
        script: Script | None = None,
    ) -> None:
        self.name = f"{guides.name}, batch generator"
        self.family = guides.name
        self._loaded = loaded
        self.encode = encode
        self.guides = guides
        self._setting = setting
        self.script = script
        self.sampler = MaskedSampler(guides, setting.temperature)
        self._beginnings: dict[str, SharedBeginning] = {}
        self._asked: list[_Row] = []

    def run(self, records: Sequence[tuple[int, Record]]) -> Turn:
        mx.random.seed(self._setting.seed + records[0][0])
        rows = [_row(self, index, record) for index, record in records]
        begun = time.perf_counter()
        caches, rests = self._beginnings_of([record for _, record in records], rows)
        read = time.perf_counter()
        generator = BatchGenerator(
            self._loaded.model,
            stop_tokens=[[token_id] for token_id in sorted(self._loaded.eos_ids)],
            sampler=self._choose,
            completion_batch_size=self._setting.batch_size,
            prefill_batch_size=min(self._setting.batch_size, 8),
            prefill_step_size=PREFILL_STEP,
        )
        uids = generator.insert(
            rests,
            [self._setting.max_tokens] * len(rows),
            caches=caches,
            logits_processors=[[self._processor(row)] for row in rows],
        )
        with generator.stats() as stats:
            self._write(generator, dict(zip(uids, rows, strict=True)))
        finished = time.perf_counter()
        mx.synchronize()
        generator.close()
        prefill = read - begun + stats.prompt_time
        return Turn([_answer(self._loaded, row) for row in rows], prefill, finished - begun - prefill)

    def _write(self, generator: BatchGenerator, open_rows: dict[int, _Row]) -> None:
        while open_rows:
            for response in generator.next()[1]:
                row = open_rows.get(response.uid)
                if row is None:
                    continue
                if response.finish_reason != "stop":
                    row.token_ids.append(response.token)
                is_complete = row.guide.is_stopped
                if response.finish_reason is None and is_complete:
                    generator.remove([response.uid])
                if response.finish_reason is not None or is_complete:
                    row.is_cut = response.finish_reason == "length" and not is_complete
                    del open_rows[response.uid]

    def _processor(self, row: _Row) -> Callable[[Any, mx.array], mx.array]:
        def process(_tokens: Any, logits: mx.array) -> mx.array:
            self._asked.append(row)
            return logits

        return process

    def _choose(self, logprobs: mx.array) -> mx.array:
        rows, self._asked = self._asked, []
        return self.sampler.choose(rows, logprobs)

    def _beginnings_of(self, records: Sequence[Record], rows: Sequence[_Row]) -> tuple[list[Any], list[list[int]]]:
        """A cache of what the prompts of a form begin with, for each row, and the rest of its prompt.

        The generator copies what it is given, so that rows may share a cache.
        """
        groups: dict[str, list[_Row]] = {}
        for record, row in zip(records, rows, strict=True):
            groups.setdefault(json.dumps(record.schema), []).append(row)
        caches: dict[str, tuple[Any, int]] = {}
        for key, group in groups.items():
            beginning = self._beginnings.setdefault(key, SharedBeginning(self._loaded.model))
            known = beginning.tokens
            if not known or any(row.prompt[: len(known)] != known or len(row.prompt) == len(known) for row in group):
                known = _common([known or group[0].prompt, *(row.prompt[:-1] for row in group)])
                beginning.read(known)
            caches[key] = (beginning.cache if known else make_prompt_cache(self._loaded.model), len(known))
        keys = [json.dumps(record.schema) for record in records]
        return [caches[key][0] for key in keys], [
            row.prompt[caches[key][1] :] for key, row in zip(keys, rows, strict=True)
        ]


def _row(contender: TokenByToken | InBatches, index: int, record: Record) -> _Row:
    return _Row(
        contender.guides.guide(record),
        contender.encode(build_messages(record.schema, record.document)),
        None if contender.script is None else contender.script[index],
    )


def _answer(loaded: LoadedModel, row: _Row) -> Answer:
    return Answer(
        text=loaded.tokenizer.decode(row.token_ids),
        token_ids=row.token_ids,
        forwards=len(row.token_ids),
        is_cut=row.is_cut,
    )


def _num_common(left: Sequence[int], right: Sequence[int]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _common(sequences: Sequence[Sequence[int]]) -> list[int]:
    """What all begin with."""
    first = sequences[0]
    return list(first[: min(_num_common(first, other) for other in sequences)])

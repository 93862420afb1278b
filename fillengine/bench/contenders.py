"""The contenders: ways of filling a form, ours and a peer's, on one loaded model with the same prompts."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fillengine.bench.records import Record
from fillengine.errors import FillError, ModelError
from fillengine.extraction.engine import Engine
from fillengine.extraction.extract import ExtractionError
from fillengine.extraction.prompt import build_messages
from fillengine.extraction.settings import Fill, Grounding
from fillengine.templates import compile as compile_form


@dataclass(frozen=True, slots=True)
class Answer:
    """What a contender wrote for one record. Times in seconds, counts in tokens or forward passes.

    is_cut   the token limit ended the text
    """

    text: str
    token_ids: list[int]
    forwards: int
    decode_seconds: float
    prefill_seconds: float
    is_cut: bool
    asserted: int = 0
    proposed: int = 0
    accepted: int = 0


class Contender(Protocol):
    name: str

    def answer(self, records: Sequence[Record]) -> Iterator[Answer]:
        """An answer for each record, in order."""


class Ours:
    """This engine, by way of filling and grounding."""

    def __init__(
        self, engine: Engine, fill: Fill, grounding: Grounding, *, max_tokens: int, batch_size: int = 1
    ) -> None:
        self.name = f"{fill}, {grounding}"
        self._engine = engine
        self._options = {
            "fill": fill,
            "grounding": grounding,
            "max_tokens": max_tokens,
            "batch_size": batch_size,
        }

    def answer(self, records: Sequence[Record]) -> Iterator[Answer]:
        # One form a run: records of one kind follow one another.
        start = 0
        while start < len(records):
            end = start
            while end < len(records) and records[end].schema == records[start].schema:
                end += 1
            documents = [record.document for record in records[start:end]]
            for result in self._engine.extract(documents, records[start].schema, **self._options):  # type: ignore[arg-type]
                if isinstance(result, ExtractionError):
                    raise FillError(f"a record was refused: {result.problem}")
                stats = result.stats
                yield Answer(
                    text=result.text,
                    token_ids=result.token_ids,
                    forwards=stats.forwards,
                    decode_seconds=stats.decode_seconds,
                    prefill_seconds=stats.prefill_seconds,
                    is_cut=result.finish_reason == "length",
                    asserted=stats.asserted,
                    proposed=stats.proposed,
                    accepted=stats.accepted,
                )
            start = end


class MaskedTokens:
    """llguidance's masks as a logits processor of mlx-lm's `generate_step`, token by token.

    The same weights, prompts and separators as ours; the prompt's shared beginning is read once here too.
    """

    name = "llguidance, mlx-lm"

    def __init__(self, engine: Engine, *, max_tokens: int) -> None:
        try:
            import llguidance.hf
        except ImportError:
            raise ModelError("the peer llguidance is not installed; pip install 'fillengine[bench]'") from None
        self._engine = engine
        self._max_tokens = max_tokens
        tokenizer = engine.loaded.tokenizer
        inner = getattr(tokenizer, "_tokenizer", tokenizer)
        self._inner = llguidance.hf.from_tokenizer(inner)
        self._ends = set(engine.loaded.eos_ids)
        self._prefix: tuple[list[int], Any] = ([], None)

    def answer(self, records: Sequence[Record]) -> Iterator[Answer]:
        for record in records:
            yield self._one(record)

    def _one(self, record: Record) -> Answer:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        prompt = self._engine.encode(build_messages(record.schema, record.document))
        start = time.perf_counter()
        cache, length = self._read(prompt)
        processor = self._processor(record)
        tokens: list[int] = []
        is_cut = True
        begun = time.perf_counter()
        steps = generate_step(
            mx.array(prompt[length:]),
            self._engine.loaded.model,
            max_tokens=self._max_tokens,
            sampler=lambda logprobs: mx.argmax(logprobs, axis=-1),
            logits_processors=[processor],
            prompt_cache=cache,
        )
        for number, (token, _) in enumerate(steps):
            if number == 0:
                # The first token comes out of the prompt's own pass.
                begun = time.perf_counter()
            if int(token) in self._ends:
                is_cut = False
                break
            tokens.append(int(token))
        return Answer(
            text=self._engine.loaded.tokenizer.decode(tokens),
            token_ids=tokens,
            forwards=len(tokens),
            decode_seconds=time.perf_counter() - begun,
            prefill_seconds=begun - start,
            is_cut=is_cut,
        )

    def _read(self, prompt: list[int]) -> tuple[Any, int]:
        """A cache of the prompt's beginning that it shares with the prompt before, and its length."""
        import mlx.core as mx
        from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache

        model = self._engine.loaded.model
        before, kept = self._prefix
        shared = 0
        while shared < min(len(before), len(prompt) - 1) and before[shared] == prompt[shared]:
            shared += 1
        if kept is not None and can_trim_prompt_cache(kept):
            cache = copy.deepcopy(kept)
            trim_prompt_cache(cache, len(before) - shared)
        else:
            cache, shared = make_prompt_cache(model), 0
        position = shared
        while position < len(prompt) - 1:
            chunk = prompt[position : min(position + 512, len(prompt) - 1)]
            model(mx.array([chunk]), cache=cache)
            mx.eval([layer.state for layer in cache])
            position += len(chunk)
        self._prefix = (prompt[:-1], copy.deepcopy(cache))
        return cache, len(prompt) - 1

    def _processor(self, record: Record) -> Any:
        import llguidance.numpy
        import mlx.core as mx
        import numpy as np
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(
            json.dumps(record.schema),
            overrides={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
        )
        matcher = LLMatcher(self._inner, grammar)
        bits = llguidance.numpy.allocate_token_bitmask(1, self._inner.vocab_size)
        begun = False

        def mask(tokens: Any, logits: Any) -> Any:
            nonlocal begun
            if begun:
                matcher.consume_token(int(tokens[-1]))
            begun = True
            if matcher.is_stopped():
                return logits
            llguidance.numpy.fill_next_token_bitmask(matcher, bits, 0)
            allowed = np.unpackbits(bits.view(np.uint8), bitorder="little")[: logits.shape[-1]]
            return mx.where(mx.array(allowed.astype(np.bool_))[None], logits, -mx.inf)

        return mask


def is_valid(record: Record, text: str) -> bool:
    """Whether a text is JSON that fits the record's schema, formats included."""
    try:
        compile_form(record.schema).validate(text)
    except Exception:
        return False
    return True


def value_of(text: str) -> Any:
    """The value of a text; None where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None

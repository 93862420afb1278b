"""The engine: a loaded model that writes texts in given forms, one or many at a time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fillengine.errors import ContextExceeded, FillError, ModelError
from fillengine.fill import DEFAULT_GUARD, Constraint, Fill, Guard, Row, Source
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.generation.cache import RaggedCache
from fillengine.generation.choices import Chooser
from fillengine.generation.layout import Shapes
from fillengine.generation.models import DEFAULT_MODEL, LoadedModel, load_model
from fillengine.generation.prompts import PromptReader
from fillengine.generation.result import Result, Stats
from fillengine.generation.rounds import Batch, BatchRow
from fillengine.generation.sampling import GREEDY, Sampling
from fillengine.generation.trunk import split

if TYPE_CHECKING:
    from fillengine.templates import Form

# The budget where none is given, as far as the context allows it.
DEFAULT_MAX_TOKENS = 1024
# Compiled forms whose constraints are kept. A run has one form, or one for each document.
MAX_CONSTRAINTS = 16

# A chat: {"role": …, "content": …}, …
Messages = Sequence[dict[str, str]]
AnyEngine = TypeVar("AnyEngine", bound="Engine")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One text to write. `Engine.request` makes it from messages.

    prompt       token ids, at least one
    row_id       whose noise the choices get (see `sampling`): the same record with the same seed and row id
                 gets the same tokens alone and in any batch. None: the request's place in the run.
    max_tokens   the budget. None: what the context leaves, `DEFAULT_MAX_TOKENS` at most.
    sources      where drafts come from (None: the planner's own)
    guard        closes runaway values (None: never)
    """

    prompt: Sequence[int]
    form: Form
    sampling: Sampling = GREEDY
    seed: int = 0
    row_id: int | None = None
    max_tokens: int | None = None
    fill: Fill = "auto"
    sources: Sequence[Source] | None = None
    guard: Guard | None = DEFAULT_GUARD


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """A request whose row is in the batch. Times are of `time.perf_counter`."""

    index: int
    request: Request
    num_reused: int
    started: float
    joined: float


class Engine:
    """A model, its tokenizer, and what all texts that it writes share. Not for several threads at once."""

    def __init__(self, loaded: LoadedModel, *, shapes: Shapes | None = None) -> None:
        """Raises ModelError where a layer's kind is not supported, VocabularyError for the tokenizer."""
        self.loaded = loaded
        self.tokenizer = read_tokenizer(loaded.tokenizer)
        self.context_length = loaded.context_length
        self._cache = RaggedCache.for_model(loaded.model, 1, shapes or Shapes.of_device())
        self._model = split(loaded.model)
        self._chooser = Chooser(self._model)
        self._reader = PromptReader(self._model, self._cache)
        self._constraints: OrderedDict[int, tuple[Form, Constraint]] = OrderedDict()

    @classmethod
    def load(cls: type[AnyEngine], name: str | Path = DEFAULT_MODEL) -> AnyEngine:
        """The engine of a known model, a folder in mlx-lm's format, or a hub name. Raises ModelError."""
        return cls(load_model(name))

    def generate(self, prompt: str | Messages, form: Any, **options: Any) -> Result:
        """Write one text in the given form.

        prompt: messages, which go through the tokenizer's chat template, or a str, which is used as it is.
        form: anything that `fillengine.compile` takes, or what it gave.
        options: see `request`. Noise is that of row 0.
        Raises FormError for the form, ContextExceeded, BudgetTooSmall, ModelError.
        """
        ((_, outcome),) = self.run([self.request(prompt, form, **options)], batch_size=1)
        if isinstance(outcome, FillError):
            raise outcome
        return outcome

    def request(
        self,
        prompt: str | Messages,
        form: Any,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        seed: int = 0,
        row_id: int | None = None,
        fill: Fill = "auto",
        sources: Sequence[Source] | None = None,
        guard: Guard | None = DEFAULT_GUARD,
    ) -> Request:
        """A request for `run`. Raises FormError for the form, FillError for a setting out of range."""
        from fillengine.templates import Form, compile

        return Request(
            prompt=self.encode(prompt),
            form=form if isinstance(form, Form) else compile(form),
            sampling=Sampling(temperature, top_p, top_k, min_p),
            seed=seed,
            row_id=row_id,
            max_tokens=max_tokens,
            fill=fill,
            sources=sources,
            guard=guard,
        )

    def encode(self, prompt: str | Messages) -> list[int]:
        """Token ids of a prompt. A str is used as it is, behind the tokenizer's beginning token, if any."""
        tokenizer = self.loaded.tokenizer
        if isinstance(prompt, str):
            begins = tokenizer.bos_token is not None and prompt.startswith(tokenizer.bos_token)
            return list(tokenizer.encode(prompt, add_special_tokens=not begins))
        if not getattr(tokenizer, "has_chat_template", True):
            raise ModelError(
                f"{self.loaded.name} has no chat template, so messages cannot be written for it; "
                "give the prompt as text"
            )
        ids = tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, return_dict=False)
        return list(ids)

    def run(self, requests: Iterable[Request], *, batch_size: int) -> Iterator[tuple[int, Result | FillError]]:
        """Write many texts, `batch_size` at a time: when one is done, the next request takes its place.

        Yields (place of the request, result or what went wrong with it) in the order of the requests, each
        as soon as it and all before it are done. Requests are taken from the iterable as they are needed.
        """
        if batch_size < 1:
            raise FillError(f"batch_size is {batch_size}; it must be 1 or more")
        return self._run(enumerate(requests), batch_size)

    def _run(
        self, requests: Iterator[tuple[int, Request]], batch_size: int
    ) -> Iterator[tuple[int, Result | FillError]]:
        batch = Batch(self._chooser, self._cache.empty_like(1))
        running: dict[BatchRow, _Running] = {}
        outcomes: dict[int, Result | FillError] = {}
        next_index = 0
        has_more = True
        while has_more or running:
            joining: list[tuple[BatchRow, RaggedCache]] = []
            while has_more and len(running) < batch_size:
                index, request = next(requests, (None, None))
                if index is None or request is None:
                    has_more = False
                    break
                try:
                    row, cache, running_row = self._start(index, request)
                except Exception as error:
                    outcomes[index] = _as_fill_error(error)
                    break
                running[row] = running_row
                joining.append((row, cache))
            if joining:
                batch.join(joining)
            elif not has_more:
                batch.shrink()
            for row in batch.run_round():
                done = running.pop(row)
                outcomes[done.index] = _outcome(row, done)
            while next_index in outcomes:
                yield next_index, outcomes.pop(next_index)
                next_index += 1

    def _start(self, index: int, request: Request) -> tuple[BatchRow, RaggedCache, _Running]:
        """Read a request's prompt and set up its row."""
        started = time.perf_counter()
        session = self._constraint(request.form).session(max_tokens=self._budget(request), guard=request.guard)
        planner = Row(session, fill=request.fill, sources=request.sources)
        read = self._reader.read(request.prompt)
        row = BatchRow(
            planner=planner,
            sampling=request.sampling,
            seed=request.seed,
            row_id=index if request.row_id is None else request.row_id,
            pending=[read.last_token],
        )
        return row, read.cache, _Running(index, request, read.num_reused, started, time.perf_counter())

    def _budget(self, request: Request) -> int:
        """Tokens that may be written. Raises ContextExceeded where they do not fit behind the prompt."""
        num_prompt, wanted, limit = len(request.prompt), request.max_tokens, self.context_length
        if num_prompt == 0:
            raise FillError("the prompt is empty; give the model at least one token to begin with")
        if limit is None:
            return DEFAULT_MAX_TOKENS if wanted is None else wanted
        if num_prompt + (1 if wanted is None else wanted) > limit:
            budget = "" if wanted is None else f" and max_tokens is {wanted}"
            raise ContextExceeded(
                f"the prompt has {num_prompt} tokens{budget}, but {self.loaded.name} has a context of "
                f"{limit} tokens in all; shorten the prompt{'' if wanted is None else ' or lower max_tokens'}"
            )
        return min(DEFAULT_MAX_TOKENS, limit - num_prompt) if wanted is None else wanted

    def _constraint(self, form: Form) -> Constraint:
        """The form over this engine's vocabulary; those used last are kept."""
        held = self._constraints.get(id(form))
        if held is None:
            held = (form, Constraint(form, self.tokenizer))
            self._constraints[id(form)] = held
            if len(self._constraints) > MAX_CONSTRAINTS:
                self._constraints.popitem(last=False)
        self._constraints.move_to_end(id(form))
        return held[1]


def load(name: str | Path = DEFAULT_MODEL) -> Engine:
    """See `Engine.load`."""
    return Engine.load(name)


def _outcome(row: BatchRow, done: _Running) -> Result | FillError:
    if row.error is not None:
        return _as_fill_error(row.error)
    planner = row.planner
    return Result(
        text=planner.session.text,
        token_ids=planner.token_ids,
        finish_reason=planner.finish_reason,
        stats=Stats(
            forwards=row.num_forwards,
            asserted=planner.stats.asserted,
            proposed=sum(planner.stats.proposed.values()),
            accepted=sum(planner.stats.accepted.values()),
            sampled=planner.stats.sampled,
            rollbacks=row.num_rollbacks,
            prompt_tokens=len(done.request.prompt),
            reused_prompt_tokens=done.num_reused,
            prefill_seconds=done.joined - done.started,
            decode_seconds=time.perf_counter() - done.joined,
            proposed_by=dict(planner.stats.proposed),
            accepted_by=dict(planner.stats.accepted),
            closed=planner.session.closed,
        ),
        parse=done.request.form.parse,
    )


def _as_fill_error(error: Exception) -> FillError:
    if isinstance(error, FillError):
        return error
    wrapped = FillError(f"writing this text failed: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped

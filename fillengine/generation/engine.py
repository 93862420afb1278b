"""The engine: a loaded model that writes texts in given forms, one or many at a time."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fillengine.errors import ContextExceeded, FillError, ModelError
from fillengine.fill import DEFAULT_GUARD, Constraint, Fill, Guard, Planner, Row, Source
from fillengine.fill.economics import CPU_CURVE, CostCurve
from fillengine.fill.pool import PlannerPool
from fillengine.fill.sources import usual_sources
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.generation.cache import RaggedCache
from fillengine.generation.choices import Chooser
from fillengine.generation.cost import CostMeter
from fillengine.generation.few_rows import speed_up_few_rows
from fillengine.generation.job import Job
from fillengine.generation.layout import Shapes
from fillengine.generation.logprobs import Logprobs
from fillengine.generation.memory import Footprint, default_limit
from fillengine.generation.models import DEFAULT_MODEL, LoadedModel, load_model
from fillengine.generation.prompts import PromptReader
from fillengine.generation.quantized import Storage
from fillengine.generation.request import Request as Request
from fillengine.generation.result import Result, RunStats
from fillengine.generation.sampling import Sampling
from fillengine.generation.scheduler import Scheduler
from fillengine.generation.stream import Stream
from fillengine.generation.trunk import split

if TYPE_CHECKING:
    from fillengine.generation.traced import TracedTrunk
    from fillengine.templates import Form

# The budget where none is given, as far as the context allows it.
DEFAULT_MAX_TOKENS = 1024
# Compiled forms whose constraints are kept. A run has one form, or one for each document.
MAX_CONSTRAINTS = 16
# Tokens of prompts that are read between two rounds, and for each row of a batch. Nobody watches a run, so filling
# the batch comes first.
ROUND_TOKENS, ROUND_TOKENS_OF_ROW = 2048, 512
# Rows from which on planning them one after the other takes longer than a pass on a GPU, and the most processes
# that then plan them.
MIN_POOLED = 8
MAX_PROCESSES = 8

# A chat: {"role": …, "content": …}, …
Messages = Sequence[dict[str, str]]
AnyEngine = TypeVar("AnyEngine", bound="Engine")


class Engine:
    """A model, its tokenizer, and what all texts that it writes share. Not for several threads at once."""

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        shapes: Shapes | None = None,
        kv_bits: int | None = None,
        kv_group_size: int = 64,
        quantized_kv_start: int = 0,
        append_chunk: int | None = None,
        memory_limit: int | None = None,
        planner_processes: int | None = None,
    ) -> None:
        """kv_bits, kv_group_size, quantized_kv_start: see `quantized.Storage`; append_chunk: `RaggedCache`.

        memory_limit: bytes that the caches of a run may take (None: a share of what is free at its beginning).
        planner_processes: processes that plan the rows of a batch (None: as many as pay; see `fill.pool`). They plan
        what this one would, sooner; rows with logprobs, or sources or a guard of their own, are planned here.
        On CUDA, large quantized layers of the model get products of another kernel, in place (see `few_rows`).
        Raises ModelError where the storage does not suit the model, VocabularyError for the tokenizer.
        """
        self.loaded = loaded
        self.context_length = loaded.context_length
        self.memory_limit = memory_limit
        speed_up_few_rows(loaded.model)
        storage = Storage(kv_bits, kv_group_size, quantized_kv_start)
        cache = RaggedCache.for_model(
            loaded.model, 1, shapes or Shapes.of_device(), storage=storage, append_chunk=append_chunk
        )
        self._model = split(loaded.model)
        self.tokenizer = read_tokenizer(loaded.tokenizer).within(self._model.num_logits)
        self._chooser = Chooser(self._model)
        self._reader = PromptReader(self._model, cache)
        self._footprint = Footprint(self._model, cache)
        self._costs = CostMeter(loaded, self._model, cache)
        self._planner_processes = planner_processes
        self._planners: PlannerPool | None = None
        self._constraints: OrderedDict[int, tuple[Form, Constraint]] = OrderedDict()

    @classmethod
    def load(cls: type[AnyEngine], name: str | Path = DEFAULT_MODEL, **options: Any) -> AnyEngine:
        """The engine of a known model, a folder in mlx-lm's format, or a hub name. Raises ModelError.

        options: those of `Engine`. What is loaded by then is hidden from the garbage collector (`settle`).
        """
        engine = cls(load_model(name), **options)
        engine.settle()
        return engine

    def settle(self) -> None:
        """Hide what lives by now from Python's garbage collector (`gc.freeze`).

        There is much of it and it stays, and looking through it again and again takes nearly half of the time
        between two forward passes.
        """
        # The trie is the largest part of what stays, and made when it is first asked for.
        _ = self.tokenizer.vocabulary.trie
        gc.collect()
        gc.freeze()

    @property
    def trunk(self) -> TracedTrunk:
        """The model without its vocabulary projection, as all passes call it."""
        return self._model.trunk

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

    def stream(self, prompt: str | Messages, form: Any, **options: Any) -> Stream:
        """Write one text in pieces as they come. See `generate`, which takes and raises the same."""
        scheduler = self.scheduler(max_rows=1, round_tokens=ROUND_TOKENS)
        return Stream(scheduler, Job.of(self.request(prompt, form, **options), 0))

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
        source_text: str | None = None,
        prediction: str | None = None,
        guard: Guard | None = DEFAULT_GUARD,
        logprobs: int | None = None,
        logprobs_of_determined: bool = False,
        time_limit: float | None = None,
        on_text: Callable[[str], object] | None = None,
    ) -> Request:
        """A request for `run`. Raises FormError for the form, FillError for a setting out of range.

        logprobs: how many of the likeliest tokens to name at each place, besides the chosen one (None: no
        logprobs); logprobs_of_determined: of tokens that the form determines, too. Others: see `Request`.
        """
        compiled = self.compile(form)
        return Request(
            prompt=self.encode(prompt, compiled),
            form=compiled,
            sampling=Sampling(temperature, top_p, top_k, min_p),
            seed=seed,
            row_id=row_id,
            max_tokens=max_tokens,
            fill=fill,
            sources=sources,
            source_text=source_text,
            prediction=prediction,
            guard=guard,
            logprobs=None if logprobs is None else Logprobs(logprobs, logprobs_of_determined),
            time_limit=time_limit,
            on_text=on_text,
        )

    def compile(self, form: Any) -> Form:
        """A form for this model: tools are written as its chat template has it. Else as `fillengine.compile`."""
        from fillengine.templates import Form, compile
        from fillengine.templates.chat import ChatForm

        if isinstance(form, Form):
            return form
        return compile(form.bound(self.loaded.tokenizer) if isinstance(form, ChatForm) else form)

    def encode(self, prompt: str | Messages, form: Form | None = None) -> list[int]:
        """Token ids of a prompt. A str is used as it is, behind the tokenizer's beginning token, if any.

        form: what is to be written. Where it is one of tools, messages are put with these.
        """
        tokenizer = self.loaded.tokenizer
        if isinstance(prompt, str):
            begins = tokenizer.bos_token is not None and prompt.startswith(tokenizer.bos_token)
            return list(tokenizer.encode(prompt, add_special_tokens=not begins))
        put = getattr(form, "prompt", None)
        if put is not None:
            return list(tokenizer.encode(put(list(prompt)), add_special_tokens=False))
        if not getattr(tokenizer, "has_chat_template", True):
            raise ModelError(
                f"{self.loaded.name} has no chat template, so messages cannot be written for it; "
                "give the prompt as text"
            )
        try:
            ids = tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, return_dict=False)
        except Exception as error:  # a template is a program, and may raise anything
            raise ModelError(
                f"the chat template of {self.loaded.name} fails on these messages ({type(error).__name__}: {error}); "
                "give the prompt as text, or messages that the template takes"
            ) from error
        return list(ids)

    def run(
        self,
        requests: Iterable[Request],
        *,
        batch_size: int,
        time_limit: float | None = None,
        round_tokens: int | None = None,
    ) -> Run:
        """Write many texts, `batch_size` at a time: when one is done, the next request takes its place.

        Yields (place of the request, result or what went wrong with it) in the order of the requests, each
        as soon as it and all before it are done. Requests are taken from the iterable as they are needed.
        time_limit: seconds for the whole run; what is not written by then is `Stopped`, each in its place.
        round_tokens: tokens of prompts that are read between two rounds (None: enough to keep the batch full).
        """
        if batch_size < 1:
            raise FillError(f"batch_size is {batch_size}; it must be 1 or more")
        if time_limit is not None and not time_limit > 0:
            raise FillError(f"time_limit is {time_limit}; it must be more than 0 seconds")
        if round_tokens is None:
            round_tokens = max(ROUND_TOKENS, ROUND_TOKENS_OF_ROW * batch_size)
        return Run(self.scheduler(max_rows=batch_size, round_tokens=round_tokens), requests, time_limit)

    def scheduler(self, *, max_rows: int, round_tokens: int) -> Scheduler:
        """What `run` and `Service` are driven by. Several may be in use in turn, not at once."""

        pool = self._pool(max_rows)

        def plan(request: Request) -> Planner:
            budget = self._budget(request)
            curve = self.curve(max_rows) if request.fill == "auto" else CPU_CURVE
            if pool is not None and _may_be_pooled(request):
                return pool.row(
                    request.form,
                    max_tokens=budget,
                    guard=request.guard,
                    fill=request.fill,
                    curve=curve,
                    pending=request.prompt[-1:],
                    source_text=request.source_text,
                    prediction=request.prediction,
                    schema=_schema(request),
                )
            session = self._constraint(request.form).session(max_tokens=budget, guard=request.guard)
            if request.fill != "auto":
                return Row(session, fill=request.fill)
            return Row(session, sources=_sources(request), curve=curve)

        return Scheduler(
            plan=plan,
            chooser=self._chooser,
            reader=self._reader,
            footprint=self._footprint,
            tokens=self.tokenizer.vocabulary.tokens,
            max_rows=max_rows,
            round_tokens=round_tokens,
            memory_limit=default_limit() if self.memory_limit is None else self.memory_limit,
        )

    def _pool(self, max_rows: int) -> PlannerPool | None:
        """The planner processes for so many rows; None where rows are better planned here."""
        wanted = self._planner_processes
        if wanted is None:
            is_worth_it = self._reader.pattern.layout.shapes.rounds_up and max_rows >= MIN_POOLED
            wanted = min(MAX_PROCESSES, (os.cpu_count() or 1) // 2, max_rows // 2) if is_worth_it else 0
        if wanted and self._planners is None and sys.executable:
            # A tokenizer that cannot be sent to another process is used in this one.
            with contextlib.suppress(pickle.PicklingError, TypeError, AttributeError):
                self._planners = PlannerPool(self.tokenizer, wanted)
        return self._planners if wanted else None

    def curve(self, num_rows: int) -> CostCurve:
        """What a forward pass over n tokens in each of so many rows costs. Measured when it is first asked for."""
        return self._costs.curve(num_rows)

    def _budget(self, request: Request) -> int:
        """Tokens that may be written. Raises ContextExceeded where they do not fit behind the prompt."""
        num_prompt, wanted, limit = len(request.prompt), request.max_tokens, self.context_length
        if num_prompt == 0:
            raise FillError("the prompt is empty; give the model at least one token to begin with")
        outside = [token_id for token_id in request.prompt if not 0 <= token_id < self._model.num_logits]
        if outside:
            raise FillError(
                f"the prompt has the token id {outside[0]}, and {self.loaded.name} has {self._model.num_logits} "
                "tokens; encode it with the model's own tokenizer"
            )
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


def _sources(request: Request) -> Sequence[Source]:
    if request.sources is not None:
        return request.sources
    return usual_sources(source_text=request.source_text, prediction=request.prediction, schema=_schema(request))


def _schema(request: Request) -> Any:
    return getattr(request.form, "schema", None)


def _may_be_pooled(request: Request) -> bool:
    """Whether another process can plan the row: nobody looks at its tokens on the way, and all it needs can be sent."""
    return request.logprobs is None and request.sources is None and type(request.guard) in (Guard, type(None))


def load(name: str | Path = DEFAULT_MODEL) -> Engine:
    """See `Engine.load`."""
    return Engine.load(name)


class Run(Iterator[tuple[int, Result | FillError]]):
    """A run on its way: an iterator of its outcomes. `stats` are the accounts up to now."""

    def __init__(self, scheduler: Scheduler, requests: Iterable[Request], time_limit: float | None) -> None:
        self._scheduler = scheduler
        self._deadline = None if time_limit is None else time.perf_counter() + time_limit
        self._jobs: dict[int, Job] = {}
        self._cancelled: set[int] = set()
        self._outcomes = self._steps(enumerate(requests))

    @property
    def stats(self) -> RunStats:
        return self._scheduler.stats

    def __next__(self) -> tuple[int, Result | FillError]:
        return next(self._outcomes)

    def cancel(self, index: int) -> None:
        """End one text, or never begin it; its outcome is `Stopped`. Nothing happens where it is done."""
        self._cancelled.add(index)
        job = self._jobs.get(index)
        if job is not None:
            job.is_cancelled = True

    def close(self) -> None:
        """End the run here."""
        self._outcomes.close()

    def _steps(self, requests: Iterator[tuple[int, Request]]) -> Generator[tuple[int, Result | FillError], None, None]:
        scheduler, jobs = self._scheduler, self._jobs
        next_index = 0
        has_more = True
        while has_more or jobs:
            while has_more and scheduler.num_active + scheduler.num_waiting < scheduler.max_rows:
                index, request = next(requests, (None, None))
                if index is None or request is None:
                    has_more = False
                    break
                jobs[index] = job = Job.of(request, index, deadline=self._deadline)
                job.is_cancelled = index in self._cancelled
                scheduler.submit(job)
            scheduler.step()
            while next_index in jobs:
                outcome = jobs[next_index].outcome
                if outcome is None:
                    break
                del jobs[next_index]
                yield next_index, outcome
                next_index += 1

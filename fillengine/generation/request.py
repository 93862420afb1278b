"""What is asked for: one text in a form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fillengine.errors import FillError
from fillengine.fill import DEFAULT_GUARD, Fill, Guard, Source
from fillengine.generation.logprobs import Logprobs
from fillengine.generation.sampling import GREEDY, Sampling

if TYPE_CHECKING:
    from fillengine.templates import Form


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One text to write. `Engine.request` makes it from messages.

    prompt       token ids, at least one
    row_id       whose noise the choices get (see `sampling`): the same record with the same seed and row id
                 gets the same tokens alone and in any batch. None: the request's place in the run.
    max_tokens   the budget. None: what the context leaves, `DEFAULT_MAX_TOKENS` at most.
    sources      where drafts come from (None: the usual ones, with what the next two give). They keep book of a
                 row, so no two requests may share them.
    source_text  what the values may stand in, word for word: the document of an extraction
    prediction   the text that the caller expects, as when a known text is edited
    guard        closes runaway values (None: never)
    logprobs     what is wanted of them (None: none)
    time_limit   seconds from when the request was handed in. A text that is not whole by then is `Stopped`.
    on_text      called with each new piece of the text, by whoever runs the engine. What it raises ends this
                 text only.
    """

    prompt: Sequence[int]
    form: Form
    sampling: Sampling = GREEDY
    seed: int = 0
    row_id: int | None = None
    max_tokens: int | None = None
    fill: Fill = "auto"
    sources: Sequence[Source] | None = None
    source_text: str | None = None
    prediction: str | None = None
    guard: Guard | None = DEFAULT_GUARD
    logprobs: Logprobs | None = None
    time_limit: float | None = None
    on_text: Callable[[str], object] | None = None

    def __post_init__(self) -> None:
        if self.time_limit is not None and not self.time_limit > 0:
            raise FillError(f"time_limit is {self.time_limit}; it must be more than 0 seconds")

"""What comes out of a generation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts are of tokens unless named otherwise.

    forwards              forward passes that this result took part in, those of its prompt left out
    asserted              determined by the form and never asked of the model
    proposed, accepted    drafted and checked in the same pass; of these, kept
    sampled               chosen by the model one at a time
    rollbacks             passes of which a rejected draft was taken back
    prompt_tokens         tokens of the prompt; reused_prompt_tokens: of these, not read again
    prefill_seconds       reading the prompt
    decode_seconds        from then to the end, the waiting for other rows of the batch included
    proposed_by, accepted_by    the same by the source of the draft
    closed                where the guard ended a runaway value: "place: reason"
    """

    forwards: int
    asserted: int
    proposed: int
    accepted: int
    sampled: int
    rollbacks: int
    prompt_tokens: int
    reused_prompt_tokens: int
    prefill_seconds: float
    decode_seconds: float
    proposed_by: dict[str, int] = field(default_factory=dict)
    accepted_by: dict[str, int] = field(default_factory=dict)
    closed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """A finished text in its form.

    text            what was written
    token_ids       its tokens, without an end of sequence
    finish_reason   "stop", or "length" where the token budget ended a text that could have gone on
    parse           how `value` is read from `text`
    """

    text: str
    token_ids: list[int]
    finish_reason: Literal["stop", "length"]
    stats: Stats
    parse: Callable[[str], Any] = field(repr=False)

    @cached_property
    def value(self) -> Any:
        """The text as an object: of the pydantic model where the form is one."""
        return self.parse(self.text)

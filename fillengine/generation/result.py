"""What comes out of a generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fillengine.fill.row import RoundTrace
    from fillengine.generation.explanation import Explanation
    from fillengine.templates import Call, Form


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely the model found a token where it was written.

    logprob     natural logarithm of its probability among all tokens, before mask, temperature and filters
    top         the likeliest tokens there and their logprobs, likeliest first (of equals the lowest id)
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts are of tokens unless named otherwise.

    forwards              rounds that this result was fed in, those of its prompt left out
    projected             positions that went through the vocabulary projection
    asserted              determined by the form and never asked of the model
    proposed, accepted    drafted and checked in the same pass; of these, kept
    sampled               chosen by the model one at a time
    thrown_away           choices of the model that nobody needed, since they lay behind a rejected draft
    rollbacks             rounds of which a rejected draft was taken back; rollback_seconds: the time for that
    replayed              fed once more, since what held them could only be taken back whole
    dropped               proposed, but not fed, since the cache could not have taken them back
    prompt_tokens         tokens of the prompt; reused_prompt_tokens: of these, not read again
    waiting_seconds       until the reading of the prompt began
    prefill_seconds       from then until the first round, the reading of other prompts included
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
    projected: int = 0
    thrown_away: int = 0
    rollback_seconds: float = 0.0
    replayed: int = 0
    dropped: int = 0
    waiting_seconds: float = 0.0


@dataclass(slots=True)
class RunStats:
    """The accounts of a whole run: of all its rows, whatever became of them. Terms are those of `Stats`.

    rows                  that have left; finished, stopped (cancelled or out of time) and failed are its parts
    rounds, passes        of the batch, and forward passes that these took
    positions             that those passes went over, padding included
    read_tokens           of prompts, read (those that were reused are not among them), in `read_passes`
    stage_seconds         round_seconds by what was done (`rounds.STAGES`): planning; setting a pass up (on a CPU, where
                          rows are packed, most of it is computed then); handing it to the device; masks, meanwhile;
                          choosing, and waiting for the device; committing and taking back; giving up places, for which
                          planner processes are waited for
    """

    rows: int = 0
    finished: int = 0
    stopped: int = 0
    failed: int = 0
    rounds: int = 0
    passes: int = 0
    positions: int = 0
    read_tokens: int = 0
    read_passes: int = 0
    read_seconds: float = 0.0
    round_seconds: float = 0.0
    stage_seconds: dict[str, float] = field(default_factory=dict)
    prompt_tokens: int = 0
    reused_prompt_tokens: int = 0
    forwards: int = 0
    projected: int = 0
    asserted: int = 0
    sampled: int = 0
    thrown_away: int = 0
    rollbacks: int = 0
    rollback_seconds: float = 0.0
    replayed: int = 0
    dropped: int = 0
    proposed_by: Counter[str] = field(default_factory=Counter)
    accepted_by: Counter[str] = field(default_factory=Counter)

    @property
    def proposed(self) -> int:
        return sum(self.proposed_by.values())

    @property
    def accepted(self) -> int:
        return sum(self.accepted_by.values())

    def add(self, stats: Stats) -> None:
        """Count a row that was in the batch."""
        self.prompt_tokens += stats.prompt_tokens
        self.reused_prompt_tokens += stats.reused_prompt_tokens
        self.forwards += stats.forwards
        self.projected += stats.projected
        self.asserted += stats.asserted
        self.sampled += stats.sampled
        self.thrown_away += stats.thrown_away
        self.rollbacks += stats.rollbacks
        self.rollback_seconds += stats.rollback_seconds
        self.replayed += stats.replayed
        self.dropped += stats.dropped
        self.proposed_by.update(stats.proposed_by)
        self.accepted_by.update(stats.accepted_by)


@dataclass(frozen=True, slots=True)
class Trace:
    """How a text came about: `rounds` in their order, and what each token id of the vocabulary writes (bytes)."""

    rounds: tuple[RoundTrace, ...]
    tokens: Sequence[bytes | None]


@dataclass(frozen=True)
class Result:
    """A finished text in its form.

    text            what was written, control tokens by their names
    token_ids       its tokens, without an end of sequence
    finish_reason   "stop", or "length" where the token budget ended a text that could have gone on
    form            what it was to be; `value`, `calls` and `thinking` are read by it
    raw             the text with control tokens marked (see `automata.control`), as the form reads it
    trace           how it came about; `explain` shows it
    logprobs        one for each token where the request asked for them, else None. A token that the form
                    determines has None, unless the request asked for those too.
    """

    text: str
    token_ids: list[int]
    finish_reason: Literal["stop", "length"]
    stats: Stats
    form: Form = field(repr=False)
    raw: str = field(repr=False)
    trace: Trace = field(repr=False)
    logprobs: Sequence[TokenLogprob | None] | None = None

    @cached_property
    def value(self) -> Any:
        """The text as an object: of the pydantic model where the form is one, a `ToolAnswer` of `Tools`."""
        return self.form.parse(self.raw)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of a form of tools, in their order; none of another form."""
        return getattr(self.value, "calls", ())

    def explain(self) -> Explanation:
        """Where each token came from, and what that saved: to print, or as a page."""
        from fillengine.generation.explanation import Explanation

        return Explanation(self)

    @property
    def thinking(self) -> str | None:
        """What was thought before the answer; None where the form leaves no room for it."""
        return None if self.form.thoughts is None else self.form.thoughts(self.raw)

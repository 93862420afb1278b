"""The planner of one row: what the next forward pass appends, and what its outcome means.

    feed       pending tokens | asserted tokens | drafted tokens
    project    the last index before the draft, and each index of the draft: where a choice is made
    masks      what is allowed at each of these places

A draft token is kept while it is what the model chooses there anyway; behind the first disagreement the model's
own choice is taken and the rest is rolled back. A plain decode step is a round without assertion and draft.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from fillengine.automata.mask import Mask
from fillengine.errors import FillError
from fillengine.fill.draft import FORCED, Drafted, Drafter
from fillengine.fill.economics import CPU_CURVE, CostCurve, Ledger
from fillengine.fill.session import Session, raw_of, text_of
from fillengine.fill.sources import Source, UnstableRest

Fill = Literal["off", "assert", "auto"]


@dataclass(slots=True)
class RowStats:
    """Tokens by where they came from, and what it took.

    proposed, accepted   by source; "forced": what the form determines behind a proposed token
    thrown_away          choices of the model behind a rejected token, where nobody needs them
    """

    forwards: int = 0
    asserted: int = 0
    sampled: int = 0
    rollbacks: int = 0
    thrown_away: int = 0
    proposed: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)


class Place(Protocol):
    """What is allowed at one place: `place.Place`, or what another process knows of one."""

    @property
    def single(self) -> int | None:
        """The token that the form determines there, where that is known without a mask."""

    @property
    def mask(self) -> Mask: ...


@dataclass(frozen=True, slots=True)
class Round:
    """One forward pass of a row.

    feed        token ids to append to the KV cache
    project     indexes into `feed` whose logits are needed, ascending
    places      what is allowed at each of them; `masks`: the masks, made when they are first asked for
    positions   the output position (index of the emitted token) that is chosen at each of them
    num_known   tokens of `feed` in front of the draft; the last `num_asserted` of them were asserted by this round
    draft       feed[num_known:], and the source of each token, as far as it is known before the masks are
                ("forced": certain if those before it are kept)
    """

    feed: list[int]
    project: list[int]
    places: Sequence[Place]
    positions: list[int]
    num_known: int
    draft: list[Drafted]
    num_asserted: int = 0

    @property
    def masks(self) -> list[Mask]:
        return [place.mask for place in self.places]

    def num_accepted(self, choices: Sequence[int]) -> int:
        """Tokens of the draft that are what was chosen there, up to the first that is not."""
        num_accepted = 0
        for drafted, choice in zip(self.draft, choices, strict=False):
            if choice != drafted.token_id:
                break
            num_accepted += 1
        return num_accepted

    def cut(self, num_drafted: int) -> Round:
        """This round with so many tokens of its draft, less than it has."""
        return replace(
            self,
            feed=self.feed[: self.num_known + num_drafted],
            project=self.project[: num_drafted + 1],
            places=self.places[: num_drafted + 1],
            positions=self.positions[: num_drafted + 1],
            draft=self.draft[:num_drafted],
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """What a round came to: `keep` tokens of its feed stay in the cache, `pending` go first in the next one."""

    keep: int
    pending: list[int]


@dataclass(frozen=True, slots=True)
class RoundTrace:
    """What one round wrote: tokens that the form determines, then the accepted ones of the draft, then a choice.

    choice      the token that the model chose behind them, the end of the text included; None: none was asked for
    is_pass     whether a forward pass was made for it: not where the form alone finishes the text
    """

    num_asserted: int
    draft: tuple[Drafted, ...]
    num_accepted: int
    choice: int | None
    is_pass: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What a row has come to.

    text, raw   see `Session`; token_ids: without an end of sequence; closed: where the guard acted
    """

    text: str
    raw: str
    token_ids: list[int]
    finish_reason: Literal["stop", "length"]
    closed: tuple[str, ...]
    stats: RowStats
    trace: tuple[RoundTrace, ...]


class Mark(NamedTuple):
    """How far a row was at a time."""

    num_tokens: int
    num_bytes: int
    num_asserted: int
    closed: tuple[str, ...]


class Planner(Protocol):
    """The planner of one row, here or in another process. See `Row`."""

    max_tokens: int

    @property
    def is_finished(self) -> bool: ...

    @property
    def token_ids(self) -> list[int]: ...

    @property
    def data(self) -> bytes: ...

    def plan(self, pending: Sequence[int]) -> Round | None: ...

    def commit(self, planned: Round, choices: Sequence[int]) -> Commit: ...

    def report(self) -> Report: ...


class Row:
    """One row of a batch: a session and how it is filled."""

    def __init__(
        self,
        session: Session,
        *,
        fill: Fill = "auto",
        sources: Sequence[Source] | None = None,
        curve: CostCurve = CPU_CURVE,
    ) -> None:
        """`sources` in order of precedence (None: `UnstableRest` alone); they are this row's own.

        `curve` is what a forward pass over n tokens costs.
        """
        if fill not in ("off", "assert", "auto"):
            raise FillError(f'fill is "off", "assert" or "auto", not {fill!r}')
        self.session = session
        self.max_tokens = session.remaining or 0
        """The budget of the text; 0 where it has none."""
        self.stats = RowStats()
        self.trace: list[RoundTrace] = []
        """The rounds so far."""
        self._fill = fill
        self._ledger = Ledger(curve)
        self._drafter = Drafter(session, (UnstableRest(),) if sources is None else sources, self._ledger)

    @property
    def is_finished(self) -> bool:
        return self.session.is_finished

    @property
    def token_ids(self) -> list[int]:
        """The emitted tokens, without an end of sequence."""
        return self.session.token_ids

    @property
    def data(self) -> bytes:
        """The text so far, as `Session.data`."""
        return self.session.data

    def mark(self) -> Mark:
        """How far the row is."""
        session = self.session
        return Mark(session.num_tokens, session.num_bytes, self.stats.asserted, session.closed)

    def report(self, mark: Mark | None = None) -> Report:
        """What the row has come to: by now, or without what has been planned since `mark`."""
        session = self.session
        at = self.mark() if mark is None else mark
        data = session.data[: at.num_bytes]
        return Report(
            text=text_of(data),
            raw=raw_of(data),
            token_ids=session.token_ids[: at.num_tokens],
            finish_reason="length" if session.is_cut else "stop",
            closed=at.closed,
            stats=replace(self.stats, asserted=at.num_asserted),
            trace=tuple(self.trace),
        )

    def plan(self, pending: Sequence[int]) -> Round | None:
        """The next forward pass; None where what must come finishes the text without one.

        `pending` are committed tokens that are not in the cache yet, one at least.
        """
        session = self.session
        feed = list(pending)
        if self._fill != "off":
            while forced := session.forced():
                for token_id in forced:
                    session.advance(token_id)
                feed += forced
                self.stats.asserted += len(forced)
        if session.is_finished:
            self.trace.append(RoundTrace(len(feed) - len(pending), (), 0, None, is_pass=False))
            return None
        num_known = len(feed)
        project, places, positions = [num_known - 1], [session.place()], [session.num_tokens]
        draft: list[Drafted] = []
        if self._fill == "auto":
            drafts = self._drafter.draft(session, num_known)
            ahead = session.fork() if drafts else session
            for drafted in drafts:
                if not ahead.try_advance(drafted.token_id):
                    break
                feed.append(drafted.token_id)
                draft.append(drafted)
                if ahead.is_finished:
                    break
                project.append(len(feed) - 1)
                places.append(ahead.place())
                positions.append(ahead.num_tokens)
        return Round(feed, project, places, positions, num_known, draft, num_known - len(pending))

    def commit(self, planned: Round, choices: Sequence[int]) -> Commit:
        """Take the model's masked choice at each projected index of `planned`."""
        session, stats = self.session, self.stats
        stats.forwards += 1
        position = session.num_tokens
        num_accepted = planned.num_accepted(choices)
        for drafted in planned.draft[:num_accepted]:
            session.advance(drafted.token_id)
        keep = planned.num_known + num_accepted
        draft = tuple(
            drafted.settled(is_determined=place.mask.single is not None)
            for drafted, place in zip(planned.draft, planned.places, strict=False)
        )
        if draft:
            self._account(planned, draft, num_accepted, position)
        last = None if session.is_finished else choices[num_accepted]
        if last is not None:
            session.advance(last)
            stats.sampled += 1
        # What is determined to its end needs no model.
        is_pass = not session.is_finished or any(mask.single is None for mask in planned.masks)
        self.trace.append(RoundTrace(planned.num_asserted, draft, num_accepted, last, is_pass))
        return Commit(keep, [] if session.is_finished or last is None else [last])

    def _account(self, planned: Round, draft: Sequence[Drafted], num_accepted: int, position: int) -> None:
        """Book what became of a draft: by source, and what its source won or lost by it."""
        stats, ledger = self.stats, self._ledger
        if num_accepted < len(draft):
            stats.rollbacks += 1
            stats.thrown_away += len(planned.places) - num_accepted - 1
        curve = ledger.curve
        share = (curve.cost(planned.num_known + num_accepted) - curve.cost(planned.num_known)) / max(num_accepted, 1)
        wasted = curve.cost(len(planned.feed)) - curve.cost(planned.num_known + num_accepted)
        for index, drafted in enumerate(draft):
            stats.proposed[drafted.source] += 1
            is_accepted = index < num_accepted
            if is_accepted:
                stats.accepted[drafted.source] += 1
            if drafted.source == FORCED or index > num_accepted:
                continue
            ledger.record(drafted.source, drafted.kind, drafted.label, drafted.prior, is_accepted=is_accepted)
            # What was fed in vain is the fault of the token that was rejected.
            ledger.settle(drafted.source, drafted.kind, 1.0 - share if is_accepted else -wasted, position)

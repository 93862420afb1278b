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
from dataclasses import dataclass, field
from typing import Literal

from fillengine.automata.mask import Mask
from fillengine.errors import FillError
from fillengine.fill.session import Session
from fillengine.fill.sources import Source, UnstableRest

Fill = Literal["off", "assert", "auto"]

MAX_DRAFT = 32
"""Tokens of one draft, forced ones behind a proposal included. Longer drafts are seldom kept to their end."""


@dataclass(slots=True)
class RowStats:
    """Tokens by where they came from, and what it took. `proposed` and `accepted` are counted by source."""

    forwards: int = 0
    asserted: int = 0
    sampled: int = 0
    rollbacks: int = 0
    proposed: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Round:
    """One forward pass of a row.

    feed        token ids to append to the KV cache
    project     indexes into `feed` whose logits are needed, ascending
    masks       the mask of each of them
    positions   the output position (index of the emitted token) that is chosen at each of them
    draft       feed[num_known:], and the source of each token ("forced": certain if those before it are kept)
    """

    feed: list[int]
    project: list[int]
    masks: list[Mask]
    positions: list[int]
    num_known: int
    draft: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Commit:
    """What a round came to: `keep` tokens of its feed stay in the cache, `pending` go first in the next one."""

    keep: int
    pending: list[int]


class Row:
    """One row of a batch: a session and how it is filled."""

    def __init__(self, session: Session, *, fill: Fill = "auto", sources: Sequence[Source] | None = None) -> None:
        if fill not in ("off", "assert", "auto"):
            raise FillError(f'fill is "off", "assert" or "auto", not {fill!r}')
        self.session = session
        self.stats = RowStats()
        self._fill = fill
        self._sources: Sequence[Source] = (UnstableRest(),) if sources is None else sources

    @property
    def is_finished(self) -> bool:
        return self.session.is_finished

    @property
    def finish_reason(self) -> Literal["stop", "length"]:
        return "length" if self.session.is_cut else "stop"

    @property
    def token_ids(self) -> list[int]:
        """The emitted tokens, without an end of sequence."""
        return self.session.token_ids

    @property
    def num_emitted(self) -> int:
        return self.session.num_tokens

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
            return None
        num_known = len(feed)
        project, masks, positions = [num_known - 1], [session.mask()], [session.num_tokens]
        draft = self._draft() if self._fill == "auto" else []
        if draft:
            ahead = session.fork()
            for token_id, _source in draft:
                ahead.advance(token_id)
                feed.append(token_id)
                if not ahead.is_finished:
                    project.append(len(feed) - 1)
                    masks.append(ahead.mask())
                    positions.append(ahead.num_tokens)
        return Round(feed, project, masks, positions, num_known, draft)

    def commit(self, planned: Round, choices: Sequence[int]) -> Commit:
        """Take the model's masked choice at each projected index of `planned`."""
        session, stats = self.session, self.stats
        stats.forwards += 1
        keep = planned.num_known
        for (token_id, source), choice in zip(planned.draft, choices, strict=False):
            stats.proposed[source] += 1
            if choice != token_id:
                break
            session.advance(token_id)
            stats.accepted[source] += 1
            keep += 1
        if keep < len(planned.feed):
            stats.rollbacks += 1
            stats.proposed.update(source for _, source in planned.draft[keep - planned.num_known + 1 :])
        if session.is_finished:
            return Commit(keep, [])
        choice = choices[keep - planned.num_known]
        session.advance(choice)
        stats.sampled += 1
        return Commit(keep, [] if session.is_finished else [choice])

    def _draft(self) -> list[tuple[int, str]]:
        """Proposed tokens that the session allows, and what is forced behind them."""
        ahead = self.session.fork()
        draft: list[tuple[int, str]] = []
        while len(draft) < MAX_DRAFT and not ahead.is_finished:
            if draft and (forced := ahead.forced()):
                proposed, name = forced, "forced"
            else:
                proposed, name = self._proposal(ahead)
            taken = 0
            for token_id in proposed[: MAX_DRAFT - len(draft)]:
                if ahead.is_finished or not ahead.mask().allows(token_id):
                    break
                ahead.advance(token_id)
                draft.append((token_id, name))
                taken += 1
            if taken < len(proposed) or not proposed:
                break
        return draft

    def _proposal(self, session: Session) -> tuple[list[int], str]:
        for source in self._sources:
            proposed = source.propose(session)
            if proposed:
                return proposed, source.name
        return [], ""

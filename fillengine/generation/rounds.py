"""One round for all rows of a batch: feed, project, mask, choose, commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from fillengine.errors import ModelError
from fillengine.generation.cache import RaggedCache
from fillengine.generation.choices import Chooser
from fillengine.generation.logprobs import Logprobs, token_logprobs
from fillengine.generation.prompts import Prefixes
from fillengine.generation.result import TokenLogprob
from fillengine.generation.sampling import Draw, Sampling

if TYPE_CHECKING:
    from fillengine.fill import Commit, Planner, Round


@dataclass(slots=True, eq=False)
class BatchRow:
    """A row that is being filled.

    pending     committed tokens that were never fed; at first the last token of the prompt
    held        the tokens that the cache holds for this row, the prompt's included
    again       tokens that were fed, but whose state was taken back: they go in front of the next feed
    watched     what logprobs are asked for (None: none), and `logprobs`: one for each emitted token so far
    error       why the row was given up; its planner is then of no more use
    num_…       see `result.Stats`
    """

    planner: Planner
    sampling: Sampling
    seed: int
    row_id: int
    pending: list[int]
    held: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    watched: Logprobs | None = None
    logprobs: list[TokenLogprob | None] = field(default_factory=list)
    num_forwards: int = 0
    num_projected: int = 0
    num_thrown_away: int = 0
    num_rollbacks: int = 0
    num_replayed: int = 0
    num_dropped: int = 0
    rollback_seconds: float = 0.0
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.error is not None or self.planner.is_finished


@dataclass(slots=True, eq=False)
class _Part:
    """A row's part in this round.

    feed        what goes into the cache: tokens that are fed again, pending, asserted and drafted ones
    begin       where in `feed` the tokens begin that this round has asserted
    round       what was planned; None where the text is whole, and only its logprobs are wanted
    choices     one for each projected position; `open`: the places of those that the model must fill, since the
                others have a mask that allows one token only. While the pass is set up, those count as open of
                which only their mask, which is not made yet, may say so.
    wanted      the indexes into `feed` at which the trunk's word is wanted, ascending
    """

    index: int
    row: BatchRow
    feed: list[int]
    begin: int
    round: Round | None
    num_emitted: int
    choices: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    commit: Commit | None = None

    @property
    def num_again(self) -> int:
        return len(self.row.again)

    @property
    def num_known(self) -> int:
        """Tokens of `feed` in front of the draft."""
        return len(self.feed) if self.round is None else self.num_again + self.round.project[0] + 1

    @property
    def num_projected(self) -> int:
        """Positions that are projected, once the masks are made."""
        watched = self.row.watched
        is_all = self.round is None or (watched is not None and watched.of_determined)
        return len(self.wanted if is_all else self.open)

    def place(self, choice: int) -> int:
        """The index into `feed` behind which a choice is made."""
        assert self.round is not None
        return self.num_again + self.round.project[choice]

    def make_masks(self) -> None:
        """Make the masks of the open places, and fill those where a mask allows one token only."""
        row = self.row
        assert self.round is not None
        try:
            singles = {place: self.round.places[place].mask.single for place in self.open}
        except Exception as error:  # whatever it is, it ends this row only
            row.error = error
            self.open = []
            return
        for place, single in singles.items():
            if single is not None:
                self.choices[place] = single
        self.open = [place for place in self.open if singles[place] is None]

    def try_commit(self) -> None:
        row = self.row
        assert self.round is not None
        try:
            self.commit = row.planner.commit(self.round, self.choices)
            row.pending = self.commit.pending
        except Exception as error:  # whatever it is, it ends this row only
            row.error = error


# What a round goes through, in its order.
STAGES = ("planning", "setting up", "handing over", "masks", "choosing", "committing", "leaving")


class _Laps:
    """Books the time since the last stage was through."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._last = time.perf_counter()

    def through(self, stage: str) -> None:
        now = time.perf_counter()
        self._seconds[stage] += now - self._last
        self._last = now


class Batch:
    """The rows that share a cache. Rows join and leave between rounds; `rows[i]` is row i of the cache.

    prefixes        where the rows that end well leave what the cache holds for them
    num_passes      forward passes so far; num_positions: what they went over, padding included
    stage_seconds   what the rounds so far took, by stage: see `result.RunStats`
    """

    def __init__(self, chooser: Chooser, cache: RaggedCache, *, prefixes: Prefixes | None = None) -> None:
        self.chooser = chooser
        self.model = chooser.model
        self.cache = cache
        self.prefixes = prefixes
        self.rows: list[BatchRow | None] = [None] * cache.num_rows
        self.num_passes = 0
        self.num_positions = 0
        self.stage_seconds = dict.fromkeys(STAGES, 0.0)

    @property
    def num_rows(self) -> int:
        """Rows being filled."""
        return sum(row is not None for row in self.rows)

    def join(self, joining: Sequence[tuple[BatchRow, RaggedCache]]) -> None:
        """Add rows. Row 0 of a row's own cache holds what the model has read for it so far (its prompt)."""
        self.join_rows([(row, prompt, 0) for row, prompt in joining])

    def join_rows(self, joining: Sequence[tuple[BatchRow, RaggedCache, int]]) -> None:
        """Add rows. Which row of the cache named with it holds what the model has read, is said by the number."""
        # Places that are vacant stay: somebody may join them next, and every change copies the whole cache.
        self._resize(max(len(self.rows), self.num_rows + len(joining)))
        vacant = (index for index, row in enumerate(self.rows) if row is None)
        for row, prompt, source_row in joining:
            index = next(vacant)
            self.cache.copy_row(index, prompt, int(prompt.layout.lengths[source_row]), source_row=source_row)
            self.rows[index] = row

    def shrink(self) -> None:
        """Drop the places of rows that have left, and what the cache grew to, once all have."""
        if self.num_rows == 0:
            self.reset()
        else:
            self._resize(self.num_rows)

    def reset(self) -> None:
        """Begin anew with an empty cache. The rows are forgotten."""
        self.cache = self.cache.empty_like(1)
        self.rows = [None]

    def remove(self, row: BatchRow) -> None:
        """Take out a row that is not done. What the cache holds for it is given to nobody."""
        index = self.rows.index(row)
        self.rows[index] = None
        self.cache.vacate(index)

    def run_round(self) -> list[BatchRow]:
        """One forward pass for all rows (more where a feed is longer than one pass may be).

        Returns the rows that are done; they have left the batch. A row's own failure ends that row alone.
        What the device or the model raises goes through; the batch is then of no use until `reset`.
        """
        laps = _Laps(self.stage_seconds)
        parts = self._plan()
        laps.through("planning")
        if parts:
            hidden = self._feed(parts)
            laps.through("setting up")
            # The masks are made while the device computes.
            mx.async_eval([] if hidden is None else hidden, self.cache.state)  # type: ignore[no-untyped-call]
            laps.through("handing over")
            for part in parts:
                if part.open:
                    part.make_masks()
                part.row.num_projected += part.num_projected
            laps.through("masks")
            self._choose(parts, hidden)
            laps.through("choosing")
            for part in parts:
                self._commit(part)
            self._watch(parts, hidden)
            self._settle(parts)
            laps.through("committing")
        left = self._leave()
        laps.through("leaving")
        return left

    def _plan(self) -> list[_Part]:
        """The parts of the rows that must be fed.

        A part that asks nothing of the model is committed at once. A row that is finished by its plan or by
        such a commit is not fed, unless for its logprobs: nobody will ask what the model says next.
        """
        parts = []
        for index, row in enumerate(self.rows):
            if row is None or row.is_done:
                continue
            num_emitted = 0 if row.watched is None else len(row.planner.token_ids)
            try:
                planned = row.planner.plan(row.pending)
            except Exception as error:  # whatever it is, it ends this row only
                row.error = error
                continue
            begin = len(row.again) + len(row.pending)
            if planned is None:
                part = self._whole_part(index, row, begin, num_emitted)
                if part is not None:
                    parts.append(part)
                continue
            planned = self._affordable(row, planned)
            singles = [place.single for place in planned.places]
            choices = [-1 if single is None else single for single in singles]
            missing = [place for place, single in enumerate(singles) if single is None]
            part = _Part(index, row, row.again + planned.feed, begin, planned, num_emitted, choices, missing)
            wanted = {part.place(choice) for choice in missing}
            if row.watched is not None and row.watched.of_determined:
                wanted.update(range(begin - 1, part.num_known - 1), map(part.place, range(len(choices))))
            part.wanted = sorted(wanted)
            if not missing:
                part.try_commit()
            if not row.is_done or (row.error is None and part.wanted):
                parts.append(part)
            elif row.watched is not None and row.error is None:
                row.logprobs += [None] * (len(row.planner.token_ids) - num_emitted)
        return parts

    def _whole_part(self, index: int, row: BatchRow, begin: int, num_emitted: int) -> _Part | None:
        """For a text that is whole without the model: a part where the logprobs of its end are wanted."""
        if row.watched is None:
            return None
        asserted = row.planner.token_ids[num_emitted:]
        if not row.watched.of_determined or not asserted:
            row.logprobs += [None] * len(asserted)
            return None
        feed = [*row.again, *row.pending, *asserted]
        return _Part(index, row, feed, begin, None, num_emitted, wanted=list(range(begin - 1, len(feed) - 1)))

    def _affordable(self, row: BatchRow, planned: Round) -> Round:
        """The round without the end of its draft that the cache could not take back."""
        num_known = planned.project[0] + 1
        most = self.cache.max_draft(len(row.again) + num_known)
        num_drafted = len(planned.feed) - num_known
        if most is None or num_drafted <= most:
            return planned
        row.num_dropped += num_drafted - most
        return planned.cut(most)

    def _feed(self, parts: Sequence[_Part]) -> mx.array | None:
        """Feed the parts. Returns what the trunk says at all `wanted` places, part by part."""
        feeds = {part.index: part.feed for part in parts}
        wanted = [(part.index, place) for part in parts for place in part.wanted]
        for part in parts:
            part.row.num_forwards += 1
            part.row.num_replayed += part.num_again
        return self.cache.feed(self._trunk, feeds, wanted)

    def _trunk(self, ids: mx.array, *, cache: Any) -> mx.array:
        self.num_passes += 1
        self.num_positions += ids.size
        return self.model.trunk(ids, cache=cache)

    def _choose(self, parts: Sequence[_Part], hidden: mx.array | None) -> None:
        """Fill the open places with the masked choices: the round's one wait for the device."""
        places: list[tuple[_Part, int]] = []
        numbers: list[int] = []
        first = 0
        for part in parts:
            at = {place: first + number for number, place in enumerate(part.wanted)}
            places += [(part, choice) for choice in part.open]
            numbers += [at[part.place(choice)] for choice in part.open]
            first += len(part.wanted)
        if hidden is None or not places:
            mx.eval(self.cache.state, [] if hidden is None else hidden)
            return
        found = hidden if len(numbers) == first else hidden[mx.array(numbers, dtype=mx.int32)]
        masks, draws = [], []
        for part, choice in places:
            assert part.round is not None
            masks.append(part.round.places[choice].mask)
            row = part.row
            draws.append(Draw(row.sampling, row.seed, row.row_id, part.round.positions[choice]))
        choices = self.chooser.choices(found, masks, draws)
        mx.eval(choices, self.cache.state)
        for (part, choice), token_id in zip(places, np.asarray(choices).tolist(), strict=True):
            part.choices[choice] = token_id

    def _commit(self, part: _Part) -> None:
        row = part.row
        if part.round is None:
            return
        if part.commit is None and row.error is None:
            if -1 in part.choices:
                row.error = ModelError(
                    "the model's output is not a number (NaN or infinite); its weights may be damaged, or "
                    "the numbers overflow in their precision"
                )
                return
            part.try_commit()
        if part.commit is not None:
            num_accepted = part.commit.keep - part.round.project[0] - 1
            row.num_thrown_away += sum(choice > num_accepted for choice in part.open)

    def _watch(self, parts: Sequence[_Part], hidden: mx.array | None) -> None:
        """Note the logprobs of the tokens that this round has emitted."""
        numbers: list[int] = []
        token_ids: list[int] = []
        num_top: list[int] = []
        targets: list[tuple[BatchRow, int]] = []
        first = 0
        for part in parts:
            row = part.row
            at = {place: first + number for number, place in enumerate(part.wanted)}
            first += len(part.wanted)
            if row.watched is None or row.error is not None:
                continue
            num_asserted = part.num_known - part.begin
            determined = set(range(len(part.choices))) - set(part.open)
            for number, token_id in enumerate(row.planner.token_ids[part.num_emitted :]):
                choice = number - num_asserted
                place = part.begin - 1 + number if choice < 0 else part.place(choice)
                if (choice < 0 or choice in determined) and not row.watched.of_determined:
                    row.logprobs.append(None)
                    continue
                targets.append((row, len(row.logprobs)))
                row.logprobs.append(None)
                numbers.append(at[place])
                token_ids.append(token_id)
                num_top.append(row.watched.num_top)
        if hidden is None or not numbers:
            return
        found = token_logprobs(self.model, hidden[mx.array(numbers, dtype=mx.int32)], token_ids, num_top)
        for (row, position), logprob in zip(targets, found, strict=True):
            row.logprobs[position] = logprob

    def _settle(self, parts: Sequence[_Part]) -> None:
        """Let the cache forget the rejected tails of what was fed."""
        kept = {
            part.index: part.num_again + part.commit.keep if part.commit is not None else len(part.feed)
            for part in parts
        }
        rejecting = [part.row for part in parts if kept[part.index] < len(part.feed)]
        begun = time.perf_counter()
        again = self.cache.settle(kept)
        elapsed = time.perf_counter() - begun
        for row in rejecting:
            row.num_rollbacks += 1
            row.rollback_seconds += elapsed / len(rejecting)
        for part in parts:
            committed = part.feed[: kept[part.index]]
            num_again = again.get(part.index, 0)
            part.row.again = committed[:num_again]
            part.row.held += committed[num_again:]

    def _leave(self) -> list[BatchRow]:
        done = []
        for index, row in enumerate(self.rows):
            if row is not None and row.is_done:
                done.append(row)
                self.rows[index] = None
                if row.error is not None:
                    self.cache.clear_row(index)
                    continue
                if self.prefixes is not None:
                    self.prefixes.put_row(row.held, self.cache, index)
                self.cache.vacate(index)
        return done

    def _resize(self, num_rows: int) -> None:
        """Make the cache just large enough for `num_rows`."""
        num_places = self.cache.layout.shapes.rows(max(num_rows, 1))
        if num_places != self.cache.num_rows:
            kept = [index for index, row in enumerate(self.rows) if row is not None]
            self.cache.keep_rows(kept, num_places)
            self.rows = [self.rows[index] for index in kept] + [None] * (num_places - len(kept))

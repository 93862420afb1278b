"""One round for all rows of a batch: feed, project, mask, choose, commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from fillengine.errors import ModelError
from fillengine.generation.blas import use_threads
from fillengine.generation.cache import RaggedCache
from fillengine.generation.choices import Chooser
from fillengine.generation.sampling import Draw, Sampling

if TYPE_CHECKING:
    from fillengine.fill import Commit, Round, Row


@dataclass(slots=True, eq=False)
class BatchRow:
    """A row that is being filled.

    pending: committed tokens that are not yet in the cache; at first the last token of the prompt.
    error: why the row was given up; its planner is then of no more use.
    """

    planner: Row
    sampling: Sampling
    seed: int
    row_id: int
    pending: list[int]
    num_forwards: int = 0
    num_rollbacks: int = 0
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.error is not None or self.planner.is_finished


@dataclass(slots=True, eq=False)
class _Part:
    """A row's part in this round. `choices` has a place for each projected position."""

    index: int
    row: BatchRow
    round: Round
    choices: list[int]
    # Places of `choices` that the model must fill. The others have a mask that allows one token only.
    open: list[int]
    commit: Commit | None = None

    def try_commit(self) -> None:
        try:
            self.commit = self.row.planner.commit(self.round, self.choices)
            self.row.pending = self.commit.pending
        except Exception as error:  # whatever it is, it ends this row only
            self.row.error = error


class Batch:
    """The rows that share a cache. Rows join and leave between rounds; `rows[i]` is row i of the cache."""

    def __init__(self, chooser: Chooser, cache: RaggedCache) -> None:
        self.chooser = chooser
        self.model = chooser.model
        self.cache = cache
        self.rows: list[BatchRow | None] = [None] * cache.num_rows

    @property
    def num_rows(self) -> int:
        """Rows being filled."""
        return sum(row is not None for row in self.rows)

    def join(self, joining: Sequence[tuple[BatchRow, RaggedCache]]) -> None:
        """Add rows. Row 0 of a row's own cache holds what the model has read for it so far (its prompt)."""
        self._resize(self.num_rows + len(joining))
        vacant = (index for index, row in enumerate(self.rows) if row is None)
        for row, prompt in joining:
            index = next(vacant)
            self.cache.copy_row(index, prompt, int(prompt.layout.lengths[0]))
            self.rows[index] = row

    def shrink(self) -> None:
        """Drop the places of rows that have left. For a batch that nobody is going to join."""
        self._resize(self.num_rows)

    def run_round(self) -> list[BatchRow]:
        """One forward pass for all rows (more where a feed is longer than the layout's `max_length`).

        Returns the rows that are done; they have left the batch. A row's own failure ends that row alone.
        """
        parts = self._plan()
        if parts:
            self._choose(*self._forward(parts))
            for part in parts:
                self._settle(part)
        return self._leave()

    def _plan(self) -> list[_Part]:
        """The parts of the rows that must be fed.

        A part that asks nothing of the model is committed at once. A row that is finished by its plan or by
        such a commit is not fed: nobody will ask what the model says next.
        """
        parts = []
        for index, row in enumerate(self.rows):
            if row is None or row.is_done:
                continue
            try:
                planned = row.planner.plan(row.pending)
            except Exception as error:  # whatever it is, it ends this row only
                row.error = error
                continue
            if planned is None:
                continue
            singles = [mask.single for mask in planned.masks]
            choices = [-1 if single is None else single for single in singles]
            missing = [place for place, single in enumerate(singles) if single is None]
            part = _Part(index, row, planned, choices, missing)
            if not missing:
                part.try_commit()
            if not row.is_done:
                parts.append(part)
        return parts

    def _forward(self, parts: list[_Part]) -> tuple[list[tuple[_Part, int]], list[mx.array]]:
        """Feed the parts. Returns the open places, and what the trunk says there, in the same order."""
        layout = self.cache.layout
        max_length = layout.shapes.max_length
        places: list[tuple[_Part, int]] = []
        hidden: list[mx.array] = []
        longest = max(len(part.round.feed) for part in parts)
        for start in range(0, longest, max_length):
            num_tokens = layout.shapes.length(min(longest - start, max_length))
            ids = np.zeros((layout.num_rows, num_tokens), np.int32)
            counts = [0] * layout.num_rows
            found = []
            for part in parts:
                feed = part.round.feed[start : start + max_length]
                ids[part.index, : len(feed)] = feed
                counts[part.index] = len(feed)
                for place in part.open:
                    position = part.round.project[place] - start
                    if 0 <= position < len(feed):
                        places.append((part, place))
                        found.append(part.index * num_tokens + position)
            layout.begin(num_tokens)
            use_threads(ids.size)
            output = self.model.trunk(mx.array(ids), cache=self.cache.layers)
            layout.advance(counts)
            if found:
                hidden.append(output.reshape(-1, output.shape[-1])[mx.array(found, dtype=mx.int32)])
            if start + max_length < longest:
                mx.eval(self.cache.state, hidden)
        for part in parts:
            part.row.num_forwards += 1
        return places, hidden

    def _choose(self, places: list[tuple[_Part, int]], hidden: list[mx.array]) -> None:
        """Fill the open places with the masked choices: the round's one wait for the device."""
        if not places:
            mx.eval(self.cache.state)
            return
        draws = [
            Draw(part.row.sampling, part.row.seed, part.row.row_id, part.round.positions[place])
            for part, place in places
        ]
        masks = [part.round.masks[place] for part, place in places]
        found = hidden[0] if len(hidden) == 1 else mx.concatenate(hidden)
        choices = self.chooser.choices(found, masks, draws)
        mx.eval(choices, self.cache.state)
        for (part, place), choice in zip(places, np.asarray(choices).tolist(), strict=True):
            part.choices[place] = choice

    def _settle(self, part: _Part) -> None:
        """Commit the choices, and forget the rejected tail of what was fed."""
        if part.commit is None:
            if -1 in part.choices:
                part.row.error = ModelError(
                    "the model's output is not a number (NaN or infinite); its weights may be damaged, or "
                    "the numbers overflow in their precision"
                )
                return
            part.try_commit()
        if part.commit is not None:
            num_rejected = len(part.round.feed) - part.commit.keep
            if num_rejected:
                self.cache.layout.trim(part.index, num_rejected)
                part.row.num_rollbacks += 1

    def _leave(self) -> list[BatchRow]:
        done = []
        for index, row in enumerate(self.rows):
            if row is not None and row.is_done:
                done.append(row)
                self.rows[index] = None
                if row.error is None:
                    self.cache.vacate(index)
                else:
                    self.cache.clear_row(index)
        return done

    def _resize(self, num_rows: int) -> None:
        """Make the cache just large enough for `num_rows`."""
        num_places = self.cache.layout.shapes.rows(max(num_rows, 1))
        if num_places != self.cache.num_rows:
            kept = [index for index, row in enumerate(self.rows) if row is not None]
            self.cache.keep_rows(kept, num_places)
            self.rows = [self.rows[index] for index in kept] + [None] * (num_places - len(kept))

"""The state of recurrent layers (Mamba-like, short convolutions): arrays that every token changes.

They cannot be trimmed. A round that is not kept whole is taken back whole (arrays are immutable, so that what was
before it is kept as references), and what is kept of it is fed again in front of the row's next round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import ArraysCache

from fillengine.generation.layer import LayerState, with_rows
from fillengine.generation.layout import Layout


class RecurrentCache(LayerState, ArraysCache):  # type: ignore[misc]  # some models ask for the class
    """`cache`: arrays [rows, …], each None until the model sets it. What a row begins with are zeros."""

    can_trim: ClassVar[bool] = False
    # None: what mlx-lm's batches with padding on the left would need.
    left_padding = None

    def __init__(self, layout: Layout, num_arrays: int) -> None:
        super().__init__(layout)
        self.cache: list[mx.array | None] = [None] * num_arrays
        self._before_round = list(self.cache)
        self._before_pass = list(self.cache)
        # Rows that nobody uses: what passes do to them does not matter.
        self._vacant: set[int] = set()
        self._lengths: tuple[npt.NDArray[np.int32], mx.array] | None = None

    # What mlx-lm's models ask for, beside the items.

    @property
    def lengths(self) -> mx.array | None:
        """Tokens of each row in this pass, int32[rows]; None where no row is padded."""
        counts = self.layout.counts
        if (counts == self.layout.num_tokens).all():
            return None
        if self._lengths is None or self._lengths[0] is not counts:
            self._lengths = (counts, mx.array(counts))
        return self._lengths[1]

    @property
    def offset(self) -> int | mx.array:
        return self.layout.offset

    def make_mask(self, N: int) -> mx.array | None:  # noqa: N803 (mlx-lm's name)
        """bool[rows, N]: what is no padding; None for all."""
        lengths = self.lengths
        return None if lengths is None else mx.arange(N, dtype=mx.int32) < lengths[:, None]

    def advance(self, N: int) -> None:  # noqa: N803 (mlx-lm's name)
        """The layout counts."""

    # What a batch does with its rows.

    @property
    def state(self) -> list[mx.array]:
        return [array for array in self.cache if array is not None]

    def empty_like(self, layout: Layout) -> RecurrentCache:
        return RecurrentCache(layout, len(self.cache))

    def longest_prefix(self, row: int, num_tokens: int) -> int:
        return num_tokens if num_tokens == self.layout.lengths[row] else 0

    def vacate_row(self, row: int) -> None:
        self._vacant.add(row)

    def copy_row(self, row: int, source: RecurrentCache, source_row: int, num_tokens: int) -> None:
        self._vacant.discard(row)
        for number, (held, given) in enumerate(zip(self.cache, source.cache, strict=True)):
            if given is not None and num_tokens:
                self.cache[number] = _with_row(held, row, given[source_row], self.layout.num_rows)
            elif held is not None:
                self.cache[number] = _with_row(held, row, mx.zeros(held.shape[1:], held.dtype), held.shape[0])

    def clear_row(self, row: int) -> None:
        self._vacant.add(row)
        self._empty_rows([row])

    def _empty_rows(self, rows: Sequence[int]) -> None:
        self.cache = self._set_back(rows, [None] * len(self.cache))

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        order = mx.array(list(kept), dtype=mx.int32)
        self.cache = [None if held is None else with_rows(held[order], num_rows) for held in self.cache]
        vacant = [row for row, old in enumerate(kept) if old in self._vacant]
        self._vacant = {*vacant, *range(len(kept), num_rows)}

    def begin_round(self, rows: Collection[int]) -> None:
        if used := self._vacant.intersection(rows):
            self._empty_rows(sorted(used))
            self._vacant -= used
        self._before_round = list(self.cache)
        self._before_pass = list(self.cache)

    def end_pass(self) -> None:
        """Give rows that had no token in this pass what they had before, whatever the model did with them."""
        idle = [row for row in np.flatnonzero(self.layout.counts == 0).tolist() if row not in self._vacant]
        if idle:
            self.cache = self._set_back(idle, self._before_pass)
        self._before_pass = list(self.cache)

    def rewind(self, rows: Sequence[int]) -> None:
        self.cache = self._set_back(rows, self._before_round)

    def end_round(self) -> None:
        self._before_round = self._before_pass = list(self.cache)

    def _set_back(self, rows: Sequence[int], before: Sequence[mx.array | None]) -> list[mx.array | None]:
        chosen = np.zeros(self.layout.num_rows, np.bool_)
        chosen[list(rows)] = True
        flags = mx.array(chosen)
        found: list[mx.array | None] = []
        for now, old in zip(self.cache, before, strict=True):
            if now is None:
                found.append(None)
            else:
                shaped = flags.reshape(-1, *[1] * (now.ndim - 1))
                # Not a product with 0 and 1: what is set back may not be finite.
                found.append(mx.where(shaped, mx.array(0, now.dtype) if old is None else old, now))
        return found


def _with_row(held: mx.array | None, row: int, value: mx.array, num_rows: int) -> mx.array:
    """A new array, since the old one may be what a round started from."""
    if held is None:
        held = mx.zeros((num_rows, *value.shape), value.dtype)
    rows = mx.arange(num_rows).reshape(-1, *[1] * value.ndim)
    return mx.where(rows == row, value[None], held)

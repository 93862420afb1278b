"""Where the tokens of a batch stand in the KV cache: one layout, shared by the caches of all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of a pass, and how far they are rounded up so that few distinct ones occur.

    Where cuDNN's attention is on (see `fillengine.generation`), MLX on CUDA builds a plan (tens of milliseconds) for
    each shape that it has not seen. A CPU and Metal have no plans, and there every padded token and slot is only work.
    """

    rounds_up: bool = False
    # The tokens of a pass are packed (see `packed`), where the model allows for it.
    packs: bool = False
    # Attention of short passes is done by a kernel of ours (see `ragged_attention`), where the model allows for it.
    fuses: bool = False
    # Slots. 1: attention sees exactly the slots in use.
    width_step: int = 1
    # Tokens. What is longer is split over several passes.
    max_length: int = 512
    # Tokens that can be taken back where a layer sees a window only and keeps little more than that.
    max_rollback: int = 64

    @classmethod
    def of_device(cls) -> Shapes:
        """Those of MLX's default device."""
        on_gpu = mx.default_device().type == mx.DeviceType.gpu
        if not on_gpu:
            return cls(packs=True)
        return cls() if mx.metal.is_available() else cls(rounds_up=True, fuses=True, width_step=256)

    def length(self, num_tokens: int) -> int:
        """Tokens of a pass that must hold `num_tokens`: 1, 2, 4, 8 … where they are rounded."""
        return 1 << (num_tokens - 1).bit_length() if self.rounds_up else num_tokens

    def width(self, num_slots: int) -> int:
        """Slots that attention sees when `num_slots` are in use."""
        return -(-num_slots // self.width_step) * self.width_step

    def ring(self, window: int) -> int:
        """Slots that a layer needs whose queries see the last `window` positions, their own included.

        A pass writes before its first query looks, and what was written may be taken back: neither may reach
        what that query, or the one after the rollback, still sees.
        """
        return self.width(window + self.length(self.max_length) + self.max_rollback)

    def rows(self, num_rows: int) -> int:
        """Rows of a batch that must hold `num_rows`."""
        return 1 << (num_rows - 1).bit_length() if self.rounds_up else num_rows


class Layout:
    """The slots of a ragged batch. A row's tokens fill its slots from 0 on: slot number = logical position.

        lengths   slots 0 1 2 3 4       after a pass of 2 tokens (feeds `x y`, `z`):  slots 0 1 2 3 4
        3               a b c . .                                            5              a b c x y
        1               d . . . .                                            2              d z ? . .

    A pass writes the same number of slots in every row, from that row's own length on. What it wrote beyond
    a row's length (`?`: padding; a rejected draft after `trim`) is never seen: no query looks past its own
    position, and the next pass of the row writes over it before its own queries get there. So there are no
    holes, nothing to compact, and attention sums in the same order as for the row alone.

    A layer whose queries see a window only may keep its slots in a ring: position p in slot p modulo `ring`.
    The ring (see `Shapes.ring`) is long enough that whatever was overwritten lies outside of every window.

    `begin` sets up a pass, the layers' caches read `counts`, `offset`, `width` and masks during it, and `end`
    ends it.
    """

    def __init__(self, num_rows: int, shapes: Shapes) -> None:
        self.shapes = shapes
        self.lengths: npt.NDArray[np.int32] = np.zeros(num_rows, np.int32)
        # Of the pass: tokens of each row, and those of the longest row or more.
        self.counts: npt.NDArray[np.int32] = np.zeros(num_rows, np.int32)
        self.num_tokens = 0
        self.width = 0
        # Where every row writes, if that is the same slot for all; the cheap case, and that of one row.
        self.start: int | None = 0
        self._longest = 0
        self._offsets: mx.array | None = None
        self._positions: mx.array | None = None
        self._packed: mx.array | None = None
        self._masks: dict[tuple[int | None, int | None], mx.array] = {}

    @property
    def num_rows(self) -> int:
        return len(self.lengths)

    def begin(self, counts: Sequence[int] | npt.NDArray[np.int32], num_tokens: int | None = None) -> None:
        """Set up a pass of `counts[row]` tokens, padded to `num_tokens` (None: the longest row's)."""
        self.counts = np.asarray(counts, np.int32)
        self.num_tokens = int(self.counts.max()) if num_tokens is None else num_tokens
        longest = int(self.lengths.max())
        self.start = longest if longest == int(self.lengths.min()) else None
        self._longest = longest + self.num_tokens
        # One query that sees all slots in use needs neither mask nor rounding (MLX has a kernel of its own).
        if self.start is not None and self.num_tokens == 1:
            self.width = longest + 1
        else:
            self.width = self.shapes.width(self._longest)
        self._offsets = self._positions = self._packed = None
        self._masks.clear()

    @classmethod
    def placed(cls, shapes: Shapes, offsets: mx.array, num_tokens: int, width: int) -> Layout:
        """One that is set up for a pass, of which nothing is known but these shapes. offsets: int32[rows]."""
        layout = cls(offsets.shape[0], shapes)
        layout.num_tokens, layout.width, layout._longest = num_tokens, width, width
        layout.start, layout._offsets = None, offsets
        return layout

    def end(self) -> None:
        """End the pass: each row keeps its own tokens of what was written."""
        self.lengths += self.counts

    def trim(self, row: int, num_tokens: int) -> None:
        """Forget the last `num_tokens` of a row (a rejected draft)."""
        if not 0 <= num_tokens <= self.lengths[row]:
            raise ValueError(f"cannot forget {num_tokens} of the {self.lengths[row]} tokens of row {row}")
        self.lengths[row] -= num_tokens

    @property
    def offset(self) -> int | mx.array:
        """Logical position of the pass's first token: an int if all rows agree, else int32[rows]."""
        return self.start if self.start is not None else self.offsets

    @property
    def offsets(self) -> mx.array:
        """Logical position of each row's first token, int32[rows]."""
        if self._offsets is None:
            self._offsets = mx.array(self.lengths)
        return self._offsets

    @property
    def positions(self) -> mx.array:
        """Where the pass writes, int32[rows, 1, num_tokens, 1] (to broadcast over heads and head size)."""
        if self._positions is None:
            positions = self.offsets[:, None] + mx.arange(self.num_tokens, dtype=mx.int32)
            self._positions = positions[:, None, :, None]
        return self._positions

    @property
    def packed_rows(self) -> list[tuple[int, slice]]:
        """The rows of the pass, and where the tokens of each stand when all are packed one behind the other."""
        ends = np.cumsum(self.counts).tolist()
        counts = self.counts.tolist()
        return [
            (row, slice(end - count, end)) for row, (end, count) in enumerate(zip(ends, counts, strict=True)) if count
        ]

    @property
    def packed_positions(self) -> mx.array:
        """Logical positions of the packed tokens, int32[sum of counts]."""
        if self._packed is None:
            begins = np.cumsum(self.counts) - self.counts
            shifts = np.repeat(self.lengths - begins, self.counts)
            self._packed = mx.array((shifts + np.arange(len(shifts))).astype(np.int32))
        return self._packed

    def num_slots(self, ring: int | None) -> int:
        """Slots that a layer must have in this pass."""
        needed = max(self.width, self._longest)
        return needed if ring is None else min(needed, ring)

    def num_seen(self, ring: int | None) -> int:
        """Slots that attention gets to see in this pass: the width of `mask`."""
        return self.width if ring is None else min(self.width, ring)

    def mask(self, window: int | None, *, as_array: bool, ring: int | None = None) -> mx.array | str | None:
        """What each query of the pass sees: bool[rows, 1, num_tokens, slots], "causal", or None for all.

        `window`: a query sees the last `window` positions only, its own included. `as_array`: never "causal".
        """
        if window is not None and self._longest <= window:
            window = None
        if window is None and self.start is not None and self.width == self._longest:
            if self.num_tokens == 1:
                return None
            if not as_array:
                return "causal"
        mask = self._masks.get((window, ring))
        if mask is None:
            mask = self._masks[window, ring] = self._new_mask(window, ring)
        return mask

    def is_full(self, mask: Any) -> bool:
        """Whether `mask` is this pass's own, in which queries see all positions up to theirs.

        Not so None, which stands for a single query that sees all slots.
        """
        return mask is not None and (mask is self._masks.get((None, None)) or isinstance(mask, str))

    def _new_mask(self, window: int | None, ring: int | None) -> mx.array:
        query = self.positions
        held = mx.arange(self.num_seen(ring), dtype=mx.int32)
        if ring is not None and self._longest > ring:
            # Of the positions that share a slot, the last one that this pass has written is there.
            last = query[:, :, -1:]
            held = last - (last - held + ring) % ring
        mask = held <= query
        if window is not None:
            mask = mask & (held > query - window) & (held >= 0)
        return mask

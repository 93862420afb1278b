"""Keys and values of attention layers in full precision: all positions, or a window of the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from fillengine.generation.layer import LayerState, with_rows
from fillengine.generation.layout import Layout

# Slots by which the buffers grow (mlx-lm's own step).
GROWTH = 256


class Attention(LayerState):
    """What mlx-lm's models ask of an attention layer's cache, but for the storage."""

    # Queries see the last `window` positions, their own included; None: all. `ring`: see `Layout`.
    window: int | None = None
    ring: int | None = None

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._fetched: tuple[mx.array, mx.array] | None = None

    @property
    def offset(self) -> int | mx.array:
        return self.layout.offset

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """Those of this pass once more, for the later layers that read them instead of having their own."""
        if self._fetched is None:
            raise ValueError("a layer reads the keys and values of another before that one has written them")
        return self._fetched

    def make_mask(
        self,
        N: int,  # noqa: N803 (mlx-lm's name)
        *,
        return_array: bool = False,
        window_size: int | None = None,
    ) -> mx.array | str | None:
        if self.layout.num_tokens != N:
            raise ValueError(f"the pass was set up for {self.layout.num_tokens} tokens, the model takes {N}")
        windows = [window for window in (self.window, window_size) if window is not None]
        return self.layout.mask(min(windows, default=None), as_array=return_array, ring=self.ring)

    def end_pass(self) -> None:
        self._fetched = None


class AttentionCache(Attention):
    """Keys and values of one layer: [rows, kv heads, slots, head size], the model's dtype."""

    def __init__(self, layout: Layout, *, window: int | None = None) -> None:
        super().__init__(layout)
        self.window = window
        self.ring = None if window is None else layout.shapes.ring(window)
        self.keys: mx.array | None = None
        self.values: mx.array | None = None

    @property
    def max_rollback(self) -> int | None:
        return None if self.ring is None else self.layout.shapes.max_rollback

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write the pass's keys and values; return those of all slots that its queries may see."""
        self.keys = self._written(self.keys, keys)
        self.values = self._written(self.values, values)
        seen = self.layout.num_seen(self.ring)
        self._fetched = self.keys[..., :seen, :], self.values[..., :seen, :]
        return self._fetched

    def _written(self, held: mx.array | None, new: mx.array) -> mx.array:
        layout, ring = self.layout, self.ring
        held = reserved(held, new, layout.num_slots(ring))
        if layout.start is not None:
            start = layout.start if ring is None else layout.start % ring
            if ring is None or start + layout.num_tokens <= ring:
                held[..., start : start + layout.num_tokens, :] = new
                return held
        slots = layout.positions if ring is None else layout.positions % ring
        return mx.put_along_axis(held, slots, new, axis=2)

    @property
    def ignores_width(self) -> bool:
        """Whether attention of this pass costs the same however many slots there are."""
        return False

    @property
    def num_reserved(self) -> int:
        """Slots that there will be with the pass."""
        held = 0 if self.keys is None else int(self.keys.shape[2])
        return max(held, round_up(self.layout.num_slots(self.ring)))

    def reserved(self) -> list[mx.array]:
        """Keys and values with room for the pass. Some must have been written before."""
        return [with_slots(held, self.num_reserved) for held in self.state]

    # What a batch does with its rows.

    @property
    def state(self) -> list[mx.array]:
        return [held for held in (self.keys, self.values) if held is not None]

    def empty_like(self, layout: Layout) -> AttentionCache:
        return AttentionCache(layout, window=self.window)

    def longest_prefix(self, row: int, num_tokens: int) -> int:
        if self.window is None:
            return num_tokens
        length = int(self.layout.lengths[row])
        # Not `<= ring`: padding may have been written further than the row is long.
        is_there = length <= self.window or length - num_tokens <= self.layout.shapes.max_rollback
        return num_tokens if is_there else 0

    def copy_row(self, row: int, source: AttentionCache, source_row: int, num_tokens: int) -> None:
        self.keys = self._with_row(self.keys, row, source.keys, source_row, num_tokens)
        self.values = self._with_row(self.values, row, source.values, source_row, num_tokens)

    def _with_row(
        self, held: mx.array | None, row: int, source: mx.array | None, source_row: int, num_tokens: int
    ) -> mx.array | None:
        if source is None or num_tokens == 0:
            return held
        # Of a ring that has gone round, all slots: the tokens are anywhere in it.
        num_slots = num_tokens if self.ring is None else min(source.shape[2], self.ring)
        if held is None and self.layout.num_rows == 1:
            # What stands behind the tokens is never seen. A copy, since a view would keep the whole batch's alive.
            return mx.contiguous(source[source_row : source_row + 1, :, : round_up(num_slots)])
        if held is None:
            _, heads, _, size = source.shape
            held = mx.zeros((self.layout.num_rows, heads, round_up(num_slots), size), source.dtype)
        held = with_slots(held, round_up(num_slots))
        held[row, :, :num_slots] = source[source_row, :, :num_slots]
        return held

    def clear_row(self, row: int) -> None:
        for held in self.state:
            held[row] = 0

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        if self.keys is not None and self.values is not None:
            order = mx.array(list(kept), dtype=mx.int32)
            self.keys = with_rows(self.keys[order], num_rows)
            self.values = with_rows(self.values[order], num_rows)


def reserved(held: mx.array | None, like: Any, num_slots: int) -> mx.array:
    """`held` with room for `num_slots`; where there is none yet, one in the shape of `like`."""
    if held is None:
        rows, heads, _, size = like.shape
        return mx.zeros((rows, heads, round_up(num_slots), size), like.dtype)
    return with_slots(held, round_up(num_slots))


def round_up(num_slots: int) -> int:
    return -(-num_slots // GROWTH) * GROWTH


def with_slots(held: mx.array, num_slots: int) -> mx.array:
    """`held` with slots of zeros behind it up to `num_slots` (or as many as it has)."""
    rows, heads, slots, size = held.shape
    if slots >= num_slots:
        return held
    return mx.concatenate([held, mx.zeros((rows, heads, num_slots - slots, size), held.dtype)], axis=2)

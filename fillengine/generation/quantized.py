"""Keys and values in few bits, row by row: each row changes from full precision when it is long enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from fillengine.errors import ModelError
from fillengine.generation.attention import Attention, reserved, round_up, with_slots
from fillengine.generation.layout import Layout

_BITS = (2, 3, 4, 5, 6, 8)
_GROUP_SIZES = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class Storage:
    """How keys and values are kept, in mlx-lm's names.

    kv_bits             bits of a number; None: full precision
    kv_group_size       neighbouring numbers of a head that share a scale and a bias
    quantized_kv_start  a query at this position or behind it sees keys and values of `kv_bits`, its own
                        included; one before it sees full precision. So the numbers of a position do not depend on
                        how a text was cut into passes. (mlx-lm, which converts after a pass, agrees where it
                        feeds one token at a time.)

    Layers that see a window only stay in full precision: what they keep is small, and does not grow.
    """

    kv_bits: int | None = None
    kv_group_size: int = 64
    quantized_kv_start: int = 0

    def __post_init__(self) -> None:
        if self.kv_bits is not None and self.kv_bits not in _BITS:
            raise ModelError(f"kv_bits is {self.kv_bits}; it must be one of {', '.join(map(str, _BITS))}")
        if self.kv_group_size not in _GROUP_SIZES:
            raise ModelError(
                f"kv_group_size is {self.kv_group_size}; it must be one of {', '.join(map(str, _GROUP_SIZES))}"
            )
        if self.quantized_kv_start < 0:
            raise ModelError(f"quantized_kv_start is {self.quantized_kv_start}; it must be 0 or more")


FULL_PRECISION = Storage()


class QuantizedCache(Attention):
    """One full-attention layer. Rows before the start are in one block, those behind it in another.

    Attention gets one array for all rows, with the packed ones unpacked: every row's numbers are the same
    whatever the other rows' format is, and layers that read this one's keys need not know.
    """

    def __init__(self, layout: Layout, storage: Storage) -> None:
        super().__init__(layout)
        if storage.kv_bits is None:
            raise ValueError("full precision needs no QuantizedCache")
        self.storage = storage
        self.start = storage.quantized_kv_start
        self.dense = _Block()
        self.packed = _Block()

    def room(self, row: int) -> int | None:
        length = int(self.layout.lengths[row])
        return self.start - length if length < self.start else None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write the pass's keys and values; return those of all slots that its queries may see."""
        self._check(keys.shape[-1])
        self._check(values.shape[-1])
        layout = self.layout
        is_packed = layout.lengths >= self.start
        if is_packed.any():
            # Rows that nobody uses go with the others, so that one format is enough.
            is_packed |= (layout.lengths == 0) & (layout.counts == 0)
        dense_rows, packed_rows = np.flatnonzero(~is_packed).tolist(), np.flatnonzero(is_packed).tolist()
        self.packed.keep([row for row in self.packed.rows if is_packed[row]])
        self._convert([row for row in packed_rows if row not in self.packed.rows])
        parts: list[list[mx.array]] = []
        if dense_rows:
            new = [keys, values] if not packed_rows else [array[mx.array(dense_rows)] for array in (keys, values)]
            self.dense.write(layout, dense_rows, new)
            parts.append([_seen(held, layout.width) for held in self.dense.of(dense_rows)])
        if packed_rows:
            new = [keys, values] if not dense_rows else [array[mx.array(packed_rows)] for array in (keys, values)]
            self.packed.write(layout, packed_rows, self._pack(new))
            parts.append(self._unpack([_seen(held, layout.width) for held in self.packed.of(packed_rows)]))
        if len(parts) == 1:
            found = parts[0]
        else:
            order = mx.array(np.argsort(dense_rows + packed_rows).astype(np.int32))
            found = [mx.concatenate(list(both))[order] for both in zip(*parts, strict=True)]
        self._fetched = found[0], found[1]
        return self._fetched

    def _check(self, size: int) -> None:
        if size % self.storage.kv_group_size:
            raise ModelError(
                f"the model's heads have {size} numbers, which groups of {self.storage.kv_group_size} do not "
                f"divide; use another kv_group_size ({', '.join(map(str, _GROUP_SIZES))}), or no kv_bits"
            )

    def _convert(self, rows: list[int]) -> None:
        """Pack rows that have reached the start. What they were stays until the round ends."""
        held = [row for row in rows if row in self.dense.rows]
        if held and self.dense.arrays:
            self.packed.add(held, self._pack(self.dense.of(held)))

    def _pack(self, arrays: Sequence[mx.array]) -> list[mx.array]:
        group_size, bits = self.storage.kv_group_size, self.storage.kv_bits
        return [part for array in arrays for part in mx.quantize(array, group_size=group_size, bits=bits)]

    def _unpack(self, arrays: Sequence[mx.array]) -> list[mx.array]:
        group_size, bits = self.storage.kv_group_size, self.storage.kv_bits
        return [
            mx.dequantize(packed, scales, biases, group_size=group_size, bits=bits)
            for packed, scales, biases in (arrays[:3], arrays[3:])
        ]

    # What a batch does with its rows.

    @property
    def state(self) -> list[mx.array]:
        return [*self.dense.arrays, *self.packed.arrays]

    def empty_like(self, layout: Layout) -> QuantizedCache:
        return QuantizedCache(layout, self.storage)

    def longest_prefix(self, row: int, num_tokens: int) -> int:
        """Of a packed row nothing before the start: its full precision is gone."""
        return num_tokens if row not in self.packed.rows or num_tokens >= self.start else 0

    def copy_row(self, row: int, source: QuantizedCache, source_row: int, num_tokens: int) -> None:
        self.clear_row(row)
        if num_tokens == 0:
            return
        block, into = (source.packed, self.packed) if source_row in source.packed.rows else (source.dense, self.dense)
        if block.arrays:
            into.add([row], [array[:, :, :num_tokens] for array in block.of([source_row])])

    def vacate_row(self, row: int) -> None:
        self.clear_row(row)

    def clear_row(self, row: int) -> None:
        self.dense.keep([held for held in self.dense.rows if held != row])
        self.packed.keep([held for held in self.packed.rows if held != row])

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        for block in (self.dense, self.packed):
            block.keep([row for row in kept if row in block.rows])
            block.rows = [kept.index(row) for row in block.rows]

    def end_round(self) -> None:
        """Each row keeps the format of its length only."""
        is_packed = (self.layout.lengths >= self.start) | (self.layout.lengths == 0)
        self.packed.keep([row for row in self.packed.rows if is_packed[row]])
        self.dense.keep([row for row in self.dense.rows if not is_packed[row] or row not in self.packed.rows])


class _Block:
    """Some rows' slots: arrays [len(rows), kv heads, slots, n], and which rows they are."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.arrays: list[mx.array] = []

    def of(self, rows: list[int]) -> list[mx.array]:
        """The slots of these rows, in this order."""
        if rows == self.rows:
            return self.arrays
        places = mx.array([self.rows.index(row) for row in rows], dtype=mx.int32)
        return [array[places] for array in self.arrays]

    def keep(self, rows: list[int]) -> None:
        if rows != self.rows:
            self.arrays = self.of(rows) if rows else []
            self.rows = rows

    def add(self, rows: list[int], arrays: Sequence[mx.array]) -> None:
        """Hold these rows too."""
        if self.arrays:
            num_slots = round_up(max(self.arrays[0].shape[2], arrays[0].shape[2]))
            self.arrays = [
                mx.concatenate([with_slots(held, num_slots), with_slots(more, num_slots)])
                for held, more in zip(self.arrays, arrays, strict=True)
            ]
        else:
            self.arrays = [with_slots(more, round_up(more.shape[2])) for more in arrays]
            self.rows = []
        self.rows = [*self.rows, *rows]

    def write(self, layout: Layout, rows: list[int], new: Sequence[mx.array]) -> None:
        """Write the pass's part of these rows: new[i][len(rows), kv heads, tokens, n]."""
        missing = [row for row in rows if row not in self.rows]
        if missing:
            self.add(missing, [mx.zeros((len(missing), part.shape[1], 1, part.shape[3]), part.dtype) for part in new])
        needed = int(layout.lengths[rows].max()) + layout.num_tokens
        self.arrays = [reserved(held, part, needed) for held, part in zip(self.arrays, new, strict=True)]
        if rows == self.rows and layout.start is not None:
            for held, part in zip(self.arrays, new, strict=True):
                held[..., layout.start : layout.start + layout.num_tokens, :] = part
            return
        slots = layout.positions[mx.array(rows, dtype=mx.int32)]
        written = [mx.put_along_axis(held, slots, part, axis=2) for held, part in zip(self.of(rows), new, strict=True)]
        if rows == self.rows:
            self.arrays = written
        else:
            places = mx.array([self.rows.index(row) for row in rows], dtype=mx.int32)
            for held, part in zip(self.arrays, written, strict=True):
                held[places] = part


def _seen(held: mx.array, width: int) -> mx.array:
    """The first `width` slots, with empty ones where there are fewer."""
    return with_slots(held, width)[..., :width, :]

"""Rows packed: the tokens of all rows go through a pass one behind the other, and no row is padded.

A pass of 2, 1 and 5 tokens is one over 8: to the model a batch of 8 rows with one token each, at positions of their
own. Everything in a model but attention treats tokens alone, so that the products have 8 rows and not 15. Attention
is done here, for each row over its own tokens. For CPUs, where every padded token and slot costs time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from fillengine.generation.attention import round_up
from fillengine.generation.host_attention import Array, Group, Piece, Queries, attend
from fillengine.generation.layer import LayerState
from fillengine.generation.layout import Layout

# A row of more shared stretches than this gets all but the first in one.
MAX_SHARED = 4
# A feed of more tokens reads keys and values often enough for itself.
MAX_GROUPED = 16


@dataclass(slots=True, eq=False)
class _Block:
    """Keys and values of consecutive tokens, and room for more. One row writes it, others may share its beginning."""

    held: Piece | None = None

    def write(self, slot: int, keys: Array, values: Array) -> None:
        """keys, values: [kv heads, tokens, head size], at `slot` and behind."""
        end = slot + keys.shape[1]
        if self.held is None or end > len(self.held):
            old = self.held
            self.held = Piece(*(_zeros(like, round_up(end)) for like in (keys, values)))
            if old is not None:
                self.held.keys[:, : len(old)] = old.keys
                self.held.values[:, : len(old)] = old.values
        self.held.keys[:, slot:end] = keys
        self.held.values[:, slot:end] = values

    def piece(self, begin: int, end: int) -> Piece:
        assert self.held is not None
        return self.held.cut(begin, end)

    @property
    def nbytes(self) -> int:
        return 0 if self.held is None else self.held.keys.nbytes + self.held.values.nbytes


@dataclass(slots=True, eq=False)
class _Row:
    """A row's tokens: first those of shared blocks (each with how many of its first tokens), then its own."""

    shared: list[tuple[_Block, int]] = field(default_factory=list)
    own: _Block = field(default_factory=_Block)

    @property
    def num_shared(self) -> int:
        return sum(num for _, num in self.shared)

    @property
    def nbytes(self) -> int:
        return self.own.nbytes + sum(block.nbytes for block, _ in self.shared)

    def beginning(self, num_tokens: int) -> _Row:
        """A row of the first tokens of this one, which may go on."""
        found = _Row()
        for block, num in [*self.shared, (self.own, num_tokens)]:
            used = min(num, num_tokens)
            if used > 0:
                found.shared.append((block, used))
            num_tokens -= used
        if len(found.shared) > MAX_SHARED:
            first, *others = found.shared
            found.shared = [first, _joined(others)]
        return found

    def pieces(self, begin: int, end: int) -> list[Piece]:
        """Those of the tokens begin..end."""
        found = []
        at = 0
        for block, num in [*self.shared, (self.own, end)]:
            first, last = max(begin - at, 0), min(num, end - at)
            if first < last:
                found.append(block.piece(first, last))
            at += num
        return found


def _zeros(like: Array, num_slots: int) -> Array:
    return np.zeros((like.shape[0], num_slots, like.shape[2]), np.float32)


def _joined(shared: Sequence[tuple[_Block, int]]) -> tuple[_Block, int]:
    joined = _Block()
    size = 0
    for block, num in shared:
        piece = block.piece(0, num)
        joined.write(size, piece.keys, piece.values)
        size += num
    return joined, size


class PackedCache(LayerState):
    """Keys and values of one full-attention layer, float32 in the host's memory.

    Rows that were copied from one another share the blocks of their common beginning, and those of a pass read
    them once.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._rows = [_Row() for _ in range(layout.num_rows)]
        self._new: tuple[mx.array, mx.array] | None = None

    # What mlx-lm's models ask for.

    @property
    def offset(self) -> mx.array:
        """The position of each token of the pass, int32[tokens]."""
        return self.layout.packed_positions

    def make_mask(self, N: int, **_: Any) -> None:  # noqa: N803 (mlx-lm's name)
        """To the model each token stands alone."""
        if N != 1:
            raise ValueError(f"a packed pass has one token in each row, not {N}")

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """[tokens, kv heads, 1, head size] each; returned as they are, for `attend`."""
        self._new = keys, values
        return keys, values

    def attend(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        scale: float,
        mask: mx.array | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """Write the pass's keys and values, and return what its queries see: [tokens, heads, 1, head size]."""
        if self._new is None or keys is not self._new[0] or values is not self._new[1]:
            raise ValueError("a layer attends to other keys and values than those it has just written")
        if mask is not None or sinks is not None:
            raise ValueError("packed attention has neither masks nor sinks")
        self._new = None
        scaled = queries.astype(mx.float32) * scale
        own_keys, own_values = keys.astype(mx.float32), values.astype(mx.float32)
        mx.eval(scaled, own_keys, own_values)
        self._write(np.asarray(own_keys)[:, :, 0], np.asarray(own_values)[:, :, 0])
        num_tokens, num_heads, _, _ = queries.shape
        found = np.empty((num_tokens, num_heads, values.shape[-1]), np.float32)
        self._attend(np.asarray(scaled)[:, :, 0], found)
        return mx.array(found).astype(queries.dtype)[:, :, None]

    def _write(self, keys: Array, values: Array) -> None:
        for number, tokens in self.layout.packed_rows:
            row = self._rows[number]
            slot = int(self.layout.lengths[number]) - row.num_shared
            row.own.write(slot, keys[tokens].swapaxes(0, 1), values[tokens].swapaxes(0, 1))

    def _attend(self, queries: Array, out: Array) -> None:
        """Rows that begin with the same block are a group."""
        groups: dict[int, list[tuple[int, slice]]] = {}
        for number, tokens in self.layout.packed_rows:
            row = self._rows[number]
            is_grouped = row.shared and tokens.stop - tokens.start <= MAX_GROUPED
            key = id(row.shared[0][0]) if is_grouped else -1 - number
            groups.setdefault(key, []).append((number, tokens))
        attend(queries, [self._group(group) for group in groups.values()], out)

    def _group(self, members: Sequence[tuple[int, slice]]) -> Group:
        first = self._rows[members[0][0]]
        if first.shared:
            block = first.shared[0][0]
            num_common = min(self._rows[number].shared[0][1] for number, _ in members)
        else:
            block, num_common = first.own, self._end(*members[0])
        rows = []
        for number, tokens in members:
            pieces = self._rows[number].pieces(num_common, self._end(number, tokens))
            rows.append(Queries(tokens, int(self.layout.lengths[number]), pieces))
        return Group(block.piece(0, num_common), rows)

    def _end(self, number: int, tokens: slice) -> int:
        """Where the row ends with this pass."""
        return int(self.layout.lengths[number]) + int(tokens.stop - tokens.start)

    # What a batch does with its rows.

    @property
    def state(self) -> list[mx.array]:
        """Nothing that MLX has to compute: what was written is there."""
        return []

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self._rows)

    def empty_like(self, layout: Layout) -> PackedCache:
        return PackedCache(layout)

    def held(self, row: int) -> Piece:
        """A copy of what the row holds."""
        pieces = self._rows[row].pieces(0, int(self.layout.lengths[row]))
        return Piece(
            *(np.concatenate([getattr(piece, name) for piece in pieces], axis=1) for name in ("keys", "values"))
        )

    def copy_row(self, row: int, source: PackedCache, source_row: int, num_tokens: int) -> None:
        """Nothing is copied: the source writes behind these tokens, or into another block."""
        self._rows[row] = source._rows[source_row].beginning(num_tokens)

    def vacate_row(self, row: int) -> None:
        self._rows[row] = _Row()

    def clear_row(self, row: int) -> None:
        self._rows[row] = _Row()

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        self._rows = [self._rows[row] for row in kept] + [_Row() for _ in range(num_rows - len(kept))]

    def end_pass(self) -> None:
        if self._new is not None:
            raise ValueError("a layer has written keys and values, and not attended to them")

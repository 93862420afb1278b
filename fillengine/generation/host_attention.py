"""Attention on the CPU, in numpy: softmax(queries keys^T) values, for rows of different lengths.

MLX has no attention kernel for CPUs, and on x86 its exponential is a scalar one: 16 ns a number against 3 with
numpy. At 2,000 tokens and 8 rows attention took 300 ms of a pass whose other products take 100 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from fillengine.generation.blas import num_cores

Array = npt.NDArray[Any]

# Scores that are held at a time: they are gone over five times, so they should fit the processor's cache.
MAX_SCORES = 2**19
# With fewer scores in all than that, handing them to other threads takes longer than computing them.
MIN_SHARED_OUT = 2**17


@dataclass(frozen=True, slots=True)
class Piece:
    """Keys and values of consecutive tokens: [kv heads, tokens, head size] each."""

    keys: Array
    values: Array

    def __len__(self) -> int:
        return int(self.keys.shape[1])

    def cut(self, begin: int, end: int) -> Piece:
        return Piece(self.keys[:, begin:end], self.values[:, begin:end])


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of one row, at its last positions, and what it sees besides the group's common piece.

    tokens: where they stand among all queries of the pass. start: the position of the first.
    """

    tokens: slice
    start: int
    pieces: Sequence[Piece]

    def __len__(self) -> int:
        return int(self.tokens.stop - self.tokens.start)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows whose texts all begin with `common`: its keys and values are read once for all of them."""

    common: Piece
    rows: Sequence[Queries]

    @property
    def num_scores(self) -> int:
        """Scores of one query head."""
        return sum(len(row) * (row.start + len(row)) for row in self.rows)


def attend(queries: Array, groups: Sequence[Group], out: Array) -> None:
    """Fill `out`, both float32[tokens, heads, head size], the queries scaled.

    A row's tokens follow one another, and query i of a row sees the keys up to its own position.
    """
    num_heads = queries.shape[1]
    parts = [part for group in groups for part in _parts(group, num_heads)]
    if len(parts) == 1 or sum(part.num_scores for part in parts) * num_heads < MIN_SHARED_OUT:
        for part in parts:
            _attend(queries, part, out)
    else:
        parts.sort(key=lambda part: -part.num_scores)
        list(_workers().map(lambda part: _attend(queries, part, out), parts))


def _parts(group: Group, num_heads: int) -> Iterator[Group]:
    """Pieces of work that suit a core: of a long feed blocks, which look no further than their own last key."""
    if len(group.rows) > 1:
        share = -(-len(group.rows) // num_cores())
        for first in range(0, len(group.rows), share):
            yield Group(group.common, group.rows[first : first + share])
        return
    row = group.rows[0]
    pieces = [group.common, *row.pieces]
    step = max(1, MAX_SCORES // (num_heads * (row.start + len(row))))
    for first in range(0, len(row), step):
        count = min(step, len(row) - first)
        tokens = slice(row.tokens.start + first, row.tokens.start + first + count)
        common, *others = _beginning(pieces, row.start + first + count)
        yield Group(common, [Queries(tokens, row.start + first, others)])


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """A thread for each core: numpy lets go of the interpreter in products and exponentials."""
    return ThreadPoolExecutor(num_cores(), "attention")


def one_thread_each() -> AbstractContextManager[object]:
    """While it is entered, a product of numpy's takes one thread: the work is shared out here.

    OpenBLAS's own threads wait for one another actively, and on a busy machine took five times as long as one.
    """
    limited: AbstractContextManager[object] = _numpy_blas().limit(limits=1)
    return limited


@functools.cache
def _numpy_blas() -> ThreadpoolController:
    """The BLAS that comes with numpy; MLX's products have another, whose threads `blas.use_threads` sets."""
    found = ThreadpoolController()
    return found.select(filepath=[library.filepath for library in found.lib_controllers if "numpy" in library.filepath])


def _attend(queries: Array, group: Group, out: Array) -> None:
    common, rows = group.common, group.rows
    num_kv_heads = common.keys.shape[0]
    num_queries = queries.shape[1] // num_kv_heads
    # [kv heads, tokens * queries of a kv head, head size]: each key is read once for the heads that share it.
    by_head = np.concatenate([queries[row.tokens] for row in rows]) if len(rows) > 1 else queries[rows[0].tokens]
    by_head = by_head.reshape(-1, num_kv_heads, num_queries, queries.shape[2]).swapaxes(0, 1)
    by_head = np.ascontiguousarray(by_head).reshape(num_kv_heads, -1, queries.shape[2])
    widest = max(row.start + len(row) for row in rows)
    scores = np.empty((num_kv_heads, by_head.shape[1], widest), np.float32)
    num_common = len(common)
    np.matmul(by_head, common.keys.swapaxes(1, 2), out=scores[..., :num_common])
    totals = np.empty((*scores.shape[:2], 1), np.float32)
    places = _places(rows, num_queries)
    for row, place in zip(rows, places, strict=True):
        own = scores[:, place, : row.start + len(row)]
        begin = num_common
        for piece in row.pieces:
            end = begin + len(piece)
            np.matmul(by_head[:, place], piece.keys.swapaxes(1, 2), out=own[..., begin:end])
            begin = end
        if len(row) > 1:
            own[..., row.start :] += np.repeat(_causal(len(row)), num_queries, axis=0)
        own -= own.max(axis=-1, keepdims=True)
        np.exp(own, out=own)
        own.sum(axis=-1, keepdims=True, out=totals[:, place])
    found = scores[..., :num_common] @ common.values
    for row, place in zip(rows, places, strict=True):
        begin = num_common
        for piece in row.pieces:
            end = begin + len(piece)
            found[:, place] += scores[:, place, begin:end] @ piece.values
            begin = end
    found /= totals
    found = found.reshape(num_kv_heads, -1, num_queries, found.shape[-1]).swapaxes(0, 1)
    first = 0
    for row in rows:
        out[row.tokens] = found[first : first + len(row)].reshape(len(row), -1, found.shape[-1])
        first += len(row)


def _places(rows: Sequence[Queries], num_queries: int) -> list[slice]:
    """Where each row's queries stand among those of the group."""
    found = []
    first = 0
    for row in rows:
        last = first + len(row) * num_queries
        found.append(slice(first, last))
        first = last
    return found


def _beginning(pieces: Sequence[Piece], num_tokens: int) -> list[Piece]:
    """The pieces of the first `num_tokens` tokens."""
    found = []
    for piece in pieces:
        if num_tokens <= 0:
            break
        found.append(piece.cut(0, num_tokens) if len(piece) > num_tokens else piece)
        num_tokens -= len(piece)
    return found


def _causal(num_tokens: int) -> Array:
    """float32[num_tokens, num_tokens]: minus infinity where a key comes after the query."""
    return np.triu(np.full((num_tokens, num_tokens), -np.inf, np.float32), 1)

"""Layers of a kind that fillengine does not know: each row has mlx-lm's own cache, and is fed alone.

Slow in a batch, but right for any model that mlx-lm runs. Where mlx-lm cannot trim the cache there are no drafts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, ConcatenateKVCache, KVCache, RotatingKVCache

from fillengine.generation.layer import LayerState
from fillengine.generation.layout import Layout


class SoloCache(LayerState):
    """`rows[i]` is the cache of one layer for row i, `empty` one that no model has seen."""

    def __init__(self, layout: Layout, empty: Any) -> None:
        super().__init__(layout)
        self.empty = empty
        self.rows = [copy.deepcopy(empty) for _ in range(layout.num_rows)]

    @property
    def max_append(self) -> int | None:
        return 1 if _is_stepwise(self.empty) else None

    @property
    def max_rollback(self) -> int | None:
        return None if _can_trim(self.empty) else 0

    @property
    def state(self) -> list[mx.array]:
        return [value for row in self.rows for _, value in tree_flatten(_arrays(row)) if isinstance(value, mx.array)]

    def empty_like(self, layout: Layout) -> SoloCache:
        return SoloCache(layout, self.empty)

    def longest_prefix(self, row: int, num_tokens: int) -> int:
        is_whole = num_tokens == self.layout.lengths[row]
        return num_tokens if is_whole or _can_trim(self.rows[row]) else 0

    def copy_row(self, row: int, source: SoloCache, source_row: int, num_tokens: int) -> None:
        if num_tokens == 0:
            self.clear_row(row)
            return
        self.rows[row] = copy.deepcopy(source.rows[source_row])
        num_more = int(source.layout.lengths[source_row]) - num_tokens
        if num_more:
            self.rows[row].trim(num_more)

    def trim_row(self, row: int, num_tokens: int) -> None:
        self.rows[row].trim(num_tokens)

    def vacate_row(self, row: int) -> None:
        self.clear_row(row)

    def clear_row(self, row: int) -> None:
        self.rows[row] = copy.deepcopy(self.empty)

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        more = [copy.deepcopy(self.empty) for _ in range(num_rows - len(kept))]
        self.rows = [self.rows[row] for row in kept] + more


def _can_trim(cache: Any) -> bool:
    """Whether any number of tokens can be taken back, whatever came before.

    `is_trimmable` does not say that: a rotating cache answers yes until it has turned, when it is too late, and a
    chunked one takes back what it still holds and no more.
    """
    if type(cache) is CacheList:
        return all(map(_can_trim, cache.caches))
    return type(cache) in (KVCache, ConcatenateKVCache)


def _is_stepwise(cache: Any) -> bool:
    """Whether several tokens at once get something else than one after the other.

    A rotating cache that keeps the first tokens gives a mask for several which takes these for recent ones.
    """
    if type(cache) is CacheList:
        return any(map(_is_stepwise, cache.caches))
    return isinstance(cache, RotatingKVCache) and cache.keep > 0


def _arrays(cache: Any) -> Any:
    return [_arrays(part) for part in cache.caches] if isinstance(cache, CacheList) else cache.state

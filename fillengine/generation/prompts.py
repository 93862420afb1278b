"""Reading prompts into a cache, and not reading twice what two prompts begin with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from fillengine.generation.blas import use_threads
from fillengine.generation.cache import RaggedCache
from fillengine.generation.trunk import SplitModel

# Prompts whose keys and values are kept, and the tokens that these may hold together. SmolLM2-135M in float32
# takes 46 KB a token.
MAX_PROMPTS = 4
MAX_TOKENS = 16_384
# A shorter common beginning is not worth a copy.
MIN_REUSED = 16


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt in a cache of one row, all but its last token, which the first round feeds.

    num_reused: how many of its tokens an earlier prompt had in common and were not read again.
    """

    cache: RaggedCache
    last_token: int
    num_reused: int


class PromptReader:
    """Reads prompts, and keeps the last few: a new one starts from the longest common beginning."""

    def __init__(self, model: SplitModel, cache: RaggedCache) -> None:
        self.model = model
        # Never written to; new caches are made after it.
        self._pattern = cache
        self._kept: OrderedDict[tuple[int, ...], RaggedCache] = OrderedDict()

    def read(self, prompt: Sequence[int]) -> ReadPrompt:
        """`prompt`: at least one token id."""
        head = tuple(prompt[:-1])
        cache = self._pattern.empty_like(1)
        num_reused = self._reuse(cache, head)
        max_length = cache.layout.shapes.max_length
        for start in range(num_reused, len(head), max_length):
            self._read_chunk(cache, head[start : start + max_length])
        mx.clear_cache()  # what a chunk needed is far larger than what a round will
        self._keep(head, cache)
        return ReadPrompt(cache, prompt[-1], num_reused)

    def _reuse(self, cache: RaggedCache, head: tuple[int, ...]) -> int:
        best, most = None, MIN_REUSED - 1
        for kept in self._kept:
            num_common = _num_common(kept, head)
            if num_common > most:
                best, most = kept, num_common
        if best is None:
            return 0
        self._kept.move_to_end(best)
        cache.copy_row(0, self._kept[best], most)
        return most

    def _read_chunk(self, cache: RaggedCache, chunk: Sequence[int]) -> None:
        layout = cache.layout
        ids = np.zeros((1, layout.shapes.length(len(chunk))), np.int32)
        ids[0, : len(chunk)] = chunk
        layout.begin(ids.size)
        use_threads(ids.size)
        self.model.trunk(mx.array(ids), cache=cache.layers)
        layout.advance([len(chunk)])
        mx.eval(cache.state)

    def _keep(self, head: tuple[int, ...], cache: RaggedCache) -> None:
        self._kept[head] = cache
        self._kept.move_to_end(head)
        while len(self._kept) > MAX_PROMPTS or sum(map(len, self._kept)) > MAX_TOKENS:
            self._kept.popitem(last=False)


def _num_common(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Tokens that both begin with."""
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return number
    return min(len(left), len(right))

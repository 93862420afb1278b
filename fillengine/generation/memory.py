"""How many bytes the KV cache of a batch takes, and how many it may take."""

from __future__ import annotations

import os
from pathlib import Path

import mlx.core as mx

from fillengine.generation.attention import GROWTH
from fillengine.generation.cache import RaggedCache
from fillengine.generation.trunk import SplitModel

# Of what is free when it is asked for. The rest is for activations, and for growing: a buffer that grows is there
# twice for a moment.
SHARE = 0.4


class Footprint:
    """Bytes of a cache of this model, by rows and tokens.

    Found by setting up (not computing: MLX is lazy) a pass of one token behind so many, so it holds for every
    kind of layer and storage.
    """

    def __init__(self, model: SplitModel, pattern: RaggedCache) -> None:
        self._trunk = model.trunk
        self._pattern = pattern
        # By tokens in steps of `GROWTH`.
        self._by_steps: dict[int, int] = {}

    def bytes_of(self, num_tokens: int, num_rows: int = 1) -> int:
        """Of `num_rows` rows in a batch of which the longest has so many tokens."""
        num_steps = max(1, -(-num_tokens // GROWTH))
        found = self._by_steps.get(num_steps)
        if found is None:
            found = self._by_steps[num_steps] = self._measured(num_steps * GROWTH)
        return found * self._pattern.layout.shapes.rows(num_rows)

    @property
    def bytes_per_token(self) -> float:
        """What one more token takes, where a row is short."""
        return (self.bytes_of(2 * GROWTH) - self.bytes_of(GROWTH)) / GROWTH

    def _measured(self, num_tokens: int) -> int:
        cache = self._pattern.empty_like(1)
        if self._pattern.is_solo or self._pattern.is_packed:
            # Caches that compute what they are asked: for one step, and they are taken to grow evenly.
            cache.feed(self._trunk, {0: [0]})
            return cache.nbytes * (num_tokens // GROWTH)
        cache.layout.lengths[:] = num_tokens - 1
        cache.feed(self._trunk, {0: [0]})
        return cache.nbytes


def default_limit() -> int:
    """Bytes that caches may take where nothing is said: a share of what the device has left."""
    return int(SHARE * _available())


def _available() -> int:
    if mx.default_device().type == mx.DeviceType.gpu:
        info = mx.device_info()
        if "free_memory" in info:
            # What MLX holds unused is not free to others, but to us.
            return int(info["free_memory"]) + mx.get_cache_memory()
        for name in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if name in info:
                return max(0, int(info[name]) - mx.get_active_memory())
    return _available_on_host()


def _available_on_host() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2

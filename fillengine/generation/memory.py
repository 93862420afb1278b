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


class DeviceMemory:
    """What a GPU has left for this process.

    What the device calls taken is no measure: of what MLX has given up, it keeps a part for its next arrays, and CUDA
    another for its next request. So others are taken to hold the least that was ever taken beside MLX's own; one that
    begins after the first look is not seen.
    """

    def __init__(self) -> None:
        self._others: int | None = None

    def available(self) -> int | None:
        """Bytes; None where there is no GPU, or it says nothing about its memory."""
        if mx.default_device().type != mx.DeviceType.gpu:
            return None
        info = mx.device_info()
        names = ("max_recommended_working_set_size", "total_memory", "memory_size")
        total = next((int(info[name]) for name in names if name in info), None)
        if total is None:
            return None
        active = mx.get_active_memory()
        if "free_memory" in info:
            beside = max(0, total - int(info["free_memory"]) - active - mx.get_cache_memory())
            self._others = beside if self._others is None else min(beside, self._others)
        return max(0, total - active - (self._others or 0))


_device = DeviceMemory()


def default_limit() -> int:
    """Bytes that caches may take where nothing is said: a share of what the device has left."""
    available = _device.available()
    return int(SHARE * (_available_on_host() if available is None else available))


def _available_on_host() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2

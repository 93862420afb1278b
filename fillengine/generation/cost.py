"""What a forward pass over n tokens costs on this machine: measured once, and kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from fillengine.fill.economics import CostCurve
from fillengine.generation.cache import RaggedCache
from fillengine.generation.models import LoadedModel
from fillengine.generation.store import cache_folder, write_whole
from fillengine.generation.trunk import SplitModel

# Tokens of a pass in each row: those without which there is no curve, and others for which there may be time.
NEEDED_LENGTHS = (1, 4, 16)
MORE_LENGTHS = (8, 2, 32)
# Tokens that stand in front of the measured ones, where the cache lets that be pretended.
DEPTH = 256
# Seconds after which no pass is begun that is not needed.
MAX_SECONDS = 1.0
# Of so many passes the fastest counts: whatever disturbs one makes it slower.
MAX_REPEATS = 5
MAX_TIMES = 3
# With more rows than this a pass costs in proportion to its positions, so that the curve is the same (CPU, GPU).
MAX_ROWS = 8
MAX_ROWS_ROUNDED = 64
# A change in what is measured makes what was kept useless.
FORMAT = 4


class CostMeter:
    """The cost curves of one model, by the rows of a batch (rounded up to a power of two, up to a limit)."""

    def __init__(self, loaded: LoadedModel, model: SplitModel, pattern: RaggedCache) -> None:
        self._loaded = loaded
        self._model = model
        self._pattern = pattern
        self._curves: dict[int, CostCurve] = {}

    def curve(self, num_rows: int) -> CostCurve:
        """Measured at first use: about a second on a CPU, less on a GPU. Kept in the cache folder.

        The first `MAX_TIMES` processes measure, and the best is kept: another program may have disturbed one.
        """
        most = MAX_ROWS_ROUNDED if self._pattern.layout.shapes.rounds_up else MAX_ROWS
        num_rows = min(1 << (num_rows - 1).bit_length(), most)
        found = self._curves.get(num_rows)
        if found is None:
            found = self._curves[num_rows] = CostCurve(self._seconds(num_rows))
        return found

    def _seconds(self, num_rows: int) -> dict[int, float]:
        file = self._file(num_rows)
        num_times, kept = (0, {}) if file is None else _read(file)
        if num_times >= MAX_TIMES:
            return kept
        seconds = measure(self._model, self._pattern, num_rows)
        for length, value in kept.items():
            seconds[length] = min(value, seconds.get(length, value))
        seconds = _ascending(seconds)
        if file is not None:
            _write(file, num_times + 1, seconds)
        return seconds

    def _file(self, num_rows: int) -> Path | None:
        """None for a model that is no folder: nothing says that it is the same one the next time."""
        folder = self._loaded.folder
        if folder is None:
            return None
        parameters = tree_flatten(self._loaded.model.parameters())
        facts = {
            "format": FORMAT,
            "config": hashlib.sha256((folder / "config.json").read_bytes()).hexdigest(),
            "parameters": sum(value.nbytes for _, value in parameters),
            "device": [str(mx.default_device()), str(mx.device_info().get("device_name"))],
            "cores": os.cpu_count(),
            "mlx": version("mlx"),
            "layers": sorted({type(layer).__name__ for layer in self._pattern.layers}),
            "max_append": self._pattern.max_append,
            "rows": num_rows,
        }
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]
        return cache_folder() / "costs" / f"{key}.json"


def measure(model: SplitModel, pattern: RaggedCache, num_rows: int) -> dict[int, float]:
    """Seconds of a pass by its tokens in each row, the vocabulary projection of all of them included."""
    cache = pattern.empty_like(num_rows)
    if not cache.is_solo:
        cache.layout.lengths[:] = DEPTH
    draft = cache.max_draft(1)
    can_take_back = draft is None or draft >= max(NEEDED_LENGTHS + MORE_LENGTHS)
    begun = time.perf_counter()
    seconds: dict[int, float] = {}
    _pass(model, cache, 1, can_take_back=can_take_back)
    lengths = NEEDED_LENGTHS + MORE_LENGTHS
    for place, length in enumerate(lengths):
        if length not in NEEDED_LENGTHS and time.perf_counter() - begun > MAX_SECONDS:
            break
        if cache.layout.shapes.rounds_up:
            # The first pass of a shape sets things up.
            _pass(model, cache, length, can_take_back=can_take_back)
        times = [_pass(model, cache, length, can_take_back=can_take_back)]
        share = MAX_SECONDS * (place + 1) / len(lengths)
        while len(times) < MAX_REPEATS and time.perf_counter() - begun + times[-1] < share:
            times.append(_pass(model, cache, length, can_take_back=can_take_back))
        seconds[length] = max(min(times), 1e-9)
    mx.clear_cache()
    return _ascending(seconds)


def _ascending(seconds: dict[int, float]) -> dict[int, float]:
    """No pass costs more than a longer one: it could be that one, with padding."""
    found: dict[int, float] = {}
    least = float("inf")
    for length in sorted(seconds, reverse=True):
        least = found[length] = min(least, seconds[length])
    return found


def _pass(model: SplitModel, cache: RaggedCache, length: int, *, can_take_back: bool) -> float:
    rows = range(cache.num_rows)
    begun = time.perf_counter()
    hidden = cache.feed(
        model.trunk, {row: [0] * length for row in rows}, [(row, index) for row in rows for index in range(length)]
    )
    assert hidden is not None
    mx.eval(mx.argmax(model.head(hidden), axis=-1), cache.state)
    elapsed = time.perf_counter() - begun
    cache.settle(dict.fromkeys(rows, 0) if can_take_back else {})
    return elapsed


def _read(file: Path) -> tuple[int, dict[int, float]]:
    """How many times it was measured, and the seconds by length; (0, {}) where nothing useful is there."""
    try:
        held = json.loads(file.read_text())
        seconds = {int(length): float(value) for length, value in held["seconds"].items()}
        num_times = int(held["times"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return 0, {}
    return (num_times, seconds) if seconds.keys() >= set(NEEDED_LENGTHS) and min(seconds.values()) > 0 else (0, {})


def _write(file: Path, num_times: int, seconds: dict[int, float]) -> None:
    """A folder that cannot be written to only means measuring again."""
    with contextlib.suppress(OSError):
        write_whole(file, json.dumps({"times": num_times, "seconds": seconds}))

"""Memory that contenders take over the same records: on the device above the weights, and in the process."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fillengine.bench.contenders import Contender, Setting
from fillengine.bench.records import Record

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)


def measure_memory(
    setting: Setting,
    makers: Sequence[Callable[[], Contender]],
    records: Sequence[Record],
    *,
    weights: int,
    report: Callable[[str, int], None] = lambda setting, number: None,
) -> list[dict[str, Any]]:
    """One row for each contender, each made for it alone. Bytes.

    weights        of the model, which all share
    peak           on the device at any time of the run; above it: without the weights
    kept           on the device after the run (prefix caches)
    process        what the process's resident memory grew by, masks and automata included
    """
    rows = []
    for number, make in enumerate(makers):
        report(setting.name, number)
        gc.collect()
        mx.clear_cache()
        before = resident_bytes()
        contender = make()
        mx.reset_peak_memory()
        for start in range(0, len(records), setting.num_records):
            contender.run(list(enumerate(records))[start : start + setting.num_records])
        peak = mx.get_peak_memory()
        mx.synchronize()
        rows.append(
            {
                "setting": setting.name,
                "contender": contender.name,
                "records": len(records),
                "weights": weights,
                "peak": peak,
                "peak_above_weights": peak - weights,
                "kept_above_weights": mx.get_active_memory() - weights,
                "process": resident_bytes() - before,
            }
        )
        del contender
    return rows


def resident_bytes() -> int:
    """Of this process now; where there is no /proc, the most that it ever was."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

"""Measuring which BLAS, and how many threads, suit this machine.

Each library runs a float32 transformer (SmolLM2's widths, twelve layers: more than a processor's cache holds)
in a process of its own, with one thread and with all, for passes of 1 to 128 rows. The best is kept in the
cache folder, where `preload` finds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from fillengine.errors import ModelError
from fillengine.generation import blas
from fillengine.generation.store import write_whole

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
FEW_ROWS = 16
"""Decode rounds have at most about this many rows; libraries are compared by these."""

_PROBE_SECONDS = 120


def measure() -> dict[str, Any]:
    """Measure all libraries found (ten to twenty seconds each), keep the result and return it.

    {"name": the best library, "threads_from": rows, "cores": int, "seconds": {name: {"one": [...],
    "all": [...]}}} with one entry for each of ROWS. Used from the next process on. Raises ModelError where
    there is nothing to choose from.
    """
    seconds = {name: probed for name in blas.LIBRARIES if (probed := _probe(name)) is not None}
    if not seconds:
        raise ModelError(
            "there is no BLAS to measure: MLX needs none here, or none is installed; see `fillengine doctor`"
        )
    name = min(seconds, key=lambda name: _few_row_seconds(seconds[name]))
    result = {
        "name": name,
        "threads_from": _threads_from(seconds[name]),
        "cores": blas.num_cores(),
        "rows": list(ROWS),
        "seconds": seconds,
    }
    file = blas.measurement_file()
    try:
        write_whole(file, json.dumps(result) + "\n")
    except OSError as error:
        raise ModelError(
            f"{file} cannot be written ({error.strerror}); free some space or set FILLENGINE_CACHE to another folder"
        ) from error
    return result


def _probe(name: str) -> dict[str, list[float]] | None:
    """The timings of one library, None where it is not there."""
    environment = {**os.environ, "FILLENGINE_BLAS": name}
    command = [sys.executable, "-c", f"from {__name__} import report; report()"]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
        )
        return json.loads(done.stdout)  # type: ignore[no-any-return]
    except (subprocess.SubprocessError, ValueError):
        return None


def _few_row_seconds(timings: dict[str, list[float]]) -> float:
    """Seconds per row, summed over the row counts of decode rounds."""
    return sum(
        min(one, many) / rows
        for rows, one, many in zip(ROWS, timings["one"], timings["all"], strict=True)
        if rows <= FEW_ROWS
    )


def _threads_from(timings: dict[str, list[float]]) -> int:
    """The fewest rows from which on all threads are faster at every measured number of rows."""
    start = 2 * ROWS[-1]
    for rows, one, many in reversed(list(zip(ROWS, timings["one"], timings["all"], strict=True))):
        if many >= one:
            break
        start = rows
    return start


def report() -> None:
    """In the child process: time the probe model and write the timings to stdout as JSON."""
    choice = blas.preload()
    if choice.state is not blas.BlasState.LOADED:
        sys.exit(f"no such BLAS: {choice.remedy}")
    step = _probe_step()
    timings = {}
    for label, threads in (("one", 1), ("all", blas.num_cores())):
        blas._set_threads(threads)
        timings[label] = [_best(step, rows) for rows in ROWS]
    sys.stdout.write(json.dumps(timings))


def _best(step: Any, rows: int) -> float:
    """The least of three times, in seconds: what else the machine does only ever adds."""
    step(rows)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        step(rows)
        best = min(best, time.perf_counter() - start)
    return best


def _probe_step() -> Any:
    import mlx.core as mx
    from mlx_lm.models import llama
    from mlx_lm.models.cache import make_prompt_cache

    from fillengine.generation.dense import to_float32

    mx.set_default_device(mx.cpu)
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=576,
        num_hidden_layers=12,
        intermediate_size=1536,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        vocab_size=16384,
    )
    model = llama.Model(arguments)
    to_float32(model)
    cache = make_prompt_cache(model)
    mx.eval(model(mx.zeros((1, 64), dtype=mx.int32), cache=cache))

    def step(rows: int) -> None:
        mx.eval(model(mx.zeros((1, rows), dtype=mx.int32), cache=cache))
        for layer in cache:
            layer.trim(rows)

    return step

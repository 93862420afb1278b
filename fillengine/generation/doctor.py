"""What fillengine runs on here, and what would make it faster. Data only; the command line renders it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fillengine.generation.blas import BlasState, num_cores, preload, read_measurement
from fillengine.generation.models import known_models
from fillengine.generation.store import cache_folder


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about this machine. `advice` says what would be better, None where all is well."""

    name: str
    value: str
    advice: str | None = None


def examine() -> list[Finding]:
    """All findings, most important first. Fetches and changes nothing, and never raises."""
    findings: list[Finding] = []
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("device", _device),
        ("BLAS", _blas),
        ("threads", _threads),
        ("mlx", _mlx),
        ("mlx-lm", _mlx_lm),
        ("python", _python),
        ("cache", _cache),
        *((known.name, lambda name=known.name: _model(name)) for known in known_models()),
    )
    for name, check in checks:
        try:
            findings.append(check())
        except Exception as error:  # a doctor that stops at the first ill is of no use
            findings.append(Finding(name, "cannot be examined", f"{type(error).__name__}: {error}"))
    return findings


def _device() -> Finding:
    import mlx.core as mx

    if mx.default_device().type != mx.cpu:
        kind = "Metal" if sys.platform == "darwin" else "CUDA"
        return Finding("device", f"GPU ({kind})")
    if sys.platform == "darwin":
        return Finding("device", "CPU", "MLX was told to use the CPU; Metal is several times faster")
    advice = None
    if Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi"):
        advice = "there is an NVIDIA GPU: `pip install 'fillengine[cuda]'` in a fresh environment uses it"
    return Finding("device", f"CPU ({platform.machine()}), float32 weights", advice)


def _blas() -> Finding:
    choice = preload()
    match choice.state:
        case BlasState.LOADED:
            return Finding("BLAS", f"{choice.name} ({choice.library})")
        case BlasState.UNNEEDED:
            return Finding("BLAS", "as MLX was built")
        case BlasState.FOREIGN:
            return Finding("BLAS", choice.state.value)
    value = f"MLX's own reference BLAS, 7 to 30 times slower ({choice.state.value})"
    return Finding("BLAS", value, choice.remedy)


def _threads() -> Finding:
    cores = num_cores()
    choice = preload()
    if choice.state is not BlasState.LOADED:
        return Finding("threads", f"{cores} cores")
    value = f"{cores} cores for passes of {choice.threads_from} rows or more, one for smaller passes"
    if read_measurement():
        return Finding("threads", f"{value} (measured)")
    advice = "not measured here: `fillengine doctor --measure` finds what suits this machine"
    return Finding("threads", value, advice)


def _mlx() -> Finding:
    return Finding("mlx", importlib.metadata.version("mlx"))


def _mlx_lm() -> Finding:
    return Finding("mlx-lm", importlib.metadata.version("mlx-lm"))


def _python() -> Finding:
    return Finding("python", f"{platform.python_version()} ({sys.executable})")


def _cache() -> Finding:
    folder = cache_folder()
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        advice = f"{nearest} cannot be written; set FILLENGINE_CACHE to another folder"
        return Finding("cache", str(folder), advice)
    free = shutil.disk_usage(nearest).free
    return Finding("cache", f"{folder} ({free / 1e9:.1f} GB free)")


def _model(name: str) -> Finding:
    known = next(known for known in known_models() if known.name == name)
    if known.folder is not None:
        return Finding(name, str(known.folder))
    advice = f"`fillengine models fetch {name}` fetches it ahead of the first use"
    return Finding(name, f"not fetched ({known.num_bytes / 1e6:.0f} MB)", advice)

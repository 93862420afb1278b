"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("fillengine", "mlx", "mlx-lm", "numpy", "llguidance", "outlines-core")


def machine() -> dict[str, Any]:
    """Device, cores, system, and versions of what takes part. Imports MLX."""
    from fillengine.generation.blas import preload

    blas = preload()

    import mlx.core as mx

    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "device": str(mx.default_device()),
        "device_name": str(mx.device_info().get("device_name")),
        "blas": blas.name or blas.state.value,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "versions": versions,
    }

"""Kernels of our own on CUDA, from their sources beside this file. MLX compiles them at their first call."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import Any

import mlx.core as mx


@functools.cache
def cuda_kernel(name: str, inputs: tuple[str, ...], *, copies_strided: bool) -> Any:
    """The kernel whose body is NAME.cu, with one output, `out`. Called as what `mx.fast.cuda_kernel` gives.

    copies_strided: inputs that are not contiguous are copied; otherwise the source reads their strides.
    """
    source = resources.files(__package__).joinpath(f"{name}.cu").read_text(encoding="utf-8")
    # MLX may know what it has compiled by the name alone.
    versioned = f"{name}_{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    return mx.fast.cuda_kernel(versioned, list(inputs), ["out"], source, ensure_row_contiguous=copies_strided)

"""Products of few rows with the quantized weights of a large model in one kernel, on CUDA.

MLX has two kernels there (0.32.4). One takes a single row, and is run for each of few; the other takes many, but of
one sequence alone, so that a batch reads all weights once for each of its rows. A pass that checks spans has some
tokens in each of some rows, and pays for both.
"""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from fillengine.generation.cuda_kernel import cuda_kernel

# What the kernel is written for.
BITS = (4, 8)
GROUP_SIZES = (32, 64, 128)
DTYPES = (mx.bfloat16, mx.float16)
# Rows (tokens of all sequences) from which the weights are better unpacked, once for all of them.
MANY_ROWS = 192
# Of a layer that is left to MLX: with less to read, the call of a kernel costs more than it saves.
FEW_NUMBERS = 1 << 22
# Rows of a block, at most: the kernel is compiled for each of these numbers.
ROWS = (8, 16, 32, 64)
# Columns of a block in 16ths, and its warps.
TILES = 2
WARPS = 8
# Numbers of a row that a warp takes at a time.
STEP = 128
# Largest difference from the product in float32, as a share of the largest number: rounding to half precision.
TOLERANCE = 1e-2


class FewRowsLinear(nn.QuantizedLinear):  # type: ignore[misc]
    """A quantized linear layer with a kernel of its own for few rows."""

    def __call__(self, x: mx.array) -> mx.array:
        found = _product(x, self)
        return found + self["bias"] if "bias" in self else found


class FewRowsEmbedding(nn.QuantizedEmbedding):  # type: ignore[misc]
    """A quantized embedding with a kernel of its own for its use as the output layer."""

    def as_linear(self, x: mx.array) -> mx.array:
        return _product(x, self)


_KINDS = {nn.QuantizedLinear: FewRowsLinear, nn.QuantizedEmbedding: FewRowsEmbedding}


def speed_up_few_rows(model: nn.Module) -> None:
    """Let the quantized linear and embedding layers of `model` use the kernel, in place, where it can be used.

    That is where it suits a layer, and is right on this device: tried once for each kind of weights.
    """
    for layer in model.modules():
        kind = _KINDS.get(type(layer))
        if kind is not None and _suits(layer) and _is_right(layer.bits, layer.group_size, layer.scales.dtype):
            # The same parameters under another class: nothing is copied.
            layer.__class__ = kind


def few_rows_product(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, *, bits: int, group_size: int
) -> mx.array:
    """x @ weights.T, for weights as `mx.quantize` packs them. Sums are float32.

    x [rows, size], of one of `DTYPES`; packed uint32[columns, size * bits / 32], scales and biases [columns, size /
    group size] of the same; columns a multiple of 16 * `TILES`, size one of `STEP`. Returns [rows, columns]. On CUDA
    only. A row's bits do not depend on what other rows there are.
    """
    num_rows, num_columns = x.shape[0], packed.shape[0]
    rows = next((rows for rows in ROWS if num_rows <= rows), ROWS[-1])
    kernel = cuda_kernel("few_rows", ("x", "packed", "scales", "biases"), copies_strided=True)
    (found,) = kernel(
        inputs=[x, packed, scales, biases],
        template=[
            ("T", x.dtype),
            ("BITS", bits),
            ("GROUP", group_size),
            ("EIGHTS", rows // 8),
            ("TILES", TILES),
            ("WARPS", WARPS),
        ],
        grid=(num_columns // (16 * TILES) * 32 * WARPS, -(-num_rows // rows), 1),
        threadgroup=(32 * WARPS, 1, 1),
        output_shapes=[(num_rows, num_columns)],
        output_dtypes=[x.dtype],
    )
    out: mx.array = found
    return out


def _product(x: mx.array, layer: Any) -> mx.array:
    """x [..., size] -> [..., columns], all rows of x in one product."""
    rows = x.reshape(-1, x.shape[-1])
    weights = (layer.weight, layer.scales, layer.biases)
    kind: dict[str, Any] = {"bits": layer.bits, "group_size": layer.group_size}
    if rows.shape[0] >= MANY_ROWS:
        found = rows @ mx.dequantize(*weights, **kind).T
    elif rows.shape[0] == 1 or x.dtype != layer.scales.dtype:
        # One row is what MLX's kernel is for.
        found = mx.quantized_matmul(rows, *weights, **kind)
    else:
        found = few_rows_product(rows, *weights, **kind)
    return found.reshape(*x.shape[:-1], found.shape[-1])


def _suits(layer: Any) -> bool:
    num_columns, size = layer.weight.shape[0], layer.scales.shape[-1] * layer.group_size
    return (
        layer.mode == "affine"
        and layer.bits in BITS
        and layer.group_size in GROUP_SIZES
        and layer.scales.dtype in DTYPES
        and num_columns % (16 * TILES) == 0
        and size % STEP == 0
        # Each warp has a step.
        and size >= STEP * WARPS
        and num_columns * size >= FEW_NUMBERS
    )


@functools.cache
def _is_right(bits: int, group_size: int, dtype: mx.Dtype) -> bool:
    """Whether the kernel does on this device what it should."""
    if not mx.cuda.is_available():
        return False
    size = STEP * (WARPS + 1)
    weights = mx.random.normal((64, size), key=mx.random.key(0)).astype(dtype)
    x = mx.random.normal((ROWS[-1], size), key=mx.random.key(1)).astype(dtype)
    kind: dict[str, Any] = {"bits": bits, "group_size": group_size}
    packed, scales, biases = mx.quantize(weights, **kind)
    wide = mx.dequantize(packed, scales.astype(mx.float32), biases.astype(mx.float32), **kind)
    expected = x.astype(mx.float32) @ wide.T
    most = TOLERANCE * mx.abs(expected).max()
    try:
        for num_rows in ROWS:
            found = few_rows_product(x[:num_rows], packed, scales, biases, **kind).astype(mx.float32)
            if not bool((mx.abs(found - expected[:num_rows]).max() <= most).item()):
                return False
    except Exception:  # whatever goes wrong says: not on this device
        return False
    return True

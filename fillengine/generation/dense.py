"""Float32 weights for a model on the CPU.

MLX's quantized product is slow on x86 (214 ms a decode step of SmolLM2-135M, where float32 through an
optimised BLAS takes about 50), and half-precision products are not done by BLAS at all. On Metal and CUDA
weights stay as they are.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map

from fillengine.generation.blas import preload


def to_float32(model: nn.Module) -> None:
    """Turn quantized linear and embedding layers and all half-precision parameters of `model` into float32.

    In place, and lazy: nothing is computed before the parameters are evaluated. Other quantized layers (the
    experts of a mixture) stay quantized, with float32 scales.
    """
    model.set_dtype(mx.float32)
    leaves = tree_map(_dense, model.leaf_modules(), is_leaf=nn.Module.is_module)
    model.update_modules(leaves)
    model.eval()


def float32_bytes(model: nn.Module) -> int:
    """How many bytes the parameters of `model` take after `to_float32`."""
    modules = tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module)
    return sum(_float32_bytes(module) for _, module in modules)


def _float32_bytes(module: nn.Module) -> int:
    arrays = dict(tree_flatten(module.parameters()))
    if isinstance(module, (nn.QuantizedLinear, nn.QuantizedEmbedding)):
        return int(arrays["weight"].size) * 32 // int(module.bits) * 4
    return sum(int(array.size) * 4 for array in arrays.values())


class PaddedLinear(nn.Linear):  # type: ignore[misc]
    """A linear layer that multiplies a single row as two equal ones.

    BLAS treats one row as a matrix-vector product and is slower at it than at two rows: in SmolLM2-135M one
    decode step takes 48.8 instead of 55 ms with MKL, and about half with BLIS. Other row counts are
    untouched. Results agree with `nn.Linear` to float32 rounding.
    """

    def __call__(self, x: mx.array) -> mx.array:
        product = _product(x, self["weight"])
        return product + self["bias"] if "bias" in self else product


class PaddedEmbedding(nn.Embedding):  # type: ignore[misc]
    """An embedding whose use as the output layer pads a single row like `PaddedLinear`."""

    def as_linear(self, x: mx.array) -> mx.array:
        return _product(x, self["weight"])


def _product(x: mx.array, weight: mx.array) -> mx.array:
    """x @ weight.T for x [..., in] and weight [out, in]."""
    if x.size != x.shape[-1]:
        return x @ weight.T
    row = x.reshape(1, -1)
    return (mx.concatenate([row, row]) @ weight.T)[:1].reshape(*x.shape[:-1], -1)


def _dense(layer: Any) -> Any:
    """The float32 layer for `layer`; the layer itself where it is neither linear nor an embedding."""
    pads = preload().pads_single_rows
    if type(layer) in (nn.Linear, nn.QuantizedLinear):
        linear = (PaddedLinear if pads else nn.Linear)(1, 1, bias="bias" in layer)
        linear.weight = _dequantized(layer) if type(layer) is nn.QuantizedLinear else layer.weight
        if "bias" in layer:
            linear.bias = layer.bias
        return linear
    if type(layer) in (nn.Embedding, nn.QuantizedEmbedding):
        embedding = (PaddedEmbedding if pads else nn.Embedding)(1, 1)
        embedding.weight = _dequantized(layer) if type(layer) is nn.QuantizedEmbedding else layer.weight
        return embedding
    return layer


def _dequantized(layer: Any) -> mx.array:
    return mx.dequantize(
        layer.weight,
        scales=layer.scales,
        biases=layer.get("biases"),
        group_size=layer.group_size,
        bits=layer.bits,
        mode=layer.mode,
    ).astype(mx.float32)

"""The models that are measured: a known one or a folder, in another number format, or a shape with random weights."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fillengine.errors import ModelError
from fillengine.generation.blas import require_optimised, use_threads
from fillengine.generation.dense import to_float32
from fillengine.generation.models import DEFAULT_MODEL, LoadedModel, load_model, model_folder

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)
import mlx.nn as nn  # isort: skip
from mlx.utils import tree_flatten  # isort: skip
from mlx_lm.models.llama import Model, ModelArgs  # isort: skip
from mlx_lm.utils import load_tokenizer  # isort: skip

Precision = Literal["bfloat16", "float16", "float32"]
DTYPES: dict[str, mx.Dtype] = {"bfloat16": mx.bfloat16, "float16": mx.float16, "float32": mx.float32}
GROUP_SIZE = 64


def _shape(**arguments: Any) -> ModelArgs:
    return ModelArgs(
        model_type="llama", rms_norm_eps=1e-5, tie_word_embeddings=False, max_position_embeddings=8192, **arguments
    )


SHAPES = {
    # Llama 3 8B (meta-llama/Meta-Llama-3-8B, config.json).
    "llama-8b": _shape(
        hidden_size=4096,
        num_hidden_layers=32,
        intermediate_size=14336,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        rope_theta=500000.0,
    ),
    # To try the commands.
    "tiny": _shape(
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=49280,
    ),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model, and in which numbers. None: as it is loaded.

    model          a known name, a folder, or a hub name; not with random_shape
    random_shape   a key of `SHAPES`: weights are random, the tokenizer is the default model's. For speed only.
    dtype          of the weights that are not quantized, and of activations
    dense          quantized layers are unpacked (on a CPU they are in any case)
    quantize       bits of the linear and embedding layers
    """

    model: str | None = None
    random_shape: str | None = None
    dtype: Precision | None = None
    dense: bool = False
    quantize: int | None = None

    @property
    def name(self) -> str:
        parts = [
            f"random {self.random_shape}" if self.random_shape else self.model or DEFAULT_MODEL,
            "dense" if self.dense else "",
            f"{self.quantize} bit" if self.quantize else "",
            self.dtype or "",
        ]
        return ", ".join(part for part in parts if part)


def load(choice: Choice) -> LoadedModel:
    """Raises ModelError."""
    if choice.random_shape is not None:
        if choice.model is not None:
            raise ModelError(f"a random shape is a model of its own; leave --model {choice.model} out")
        return random_model(choice.random_shape, dtype=choice.dtype, bits=choice.quantize)
    loaded = load_model(choice.model or DEFAULT_MODEL)
    if choice.dtype is None and choice.quantize is None and not choice.dense:
        return loaded
    # Costs that were measured for the folder's own numbers are not for these.
    changed = replace(loaded, name=choice.name, folder=None)
    if choice.dense:
        to_float32(loaded.model)
    if choice.dtype is not None:
        loaded.model.set_dtype(DTYPES[choice.dtype])
    if choice.quantize is not None:
        if is_quantized(loaded.model):
            raise ModelError(f"{loaded.name} is quantized already; leave --quantize out, or add --dense")
        nn.quantize(loaded.model, group_size=GROUP_SIZE, bits=choice.quantize)
    mx.eval(loaded.model.parameters())
    return changed


def tokenizer_of(model: str) -> Any:
    """mlx-lm's tokenizer of a known model or a folder. The weights are not read."""
    return load_tokenizer(model_folder(model))


def num_logits(model: Any) -> int:
    """Logits that a model gives; more than the tokenizer has where its vocabulary is padded."""
    return int(model(mx.array([[1]])).shape[-1])


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(layer, (nn.QuantizedLinear, nn.QuantizedEmbedding)) for _, layer in model.named_modules())


def random_model(
    shape: str, *, dtype: Precision | None = None, bits: int | None = None, tokenizer_folder: Path | None = None
) -> LoadedModel:
    """A llama of a known shape with random weights and the default model's tokenizer.

    Layers are initialised and quantized one by one, so that no more than one is held in full. On the CPU the result
    is float32 throughout, as for any model. Raises ModelError for a shape that is not known.
    """
    if shape not in SHAPES:
        raise ModelError(f"there is no shape {shape}; the shapes are {', '.join(SHAPES)}")
    arguments = SHAPES[shape]
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    if on_cpu:
        require_optimised()
        use_threads(1)
    mx.random.seed(0)
    # Nothing is computed yet: MLX is lazy, and a layer's weights are made when they are evaluated.
    model = Model(arguments)
    model.set_dtype(DTYPES[dtype or "bfloat16"])
    for part in _parts(model):
        if bits is not None:
            _quantize(part, bits)
        mx.eval(part.parameters())
        gc.collect()
        mx.clear_cache()
    if on_cpu and dtype is None:
        to_float32(model)
        mx.eval(model.parameters())
    model.eval()
    tokenizer = load_tokenizer(tokenizer_folder or model_folder(DEFAULT_MODEL))
    if len(tokenizer.vocab) > arguments.vocab_size:
        raise ModelError(f"the tokenizer has {len(tokenizer.vocab)} tokens, the shape {arguments.vocab_size}")
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=f"random {shape}",
        folder=None,
        context_length=arguments.max_position_embeddings,
        eos_ids=frozenset(tokenizer.eos_token_ids),
    )


def _parts(model: Model) -> Iterator[nn.Module]:
    """What is made at a time: each layer, then embedding, head and the rest."""
    yield from model.model.layers
    yield model


def _quantize(part: nn.Module, bits: int) -> None:
    nn.quantize(part, group_size=GROUP_SIZE, bits=bits)


def describe(loaded: LoadedModel) -> dict[str, Any]:
    """For the JSON file: parameters as held, their formats, and the bits of most quantized ones (None: none are)."""
    arrays = [value for _, value in tree_flatten(loaded.model.parameters())]
    formats: dict[str, int] = {}
    for array in arrays:
        formats[str(array.dtype).removeprefix("mlx.core.")] = (
            formats.get(str(array.dtype).removeprefix("mlx.core."), 0) + array.nbytes
        )
    bits: Counter[int] = Counter()
    for _, layer in loaded.model.named_modules():
        if isinstance(layer, (nn.QuantizedLinear, nn.QuantizedEmbedding)):
            bits[layer.bits] += layer.weight.nbytes
    return {
        "name": loaded.name,
        "bytes": sum(array.nbytes for array in arrays),
        "bytes_by_format": formats,
        "bits": max(bits, key=bits.__getitem__, default=None),
    }

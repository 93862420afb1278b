"""The kernel for products of few rows on CUDA: its source run on the host, and which layers have it."""

from __future__ import annotations

import tiny  # noqa: F401  # isort: skip (an optimised BLAS, before mlx is imported)

import host_kernels
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fillengine.generation import few_rows
from fillengine.generation.few_rows import (
    BITS,
    MANY_ROWS,
    STEP,
    FewRowsEmbedding,
    FewRowsLinear,
    few_rows_product,
    speed_up_few_rows,
)


def quantized(rng, num_columns, size, dtype, *, bits, group_size):
    """Weights as MLX packs them: (packed, scales, biases)."""
    weights = mx.array(rng.standard_normal((num_columns, size)).astype(np.float32)).astype(dtype)
    return mx.quantize(weights, bits=bits, group_size=group_size)


def as_float32(array):
    return np.array(array.astype(mx.float32))


def rows_of(rng, num_rows, size, dtype):
    return mx.array(rng.standard_normal((num_rows, size)).astype(np.float32)).astype(dtype)


def brute_force(x, parts, *, bits, group_size):
    """In float64; a weight is rounded to half precision once (MLX may round on the way)."""
    packed, scales, biases = parts
    weights = mx.dequantize(
        packed, scales.astype(mx.float32), biases.astype(mx.float32), bits=bits, group_size=group_size
    )
    return as_float32(x).astype(np.float64) @ as_float32(weights.astype(x.dtype)).astype(np.float64).T


def assert_close(found, expected):
    """Sums are float32; a result is rounded to half precision once."""
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())


# The kernel's source.

KINDS = [
    {"T": "bfloat16", "BITS": 4, "GROUP": 64, "EIGHTS": 2, "TILES": 2, "WARPS": 4},
    {"T": "bfloat16", "BITS": 8, "GROUP": 32, "EIGHTS": 1, "TILES": 1, "WARPS": 2},
    {"T": "__half", "BITS": 4, "GROUP": 32, "EIGHTS": 1, "TILES": 2, "WARPS": 2},
    {"T": "__half", "BITS": 8, "GROUP": 128, "EIGHTS": 1, "TILES": 1, "WARPS": 4},
]


@pytest.fixture(scope="session", params=KINDS, ids="{0[T]}, {0[BITS]} bits".format)
def program(request, tmp_path_factory):
    return host_kernels.build("few_rows", tmp_path_factory.mktemp("kernel"), **request.param), request.param


def on_the_host(program, x, parts):
    built, _ = program
    packed, scales, biases = parts
    sizes = [x.shape[0], packed.shape[0], x.shape[1]]
    found = host_kernels.run(built, sizes, [np.array(packed), *map(as_float32, (scales, biases, x))])
    return found.reshape(x.shape[0], packed.shape[0])


def numbers_for(constants):
    dtype = mx.bfloat16 if constants["T"] == "bfloat16" else mx.float16
    return dtype, {"bits": constants["BITS"], "group_size": constants["GROUP"]}


@settings(deadline=None, max_examples=8)
@given(
    num_rows=st.integers(1, 20),
    num_blocks=st.integers(1, 2),
    num_steps=st.integers(1, 9),
    seed=st.integers(0, 99),
)
@example(num_rows=1, num_blocks=1, num_steps=1, seed=0)  # all warps but one have nothing to add
@example(num_rows=1, num_blocks=1, num_steps=2, seed=87)  # MLX's own weights, rounded twice, are further off
@example(num_rows=17, num_blocks=1, num_steps=5, seed=1)  # a second block of rows has one
def test_it_is_the_product_with_the_numbers_that_the_weights_stand_for(program, num_rows, num_blocks, num_steps, seed):
    _, constants = program
    dtype, kind = numbers_for(constants)
    rng = np.random.default_rng(seed)
    size = num_steps * STEP
    parts = quantized(rng, 16 * constants["TILES"] * num_blocks, size, dtype, **kind)
    x = rows_of(rng, num_rows, size, dtype)
    assert_close(on_the_host(program, x, parts), brute_force(x, parts, **kind))


def test_a_row_has_the_same_bits_alone_and_with_others(program):
    _, constants = program
    dtype, kind = numbers_for(constants)
    rng = np.random.default_rng(3)
    parts = quantized(rng, 32, 640, dtype, **kind)
    x = rows_of(rng, 13, 640, dtype)
    together = on_the_host(program, x, parts)
    for row in (0, 7, 12):
        np.testing.assert_array_equal(on_the_host(program, x[row : row + 1], parts)[0], together[row])


# Which layers have it.


@pytest.fixture
def product(monkeypatch):
    """Stands in for the kernel where there is no CUDA; the shapes that it was called with."""
    calls = []

    def product(x, packed, scales, biases, *, bits, group_size):
        calls.append(x.shape)
        return mx.array(brute_force(x, (packed, scales, biases), bits=bits, group_size=group_size)).astype(x.dtype)

    monkeypatch.setattr(few_rows, "few_rows_product", product)
    monkeypatch.setattr(few_rows, "_is_right", lambda *kind: True)
    # Small layers are enough here.
    monkeypatch.setattr(few_rows, "FEW_NUMBERS", 0)
    return calls


class Layers(nn.Module):
    """A projection with a bias, and an embedding that is the output layer too."""

    def __init__(self, size, num_columns):
        super().__init__()
        self.embedding = nn.Embedding(96, size)
        self.up = nn.Linear(size, num_columns, bias=True)

    def __call__(self, ids):
        return self.embedding.as_linear(self.up(self.embedding(ids)))


def layers(*, bits=4, group_size=32, dtype=mx.bfloat16, size=1024, num_columns=1024):
    mx.random.seed(0)
    model = Layers(size, num_columns)
    model.set_dtype(dtype)
    nn.quantize(model, bits=bits, group_size=group_size)
    return model


def said(model, ids):
    """What the layers say, but for the rounding of what is between them. (MLX's own product on a CPU has sums of half
    precision, and is off by percents.)
    """
    kind = {"bits": model.up.bits, "group_size": model.up.group_size}
    weights = [[layer.weight, layer.scales, layer.biases] for layer in (model.up, model.embedding)]
    x = model.embedding(ids).reshape(-1, 1024)
    inner = brute_force(x, weights[0], **kind) + as_float32(model.up.bias)
    found = brute_force(mx.array(inner.astype(np.float32)).astype(x.dtype), weights[1], **kind)
    return found.reshape(*ids.shape, -1)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", few_rows.DTYPES)
def test_layers_say_the_same_with_it(product, bits, dtype):
    model = layers(bits=bits, dtype=dtype)
    ids = mx.array([[1, 2, 3], [4, 5, 95]])
    speed_up_few_rows(model)
    assert (type(model.up), type(model.embedding)) == (FewRowsLinear, FewRowsEmbedding)
    assert_close(as_float32(model(ids)), said(model, ids))
    # All tokens of all rows are multiplied together.
    assert product == [(6, 1024), (6, 1024)]


def test_one_row_is_left_to_mlx(product):
    model = layers()
    expected = as_float32(model(mx.array([[7]])))
    speed_up_few_rows(model)
    np.testing.assert_array_equal(as_float32(model(mx.array([[7]]))), expected)
    assert product == []


def test_for_many_rows_weights_are_unpacked(product):
    model = layers()
    speed_up_few_rows(model)
    ids = mx.arange(2 * MANY_ROWS).reshape(2, MANY_ROWS) % 96
    assert_close(as_float32(model(ids)), said(model, ids))
    assert product == []


@pytest.mark.parametrize(
    "kind", [{"bits": 6}, {"dtype": mx.float32}, {"num_columns": 1032}, {"size": 1056}, {"size": 896}], ids=str
)
def test_layers_that_it_is_not_written_for_stay_as_they_are(product, kind):
    model = layers(**kind)
    speed_up_few_rows(model)
    assert type(model.up) is nn.QuantizedLinear


def test_small_layers_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(few_rows, "_is_right", lambda *kind: True)
    model = layers()
    speed_up_few_rows(model)
    assert type(model.up) is nn.QuantizedLinear


@pytest.mark.parametrize(
    ("fault", "kind"), [(None, FewRowsLinear), ("wrong", nn.QuantizedLinear), ("raises", nn.QuantizedLinear)]
)
def test_a_device_on_which_it_is_wrong_or_fails_goes_without(monkeypatch, fault, kind):
    def product(x, packed, scales, biases, *, bits, group_size):
        if fault == "raises":
            raise RuntimeError("it does not compile for this device")
        found = brute_force(x, (packed, scales, biases), bits=bits, group_size=group_size)
        return mx.array(found if fault is None else 1.05 * found).astype(x.dtype)

    monkeypatch.setattr(few_rows, "few_rows_product", product)
    monkeypatch.setattr(few_rows, "FEW_NUMBERS", 0)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    few_rows._is_right.cache_clear()
    try:
        model = layers()
        speed_up_few_rows(model)
    finally:
        few_rows._is_right.cache_clear()
    assert type(model.up) is kind


@pytest.mark.skipif(mx.cuda.is_available(), reason="there is CUDA here")
def test_without_cuda_layers_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(few_rows, "FEW_NUMBERS", 0)
    model = layers()
    speed_up_few_rows(model)
    assert type(model.up) is nn.QuantizedLinear


@pytest.mark.skipif(not mx.cuda.is_available(), reason="there is no CUDA here")
@pytest.mark.parametrize(
    ("dtype", "bits", "group_size", "size"),
    [
        (mx.bfloat16, 4, 32, 1152),
        (mx.bfloat16, 4, 64, 1024),
        (mx.bfloat16, 8, 32, 1152),
        (mx.float16, 4, 128, 1024),
        (mx.float16, 8, 64, 1024),
    ],
)
def test_on_cuda_it_is_brute_force(dtype, bits, group_size, size):
    rng = np.random.default_rng(0)
    kind = {"bits": bits, "group_size": group_size}
    parts = quantized(rng, 96, size, dtype, **kind)
    x = rows_of(rng, 100, size, dtype)
    expected = brute_force(x, parts, **kind)
    all_rows = few_rows_product(x, *parts, **kind)
    assert_close(as_float32(all_rows), expected)
    for num_rows in (1, 9, 32):
        found = few_rows_product(x[:num_rows], *parts, **kind)
        np.testing.assert_array_equal(as_float32(found), as_float32(all_rows[:num_rows]))

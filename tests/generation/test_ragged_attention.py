"""The attention kernel for CUDA: its source run on the host, what it is given, and what is left to MLX."""

from __future__ import annotations

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import host_kernels
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fillengine.generation import ragged_attention, traced
from fillengine.generation.attention import AttentionCache
from fillengine.generation.cache import RaggedCache
from fillengine.generation.layout import Shapes
from fillengine.generation.ragged_attention import HEAD_SIZES, MAX_TOKENS, FusedCache
from fillengine.generation.traced import TracedTrunk

FUSED = Shapes(rounds_up=True, fuses=True, width_step=16)
# Of a number in bfloat16, half the distance to the next: 2^-9 of it, and weights are rounded too.
CLOSE = 2e-2


def brute_force(queries, keys, values, offsets, scale):
    """queries [rows, heads, tokens, n], keys and values [rows, kv heads, slots, n], in float64."""
    queries, keys, values = (array.astype(np.float64) for array in (queries, keys, values))
    ratio = queries.shape[1] // keys.shape[1]
    keys, values = np.repeat(keys, ratio, axis=1), np.repeat(values, ratio, axis=1)
    scores = np.einsum("rhtd,rhsd->rhts", queries, keys) * scale
    last = offsets[:, None] + np.arange(queries.shape[2])
    scores = np.where(np.arange(keys.shape[2]) <= last[:, None, :, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("rhts,rhsd->rhtd", weights, np.where(np.isfinite(values), values, 0))


def in_precision(array, dtype):
    """float32 numbers that `dtype` has."""
    return np.array(mx.array(array.astype(np.float32)).astype(dtype).astype(mx.float32))


# The kernel's source.


@pytest.fixture(scope="session", params=[("bfloat16", 64, 4), ("__half", 128, 2)], ids=str)
def program(request, tmp_path_factory):
    number, size, warps = request.param
    built = host_kernels.build("ragged_attention", tmp_path_factory.mktemp("kernel"), T=number, D=size, WARPS=warps)
    return built, mx.bfloat16 if number == "bfloat16" else mx.float16, size


def on_the_host(program, queries, keys, values, offsets, scale):
    rows, heads, tokens, size = queries.shape
    sizes = [rows, heads, keys.shape[1], tokens, keys.shape[2], scale]
    floats = [array.astype("<f4") for array in (queries.transpose(0, 2, 1, 3), keys, values)]
    found = host_kernels.run(program, sizes, [*floats, offsets.astype("<i4")])
    return found.reshape(rows, tokens, heads, size).transpose(0, 2, 1, 3)


@settings(deadline=None, max_examples=12)
@given(
    num_rows=st.integers(1, 2),
    heads=st.sampled_from([(1, 1), (3, 1), (4, 2), (9, 3)]),
    num_tokens=st.integers(1, 9),
    num_held=st.integers(0, 150),
    spread=st.sampled_from([1.0, 6.0]),
    seed=st.integers(0, 99),
)
@example(num_rows=1, heads=(1, 1), num_tokens=1, num_held=0, spread=1.0, seed=0)  # one slot: nothing to weigh
@example(num_rows=1, heads=(17, 1), num_tokens=1, num_held=40, spread=1.0, seed=1)  # the second block has one query
def test_each_query_sees_its_row_up_to_itself_and_nothing_behind(
    program, num_rows, heads, num_tokens, num_held, spread, seed
):
    built, dtype, size = program
    rng = np.random.default_rng(seed)
    offsets = rng.integers(0, num_held + 1, num_rows)
    num_slots = num_held + num_tokens + int(rng.integers(0, 20))
    queries = in_precision(spread * rng.standard_normal((num_rows, heads[0], num_tokens, size)), dtype)
    keys, values = in_precision(rng.standard_normal((2, num_rows, heads[1], num_slots, size)), dtype)
    for row, offset in enumerate(offsets):
        # A slot that no query sees may hold anything.
        keys[row, :, offset + num_tokens :] = values[row, :, offset + num_tokens :] = np.nan
    found = on_the_host(built, queries, keys, values, offsets, size**-0.5)
    expected = brute_force(queries, np.nan_to_num(keys), values, offsets, size**-0.5)
    np.testing.assert_allclose(found, expected, atol=CLOSE)


def test_a_query_has_the_same_bits_alone_and_with_others(program):
    built, dtype, size = program
    rng = np.random.default_rng(5)
    queries = in_precision(rng.standard_normal((2, 6, 8, size)), dtype)
    keys, values = in_precision(rng.standard_normal((2, 2, 2, 90, size)), dtype)
    offsets = np.array([80, 17])
    together = on_the_host(built, queries, keys, values, offsets, size**-0.5)
    alone = on_the_host(built, queries[1:, :, 3:4], keys[1:], values[1:], offsets[1:] + 3, size**-0.5)
    np.testing.assert_array_equal(alone[0, :, 0], together[1, :, 3])


# What it is given.


class Kernel:
    """Stands in for the kernel where there is no CUDA, and counts."""

    def __init__(self):
        self.num_calls = 0

    def __call__(self, queries, keys, values, offsets, scale):
        self.num_calls += 1
        slots = mx.arange(keys.shape[2])
        last = offsets[:, None] + mx.arange(queries.shape[2])
        mask = slots <= last[:, None, :, None]
        return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(ragged_attention, "ragged_attention", kernel)
    return kernel


def half_llama(head_dim=64):
    model = tiny.tiny_llama(head_dim=head_dim)
    model.set_dtype(mx.bfloat16)
    mx.eval(model.parameters())
    return model


@pytest.fixture(scope="module")
def model():
    return half_llama()


@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("from_first", [False, True])
def test_ragged_rounds_say_what_they_say_with_mlx_attention(kernel, model, monkeypatch, num_rows, from_first):
    if from_first:
        monkeypatch.setattr(traced, "TRACED_FROM", 1)
    plain = RaggedCache.for_model(model, num_rows, Shapes(rounds_up=True, width_step=16))
    expected = tiny.ragged_rounds(model.model, plain)
    assert kernel.num_calls == 0
    cache = RaggedCache.for_model(model, num_rows, FUSED)
    num_probed = kernel.num_calls
    found = tiny.ragged_rounds(TracedTrunk(model.model), cache)
    assert kernel.num_calls > num_probed
    assert {type(layer) for layer in cache.layers} == {FusedCache}
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.1)


def test_prompts_and_a_single_query_that_sees_all_are_left_to_mlx(kernel, model):
    cache = RaggedCache.for_model(model, 1, FUSED)
    num_calls = kernel.num_calls
    for feed in ([1] * (MAX_TOKENS + 1), [2]):
        cache.feed(model.model, {0: feed})
        cache.settle({})
    assert kernel.num_calls == num_calls
    cache.feed(model.model, {0: [3, 4]})
    assert kernel.num_calls == num_calls + len(cache.layers)


def test_other_masks_and_other_keys_than_the_layers_own_are_left_to_mlx(kernel, model):
    cache = RaggedCache.for_model(model, 2, FUSED)
    cache.layout.begin([2, 3], 3)
    layer = cache.layers[0]
    keys = mx.random.normal((2, 2, 3, 64)).astype(mx.bfloat16)
    queries = mx.random.normal((2, 4, 3, 64)).astype(mx.bfloat16)
    held, values = layer.update_and_fetch(keys, keys)
    mask = layer.make_mask(3)
    num_calls = kernel.num_calls
    layer.attend(queries, held, values, 0.125, mask=mask)
    assert kernel.num_calls == num_calls + 1
    own = layer.attend(queries, held, values, 0.125, mask=mask & mx.array(True))
    layer.attend(queries, held[:], values, 0.125, mask=mask)
    layer.attend(queries, held, values, 0.125, mask=None)
    layer.attend(queries, held, values, 0.125, mask=mask, sinks=mx.zeros((4,), mx.bfloat16))
    assert kernel.num_calls == num_calls + 1
    assert own.shape == queries.shape


@pytest.mark.parametrize("size", [48, 256])
def test_heads_of_other_sizes_are_left_to_mlx(kernel, size):
    assert size not in HEAD_SIZES
    model = half_llama(size)
    tiny.ragged_rounds(model.model, RaggedCache.for_model(model, 2, FUSED), num_rounds=2)
    assert kernel.num_calls == 0


@pytest.mark.parametrize("fault", ["wrong", "raises"])
def test_a_model_goes_without_a_kernel_that_is_wrong_or_fails(model, monkeypatch, fault):
    def faulty(queries, keys, values, offsets, scale):
        if fault == "raises":
            raise RuntimeError("it does not compile for this device")
        return queries

    monkeypatch.setattr(ragged_attention, "ragged_attention", faulty)
    cache = RaggedCache.for_model(model, 2, FUSED)
    assert {type(layer) for layer in cache.layers} == {AttentionCache}
    assert cache.mode == "batched"


def test_with_the_kernel_a_graph_serves_all_lengths_that_have_the_same_room(kernel, model, monkeypatch):
    monkeypatch.setattr(traced, "TRACED_FROM", 1)
    found = {}
    for shapes in (FUSED, Shapes(rounds_up=True, width_step=16)):
        cache = RaggedCache.for_model(model, 2, shapes)
        trunk = TracedTrunk(model.model)
        for _ in range(40):
            cache.feed(trunk, {0: [1, 2], 1: [3]})
            cache.settle({})
        found[shapes] = len(trunk._seen)
    # The first pass finds no keys, and is not counted.
    assert found.pop(FUSED) == 1
    assert min(found.values()) > 1


@pytest.mark.skipif(not mx.cuda.is_available(), reason="there is no CUDA here")
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
@pytest.mark.parametrize("size", HEAD_SIZES)
@pytest.mark.parametrize("shape", [(1, 4, 4, 1), (3, 9, 3, 7), (32, 8, 1, 16)])
def test_on_cuda_it_is_brute_force(dtype, size, shape):
    num_rows, num_heads, num_kv_heads, num_tokens = shape
    rng = np.random.default_rng(0)
    queries = in_precision(rng.standard_normal((num_rows, num_heads, num_tokens, size)), dtype)
    keys, values = in_precision(rng.standard_normal((2, num_rows, num_kv_heads, 256, size)), dtype)
    offsets = rng.integers(0, 257 - num_tokens, num_rows)
    given = [mx.array(array).astype(dtype) for array in (queries, keys, values)]
    found = ragged_attention.ragged_attention(*given, mx.array(offsets.astype(np.int32)), size**-0.5)
    expected = brute_force(queries, keys, values, offsets, size**-0.5)
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), expected, atol=CLOSE)

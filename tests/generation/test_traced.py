"""A traced trunk is the trunk: the same numbers, from a graph that is built once for each shape."""

from __future__ import annotations

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
import pytest

from fillengine.generation import traced
from fillengine.generation.cache import RaggedCache
from fillengine.generation.layout import Shapes
from fillengine.generation.traced import MAX_TRACED, TRACED_FROM, TracedTrunk

ROUNDED = Shapes(rounds_up=True, width_step=16)


class Counted:
    """A trunk that counts how often Python ran it."""

    def __init__(self, trunk):
        self.trunk = trunk
        self.num_runs = 0

    def __call__(self, ids, cache=None):
        self.num_runs += 1
        return self.trunk(ids, cache=cache)


@pytest.fixture
def at_once(monkeypatch):
    """Graphs are kept from the first pass on."""
    monkeypatch.setattr(traced, "TRACED_FROM", 1)


@pytest.fixture(scope="module")
def model():
    return tiny.tiny_llama()


def cache_of(model, num_rows, shapes=ROUNDED):
    return RaggedCache.for_model(model, num_rows, shapes)


@pytest.mark.parametrize("num_rows", [1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_says_what_the_trunk_says_in_ragged_rounds_with_rollbacks(at_once, model, num_rows, seed):
    expected = tiny.ragged_rounds(model.model, cache_of(model, num_rows), seed)
    found = tiny.ragged_rounds(TracedTrunk(model.model), cache_of(model, num_rows), seed)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_a_shape_that_comes_often_builds_no_graph_any_more(model):
    counted = Counted(model.model)
    trunk, cache = TracedTrunk(counted), cache_of(model, 2)
    for _ in range(TRACED_FROM + 10):
        cache.feed(trunk, {0: [1, 2], 1: [3]})
        cache.settle({0: 0, 1: 0})
    # The first pass finds no keys to write behind and is not counted; the last run of the trunk is that which traces.
    assert counted.num_runs == 1 + TRACED_FROM


def test_few_shapes_are_known_at_a_time(model, monkeypatch):
    monkeypatch.setattr(traced, "MAX_SHAPES", 3)
    trunk, cache = TracedTrunk(model.model), cache_of(model, 1)
    for length in (1, 2, 3, 5, 9, 17, 33):
        cache.feed(trunk, {0: [1] * length})
        cache.settle({})
        assert len(trunk._seen) <= 3


@pytest.mark.parametrize("length", [1, MAX_TRACED + 1])
def test_passes_of_one_token_and_those_of_prompts_are_left_alone(at_once, model, length):
    counted = Counted(model.model)
    trunk, cache = TracedTrunk(counted), cache_of(model, 1)
    for _ in range(3):
        cache.feed(trunk, {0: [1] * length})
        cache.settle({})
    assert counted.num_runs == 3


def test_where_shapes_are_not_rounded_nothing_is_traced(at_once, model):
    counted = Counted(model.model)
    trunk, cache = TracedTrunk(counted), cache_of(model, 1, Shapes())
    for _ in range(3):
        cache.feed(trunk, {0: [1, 2]})
        cache.settle({})
    assert counted.num_runs == 3


def test_a_trunk_that_looks_at_its_numbers_is_run_as_it_is(at_once, model):
    def curious(ids, cache=None):
        hidden = model.model(ids, cache=cache)
        hidden.sum().item()
        return hidden

    expected = tiny.ragged_rounds(model.model, cache_of(model, 2), 3)
    found = tiny.ragged_rounds(TracedTrunk(curious), cache_of(model, 2), 3)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_an_interruption_while_tracing_leaves_the_cache_as_it_was(at_once, model):
    def interrupted(ids, cache=None):
        if isinstance(cache[0].layout.start, type(None)):
            raise KeyboardInterrupt
        return model.model(ids, cache=cache)

    cache = cache_of(model, 1)
    trunk = TracedTrunk(interrupted)
    cache.feed(trunk, {0: [1, 2, 3]})
    cache.settle({})
    held = [np.array(array) for array in cache.state]
    with pytest.raises(KeyboardInterrupt):
        cache.feed(trunk, {0: [4, 5]})
    for ours, theirs in zip(cache.state, held, strict=True):
        np.testing.assert_array_equal(np.array(ours), theirs)


def test_keys_and_values_are_written_in_place(at_once, model):
    cache = cache_of(model, 8)
    cache.layout.lengths[:] = np.arange(4_000, 4_008)
    trunk = TracedTrunk(model.model)
    for _ in range(3):
        hidden = cache.feed(trunk, {row: [1, 2] for row in range(8)}, [(0, 0)])
        mx.eval(hidden, cache.state)
        cache.settle({})
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    hidden = cache.feed(trunk, {row: [1, 2] for row in range(8)}, [(0, 0)])
    mx.eval(hidden, cache.state)
    assert mx.get_peak_memory() - before < cache.layers[0].nbytes / 2

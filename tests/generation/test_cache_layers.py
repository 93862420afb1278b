"""Kinds of layers: windows, recurrent states, readers of other layers' keys, and what only mlx-lm knows."""

from __future__ import annotations

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import RotatingKVCache

from fillengine.generation.attention import AttentionCache
from fillengine.generation.cache import MAX_REPLAY, RaggedCache
from fillengine.generation.layout import Shapes
from fillengine.generation.quantized import Storage
from fillengine.generation.recurrent import RecurrentCache

SHORT = Shapes(max_length=5, max_rollback=4)
ROUNDED = Shapes(rounds_up=True, width_step=16, max_length=8, max_rollback=8)
TOKENS = st.integers(0, tiny_models.VOCABULARY - 1)
CLOSE = 2e-3


def rows_of(name, num_rows, shapes=SHORT, **options):
    model = tiny_models.model_named(name)
    return tiny_models.Rows(model, RaggedCache.for_model(model, 1, shapes, **options).empty_like(num_rows))


def random_tokens(num_tokens, seed=0):
    return np.random.default_rng(seed).integers(0, tiny_models.VOCABULARY, num_tokens).tolist()


def assert_goes_on_like_mlx_lm(rows, row, tokens=(3, 1, 4)):
    before = list(rows.kept[row])
    found = rows.round({row: list(tokens)})[row]
    expected = tiny_models.plain_logits(rows.model, before + list(tokens))[len(before) :]
    np.testing.assert_allclose(found, expected, atol=CLOSE)


@pytest.mark.parametrize("name", ["gemma3_text", "gpt_oss", "mamba2", "mamba", "qwen3_next", "falcon_h1", "lfm2"])
@settings(deadline=None, max_examples=4)
@given(st.data())
def test_whatever_was_rejected_a_row_goes_on_from_what_it_kept(name, data):
    num_rows = data.draw(st.integers(1, 3))
    rows = rows_of(name, num_rows, data.draw(st.sampled_from([SHORT, ROUNDED])))
    for _ in range(data.draw(st.integers(1, 5))):
        feeds = {row: data.draw(st.lists(TOKENS, min_size=1, max_size=6)) for row in range(num_rows)}
        feeds = {row: tokens for row, tokens in feeds.items() if data.draw(st.booleans())}
        most = rows.cache.max_draft(0)
        keeps = {
            row: data.draw(st.integers(max(0, len(tokens) - most) if most else 0, len(tokens)))
            for row, tokens in feeds.items()
        }
        if feeds:
            rows.round(feeds, keeps)
    for row in range(num_rows):
        assert_goes_on_like_mlx_lm(rows, row)


@pytest.mark.parametrize("name", ["mamba2", "mamba", "gemma3_text", "llama4", "llama-wide"])
def test_a_row_that_waits_or_was_left_is_empty_when_it_is_fed(name):
    storage = {"storage": Storage(8, 32, 4)} if name == "llama-wide" else {}
    rows = rows_of(name, 3, **storage)
    rows.round({0: random_tokens(6), 2: random_tokens(9)})
    rows.cache.vacate(2)
    rows.round({0: [1, 2, 3]})
    rows.cache.keep_rows([2, 1, 0], 4)
    rows.kept = {0: [], 1: [], 2: [*random_tokens(6), 1, 2, 3], 3: []}
    rows.again = {row: [] for row in range(4)}
    found = rows.round({0: [5, 6], 1: [7, 8, 9, 10], 2: [11], 3: [12]})
    for row, logits in found.items():
        expected = tiny_models.plain_logits(rows.model, rows.kept[row], **storage)
        np.testing.assert_allclose(logits, expected[-len(logits) :], atol=0.2 if storage else CLOSE)


def test_a_window_takes_no_more_memory_for_a_longer_text():
    shapes = Shapes(max_length=64, max_rollback=16)
    rows = rows_of("gemma3_text", 2, shapes)
    sizes = []
    for seed in range(3):
        rows.round({0: random_tokens(100, seed), 1: random_tokens(60 + seed, seed)})
        sizes.append([layer.keys.shape[2] for layer in rows.cache.layers])
    assert shapes.ring(tiny_models.WINDOW) < 200
    assert sizes == [[256, 256, 256], [256, 256, 256], [256, 256, 512]]
    assert_goes_on_like_mlx_lm(rows, 0)
    assert_goes_on_like_mlx_lm(rows, 1)


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 70), st.data())
def test_what_a_window_has_lost_is_no_prefix_and_the_rest_is(num_tokens, data):
    rows = rows_of("gemma3_text", 1)
    text = random_tokens(num_tokens)
    num_rejected = data.draw(st.integers(0, min(4, num_tokens)))
    rows.round({0: text + random_tokens(num_rejected, 1)}, {0: num_tokens})
    wanted = data.draw(st.integers(max(0, num_tokens - 12), num_tokens))
    found = rows.cache.longest_prefix(wanted)
    if num_tokens <= tiny_models.WINDOW or num_tokens - wanted <= SHORT.max_rollback:
        assert found == wanted
    other = rows_of("gemma3_text", 2)
    other.cache.copy_row(1, rows.cache, found)
    other.kept[1] = text[:found]
    assert_goes_on_like_mlx_lm(other, 1)


def test_taking_back_a_row_of_a_recurrent_model_leaves_the_others_bit_for_bit():
    rows = rows_of("mamba2", 3)
    rows.round({0: [1, 2, 3], 1: [4, 5], 2: [6]})
    cache = rows.cache
    cache.feed(rows.model, {0: [7, 8, 9], 2: [10, 11]})
    before = [np.array(array) for array in cache.state]
    assert cache.settle({0: 1, 2: 2}) == {0: 1, 2: 0}
    assert cache.layout.lengths.tolist() == [3, 2, 3]
    for now, old in zip(cache.state, before, strict=True):
        np.testing.assert_array_equal(np.array(now)[1:], old[1:])
        assert np.abs(np.array(now)[0] - old[0]).max() > 0


def test_a_recurrent_row_gets_no_draft_while_too_much_waits_to_be_fed_again():
    cache = rows_of("mamba2", 1).cache
    assert cache.max_draft(MAX_REPLAY) is None
    assert cache.max_draft(MAX_REPLAY + 1) == 0
    assert rows_of("llama", 1).cache.max_draft(1000) is None
    assert rows_of("gemma3_text", 1).cache.max_draft(1000) == SHORT.max_rollback


def test_of_a_recurrent_row_only_all_of_it_is_a_prefix():
    rows = rows_of("lfm2", 1)
    text = random_tokens(12)
    rows.round({0: text})
    assert [rows.cache.longest_prefix(num) for num in (0, 5, 11, 12)] == [0, 0, 0, 12]
    other = rows_of("lfm2", 2)
    other.round({0: [1], 1: [2, 3]})
    for num in (12, 0):
        other.cache.copy_row(1, rows.cache, num)
        other.kept[1] = text[:num]
        assert_goes_on_like_mlx_lm(other, 1)


def test_a_model_that_ignores_padding_gets_none():
    rows = rows_of("mamba", 3, ROUNDED)
    assert not rows.cache.pads
    rows.round({0: [1, 2, 3, 4, 5], 1: [6, 7, 8], 2: [9]})
    assert rows.passes == [(3, 1), (3, 2), (3, 2)]
    assert rows_of("mamba2", 1).cache.pads


@pytest.mark.parametrize(("name", "num_layers", "num_own"), [("gemma3n", 6, 4), ("gemma4_text", 6, 4)])
def test_layers_that_read_earlier_keys_append_nothing_and_read_them_in_place(name, num_layers, num_own, monkeypatch):
    written, read = [], []
    append, again = AttentionCache.update_and_fetch, AttentionCache.keys_and_values
    monkeypatch.setattr(
        AttentionCache, "update_and_fetch", lambda self, *new: written.append(append(self, *new)) or written[-1]
    )
    monkeypatch.setattr(AttentionCache, "keys_and_values", lambda self: read.append(again(self)) or read[-1])
    rows = rows_of(name, 2)
    written.clear()
    read.clear()
    rows.round({0: [1, 2, 3], 1: [4]})
    assert len(rows.model.layers) == num_layers
    assert len(rows.cache.layers) == len(written) == num_own
    if name == "gemma3n":  # the other hands them on itself
        assert len(read) == num_layers - num_own
        assert all(any(own is other for own in written) for other in read)


def test_parts_of_a_layer_are_handed_over_together():
    cache = rows_of("falcon_h1", 1).cache
    assert cache.places == ((0, 1), (2, 3))
    assert [type(layer) for layer in cache.layers[:2]] == [RecurrentCache, AttentionCache]


@pytest.mark.parametrize("append_chunk", [1, 2, 3])
def test_no_pass_appends_more_than_the_chunk(append_chunk):
    rows = rows_of("llama", 2, tiny.EXACT, append_chunk=append_chunk)
    logits = rows.round({0: [1, 2, 3, 4, 5], 1: [6, 7]}, {0: 3})
    assert max(num_tokens for _, num_tokens in rows.passes) == append_chunk
    assert len(rows.passes) == -(-5 // append_chunk)
    np.testing.assert_allclose(logits[0], tiny_models.plain_logits(rows.model, [1, 2, 3, 4, 5]), atol=CLOSE)
    assert_goes_on_like_mlx_lm(rows, 0)


def test_a_model_may_have_a_chunk_of_its_own():
    model = tiny_models.tiny_model("llama")
    model.append_chunk = 2
    caches = [RaggedCache.for_model(model, 1, tiny.EXACT, append_chunk=chunk) for chunk in (None, 1, 5)]
    assert [cache.max_append for cache in caches] == [2, 1, 2]


def test_a_span_longer_than_the_chunk_keeps_its_meaning():
    model = tiny_models.model_named("llama")
    expected = tiny_models.plain_tokens(model, [5, 9, 2], 20)[0]
    rows = []

    def guess(tokens):
        return expected[len(tokens)]

    for append_chunk in (None, 1, 4):
        bench = tiny.Bench(model, append_chunk=append_chunk)
        batch = bench.batch()
        planner = tiny.ScriptedRow(20, guess=guess, num_drafted=lambda: 9, asserts=True)
        batch.join([bench.row(planner, [5, 9, 2])])
        while batch.num_rows:
            rows += batch.run_round()
        assert planner.tokens == expected
    assert len({row.num_forwards for row in rows}) == 1  # rounds, however many passes each took


def test_a_model_whose_cache_cannot_be_rolled_back_asserts_and_counts_what_it_does_not_propose():
    model = tiny_models.tiny_model("llama")
    type(model).make_cache = lambda self: [RotatingKVCache(max_size=12, keep=4) for _ in self.layers]
    try:
        bench = tiny.Bench(model)
        assert bench.cache.is_solo
        assert bench.cache.max_draft(1) == 0
        assert bench.cache.max_append == 1  # with several tokens at once, mlx-lm gets other numbers here
        expected = {}
        batch = bench.batch()
        for row_id, prompt in enumerate(([5, 9, 2], random_tokens(17))):
            expected[row_id] = tiny_models.plain_tokens(model, prompt, 20)[0]
            planner = tiny.ScriptedRow(20, guess=lambda tokens: 7, num_drafted=lambda: 3, asserts=True)
            batch.join([bench.row(planner, prompt, row_id=row_id)])
        rows = []
        while batch.num_rows:
            rows += batch.run_round()
        for row in rows:
            assert row.planner.tokens == expected[row.row_id]
            assert row.num_rollbacks == 0
            assert row.num_dropped > 20
            assert row.num_forwards < 20  # what is certain is asserted all the same
    finally:
        del type(model).make_cache

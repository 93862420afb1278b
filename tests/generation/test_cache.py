"""The ragged cache: a row's slots hold its committed tokens, whatever else was fed."""

from __future__ import annotations

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import KVCache

from fillengine.generation.cache import RaggedCache
from fillengine.generation.host_attention import Piece
from fillengine.generation.layout import Layout, Shapes
from fillengine.generation.prompts import MAX_PROMPTS, PromptReader
from fillengine.generation.trunk import split

MODEL = tiny.tiny_llama()
SHAPES = st.sampled_from([tiny.EXACT, tiny.ROUNDED, tiny.PACKED])
TOKENS = st.integers(0, tiny.VOCABULARY - 1)


def feed(cache, feeds, keeps):
    """One round; returns the logits of each row's own tokens."""
    wanted = [(row, place) for row, tokens in enumerate(feeds) for place in range(len(tokens))]
    logits = cache.feed(MODEL, dict(enumerate(feeds)), wanted)
    cache.settle(dict(enumerate(keeps)))
    ends = np.cumsum([len(tokens) for tokens in feeds])[:-1]
    return np.split(np.asarray(logits), ends)


def plain(tokens):
    """Logits and caches of mlx-lm for one row."""
    caches = [KVCache() for _ in MODEL.layers]
    logits = MODEL(mx.array([tokens]), cache=caches)
    return np.asarray(logits[0]), caches


def assert_holds(cache, row, tokens):
    assert cache.layout.lengths[row] == len(tokens)
    if not tokens:
        return
    _, caches = plain(tokens)
    for layer, expected in zip(cache.layers, caches, strict=True):
        own = layer.held(row) if cache.is_packed else Piece(np.asarray(layer.keys[row]), np.asarray(layer.values[row]))
        for held, wanted in ((own.keys, expected.keys), (own.values, expected.values)):
            np.testing.assert_allclose(held[:, : len(tokens)], np.asarray(wanted[0, :, : len(tokens)]), atol=2e-4)


@st.composite
def passes(draw):
    num_rows = draw(st.integers(1, 4))
    rounds = []
    for _ in range(draw(st.integers(1, 6))):
        feeds = [draw(st.lists(TOKENS, max_size=7)) for _ in range(num_rows)]
        if any(feeds):
            rounds.append((feeds, [draw(st.integers(0, len(tokens))) for tokens in feeds]))
    return num_rows, rounds


@settings(deadline=None, max_examples=30)
@given(passes(), SHAPES)
def test_a_row_holds_exactly_its_kept_tokens_and_sees_only_them(case, shapes):
    num_rows, rounds = case
    cache = RaggedCache.for_model(MODEL, num_rows, shapes)
    kept = [[] for _ in range(num_rows)]
    for feeds, keeps in rounds:
        logits = feed(cache, feeds, keeps)
        for row, tokens in enumerate(feeds):
            if tokens:
                expected, _ = plain(kept[row] + tokens)
                np.testing.assert_allclose(logits[row], expected[len(kept[row]) :], atol=5e-3, rtol=1e-3)
            kept[row] += tokens[: keeps[row]]
    if rounds:
        for row, tokens in enumerate(kept):
            assert_holds(cache, row, tokens)


@settings(deadline=None, max_examples=20)
@given(st.data(), SHAPES)
def test_rows_keep_their_tokens_when_others_come_and_go(data, shapes):
    texts = [data.draw(st.lists(TOKENS, min_size=1, max_size=20)) for _ in range(3)]
    cache = RaggedCache.for_model(MODEL, 3, shapes)
    feed(cache, texts, [len(text) for text in texts])
    order = data.draw(st.permutations(range(3)))[: data.draw(st.integers(0, 3))]
    num_rows = data.draw(st.integers(max(1, len(order)), 5))
    cache.keep_rows(order, num_rows)
    held = [texts[row] for row in order] + [[] for _ in range(num_rows - len(order))]
    late = data.draw(st.lists(TOKENS, min_size=1, max_size=30))
    other = RaggedCache.for_model(MODEL, 1, shapes)
    feed(other, [late], [len(late)])
    place = data.draw(st.integers(0, num_rows - 1))
    num_copied = data.draw(st.integers(0, len(late)))
    cache.copy_row(place, other, num_copied)
    held[place] = late[:num_copied]
    feed(cache, [[1, 2]] * num_rows, [2] * num_rows)
    for row, tokens in enumerate(held):
        assert_holds(cache, row, [*tokens, 1, 2])
    assert_holds(other, 0, late)


def test_a_cache_grows_past_its_first_slots_without_losing_any():
    cache = RaggedCache.for_model(MODEL, 2, tiny.EXACT)
    rng = np.random.default_rng(1)
    texts = [[], []]
    while len(texts[0]) < 600:
        feeds = [rng.integers(0, 70, size).tolist() for size in (90, 40)]
        feed(cache, feeds, [90, 40])
        texts = [text + more for text, more in zip(texts, feeds, strict=True)]
    for row, text in enumerate(texts):
        assert_holds(cache, row, text)


def test_one_query_of_rows_of_equal_length_needs_no_mask():
    layout = Layout(2, tiny.ROUNDED)
    layout.begin([5, 5])
    layout.end()
    layout.begin([1, 1])
    assert layout.mask(None, as_array=True) is None
    assert layout.offset == 5
    assert layout.width == 6


def test_widths_and_lengths_are_rounded_to_few_shapes():
    shapes = Shapes(rounds_up=True, width_step=256)
    assert {shapes.length(num) for num in range(1, 65)} == {1, 2, 4, 8, 16, 32, 64}
    assert [shapes.width(num) for num in (1, 256, 257)] == [256, 256, 512]
    layout = Layout(2, shapes)
    layout.begin([3, 300])
    layout.end()
    layout.begin([3, 2], 4)
    assert layout.mask(None, as_array=False).shape == (2, 1, 4, 512)


def test_a_window_hides_what_is_further_back():
    layout = Layout(2, tiny.EXACT)
    layout.begin([1, 4])
    layout.end()
    layout.begin([2, 2])
    seen = np.asarray(layout.mask(3, as_array=True))[:, 0].astype(int)
    assert seen[0].tolist() == [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]]
    assert seen[1].tolist() == [[0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]


def test_more_than_a_row_holds_cannot_be_forgotten():
    layout = Layout(1, tiny.EXACT)
    layout.begin([2])
    layout.end()
    with pytest.raises(ValueError, match="forget 3 of the 2 tokens"):
        layout.trim(0, 3)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), min_size=1, max_size=7), SHAPES)
def test_a_prompt_that_begins_like_an_earlier_one_is_read_from_there(cuts, shapes):
    reader = PromptReader(split(MODEL), RaggedCache.for_model(MODEL, 1, shapes))
    common = np.random.default_rng(0).integers(0, 70, 40).tolist()
    seen = []
    for number, (num_common, num_own) in enumerate(cuts):
        prompt = common[:num_common] + [(7 * number + place) % 70 for place in range(num_own)]
        read = reader.read(prompt)
        assert read.last_token == prompt[-1]
        assert_holds(read.cache, 0, prompt[:-1])
        most = max((_num_common(one, prompt[:-1]) for one in seen[-MAX_PROMPTS:]), default=0)
        assert read.num_reused <= len(prompt) - 1
        if len(cuts) <= MAX_PROMPTS:
            assert read.num_reused == (most if most >= 16 else 0)
        seen.append(prompt[:-1])


def _num_common(one, other):
    number = 0
    while number < min(len(one), len(other)) and one[number] == other[number]:
        number += 1
    return number

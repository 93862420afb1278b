"""Packed passes: attention on the host, rows that share their beginnings, and what cannot be packed."""

from __future__ import annotations

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.generation import host_attention
from fillengine.generation.cache import RaggedCache
from fillengine.generation.host_attention import Group, Piece, Queries, attend
from fillengine.generation.packed import MAX_SHARED

HEAD_SIZE = 4


def plain_attention(queries, keys, values, start):
    """[tokens, heads, head size] and [kv heads, tokens, head size], in float64."""
    shared_by = queries.shape[1] // keys.shape[0]
    keys, values = (np.repeat(array, shared_by, axis=0).astype(np.float64) for array in (keys, values))
    scores = np.einsum("thd,hsd->hts", queries.astype(np.float64), keys)
    for place in range(len(queries)):
        scores[:, place, start + place + 1 :] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hts,hsd->thd", weights, values)


@settings(deadline=None, max_examples=60)
@given(
    num_common=st.integers(1, 30),
    rows=st.lists(st.tuples(st.lists(st.integers(1, 9), max_size=3), st.integers(1, 7)), min_size=1, max_size=4),
    heads=st.sampled_from([(1, 1), (2, 1), (6, 2)]),
    max_scores=st.sampled_from([1, 200, 10**6]),
    seed=st.integers(0, 99),
)
def test_attention_over_shared_beginnings_is_that_of_each_row_alone(num_common, rows, heads, max_scores, seed):
    rng = np.random.default_rng(seed)
    num_heads, num_kv_heads = heads

    def piece(num_tokens):
        return Piece(*rng.standard_normal((2, num_kv_heads, num_tokens, HEAD_SIZE)).astype(np.float32))

    common = piece(num_common)
    queries = rng.standard_normal((sum(count for _, count in rows), num_heads, HEAD_SIZE)).astype(np.float32)
    members, expected, first = [], [], 0
    for sizes, count in rows:
        pieces = [piece(size) for size in [*sizes, count]]
        start = num_common + sum(sizes)
        tokens = slice(first, first + count)
        first += count
        members.append(Queries(tokens, start, pieces))
        keys, values = (
            np.concatenate([getattr(each, name) for each in (common, *pieces)], axis=1) for name in ("keys", "values")
        )
        expected.append(plain_attention(queries[tokens], keys, values, start))
    found = np.full_like(queries, np.nan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_attention, "MAX_SCORES", max_scores)
        patch.setattr(host_attention, "MIN_SHARED_OUT", seed % 2 * 10**9)
        attend(queries, [Group(common, members)], found)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-5)


def rows_of(name, num_rows):
    model = tiny_models.model_named(name)
    return tiny_models.Rows(model, RaggedCache.for_model(model, 1, tiny.PACKED).empty_like(num_rows))


def random_tokens(num_tokens, seed=0):
    return np.random.default_rng(seed).integers(0, tiny_models.VOCABULARY, num_tokens).tolist()


def test_no_token_of_a_packed_pass_is_padding():
    rows = rows_of("llama", 3)
    rows.round({0: [1, 2], 1: [3], 2: [4, 5, 6, 7, 8]})
    assert rows.passes == [(8, 1)]


def test_a_copied_row_shares_what_it_copied_and_neither_row_changes_the_other():
    rows = rows_of("llama", 3)
    text = random_tokens(40)
    rows.round({0: text})
    for row, num_tokens in ((1, 30), (2, 40)):
        rows.cache.copy_row(row, rows.cache, num_tokens)
        rows.kept[row] = text[:num_tokens]
    assert all(layer._rows[1].shared[0][0] is layer._rows[0].own for layer in rows.cache.layers)
    for seed in range(3):
        found = rows.round({row: random_tokens(3 + row, 7 * seed + row) for row in range(3)}, {0: 1, 1: 2})
        for row, logits in found.items():
            expected = tiny_models.plain_logits(rows.model, rows.kept[row])
            kept = len(logits) if row == 2 else row + 1
            np.testing.assert_allclose(logits[:kept], expected[len(expected) - kept :], atol=2e-3)


def test_a_text_that_was_continued_many_times_does_not_fall_into_as_many_pieces():
    rows = rows_of("llama", 1)
    for seed in range(3 * MAX_SHARED):
        rows.round({0: random_tokens(5, seed)})
        other = rows_of("llama", 1)
        other.cache.copy_row(0, rows.cache, len(rows.kept[0]))
        other.kept[0] = rows.kept[0]
        rows = other
    assert all(len(layer._rows[0].shared) <= MAX_SHARED for layer in rows.cache.layers)
    found = rows.round({0: [1, 2, 3]})[0]
    np.testing.assert_allclose(found, tiny_models.plain_logits(rows.model, rows.kept[0])[-3:], atol=2e-3)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("llama", "packed"), ("qwen3_moe", "packed"), ("gemma3_text", "batched"), ("gpt_oss", "batched")],
)
def test_layers_with_windows_or_sinks_are_padded_instead(name, mode):
    assert rows_of(name, 1).cache.mode == mode


def test_a_model_whose_attention_is_its_own_is_padded_instead(monkeypatch):
    from mlx_lm.models import base, llama

    model = tiny_models.tiny_model("llama")
    own = base.scaled_dot_product_attention
    monkeypatch.setattr(llama, "scaled_dot_product_attention", lambda *given, **named: own(*given, **named))
    assert RaggedCache.for_model(model, 1, tiny.PACKED).mode == "batched"


def test_the_models_caches_of_mlx_lm_work_as_before():
    model = tiny_models.model_named("llama")
    before = tiny_models.plain_logits(model, [1, 2, 3])
    RaggedCache.for_model(model, 1, tiny.PACKED)
    np.testing.assert_array_equal(tiny_models.plain_logits(model, [1, 2, 3]), before)

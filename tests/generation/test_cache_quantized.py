"""Keys and values in few bits: rows of one batch on either side of the start, and rollback across it."""

from __future__ import annotations

import random

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
import pytest
import tiny_models

from fillengine.errors import ModelError
from fillengine.generation.cache import RaggedCache
from fillengine.generation.layout import Shapes
from fillengine.generation.quantized import Storage

MODEL = tiny_models.model_named("llama-wide")
SHAPES = [tiny.EXACT, tiny.ROUNDED, Shapes(max_length=3)]
# A number whose last bits depend on how many rows a product has may be rounded to the neighbouring one of its few
# values, and what follows then differs a little: seldom, and by far less than the logits' spread of 8.
CLOSE, SELDOM, LITTLE = 2e-3, 0.2, 0.5


def rows_with(storage, num_rows, shapes=tiny.EXACT, model=MODEL):
    return tiny_models.Rows(model, RaggedCache.for_model(model, 1, shapes, storage=storage).empty_like(num_rows))


def differences(found, expected):
    """Of each token's logits, the largest one."""
    return np.abs(found - expected).max(axis=-1).tolist()


def assert_close(found, expected):
    assert max(differences(found, expected)) < LITTLE


def random_rounds(rng, num_rows):
    """Feeds by row, and how many tokens each row keeps."""
    for _ in range(rng.randint(3, 7)):
        feeds = {
            row: [rng.randrange(tiny_models.VOCABULARY) for _ in range(rng.randint(1, 6))]
            for row in range(num_rows)
            if rng.random() < 0.7
        }
        if feeds:
            yield feeds, {row: rng.randint(0, len(tokens)) for row, tokens in feeds.items()}


@pytest.mark.parametrize("bits", [4, 8])
def test_rows_that_cross_the_start_at_different_rounds_get_the_logits_of_each_row_alone(bits):
    found, in_full = [], []
    for seed in range(10):
        rng = random.Random(seed)
        storage = Storage(bits, 32, rng.randint(0, 9))
        rows = rows_with(storage, rng.randint(1, 4), rng.choice(SHAPES))
        for feeds, keeps in random_rounds(rng, rows.cache.num_rows):
            before = {row: list(rows.kept[row]) for row in feeds}
            logits = rows.round(feeds, keeps)
            for row, tokens in feeds.items():
                num_before = len(before[row])
                text = before[row] + tokens
                found += differences(logits[row], tiny_models.plain_logits(MODEL, text, storage=storage)[num_before:])
                place = max(num_before, storage.quantized_kv_start)
                in_full += differences(logits[row][place - num_before :], plain(text)[place:])
        for layer in rows.cache.layers:
            for row, tokens in rows.kept.items():
                assert row not in layer.packed.rows or len(tokens) >= storage.quantized_kv_start
                assert row not in layer.dense.rows or len(tokens) <= storage.quantized_kv_start
    assert max(found) < LITTLE
    assert np.mean(np.array(found) > CLOSE) < SELDOM
    assert np.mean(np.array(in_full) > CLOSE) > 0.9  # it does make a difference


def plain(tokens):
    return np.array(MODEL(mx.array([tokens]))[0])


def test_a_rollback_across_the_start_brings_full_precision_back():
    storage = Storage(4, 32, 8)
    rows, never = rows_with(storage, 2), rows_with(storage, 2)
    for each in (rows, never):
        each.round({0: [1, 2, 3, 4, 5, 6], 1: [9, 8, 7]})
    before = [np.array(array[:, :, :6]) for array in rows.cache.layers[1].dense.of([0])]
    crossed = rows.round({0: [10, 11, 12, 13]}, {0: 1})
    assert np.abs(crossed[0][3] - tiny_models.plain_logits(MODEL, [1, 2, 3, 4, 5, 6, 10, 11, 12, 13])[-1]).max() > 1e-3
    never.round({0: [10]})
    for each in (rows, never):
        assert each.cache.layers[0].packed.rows == []
    for array, old in zip(rows.cache.layers[1].dense.of([0]), before, strict=True):
        np.testing.assert_array_equal(np.array(array[:, :, :6]), old)
    np.testing.assert_allclose(rows.round({0: [20]})[0], never.round({0: [20]})[0], atol=1e-4)


def test_few_bits_take_less_memory():
    sizes = []
    for storage in (Storage(None), Storage(8, 32, 0), Storage(4, 32, 0), Storage(4, 32, 1000)):
        rows = rows_with(storage, 2)
        rows.round({0: [1, 2, 3], 1: [4]})
        sizes.append(rows.cache.nbytes)
    full, eight, four, later = sizes
    assert later == full
    assert eight < 0.4 * full
    assert four < 0.25 * full


def test_a_row_that_joins_keeps_its_own_format():
    storage = Storage(8, 32, 5)
    texts = {0: [1, 2, 3], 1: [4, 5, 6, 7, 8, 9, 10, 11], 2: [12, 13, 14, 15, 16]}
    batch = rows_with(storage, 1)
    batch.cache.keep_rows([], 3)
    batch.kept, batch.again = texts, {row: [] for row in texts}
    for row, text in texts.items():
        own = rows_with(storage, 1)
        own.round({0: text})
        assert own.cache.longest_prefix(len(text)) == len(text)
        batch.cache.copy_row(row, own.cache, len(text))
    assert batch.cache.layers[0].packed.rows == [1]
    for _ in range(2):
        logits = batch.round({row: [20 + row] for row in texts})
    for row, text in texts.items():
        assert_close(logits[row], tiny_models.plain_logits(MODEL, text, storage=storage)[-1:])
    batch.cache.keep_rows([2, 0], 2)
    for layer in batch.cache.layers:
        assert (layer.packed.rows, layer.dense.rows) == ([0], [1])  # row 1 is as long as the start, and no longer
    batch.kept, batch.again = {0: texts[2], 1: texts[0]}, {0: [], 1: []}
    logits = batch.round({0: [30], 1: [31]})
    for row, text in batch.kept.items():
        assert_close(logits[row], tiny_models.plain_logits(MODEL, text, storage=storage)[-1:])


def test_a_prefix_before_the_start_cannot_be_taken_from_a_packed_row():
    rows = rows_with(Storage(8, 32, 5), 1)
    rows.round({0: [1, 2, 3, 4]})
    assert rows.cache.longest_prefix(3) == 3
    rows.round({0: [5, 6, 7, 8]})
    assert [rows.cache.longest_prefix(num) for num in (4, 5, 8)] == [0, 5, 8]


@pytest.mark.parametrize("name", ["gpt_oss", "gemma3_text", "gemma4_text", "falcon_h1"])
def test_sinks_windows_shared_layers_and_mixtures_work_in_few_bits(name):
    """mlx-lm has no quantized form of these, so a row in a batch is compared with the row alone."""
    heads = {"head_dim": 32, "global_head_dim": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
    changes = {key: value for key, value in heads.items() if key in tiny_models.CONFIGS[name]}
    model = tiny_models.tiny_model(name, **changes)
    storage = Storage(8, 32, 6)
    shapes = Shapes(max_length=4, max_rollback=4)
    rng = np.random.default_rng(1)
    texts = {row: rng.integers(0, 70, size).tolist() for row, size in enumerate((3, 17, 30))}
    batch = rows_with(storage, 3, shapes, model)
    assert not batch.cache.is_solo
    for start in range(0, 32, 4):
        feeds = {row: text[start : start + 4] for row, text in texts.items() if start < len(text)}
        if feeds:
            batch.round(
                {row: [*tokens, 1, 2] for row, tokens in feeds.items()}, {row: len(t) for row, t in feeds.items()}
            )
    logits = batch.round({row: [5] for row in texts})
    full = tiny_models.plain_logits(model, [*texts[2], 5])[-1]
    for row, text in texts.items():
        alone = rows_with(storage, 1, shapes, model)
        alone.round({0: text})
        np.testing.assert_allclose(logits[row], alone.round({0: [5]})[0], atol=5e-3)
    assert 1e-4 < np.abs(logits[2][-1] - full).max() < 1


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ModelError, match="kv_bits is 7"):
        Storage(7)
    with pytest.raises(ModelError, match="kv_group_size is 48"):
        Storage(4, 48)
    with pytest.raises(ModelError, match="quantized_kv_start is -1"):
        Storage(4, 64, -1)
    with pytest.raises(ModelError, match="heads have 32 numbers, which groups of 64"):
        rows_with(Storage(4, 64), 1)
    with pytest.raises(ModelError, match="ChunkedKVCache"):
        rows_with(Storage(4, 32), 1, model=tiny_models.model_named("llama4"))

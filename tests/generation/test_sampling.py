"""Sampling: what is masked is never chosen, and no batch changes the noise of a row."""

from __future__ import annotations

import math
from dataclasses import replace

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import FillError
from fillengine.generation.choices import Chooser
from fillengine.generation.mask_bank import MaskBank
from fillengine.generation.sampling import GREEDY, Draw, Sampling, choose, noise, noise_key
from fillengine.generation.trunk import split

SIZE = 40
WARM = Sampling(temperature=1.0)


def draws_of(sampling, num, *, seed=0):
    return [Draw(sampling, seed, row_id, 0) for row_id in range(num)]


def everything(num):
    return mx.ones((num, SIZE), dtype=mx.bool_)


@st.composite
def choices_to_make(draw):
    num = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = rng.normal(scale=3, size=(num, SIZE)).astype(np.float32)
    allowed = rng.random((num, SIZE)) < draw(st.sampled_from([0.05, 0.5, 1.0]))
    allowed[np.arange(num), rng.integers(0, SIZE, num)] = True
    kinds = [
        GREEDY,
        WARM,
        Sampling(0.7, top_p=0.8),
        Sampling(1.2, top_k=5),
        Sampling(0.9, min_p=0.2, top_p=0.9, top_k=100),
    ]
    draws = [
        Draw(draw(st.sampled_from(kinds)), draw(st.integers(0, 2**64)), row_id, draw(st.integers(0, 999)))
        for row_id in range(num)
    ]
    return logits, allowed, draws


@settings(deadline=None, max_examples=60)
@given(choices_to_make())
def test_a_choice_is_allowed_and_the_same_alone_as_in_a_batch(case):
    logits, allowed, draws = case
    chosen = np.asarray(choose(mx.array(logits), mx.array(allowed), draws))
    for row, draw in enumerate(draws):
        assert allowed[row, chosen[row]]
        alone = choose(mx.array(logits[row : row + 1]), mx.array(allowed[row : row + 1]), [draw])
        assert alone.item() == chosen[row]
        if draw.sampling == GREEDY:
            assert chosen[row] == np.where(allowed[row], logits[row], -np.inf).argmax()


def test_equal_logits_give_the_lowest_id_at_temperature_0():
    logits = mx.zeros((2, SIZE))
    allowed = np.ones((2, SIZE), dtype=bool)
    allowed[1, :7] = False
    assert choose(logits, mx.array(allowed), draws_of(GREEDY, 2)).tolist() == [0, 7]


def test_noise_depends_on_seed_row_and_position():
    keys = {
        noise_key(seed, row_id, position) for seed in (0, 1, 2**40) for row_id in range(10) for position in range(10)
    }
    assert len(keys) == 300
    draws = [Draw(WARM, 5, 3, 8), Draw(WARM, 5, 3, 9), Draw(WARM, 5, 4, 8), Draw(WARM, 6, 3, 8)]
    found = np.asarray(noise(draws, SIZE))
    assert len({row.tobytes() for row in found}) == 4
    assert found[0].tobytes() == np.asarray(noise(draws[:1], SIZE))[0].tobytes()


def test_the_noise_of_a_seed_stays_the_same_between_versions():
    assert noise_key(0, 0, 0) == tuple(mx.random.key(_reference(0, 0, 0)).tolist())
    assert noise_key(7, 2, 31) == tuple(mx.random.key(_reference(7, 2, 31)).tolist())


def _reference(seed, row_id, position):
    """SplitMix64 as its authors wrote it."""
    word = 0
    for part in (seed, row_id, position):
        word = ((word ^ part) + 0x9E3779B97F4A7C15) % 2**64
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        word ^= word >> 31
    return word


def test_tokens_are_drawn_with_the_probabilities_of_the_masked_distribution():
    num = 4000
    logits = mx.broadcast_to(mx.array([1.0, 0.0, 2.0, -1.0]), (num, 4))
    allowed = mx.broadcast_to(mx.array([True, True, False, True]), (num, 4))
    chosen = np.asarray(choose(logits, allowed, draws_of(Sampling(temperature=0.5), num)))
    weights = np.exp(np.array([1.0, 0.0, -np.inf, -1.0]) / 0.5)
    found = np.bincount(chosen, minlength=4) / num
    assert np.abs(found - weights / weights.sum()).max() < 0.03


def test_top_k_top_p_and_min_p_leave_only_the_likeliest():
    logits = mx.broadcast_to(mx.log(mx.array([0.5, 0.3, 0.15, 0.05])), (500, 4))
    allowed = mx.ones((500, 4), dtype=mx.bool_)

    def seen(**options):
        return set(choose(logits, allowed, draws_of(Sampling(1.0, **options), 500)).tolist())

    assert seen() == {0, 1, 2, 3}
    assert seen(top_k=2) == {0, 1}
    assert seen(top_p=0.75) == {0, 1}
    assert seen(min_p=0.25) == {0, 1, 2}
    assert seen(top_k=3, min_p=0.5) == {0, 1}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_unusable_logits_are_reported_for_their_row_only(bad):
    logits = np.zeros((3, SIZE), np.float32)
    logits[1, 4] = bad
    for sampling in (GREEDY, WARM):
        chosen = choose(mx.array(logits), everything(3), draws_of(sampling, 3)).tolist()
        assert chosen[1] == -1
        assert min(chosen[0], chosen[2]) >= 0


def test_allowed_tokens_that_the_model_rules_out_are_equally_likely():
    num = 2000
    logits = np.full((num, SIZE), -np.inf, np.float32)
    logits[:, 3] = 1
    allowed = np.zeros((num, SIZE), bool)
    allowed[:, [5, 6]] = True
    assert set(choose(mx.array(logits), mx.array(allowed), draws_of(GREEDY, num)).tolist()) == {5}
    warm = np.asarray(choose(mx.array(logits), mx.array(allowed), draws_of(WARM, num)))
    assert set(warm.tolist()) == {5, 6}
    assert abs((warm == 5).mean() - 0.5) < 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"temperature": math.inf},
        {"temperature": math.nan},
        {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": -1},
        {"min_p": 2},
    ],
)
def test_a_setting_out_of_range_is_refused(options):
    (name,) = options
    with pytest.raises(FillError, match=name):
        Sampling(**options)


@settings(deadline=None, max_examples=30)
@given(st.data(), st.sampled_from([0, 9, 100]))
def test_a_choice_is_the_same_from_all_logits_and_from_those_of_the_allowed_tokens_only(data, max_narrow):
    _, _, draws = data.draw(choices_to_make())
    masks = [data.draw(st.sampled_from(tiny.MASKS)) for _ in draws]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    hidden = mx.array(rng.normal(size=(len(draws), 32)).astype(np.float32))
    model = split(tiny.tiny_llama())
    assert model.weight is not None
    found = Chooser(model, max_narrow=max_narrow).choices(hidden, masks, draws)
    expected = Chooser(replace(model, weight=None)).choices(hidden, masks, draws)
    assert found.tolist() == expected.tolist()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=12))
def test_the_bank_gives_each_mask_whatever_it_had_to_replace(rounds):
    masks = [tiny.mask_of([number, 3 * number + 20]) for number in range(10)]
    bank = MaskBank(tiny.NUM_LOGITS, max_bytes=4 * 3 * 4)
    for wanted in rounds:
        allowed = np.asarray(bank.allowed([masks[number] for number in wanted]))
        assert allowed.shape == (len(wanted), tiny.NUM_LOGITS)
        assert [np.flatnonzero(row).tolist() for row in allowed] == [[n, 3 * n + 20] for n in wanted]
        assert bank.num_masks <= 5


def test_ids_beyond_the_vocabulary_are_never_allowed():
    whole = tiny.mask_of(range(tiny.VOCABULARY))
    allowed = np.asarray(MaskBank(tiny.NUM_LOGITS).allowed([whole]))
    assert np.flatnonzero(allowed[0]).tolist() == list(range(tiny.VOCABULARY))

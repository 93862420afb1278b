"""Drafts are as long as they pay, and a source that loses is rested."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import FillError
from fillengine.fill.economics import CPU_CURVE, FLAT_CURVE, REST_TOKENS, CostCurve, Ledger, best_length

ODDS = st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), max_size=8)


def expected_gain(curve: CostCurve, num_known: int, odds: list[float | None]) -> float:
    """Passes saved less passes paid, by going through every outcome: the first token that is rejected."""
    later = (curve.cost(5) - curve.cost(1)) / 4
    gain = -(curve.cost(num_known + len(odds)) - curve.cost(num_known))
    for rejected in range(len(odds) + 1):
        chance = 1.0
        for odd in odds[:rejected]:
            chance *= 1.0 if odd is None else odd
        if rejected < len(odds):
            odd = odds[rejected]
            chance *= 0.0 if odd is None else 1.0 - odd
        gain += chance * sum(later if odd is None else 1.0 for odd in odds[:rejected])
    return gain


def test_a_curve_is_in_passes_over_one_token_and_straight_between_what_was_measured() -> None:
    curve = CostCurve({1: 40.0, 2: 44.0, 4: 76.0})
    assert [curve.cost(n) for n in range(7)] == pytest.approx([0.0, 1.0, 1.1, 1.5, 1.9, 2.3, 2.7])


@pytest.mark.parametrize("measured", [{}, {2: 1.0}, {0: 1.0, 1: 1.0}, {1: 0.0}, {1: 1.0, 2: -1.0}])
def test_a_curve_without_a_pass_over_one_token_is_refused(measured: dict[int, float]) -> None:
    with pytest.raises(FillError, match="a cost curve needs"):
        CostCurve(measured)


def test_a_curve_that_falls_at_its_end_does_not_go_below_nothing() -> None:
    curve = CostCurve({1: 1.0, 2: 2.0, 4: 1.5})
    assert curve.cost(100) == pytest.approx(1.5)


@settings(max_examples=200, deadline=None)
@given(odds=ODDS, num_known=st.integers(1, 12), curve=st.sampled_from([CPU_CURVE, FLAT_CURVE]))
def test_the_chosen_length_has_the_largest_expected_gain(
    odds: list[float | None], num_known: int, curve: CostCurve
) -> None:
    chosen = best_length(curve, num_known, odds)
    gains = [expected_gain(curve, num_known, odds[:length]) for length in range(len(odds) + 1)]
    assert gains[chosen] == pytest.approx(max(gains), abs=1e-6)


def test_what_is_unlikely_is_not_proposed_where_it_costs_something() -> None:
    assert best_length(CPU_CURVE, 4, [0.1, 0.9]) == 0
    assert best_length(CPU_CURVE, 4, [0.9, 0.9, 0.1]) == 2
    assert best_length(FLAT_CURVE, 4, [0.1, 0.9]) == 2


def test_odds_move_from_what_is_known_beforehand_to_what_the_row_shows() -> None:
    ledger = Ledger()
    assert ledger.odds("echo", "one", "/name", 0.8) == 0.8
    for _ in range(20):
        ledger.record("echo", "one", "/name", 0.8, is_accepted=False)
    assert ledger.odds("echo", "one", "/name", 0.8) < 0.1
    # The source is not trusted at other places either, nor with other kinds.
    assert ledger.odds("echo", "one", "/other", 0.8) < 0.2
    assert ledger.odds("echo", "few", "/other", 0.8) < 0.2
    assert ledger.odds("own", "one", "/name", 0.8) == 0.8


def test_a_source_that_loses_is_rested_longer_each_time() -> None:
    ledger = Ledger()
    rests = []
    position = 0
    for _ in range(3):
        while not ledger.is_rested("echo", None, position):
            ledger.settle("echo", "one", -1.0, position)
            position += 1
        start = position
        position = next(at for at in itertools.count(start) if not ledger.is_rested("echo", None, at))
        rests.append(position - start)
    assert rests == sorted(rests)
    assert rests[0] >= REST_TOKENS - 1
    assert rests[2] > 2 * rests[0]
    assert not ledger.is_rested("own", None, 0)


def test_a_source_that_wins_is_not_rested_by_a_single_loss() -> None:
    ledger = Ledger()
    ledger.settle("echo", "one", 3.0, 0)
    ledger.settle("echo", "one", -0.5, 1)
    assert not ledger.is_rested("echo", "one", 1)

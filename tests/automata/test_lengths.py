"""Counted strings: the answers of `Lengths` against a search over (state, characters counted)."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fillengine.automata import dfa as fa
from fillengine.automata.lengths import Lengths, lengths

small = settings(deadline=None, max_examples=80)

PATTERNS = [
    "(?s:.)*",
    "(?:aaa)*",
    "(?:aaa)*|é",
    "a{2}|(?:bbbbb)*c",
    "[a-z]+(?: [a-z]+)*",
    "€*|a",
    "€*|a*",
    "(?:€€|abcde)*",
    "\n*",
    '(?:"|é{2}|\x01x)*',
    "x(?:aa)*|y(?:bbb)*|z(?:ccccc)*",
    "",
    "a?b?c?",
    "[^\\x00-\\x{10FFFF}]",
]


def search(dfa: fa.Dfa, state: int, low: int, high: int | None) -> int | None:
    """Breadth first over bytes; counts above what matters are one."""
    assert dfa.boundary is not None
    cap = low if high is None else high + 1
    frontier, seen, steps = {(state, 0)}, set(), 0
    while frontier:
        if any(dfa.accept[q] and low <= c and (high is None or c <= high) for q, c in frontier):
            return steps
        seen |= frontier
        steps += 1
        frontier = {
            (target, min(cap, c + bool(dfa.boundary[q] and not dfa.accept[target])))
            for q, c in frontier
            for target in set(dfa.next[q].tolist()) - {0}
        } - seen
    return None


bounds = st.tuples(st.integers(0, 9), st.none() | st.integers(-1, 12))


@small
@given(st.sampled_from(PATTERNS), bounds)
@example("(?:aaa)*", (4, 5))
@example("(?:€€|abcde)*", (1, 4))
def test_the_fewest_bytes_within_the_bounds_are_those_of_a_search(pattern: str, limits: tuple[int, int | None]) -> None:
    low, high = limits
    for dfa in (fa.lift_json(fa.from_regex(pattern)),):
        answers = Lengths(dfa)
        for state in range(len(dfa.next)):
            expected = search(dfa, state, low, high)
            assert answers.fewest_bytes(state, low, high) == expected, state
            assert answers.can_finish(state, low, high) == (expected is not None)


@small
@given(bounds)
def test_the_free_string_counts_escapes_and_surrogate_pairs_as_one(limits: tuple[int, int | None]) -> None:
    dfa = fa.free_string()
    for state in range(len(dfa.next)):
        assert lengths(dfa).fewest_bytes(state, *limits) == search(dfa, state, *limits)


@small
@given(st.sets(st.text(st.sampled_from('aé"\x01€'), max_size=5), min_size=1, max_size=6), bounds)
def test_answers_for_finite_sets_of_values_are_those_of_a_search(
    values: set[str], limits: tuple[int, int | None]
) -> None:
    dfa = fa.lift_json(fa.words(value.encode() for value in values))
    for state in range(len(dfa.next)):
        assert Lengths(dfa).fewest_bytes(state, *limits) == search(dfa, state, *limits)


def test_a_periodic_pattern_is_answered_exactly_for_large_bounds() -> None:
    dfa = fa.lift_json(fa.from_regex("(?:aaa)*"))
    answers = Lengths(dfa)
    behind_one = dfa.run(b'"a')
    for high in (99_999, 100_000, 100_001):
        assert answers.can_finish(dfa.start, high, high) == (high % 3 == 0)
        assert answers.can_finish(behind_one, high - 1, high - 1) == (high % 3 == 0)
        assert answers.can_finish(dfa.start, high - 2, high)
    assert answers.fewest_bytes(dfa.start, 99_999, None) == 99_999 + 2
    assert answers.fewest_bytes(dfa.start, 99_998, 100_000) == 99_999 + 2


def test_several_periods_at_once_are_answered_exactly() -> None:
    dfa = fa.lift_json(fa.from_regex("x(?:a{7})*|y(?:b{11})*|z(?:c{13})*"))
    answers = Lengths(dfa)
    for length in (1, 2, 7, 8, 12, 14, 10_001, 11_001, 13_001, 20_003):
        fits = any((length - 1) % period == 0 for period in (7, 11, 13))
        assert answers.can_finish(dfa.start, length, length) == fits


def test_unbounded_strings_are_answered_from_the_shortest_words() -> None:
    dfa = fa.free_string()
    assert lengths(dfa).fewest_bytes(dfa.start, 0, None) == 2
    assert lengths(dfa).fewest_bytes(0, 0, None) is None
    assert lengths(dfa) is lengths(dfa)


def test_large_bounds_on_the_free_string_cost_nothing() -> None:
    dfa = fa.free_string()
    answers = Lengths(dfa)
    begin = time.perf_counter()
    for low in range(0, 100_000, 100):
        assert answers.fewest_bytes(dfa.start, low, 100_000) == low + 2
    assert time.perf_counter() - begin < 0.5


def test_characters_are_counted_in_strings_only() -> None:
    with pytest.raises(ValueError, match="lift_json"):
        Lengths(fa.literal(b"a"))

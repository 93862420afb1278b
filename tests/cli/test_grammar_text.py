"""What is said of a hole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fillengine.automata.dfa import any_text, free_string, from_regex, lift_json, words
from fillengine.automata.nodes import Pattern
from fillengine.cli.grammar_text import as_expression, bounds, describe, shortest_text

EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "[a-c]", "0", "-", r"\.", '"']),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("?*+")).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda part: f"({part}){{2,4}}"),
    ),
    max_leaves=5,
)


@given(EXPRESSIONS)
def test_an_expression_accepts_exactly_what_its_automaton_accepts(expression):
    dfa = from_regex(expression)
    shown = as_expression(dfa)
    assert shown is None or from_regex(shown).key == dfa.key


@given(EXPRESSIONS)
def test_the_shortest_text_is_accepted(expression):
    dfa = from_regex(expression)
    assert dfa.matches(shortest_text(dfa))


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (Pattern(free_string()), "string"),
        (Pattern(lift_json(any_text()), 1, None), "string, at least 1 character"),
        (Pattern(free_string(), 0, 50), "string, at most 50 characters"),
        (Pattern(free_string(), 2, 2), "string, exactly 2 characters"),
        (Pattern(from_regex("-?(0|[1-9][0-9]*)")), "-?0|-?[1-9][0-9]*"),
        (Pattern(from_regex("[0-9]{4}-[0-9]{2}-[0-9]{2}")), "[0-9]{4}-[0-9]{2}-[0-9]{2}"),
        (Pattern(lift_json(from_regex("[A-Z]{2}-[0-9]+"))), '"[A-Z]{2}-[0-9]+"'),
        (Pattern(words([b"0" * 60])), f"like {'0' * 40}… (61 states)"),
    ],
)
def test_holes_are_described_in_a_few_words(pattern, shown):
    assert describe(pattern) == shown


def test_bounds_are_said_as_people_say_them():
    assert bounds(0, None, "item") == ""
    assert bounds(1, None, "item") == "at least 1 item"
    assert bounds(0, 1, "item") == "at most 1 item"
    assert bounds(1, 3, "item") == "1 to 3 items"

"""What it takes to finish a leaf with the bytes that a vocabulary can write one at a time."""

from __future__ import annotations

import pytest

from fillengine.automata import dfa
from fillengine.automata.leaf import INFINITE, fewest_bytes


@pytest.mark.parametrize("expression", ["[ab]{2,4}", '"[^"\\\\]*"', "é+", "(aa)*", "Я|x", "-?(0|[1-9][0-9]*)"])
@pytest.mark.parametrize("alphabet", [bytes(range(256)), b'"abc', b"x019", bytes(range(32, 127)), b""])
def test_fewest_bytes_are_those_of_the_shortest_way_through_the_alphabet(expression: str, alphabet: bytes) -> None:
    automaton = dfa.from_regex(expression)
    found = fewest_bytes(automaton, alphabet)
    for state in range(len(automaton.next)):
        steps, here = 0, {state}
        seen = set(here)
        while here and not any(automaton.accept[here_state] for here_state in here):
            here = {int(automaton.next[q, byte]) for q in here for byte in alphabet} - seen - {0}
            seen |= here
            steps += 1
        assert found[state] == (steps if here and state else INFINITE)

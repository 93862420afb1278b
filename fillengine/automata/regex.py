"""Regular expressions to byte automata, through outlines-core."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from outlines_core import Index, Vocabulary

from fillengine.automata.tables import Dfa, byte_classes, check_size, minimise, tidy
from fillengine.errors import InvalidForm

_END = 256  # the id of the end token in the vocabulary of the 256 bytes

# Parts of outlines-core's messages (0.2.11 to 0.2.14)
_NO_WAY_OUT = "incompatible with the regex"
_ASSERTION_AT_START = "anchored universal start state"


@lru_cache(maxsize=1)
def _bytes_vocabulary() -> Vocabulary:
    return Vocabulary(_END, {bytes([byte]): [byte] for byte in range(256)})


def _index(pattern: str) -> Dfa:
    """The language of an expression that ends in an anchor."""
    index = Index(pattern, _bytes_vocabulary())
    transitions = index.get_transitions()
    numbers = {state: number for number, state in enumerate(transitions, start=1)}
    for state in (index.get_initial_state(), *index.get_final_states()):
        numbers.setdefault(state, len(numbers) + 1)
    check_size(len(numbers))
    table = np.zeros((len(numbers) + 1, 256), np.int32)
    for state, row in transitions.items():
        targets = {byte: numbers[target] for byte, target in row.items() if byte != _END}
        table[numbers[state], list(targets)] = list(targets.values())
    accept = np.zeros(len(table), np.bool_)
    accept[[numbers[state] for state in index.get_final_states()]] = True
    class_of, reps = byte_classes(table)
    return tidy(table[:, reps], class_of, accept, numbers[index.get_initial_state()])


def _behind_mark(dfa: Dfa) -> Dfa:
    """What may follow a first zero byte."""
    class_of, reps = dfa.classes
    return tidy(dfa.next[:, reps], class_of, dfa.accept, int(dfa.next[dfa.start, 0]))


@lru_cache(maxsize=1024)
def from_regex(pattern: str) -> Dfa:
    r"""The minimised automaton of the whole texts that `pattern` (syntax of Rust's regex crate) matches.

    outlines-core keeps the regex crate's preference order, where `a|ab` never gets as far as `ab` unless the
    match must reach the end of the text: so `\z` is compiled behind the expression. It refuses assertions
    that may stand at the start of the text, so where the expression can be empty a zero byte is compiled in
    front and taken off the table again.

    A leading anchor is refused (the match is anchored anyway). A large bounded repeat of an ambiguous unit
    takes exponential time in outlines-core: build that with `dfa.repeat`.
    Raises InvalidForm when the expression cannot be compiled.
    """
    try:
        try:
            return minimise(_index(rf"(?:{pattern})\z"))
        except ValueError as error:
            if _NO_WAY_OUT in str(error):
                return minimise(_with_dead_ends(pattern))
            if _ASSERTION_AT_START not in str(error):
                raise
        try:
            Index(pattern, _bytes_vocabulary())  # raises when the assertion is one of the expression's own
            return minimise(_behind_mark(_index(rf"\x00(?:{pattern})\z")))
        except ValueError as error:
            if _NO_WAY_OUT not in str(error):
                raise
            return minimise(_behind_mark(_with_dead_ends(rf"\x00(?:{pattern})")))
    except ValueError as error:
        raise InvalidForm(
            f"the regular expression {pattern!r} cannot be compiled: {error}",
            remedy="write it without look-around, back-references, word boundaries and anchors",
        ) from error


def _with_dead_ends(pattern: str) -> Dfa:
    """For an expression with a branch that ends in an empty class, say: outlines-core refuses dead ends.

    A second branch gives every state a way out; the texts that it adds, those with a last character of its
    own, are taken out again, twice with different characters.
    """
    from fillengine.automata.dfa import difference, union

    parts = []
    for mark in (r"\x01", r"\x02"):
        marked = rf"(?s:.)*{mark}\z"
        parts.append(difference(_index(rf"(?:{pattern})\z|{marked}"), _index(marked)))
    return union(*parts)

"""The keys of undeclared properties: every text but the declared names, split by the patterns that it matches."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fillengine.automata import dfa as automata
from fillengine.automata.dfa import Dfa
from fillengine.errors import AutomatonTooLarge, UnsupportedForm
from fillengine.templates import regex
from fillengine.templates.scalars import Placed, lift
from fillengine.templates.style import spelled

# The key space is split by the patterns of an object; more classes than this are refused.
_CLASSES_LIMIT = 128

Classes = tuple[tuple[tuple[str, ...], "Dfa | None"], ...]


@lru_cache(maxsize=512)
def key_classes(names: tuple[str, ...], patterns: tuple[Placed, ...]) -> Classes:
    """(the patterns that its keys match, automaton of the keys), for each class that has keys.

    `names` (sorted) are in no class. None: any text. Raises UnsupportedForm.
    """
    try:
        return _key_classes(names, patterns)
    except AutomatonTooLarge as error:
        raise _refusal(str(error), patterns) from error


def _key_classes(names: tuple[str, ...], patterns: tuple[Placed, ...]) -> Classes:
    undeclared: Dfa | None = None
    if names:
        undeclared = automata.difference(automata.any_text(), _values(names))
    if not patterns:
        return (((), undeclared),)
    classes: list[tuple[tuple[str, ...], Dfa]] = [((), undeclared or automata.any_text())]
    for pattern, pointer in patterns:
        matched = regex.search(pattern, pointer=pointer)
        grown = []
        for matching, keys in classes:
            both = automata.intersection(keys, matched)
            if both.is_empty:
                grown.append((matching, keys))
                continue
            grown.append(((*matching, pattern), both))
            rest = automata.difference(keys, both)
            if not rest.is_empty:
                grown.append((matching, rest))
        classes = grown
        if len(classes) > _CLASSES_LIMIT:
            raise _refusal(f"patternProperties split the keys into more than {_CLASSES_LIMIT} classes", patterns)
    return tuple((matching, keys) for matching, keys in classes)


@lru_cache(maxsize=512)
def undeclared_keys(names: tuple[str, ...]) -> Dfa:
    """The JSON strings, each in the one spelling of `lift_json`, of all texts but `names`.

    Most open objects need one, so it is not put together from set operations. Example, for the name `ab`:
    beside the automaton of all strings stand three states, for `"`, `"a` and `"ab`. They go wherever its
    states go, but with the next letter of the name to the next of the three, and from the last one the
    closing quote leads nowhere.
    """
    names = tuple(name for name in names if not any("\ud800" <= c <= "\udfff" for c in name))  # no key spells these
    if not names:
        return automata.free_string()
    every = lift(automata.any_text())
    declared = automata.words(spelled(name, "spaced", 0) for name in names)
    size = len(every.next)
    place = {declared.start: every.start}  # state of `declared` -> its state here; the start is shared
    alike = {declared.start: every.start}  # state of `declared` -> the state of `every` after the same bytes
    order, rows = [declared.start], []
    for state in order:
        row = every.next[alike[state]].copy()
        for byte in np.flatnonzero(declared.next[state]).tolist():
            after, plain = int(declared.next[state, byte]), int(row[byte])
            if declared.accept[after]:
                row[byte] = 0
                continue
            if after not in place:
                place[after], alike[after] = size + len(order) - 1, plain
                order.append(after)
            elif alike[after] != plain:  # it stands for several places in a character: set operations know
                return lift(automata.difference(automata.any_text(), _values(names)))
            row[byte] = place[after]
        rows.append(row)
    table = np.vstack([every.next, *rows[1:]])
    table[every.start] = rows[0]
    added = [alike[state] for state in order[1:]]
    assert every.boundary is not None
    return Dfa(
        table,
        np.concatenate([every.accept, every.accept[added]]),
        every.start,
        np.concatenate([every.boundary, every.boundary[added]]),
    )


def _values(names: tuple[str, ...]) -> Dfa:
    return automata.words(name.encode("utf-8", "surrogatepass") for name in names)


def _refusal(problem: str, patterns: tuple[Placed, ...]) -> UnsupportedForm:
    return UnsupportedForm(
        problem,
        keyword="patternProperties",
        pointer=patterns[0][1] if patterns else "",
        remedy="use fewer overlapping patterns",
    )


def lifted_keys(keys: Dfa | None) -> Dfa:
    """The JSON strings of some keys (None: of any)."""
    return automata.free_string() if keys is None else lift(keys)

"""The keys of undeclared properties, split by the patterns that they match."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np

from fillengine.automata import dfa as automata
from fillengine.automata.dfa import Dfa
from fillengine.errors import AutomatonTooLarge, UnsupportedForm
from fillengine.templates import regex
from fillengine.templates.scalars import Placed, lift

# The key space is split by the patterns of an object; more classes than this are refused.
_CLASSES_LIMIT = 128
# Key classes of at most so many words are written out one by one.
_WORDS_LIMIT = 64

Classes = tuple[tuple[tuple[str, ...], "Dfa | None"], ...]


@lru_cache(maxsize=512)
def key_classes(patterns: tuple[Placed, ...]) -> Classes:
    """(the patterns that its keys match, automaton of the keys), for each class that has keys.

    None: any text. Raises UnsupportedForm.
    """
    try:
        return _key_classes(patterns)
    except AutomatonTooLarge as error:
        raise _refusal(error.problem, patterns, error.remedy) from error


def _key_classes(patterns: tuple[Placed, ...]) -> Classes:
    if not patterns:
        return (((), None),)
    classes: list[tuple[tuple[str, ...], Dfa]] = [((), automata.any_text())]
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
def few_words(lifted: Dfa, low: int, high: int | None) -> tuple[str, ...] | None:
    """The keys of an automaton, where they are at most `_WORDS_LIMIT`; None: more."""
    if lifted.is_empty:
        return ()
    found: list[str] = []
    work = [(lifted.start, b"", 0)]
    steps = 0
    assert lifted.boundary is not None
    while work:
        state, text, length = work.pop()
        steps += 1
        if high is not None and length > high:
            continue
        if steps > 20 * _WORDS_LIMIT or len(work) > _WORDS_LIMIT:
            return None
        if lifted.accept[state]:
            if length >= low:
                found.append(json.loads(text))
            if len(found) > _WORDS_LIMIT:
                return None
        row, is_counted = lifted.next[state], bool(lifted.boundary[state])
        for byte in np.flatnonzero(row).tolist():
            after = int(row[byte])
            work.append((after, text + bytes((byte,)), length + (is_counted and not lifted.accept[after])))
    return tuple(sorted(found))


def _refusal(
    problem: str, patterns: tuple[Placed, ...], remedy: str = "use fewer overlapping patterns"
) -> UnsupportedForm:
    return UnsupportedForm(
        problem,
        keyword="patternProperties",
        pointer=patterns[0][1] if patterns else "",
        remedy=remedy,
    )


def lifted_keys(keys: Dfa | None) -> Dfa:
    """The JSON strings of some keys (None: of any)."""
    return lift(automata.any_text() if keys is None else keys)

"""Regular expressions as trees, and the automaton of a tree.

    Text("ab")                    these characters
    Chars(((97, 122),))           one character of these code point ranges
    Chars((), rust=r"\\p{L}")      one character of a class in the syntax of Rust's `regex` crate
    Concat((x, y))                one after another;   Concat(()) is the empty text
    Either((x, y))                one of them;         Either(()) matches nothing at all
    Repeat(x, 1, None)            x at least once
    Tables(dfa, 1, None)          what an automaton accepts: here at least 1 character, no upper bound

The front ends (ECMA-262 patterns, GBNF) both come down to these; `thompson.language` makes the automaton.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from fillengine.automata.tables import Dfa

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character. `ranges` are sorted, disjoint, inclusive and without surrogates; or `rust` says it."""

    ranges: Ranges
    rust: str = ""


@dataclass(frozen=True, slots=True)
class Concat:
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Either:
    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Tree
    low: int
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What `dfa` accepts; `shortest` and `longest` (None: no bound) count characters and need not be tight."""

    dfa: Dfa
    shortest: int
    longest: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """A condition on what stands before (`behind`) or after this place; it takes no characters.

    `item` must (`negative`: must not) match there. The start of the text is "no character before", its end
    "no character after". `templates/regex.py` resolves these; `language` knows none. `column` counts from 1.
    """

    item: Tree
    behind: bool
    negative: bool
    column: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A rule of a grammar by its name. `templates/gbnf.py` resolves these; `language` knows none."""

    name: str
    line: int = 0
    column: int = 0


Tree = Union[Text, Chars, Concat, Either, Repeat, Tables, Look, Call]  # noqa: UP007 (forward references)

EMPTY = Concat(())
NEVER = Either(())
ANY_CHAR = Chars(((0, 0xD7FF), (0xE000, 0x10FFFF)))
ANY = Repeat(ANY_CHAR, 0, None)


def tidy_ranges(ranges: list[tuple[int, int]]) -> Ranges:
    """Sorted, merged, and without the surrogates D800..DFFF, which no UTF-8 text holds."""
    tidy: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        for a, b in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high)):
            if a > b:
                continue
            if tidy and a <= tidy[-1][1] + 1:
                tidy[-1] = (tidy[-1][0], max(tidy[-1][1], b))
            else:
                tidy.append((a, b))
    return tuple(tidy)


def invert_ranges(ranges: Ranges) -> Ranges:
    """All other characters."""
    gaps = []
    start = 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return tidy_ranges(gaps)


def shortest(tree: Tree) -> int:
    """A lower bound on the characters of a text of `tree`, exact for trees without Tables."""
    match tree:
        case Text(text):
            return len(text)
        case Chars():
            return 1
        case Concat(items):
            return sum(map(shortest, items))
        case Either(options):
            return min(map(shortest, options), default=0)
        case Repeat(item, low, _):
            return shortest(item) * low if low else 0
        case Tables(_, least, _):
            return least
    return 0


def can_be_empty(tree: Tree) -> bool:
    """Whether the empty text is one of `tree`, which holds no conditions."""
    match tree:
        case Text(text):
            return not text
        case Concat(items):
            return all(map(can_be_empty, items))
        case Either(options):
            return any(map(can_be_empty, options))
        case Repeat(item, low, _):
            return low == 0 or can_be_empty(item)
        case Tables(dfa):
            return bool(dfa.accept[dfa.start])
    return False


def longest(tree: Tree) -> int | None:
    """An upper bound on the characters of a text of `tree`; None where there is none."""
    match tree:
        case Text(text):
            return len(text)
        case Chars():
            return 1
        case Concat(items):
            parts = [longest(item) for item in items]
            return None if None in parts else sum(part for part in parts if part is not None)
        case Either(options):
            parts = [longest(option) for option in options]
            return None if None in parts else max((part for part in parts if part is not None), default=0)
        case Repeat(item, _, high):
            one = longest(item)
            if one == 0 or high == 0:
                return 0
            return None if one is None or high is None else one * high
        case Tables(_, _, most):
            return most
    return 0

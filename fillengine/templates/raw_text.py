r"""Texts that stand without quotes in front of something that ends them.

A value that is written as it is must not hold what closes it. `until` accepts the texts behind which the first
occurrence of a marker is the one that follows:

    until([b"</p>"], [b"\n</p>\n"])      "a < b" and "a\n</b>", but not "a</p>"
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fillengine.automata import dfa as automata
from fillengine.automata.control import MARK
from fillengine.automata.dfa import Dfa
from fillengine.automata.tables import tidy


def until(markers: Iterable[bytes], endings: Iterable[bytes] = ()) -> Dfa:
    """Texts in which no marker stands, nor does one begin that the beginning of an ending would complete earlier
    than the ending itself holds one.

    Each ending holds one of the markers. Raises AutomatonTooLarge.
    """
    markers = tuple(markers)
    if not markers:
        return automata.any_text()
    anything = automata.any_text()
    free = automata.complement(automata.concat(anything, automata.words(markers), anything))
    accept = free.accept.copy()
    for ending in endings:
        first = min(end for marker in markers if (end := _end_of(marker, ending)) is not None)
        state = np.arange(len(free.next))
        for byte in ending[: first - 1]:
            state = free.next[state, byte]
        accept &= state != 0
    return tidy(free.next[:, free.classes[1]], free.classes[0], accept, free.start)


def not_beginning(markers: Iterable[bytes]) -> Dfa:
    """Texts that do not begin with a marker."""
    return automata.complement(automata.concat(automata.words(markers), automata.any_text()))


def core(text: bytes) -> bytes | None:
    """What makes a closing or opening text known: its first run without white space; None where a control token
    does, which no text holds."""
    if MARK in text:
        return None
    return (text.split() or [text])[0]


def _end_of(marker: bytes, text: bytes) -> int | None:
    begin = text.find(marker)
    return None if begin < 0 else begin + len(marker)

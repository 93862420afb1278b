"""The words of a leaf one by one, about the cheapest first.

Where several new members must be written, each takes a word of its own. The first so many words of this list, with
what each of them costs at most, are a plan that pays for all of them, whatever was written before: of n + 1 words one
at least is left where n are used up.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from fillengine.automata.leaf import INFINITE, Costs, Leaf

MAX_WORDS = 1_000
"""Words of one leaf that are listed. What more of them cost is estimated."""

MAX_STEPS = 200_000
"""Bytes that are tried for the words of one leaf."""


class CheapWords:
    """The words of `leaf` from `start` on (None: there are none) without `excluded`, found as they are asked for.

    Which word is which depends on the leaf alone.
    """

    def __init__(self, leaf: Leaf, start: Hashable | None, excluded: Container[bytes], costs: Costs) -> None:
        self._leaf = leaf
        self._start = start
        self._excluded = excluded
        self._costs = costs
        self._words: list[bytes] = []
        self._bounds: list[int] = []
        self._left = self._search()
        self._is_whole = False
        """No word is missing in the list."""

    def bound(self, index: int) -> int:
        """What the words up to this one cost at most, each of them; INFINITE where the leaf has no such word."""
        self._find(index)
        if index < len(self._bounds):
            return self._bounds[index]
        if self._is_whole:
            return INFINITE
        last = self._bounds[-1] if self._bounds else self._leaf.cost(self._start)
        return last + index.bit_length()

    def words(self, number: int) -> list[bytes]:
        """The first words, as far as there are so many."""
        self._find(number - 1)
        return self._words[:number]

    def first(self, written: Container[bytes]) -> bytes | None:
        """The first word that is not written; None where none is known."""
        index = 0
        while True:
            self._find(index)
            if index == len(self._words):
                return None
            if self._words[index] not in written:
                return self._words[index]
            index += 1

    def _find(self, index: int) -> None:
        while len(self._words) <= min(index, MAX_WORDS - 1):
            word = next(self._left, None)
            if word is None:
                return
            cost = self._costs.literal(word)[0]
            if cost < INFINITE:
                self._words.append(word)
                self._bounds.append(max(cost, self._bounds[-1] if self._bounds else 0))

    def _search(self) -> Iterator[bytes]:
        leaf, ticket, steps = self._leaf, count(), 0
        heap: list[tuple[int, int, int, bytes, Any]] = []
        if self._start is not None:
            heap.append((0, 0, next(ticket), b"", self._start))
        while heap:
            _, _, _, text, q = heappop(heap)
            if leaf.is_accepting(q) and text not in self._excluded:
                yield text
            if not leaf.can_go_on(q):
                continue
            for byte in leaf.next_bytes(q):
                if steps == MAX_STEPS:
                    return
                steps += 1
                after = leaf.step(q, byte)
                if after is not None and leaf.cost(after) < INFINITE:
                    # Of texts that promise as much the longest goes on, or none would come to an end.
                    place = (len(text) + leaf.cost(after), -len(text), next(ticket))
                    heappush(heap, (*place, text + bytes((byte,)), after))
        self._is_whole = True

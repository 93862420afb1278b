"""Leaves: the places of a template where bytes are written.

A leaf is a small automaton with hashable states. Leaves are shared: two templates that hold the same DFA use
one leaf, so that what is computed for a leaf state (its token mask above all) is computed once.

Costs are upper bounds on the number of tokens that finish the leaf. They come from `Costs`: what the vocabulary
can write. From every state of finite cost some token leads to a state whose cost is smaller by one at least; the
token budget rests on that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from fillengine.automata.dfa import Dfa
from fillengine.automata.lengths import lengths
from fillengine.automata.nodes import Literal, Pattern, Words
from fillengine.automata.prefixes import Prefix, members, prefixes
from fillengine.automata.tables import NEVER, distances

INFINITE = 1 << 40
"""The cost of what cannot be finished; larger than any real cost, small enough to be added up."""


EntriesState = tuple[int, Prefix, int]


class Costs(Protocol):
    """What it takes to write bytes with a vocabulary."""

    @property
    def alphabet(self) -> bytes:
        """The bytes that stand alone as a token, sorted."""

    @property
    def reach(self) -> int:
        """Bytes of the longest token."""

    def literal(self, text: bytes) -> Sequence[int]:
        """For each offset 0..len(text): the fewest tokens that write the rest of `text` exactly."""

    def spells(self, text: bytes) -> bool:
        """Whether each byte of `text` stands alone as a token, so that it can be written from wherever it is left."""

    def begins(self, text: bytes) -> bool:
        """Whether some token begins with `text`."""

    def holds(self, text: bytes) -> bool:
        """Whether `text` stands in some token."""


class ByteCosts:
    """Every byte is a token: a cost is a number of bytes."""

    alphabet = bytes(range(256))
    reach = 1

    def literal(self, text: bytes) -> Sequence[int]:
        return range(len(text), -1, -1)

    def spells(self, text: bytes) -> bool:
        return True

    def begins(self, text: bytes) -> bool:
        return len(text) <= 1

    def holds(self, text: bytes) -> bool:
        return len(text) <= 1


class Leaf(Protocol):
    """A small automaton. `step` gives None where no text goes on."""

    def step(self, q: Any, byte: int) -> Any | None: ...

    def is_accepting(self, q: Any) -> bool: ...

    def next_bytes(self, q: Any) -> bytes:
        """The bytes that may come next, sorted."""

    def can_go_on(self, q: Any) -> bool:
        """Whether any byte may come next."""

    def branches(self, q: Any) -> bool:
        """Whether several bytes may come next, as far as that is known at a glance."""

    def cost(self, q: Any) -> int: ...

    def clamp(self, q: Any, reach: int) -> Any:
        """A state with the same behaviour for the next `reach` bytes (counters that they cannot use up are cut)."""


class LiteralLeaf:
    """State: the number of bytes that are written."""

    __slots__ = ("_costs", "_rests", "start", "text")

    def __init__(self, text: bytes, costs: Costs) -> None:
        self.text = text
        self.start = 0
        self._costs = costs
        self._rests: Sequence[int] | None = None

    def step(self, q: int, byte: int) -> int | None:
        return q + 1 if q < len(self.text) and self.text[q] == byte else None

    def is_accepting(self, q: int) -> bool:
        return q == len(self.text)

    def next_bytes(self, q: int) -> bytes:
        return self.text[q : q + 1]

    def can_go_on(self, q: int) -> bool:
        return q < len(self.text)

    def branches(self, q: int) -> bool:
        return False

    def cost(self, q: int) -> int:
        if self._rests is None:
            self._rests = self._costs.literal(self.text)
        return self._rests[q]

    def can_finish(self, q: int) -> bool:
        """Whether the rest can be written: `cost` is finite, found without counting where that is seen."""
        return self._costs.spells(self.text) or self.cost(q) < INFINITE

    def worst_cost(self) -> int:
        """The most that the rest of the literal can cost, wherever a token ends in it."""
        self.cost(0)
        assert self._rests is not None
        return max(cost for cost in self._rests if cost < INFINITE)

    def clamp(self, q: int, reach: int) -> int:
        return q


class DfaLeaf:
    """State: the state of the DFA."""

    __slots__ = ("__dict__", "__weakref__", "_accept", "_cost", "_next_bytes", "after", "dfa", "start")

    def __init__(self, dfa: Dfa, costs: Costs) -> None:
        self.dfa = dfa
        self.start: int | None = dfa.start or None
        # Tuples of numbers, which the garbage collector leaves alone.
        self._accept: tuple[bool, ...] = tuple(dfa.accept.tolist())
        # [state, byte] -> the state after it, 0 where none follows. One number of an array is found soonest so.
        self.after = np.ascontiguousarray(dfa.next).data
        self._next_bytes: dict[int, bytes] = {}
        self._cost = fewest_bytes(dfa, costs.alphabet)

    def step(self, q: int, byte: int) -> int | None:
        return self.after[q, byte] or None

    def is_accepting(self, q: int) -> bool:
        return self._accept[q]

    def next_bytes(self, q: int) -> bytes:
        found = self._next_bytes.get(q)
        if found is None:
            found = self._next_bytes[q] = bytes(self.dfa.next[q].nonzero()[0].tolist())
        return found

    def can_go_on(self, q: int) -> bool:
        return not self._accept[q] or bool(self.next_bytes(q))

    def branches(self, q: int) -> bool:
        return len(self.next_bytes(q)) > 1

    def cost(self, q: int) -> int:
        return self._cost[q]

    @property
    def costs(self) -> tuple[int, ...]:
        """The cost of each state of the DFA."""
        return self._cost

    @cached_property
    def is_open(self) -> bool:
        """Whether every text that may go on may do so in infinitely many ways, and none that is whole may."""
        dfa = self.dfa
        goes_on = (dfa.next != 0).any(axis=1)
        return bool(np.where(dfa.accept, ~goes_on, dfa.is_endless)[1:].all())

    def clamp(self, q: int, reach: int) -> int:
        return q


class CountedLeaf:
    """A DFA whose characters are counted.

    State: (state of the DFA, characters that must still come, characters that may still come or None).
    """

    __slots__ = ("__weakref__", "_is_free", "boundary", "dfa", "lengths", "plain")

    def __init__(self, dfa: Dfa, costs: Costs) -> None:
        if dfa.boundary is None:
            raise ValueError("a counted pattern needs an automaton that knows its character boundaries")
        self.dfa = dfa
        self.plain = dfa_leaf(dfa, costs)
        self.lengths = lengths(dfa)
        self._is_free = self.lengths.settled == 0
        self.boundary: tuple[bool, ...] = tuple(dfa.boundary.tolist())

    def first(self, low: int, high: int | None) -> tuple[int, int, int | None] | None:
        start = self.plain.start
        if start is None or not self.can_finish(start, low, high):
            return None
        return (start, low, high)

    def step(self, q: tuple[int, int, int | None], byte: int) -> tuple[int, int, int | None] | None:
        state, low, high = q
        after = self.plain.after[state, byte]
        if not after:
            return None
        if self.boundary[state] and not self.plain.is_accepting(after):
            if high is not None:
                if high == 0:
                    return None
                high -= 1
            if low:
                low -= 1
        if not self.can_finish(after, low, high):
            return None
        return (after, low, high)

    def can_finish(self, state: int, low: int, high: int | None) -> bool:
        if self._is_free:
            # Every character may be the last and none needs to be, so only the two counters matter.
            return low == 0 if self.plain.is_accepting(state) else high is None or high >= low
        return self.lengths.can_finish(state, low, high)

    def is_accepting(self, q: tuple[int, int, int | None]) -> bool:
        return self.plain.is_accepting(q[0]) and q[1] == 0

    def next_bytes(self, q: tuple[int, int, int | None]) -> bytes:
        options = self.plain.next_bytes(q[0])
        if self._is_free:
            if q[1] == 0 and (q[2] is None or q[2] > 0):
                return options
            if q[1] > 0 and not self.boundary[q[0]]:
                return options
        return bytes(b for b in options if self.step(q, b) is not None)

    def can_go_on(self, q: tuple[int, int, int | None]) -> bool:
        return not self.is_accepting(q) or bool(self.next_bytes(q))

    def branches(self, q: tuple[int, int, int | None]) -> bool:
        # The closing quote and what begins a character: one of them may be over.
        return self._is_free and (q[2] is None or q[2] > 0) and len(self.plain.next_bytes(q[0])) > 2

    def cost(self, q: tuple[int, int, int | None]) -> int:
        state, low, high = q
        fewest = self.lengths.fewest_bytes(state, low, high)
        return INFINITE if fewest is None else max(fewest, self.plain.cost(state))

    def clamp(self, q: tuple[int, int, int | None], reach: int) -> tuple[int, int, int | None]:
        settled = self.lengths.settled
        if settled is None:
            return q
        state, low, high = q
        bound = reach + settled + 1
        return (state, min(low, bound), None if high is None or high > bound else high)


class WordsLeaf:
    """State: (first, last + 1, depth): the sorted words that agree with the `depth` bytes that are written."""

    __slots__ = ("__weakref__", "_costs", "_next", "start", "words")

    def __init__(self, words: tuple[bytes, ...], costs: Costs) -> None:
        self.words = words
        self.start: tuple[int, int, int] | None = (0, len(words), 0) if words else None
        self._costs = costs
        self._next: dict[tuple[int, int, int], dict[int, tuple[int, int, int]]] = {}

    def _children(self, q: tuple[int, int, int]) -> dict[int, tuple[int, int, int]]:
        found = self._next.get(q)
        if found is not None:
            return found
        found = {}
        first, last, depth = q
        words = self.words
        if first < last and len(words[first]) == depth:
            first += 1
        while first < last:
            byte = words[first][depth]
            end = last
            if byte < words[last - 1][depth]:
                end = bisect_left(words, words[first][:depth] + bytes([byte + 1]), first, last)
            found[byte] = (first, end, depth + 1)
            first = end
        self._next[q] = found
        return found

    def step(self, q: tuple[int, int, int], byte: int) -> tuple[int, int, int] | None:
        return self._children(q).get(byte)

    def is_accepting(self, q: tuple[int, int, int]) -> bool:
        return len(self.words[q[0]]) == q[2]

    def next_bytes(self, q: tuple[int, int, int]) -> bytes:
        return bytes(self._children(q))

    def can_go_on(self, q: tuple[int, int, int]) -> bool:
        return bool(self._children(q))

    def branches(self, q: tuple[int, int, int]) -> bool:
        return len(self._children(q)) > 1

    def cost(self, q: tuple[int, int, int]) -> int:
        first, last, depth = q
        # Among very many words the shortest few are enough of a bound: any word that can be written is one.
        candidates = sorted(self.words[first:last], key=len)[:8]
        return min(self._costs.literal(word)[depth] for word in candidates)

    def clamp(self, q: tuple[int, int, int], reach: int) -> tuple[int, int, int]:
        return q


class EntriesLeaf:
    """The texts of the entries of an `Unordered`. State: (those that agree with what is written, as bits, where
    they are in the tree of the texts, bytes written).

    Several may be whole at once, or one may begin another (numbers). The machine asks which are, since what
    follows depends on it; so, as leaves go, this one never ends.
    """

    __slots__ = ("_costs", "root", "texts")

    def __init__(self, texts: tuple[bytes, ...], costs: Costs) -> None:
        self.texts = texts
        self.root = prefixes(texts)
        self._costs = costs

    def step(self, q: EntriesState, byte: int) -> EntriesState | None:
        child = q[1].children.get(byte)
        if child is None:
            return None
        left = q[0] & child.below
        return (left, child, q[2] + 1) if left else None

    @staticmethod
    def whole(q: EntriesState) -> list[int]:
        """The entries whose text is whole."""
        return members(q[0] & q[1].whole)

    def is_accepting(self, q: EntriesState) -> bool:
        return False

    def next_bytes(self, q: EntriesState) -> bytes:
        return bytes(byte for byte, child in q[1].children.items() if q[0] & child.below)

    def can_go_on(self, q: EntriesState) -> bool:
        return bool(q[0] & ~q[1].whole)

    def branches(self, q: EntriesState) -> bool:
        return bool(q[0] & (q[0] - 1)) and len(self.next_bytes(q)) > 1

    def cost(self, q: EntriesState) -> int:
        return min(self.cost_of(index, q[2]) for index in members(q[0]))

    def cost_of(self, index: int, depth: int) -> int:
        return self._costs.literal(self.texts[index])[depth]

    def can_finish(self, index: int, depth: int) -> bool:
        """Whether the rest of an entry's text can be written."""
        return self._costs.spells(self.texts[index]) or self.cost_of(index, depth) < INFINITE

    def clamp(self, q: EntriesState, reach: int) -> EntriesState:
        return q


def fewest_bytes(dfa: Dfa, alphabet: bytes) -> tuple[int, ...]:
    """For each state the fewest bytes of `alphabet` that lead to acceptance (INFINITE where none do)."""
    class_of, firsts = dfa.classes
    narrow = dfa.next[:, firsts]
    spelled = np.zeros(len(firsts), np.bool_)
    spelled[class_of[list(alphabet)]] = True
    needs_more = narrow[:, ~spelled].any()
    shortest = distances(narrow[:, spelled], dfa.accept) if needs_more else dfa.shortest
    return tuple(np.where(shortest == NEVER, INFINITE, shortest.astype(np.int64)).tolist())


_plain: WeakValueDictionary[Hashable, DfaLeaf] = WeakValueDictionary()
_counted: WeakValueDictionary[Hashable, CountedLeaf] = WeakValueDictionary()


def dfa_leaf(dfa: Dfa, costs: Costs) -> DfaLeaf:
    key = (dfa.key, costs.alphabet)
    leaf = _plain.get(key)
    if leaf is None:
        leaf = _plain[key] = DfaLeaf(dfa, costs)
    return leaf


def counted_leaf(dfa: Dfa, costs: Costs) -> CountedLeaf:
    key = (dfa.key, costs.alphabet)
    leaf = _counted.get(key)
    if leaf is None:
        leaf = _counted[key] = CountedLeaf(dfa, costs)
    return leaf


def leaf_of(node: Literal | Pattern | Words, costs: Costs) -> tuple[Leaf, Hashable | None]:
    """The leaf of a node and the state in which it begins (None: nothing can be written there)."""
    if isinstance(node, Literal):
        literal = LiteralLeaf(node.text, costs)
        return literal, literal.start
    if isinstance(node, Words):
        words = WordsLeaf(node.words, costs)
        return words, words.start
    if node.low == 0 and node.high is None:
        plain = dfa_leaf(node.dfa, costs)
        return plain, plain.start
    counted = counted_leaf(node.dfa, costs)
    return counted, counted.first(node.low, node.high)

"""A leaf that runs whole machines side by side: what one of them accepts and none of the others does.

    base: any array        without: arrays of strings        accepts [1], ["a", 1]; not [], ["a"]

Whether a state can still be completed takes a search: what the base can write, cheapest first, until a text is
found that no other machine accepts. The search is bounded (`SEARCH_STEPS`), and a state for which nothing was found
counts as dead, so that a text never ends where nothing can follow; states on a way that was found are known to
live, with the bytes that they are away from an end.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fillengine.automata.fresh import FreshLeaf
from fillengine.automata.leaf import INFINITE, CountedLeaf, DfaLeaf, Leaf
from fillengine.automata.nodes import Except

if TYPE_CHECKING:
    from fillengine.automata.machine import Machine
    from fillengine.automata.state import State

SEARCH_STEPS = 1_000
"""Steps of one search for an end."""

FIRST_SEARCH_STEPS = 3_000
"""Steps of the search that decides whether there is any text at all."""

MAX_COSTS = 100_000
"""States of which the leaf remembers how far they are from an end. Past it the memory is emptied."""

MAX_ROWS = 4_096
"""States of which the leaf remembers where their bytes lead (1 KiB each). Past it the memory is emptied."""


MAX_LIFELESS = 1_024
"""Exclusions of which it is remembered that they leave nothing, so that they are searched once for all vocabularies
(they are kept alive by it, with their nodes). Past it the memory is emptied."""

_lifeless: set[Except] = set()


def is_lifeless(node: Except) -> bool:
    """Whether a search has found that the exclusion leaves nothing."""
    return node in _lifeless


def note_lifeless(node: Except) -> None:
    if len(_lifeless) >= MAX_LIFELESS:
        _lifeless.clear()
    _lifeless.add(node)


class LockstepState(NamedTuple):
    """base: state of the base; others: those of the other machines, None where they are out."""

    base: State
    others: tuple[State | None, ...]


DEAD, UNKNOWN, NAMED = 0, -1, -2


class Rows:
    """The states of a leaf as numbers, and where their bytes lead: int32[n, 256].

    States that differ in the key alone that is being written are one number, that of the first of them. What a
    byte that may end the key leads to depends on the whole key, so that it is not a number but NAMED.
    """

    def __init__(self) -> None:
        self.states: list[LockstepState | None] = [None]
        self.accept = np.zeros(64, dtype=np.bool_)
        self.table = np.full((64, 256), UNKNOWN, dtype=np.int32)
        self.table[DEAD] = DEAD
        self._numbers: dict[LockstepState, int] = {}

    def __len__(self) -> int:
        return len(self.states)

    def number(self, leaf: LockstepLeaf, state: LockstepState) -> int:
        nameless = leaf.nameless(state)
        found = self._numbers.get(nameless)
        if found is None:
            found = self._numbers[nameless] = len(self.states)
            self.states.append(state)
            if found >= len(self.accept):
                self.accept = np.concatenate([self.accept, np.zeros_like(self.accept)])
                self.table = np.concatenate([self.table, np.full_like(self.table, UNKNOWN)])
            self.accept[found] = leaf.is_accepting(state)
        return found

    def follow(self, leaf: LockstepLeaf, number: int, byte: int) -> None:
        """Find out where a byte leads."""
        state = self.states[number]
        assert state is not None
        after = leaf.step(state, byte)
        if after is None:
            following = DEAD
        elif leaf.ends_key(state, byte):
            following = NAMED
        else:
            following = self.number(leaf, after)
        self.table[number, byte] = following


class LockstepLeaf:
    """What `base` accepts and none of `others`."""

    __slots__ = ("__weakref__", "_bytes", "_costs", "_next", "base", "others", "reach", "rows", "start")

    def __init__(self, base: Machine, others: tuple[Machine, ...], reach: int) -> None:
        # Counters are cut where a search cannot use them up either.
        self.reach = max(reach, 64)
        self.base = base
        self.others = others
        self._costs: dict[LockstepState, int] = {}
        self._bytes: dict[Hashable, list[int]] = {}
        self._next: dict[LockstepState, dict[int, LockstepState | None]] = {}
        self.rows = Rows()
        first = LockstepState(base.start, tuple(machine.start for machine in others))
        self.start: LockstepState | None = first if self._lives(first) else None

    def _moved(self, q: LockstepState, byte: int) -> LockstepState | None:
        base = self.base.step(q.base, byte)
        if base is None:
            return None
        others = q.others
        if any(other is not None for other in others):
            others = tuple(
                None if other is None else machine.step(other, byte)
                for other, machine in zip(others, self.others, strict=True)
            )
        return LockstepState(base, others)

    def step(self, q: LockstepState, byte: int) -> LockstepState | None:
        known = self._next.get(q)
        if known is None:
            if len(self._next) >= MAX_ROWS:
                self._next.clear()
            known = self._next[q] = {}
        if byte not in known:
            after = self._moved(q, byte)
            known[byte] = after if after is not None and self._lives(after) else None
        return known[byte]

    def nameless(self, q: LockstepState) -> LockstepState:
        """See Machine.nameless."""
        others = zip(q.others, self.others, strict=True)
        return LockstepState(
            self.base.nameless(q.base),
            tuple([None if other is None else machine.nameless(other) for other, machine in others]),
        )

    def ends_key(self, q: LockstepState, byte: int) -> bool:
        """Whether a key may end with this byte in one of the machines."""
        others = zip(q.others, self.others, strict=True)
        return self.base.ends_key(q.base, byte) or any(
            other is not None and machine.ends_key(other, byte) for other, machine in others
        )

    def is_accepting(self, q: LockstepState) -> bool:
        return q.base.is_accepting and not any(other is not None and other.is_accepting for other in q.others)

    def next_bytes(self, q: LockstepState) -> bytes:
        options = q.base.next_bytes()
        if all(other is None for other in q.others):
            return options
        classes = self._classes(q)
        verdicts: dict[int, bool] = {}
        for byte in options:
            kind = int(classes[byte])
            if kind not in verdicts:
                verdicts[kind] = self.step(q, byte) is not None
        return bytes(byte for byte in options if verdicts[int(classes[byte])])

    def can_go_on(self, q: LockstepState) -> bool:
        return not self.is_accepting(q) or bool(self.next_bytes(q))

    def branches(self, q: LockstepState) -> bool:
        return False

    def cost(self, q: LockstepState) -> int:
        if all(other is None for other in q.others):
            return self.base.cost(q.base)
        return self._cost(q)

    def clamp(self, q: LockstepState, reach: int) -> LockstepState:
        if all(other is None for other in q.others):
            return LockstepState(self.base.clamped(q.base, self.reach), q.others)
        return q

    def _lives(self, q: LockstepState) -> bool:
        return all(other is None for other in q.others) or self._cost(q) < INFINITE

    def _cost(self, q: LockstepState) -> int:
        found = self._costs.get(self.nameless(q))
        if found is None:
            if len(self._costs) > MAX_COSTS:
                self._costs.clear()
            found = self._search(q)
        return found

    def _search(self, first: LockstepState) -> int:
        """Bytes from a state to an end that none of the others has; notes them for all states on the way."""
        came: dict[LockstepState, LockstepState | None] = {first: None}
        alike = {self._outline(first)}
        ticket = count()
        heap = [(self._hope(first), next(ticket), first)]
        steps = 0
        limit = SEARCH_STEPS if self._costs else FIRST_SEARCH_STEPS
        while heap and steps < limit:
            _, _, q = heappop(heap)
            known = self._costs.get(self.nameless(q))
            if self.is_accepting(q):
                known = 0
            elif all(other is None for other in q.others):
                known = self.base.cost(q.base)
            if known is not None and known < INFINITE:
                cost, at = known, q
                while True:
                    nameless = self.nameless(at)
                    cost = self._costs[nameless] = min(self._costs.get(nameless, INFINITE), cost)
                    previous = came[at]
                    if previous is None:
                        return cost
                    at, cost = previous, cost + 1
            if known is not None:
                continue
            for byte in self._representatives(q):
                steps += 1
                after = self._moved(q, byte)
                if after is None or after in came:
                    continue
                outline = self._outline(after)
                if outline not in alike:
                    alike.add(outline)
                    came[after] = q
                    heappush(heap, (self._hope(after), next(ticket), after))
        self._costs[self.nameless(first)] = INFINITE
        return INFINITE

    def _outline(self, q: LockstepState) -> LockstepState:
        """The same for states that differ in what matters late only: a search looks at one of them."""
        others = zip(q.others, self.others, strict=True)
        return LockstepState(
            self.base.clamped(q.base, self.reach),
            tuple(None if other is None else machine.clamped(other, self.reach) for other, machine in others),
        )

    def _representatives(self, q: LockstepState) -> list[int]:
        """One byte of each class that no machine tells apart at this place."""
        nameless = self.nameless(q)
        # What follows the leaves does not matter.
        place = tuple(
            [
                (spot, p)
                for state in (nameless.base, *nameless.others)
                if state is not None
                for spot, p, _ in state.configurations
            ]
        )
        found = self._bytes.get(place)
        if found is None:
            classes = self._classes(q)
            options = np.frombuffer(q.base.next_bytes(), dtype=np.uint8)
            _, firsts = np.unique(classes[options], return_index=True)
            if len(self._bytes) >= MAX_ROWS:
                self._bytes.clear()
            found = self._bytes[place] = options[np.sort(firsts)].tolist()
        return found

    def _classes(self, q: LockstepState) -> np.ndarray:
        """int64[256]: equal for bytes that no machine tells apart at this place."""
        classes = np.zeros(256, dtype=np.int64)
        alone: set[int] = set()
        for state in (q.base, *q.others):
            if state is not None:
                classes = _refined(classes, alone, [(spot.leaf, p) for spot, p, _ in state.configurations])
        for number, byte in enumerate(sorted(alone)):
            classes[byte] = 1_000_000 + number
        return classes

    def _hope(self, q: LockstepState) -> int:
        """What is near an end, and few others are left, comes first."""
        return self.base.cost(q.base) + 2 * sum(other is not None for other in q.others)


def _refined(classes: np.ndarray, alone: set[int], leaves: list[tuple[Leaf, Any]]) -> np.ndarray:
    """Byte classes that also these leaves do not tell apart; `alone` gets the bytes that are classes of their own."""
    work = list(leaves)
    while work:
        leaf, q = work.pop()
        if isinstance(leaf, FreshLeaf):
            alone.update(q.taken())
            work.append((leaf.base, q.q))
        elif isinstance(leaf, LockstepLeaf):
            for state in (q.base, *q.others):
                if state is not None:
                    work += [(spot.leaf, p) for spot, p, _ in state.configurations]
        elif isinstance(leaf, DfaLeaf | CountedLeaf):
            classes = np.unique(classes * 256 + leaf.dfa.classes[0], return_inverse=True)[1].reshape(-1)
        else:
            alone.update(leaf.next_bytes(q))
    return classes

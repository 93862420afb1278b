"""A leaf that runs whole machines side by side: what one of them accepts and none of the others does.

    base: any array        without: arrays of strings        accepts [1], ["a", 1]; not [], ["a"]

Whether a state can still be completed takes a search: what the base can write, cheapest first, until a text is
found that no other machine accepts. The search is bounded (`SEARCH_STEPS`), so that it may fail where there is a
text. What is allowed behind a text depends on the text alone all the same:

- a search depends on the state that it begins in, and on nothing that was found before;
- a state that goes on along the way that was found for the state before it lives, whether or not a search from it
  finds that way again (it keeps the way: `LockstepState.kept`). So every state that lives has a byte behind which
  the state lives.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fillengine.automata.fresh import FreshLeaf
from fillengine.automata.leaf import INFINITE, ByteCosts, Costs, CountedLeaf, DfaLeaf, Leaf
from fillengine.automata.nodes import Except, Template, Unordered, walk
from fillengine.automata.state import State, frames
from fillengine.errors import UnsatisfiableForm

if TYPE_CHECKING:
    from fillengine.automata.machine import Machine

SEARCH_STEPS = 1_000
"""Steps of one search for an end."""

FIRST_SEARCH_STEPS = 3_000
"""Steps of the search that decides whether there is any text at all."""

MAX_WAYS = 100_000
"""States of which the leaf remembers what a search found. Past it the memory is emptied."""

MAX_ROWS = 4_096
"""States of which the leaf remembers where their bytes lead (1 KiB each). Past it the memory is emptied."""

MAX_FIRST = 1_024
"""Exclusions of which it is remembered how their first text is found, so that all vocabularies share the search
(they are kept alive by it, with their nodes). Past it the memory is emptied."""


class Way(NamedTuple):
    """How a text can end: `word` leads to where the leaf may end, or where no other machine is left.

    behind  what the base costs from there
    keys    what must be new and is written on the way
    """

    word: bytes
    behind: int
    keys: frozenset[bytes]

    def rest(self) -> Way:
        """Behind the first byte."""
        return Way(self.word[1:], self.behind, frozenset())


class LockstepState(NamedTuple):
    """base: state of the base; others: those of the other machines, None where they are out.

    kept: how the text can end, where that is known from the state before and a search finds another way or none.
    """

    base: State
    others: tuple[State | None, ...]
    kept: Way | None = None

    @property
    def is_free(self) -> bool:
        """No other machine is left."""
        return not any(other is not None for other in self.others)


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
        self._is_shared = [True]

    def __len__(self) -> int:
        return len(self.states)

    def number(self, leaf: LockstepLeaf, state: LockstepState) -> int:
        is_shared = not leaf.collides(state)
        key = leaf.nameless(state)._replace(kept=state.kept) if is_shared else state
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.states)
            self.states.append(state)
            self._is_shared.append(is_shared)
            if found >= len(self.accept):
                self.accept = np.concatenate([self.accept, np.zeros_like(self.accept)])
                self.table = np.concatenate([self.table, np.full_like(self.table, UNKNOWN)])
            self.accept[found] = leaf.is_accepting(state)
        return found

    def follow(self, leaf: LockstepLeaf, number: int, byte: int) -> None:
        """Find out where a byte leads."""
        state = self.states[number]
        assert state is not None
        if self._is_shared[number] and leaf.needs_name(state, byte):
            following = NAMED
        else:
            after = leaf.step(state, byte)
            following = DEAD if after is None else self.number(leaf, after)
        self.table[number, byte] = following


class LockstepLeaf:
    """What `base` accepts and none of `others`.

    `first` leads from the start to where the leaf may end or no other machine is left, as a search has found.
    """

    __slots__ = (
        "__weakref__", "_bytes", "_compares_items", "_costs", "_exact", "_next", "_ways", "base", "others", "reach",
        "rows", "start",
    )  # fmt: skip

    def __init__(self, base: Machine, others: tuple[Machine, ...], costs: Costs, first: bytes | None = None) -> None:
        # Counters are cut where a search cannot use them up either.
        self.reach = max(costs.reach, 64)
        self.base = base
        self.others = others
        self._costs = costs
        self._compares_items = any(_compares_items(machine) for machine in others)
        self._ways: dict[LockstepState, Way | None] = {}
        self._exact: dict[LockstepState, Way | None] = {}
        self._bytes: dict[Hashable, list[int]] = {}
        self._next: dict[LockstepState, dict[int, LockstepState | None]] = {}
        self.rows = Rows()
        self.start = self._first(first)

    def _first(self, word: bytes | None) -> LockstepState | None:
        start = LockstepState(self.base.start, tuple([machine.start for machine in self.others]))
        if start.is_free:
            return start
        way = self._search(start, FIRST_SEARCH_STEPS) if word is None else self._way_along(start, word)
        return None if way is None else start._replace(kept=way)

    @property
    def first_word(self) -> bytes | None:
        """What leads from the start to where the leaf may end or no other machine is left; None: nothing was found."""
        if self.start is None:
            return None
        return b"" if self.start.kept is None else self.start.kept.word

    def _way_along(self, q: LockstepState, word: bytes) -> Way | None:
        """None where the vocabulary lacks what the word needs."""
        for byte in word:
            after = self._moved(q, byte)
            if after is None:
                return None
            q = after
        return Way(word, self._behind(q), frozenset())

    def _moved(self, q: LockstepState, byte: int) -> LockstepState | None:
        """What one more byte leads to, living or not."""
        base = self.base.step(q.base, byte)
        if base is None:
            return None
        others = q.others
        if not q.is_free:
            others = tuple(
                [
                    None if other is None else machine.step(other, byte)
                    for other, machine in zip(others, self.others, strict=True)
                ]
            )
        return LockstepState(base, others)

    def step(self, q: LockstepState, byte: int) -> LockstepState | None:
        known = self._next.get(q)
        if known is None:
            if len(self._next) >= MAX_ROWS:
                self._next.clear()
            known = self._next[q] = {}
        if byte not in known:
            known[byte] = self._after(q, byte)
        return known[byte]

    def _after(self, q: LockstepState, byte: int) -> LockstepState | None:
        after = self._moved(q, byte)
        if after is None or after.is_free:
            return after
        own, way = self._own(after), self._way(q)
        if way is not None and way.word.startswith(bytes((byte,))):
            rest = way.rest()
            return after if own is not None and own[:2] == rest[:2] else after._replace(kept=rest)
        return after if own is not None else None

    def nameless(self, q: LockstepState) -> LockstepState:
        """See Machine.nameless. Nothing is known of it (`kept`)."""
        others = q.others
        if not (q.is_free or self._compares_items):
            others = tuple(
                [
                    None if other is None else machine.nameless(other)
                    for other, machine in zip(others, self.others, strict=True)
                ]
            )
        return LockstepState(self.base.nameless(q.base), others)

    def ends_key(self, q: LockstepState, byte: int) -> bool:
        """Whether a key may end with this byte in one of the machines."""
        others = zip(q.others, self.others, strict=True)
        return self.base.ends_key(q.base, byte) or any(
            other is not None and machine.ends_key(other, byte) for other, machine in others
        )

    def collides(self, q: LockstepState) -> bool:
        """Whether what a search from the nameless state writes may be what was written before."""
        if q.is_free or q.kept is not None:
            return False
        way = self._nameless_way(q)
        return way is not None and _collides(q.base, way.keys)

    def needs_name(self, q: LockstepState, byte: int) -> bool:
        """Whether where a byte leads to depends on the key that is being written, or on keys that were."""
        after = self._moved(q, byte)
        if after is None:
            return False
        if self.ends_key(q, byte):
            return True
        if after.is_free:
            return False
        # What does not collide with the keys of a way does not collide with them one byte later either.
        following, way = self._nameless_way(after), None if q.kept is not None else self._nameless_way(q)
        return following is not None and not following.keys <= (frozenset() if way is None else way.keys)

    def is_accepting(self, q: LockstepState) -> bool:
        return q.base.is_accepting and not any(other is not None and other.is_accepting for other in q.others)

    def next_bytes(self, q: LockstepState) -> bytes:
        options = q.base.next_bytes()
        if q.is_free:
            return options
        classes = self._classes(q)
        way = self._way(q)
        on_way = b"" if way is None else way.word[:1]
        verdicts: dict[int, bool] = {}
        found = bytearray()
        for byte in options:
            kind = int(classes[byte])
            lives = verdicts.get(kind)
            if lives is None or on_way == bytes((byte,)):
                lives = self.step(q, byte) is not None
                if on_way != bytes((byte,)) and not self.needs_name(q, byte):
                    verdicts[kind] = lives
            if lives:
                found.append(byte)
        return bytes(found)

    def can_go_on(self, q: LockstepState) -> bool:
        return not self.is_accepting(q) or bool(self.next_bytes(q))

    def branches(self, q: LockstepState) -> bool:
        return False

    def cost(self, q: LockstepState) -> int:
        if q.is_free:
            return self.base.cost(q.base)
        if self.is_accepting(q):
            return 0
        way = self._way(q)
        return INFINITE if way is None else min(INFINITE, self._costs.literal(way.word)[0] + way.behind)

    def clamp(self, q: LockstepState, reach: int) -> LockstepState:
        return LockstepState(self.base.clamped(q.base, self.reach), q.others) if q.is_free else q

    def _way(self, q: LockstepState) -> Way | None:
        return q.kept if q.kept is not None else self._own(q)

    def _own(self, q: LockstepState) -> Way | None:
        """What a search finds. States that differ in names alone share it, where the way writes none of these."""
        way = self._nameless_way(q)
        if way is None or not _collides(q.base, way.keys):
            return way
        if q not in self._exact:
            if len(self._exact) >= MAX_WAYS:
                self._exact.clear()
            self._exact[q] = self._search(q, SEARCH_STEPS)
        return self._exact[q]

    def _nameless_way(self, q: LockstepState) -> Way | None:
        nameless = self.nameless(q)
        if nameless not in self._ways:
            if len(self._ways) >= MAX_WAYS:
                self._ways.clear()
            self._ways[nameless] = self._search(nameless, SEARCH_STEPS)
        return self._ways[nameless]

    def _search(self, first: LockstepState, limit: int) -> Way | None:
        """The bytes from a state to an end that none of the others has. A function of the state alone."""
        came: dict[LockstepState, tuple[LockstepState, int] | None] = {first: None}
        alike = {self._outline(first)}
        ticket = count()
        heap = [(self._hope(first), next(ticket), first)]
        steps = 0
        while heap and steps < limit:
            _, _, q = heappop(heap)
            if q.is_free or self.is_accepting(q):
                return self._way_to(q, came)
            for byte in self._representatives(q):
                steps += 1
                after = self._moved(q, byte)
                if after is None or after in came:
                    continue
                outline = self._outline(after)
                if outline not in alike:
                    alike.add(outline)
                    came[after] = (q, byte)
                    heappush(heap, (self._hope(after), next(ticket), after))
        return None

    def _way_to(self, end: LockstepState, came: dict[LockstepState, tuple[LockstepState, int] | None]) -> Way:
        word, written = bytearray(), [_written(end.base)]
        at = came[end]
        while at is not None:
            q, byte = at
            word.append(byte)
            written.append(_written(q.base))
            at = came[q]
        keys = frozenset().union(*written) - written[-1]
        return Way(bytes(reversed(word)), self._behind(end), keys)

    def _behind(self, end: LockstepState) -> int:
        return 0 if self.is_accepting(end) else self.base.cost(end.base)

    def _outline(self, q: LockstepState) -> LockstepState:
        """The same for states that differ in what matters late only: a search looks at one of them."""
        others = zip(q.others, self.others, strict=True)
        return LockstepState(
            self.base.clamped(q.base, self.reach),
            tuple([None if other is None else machine.clamped(other, self.reach) for other, machine in others]),
        )

    def _representatives(self, q: LockstepState) -> list[int]:
        """One byte of each class that no machine tells apart at this place, one that can be written if there is."""
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
            options = np.array(sorted(q.base.next_bytes(), key=self._is_missing), dtype=np.uint8)
            _, firsts = np.unique(classes[options], return_index=True)
            if len(self._bytes) >= MAX_ROWS:
                self._bytes.clear()
            found = self._bytes[place] = options[np.sort(firsts)].tolist()
        return found

    def _is_missing(self, byte: int) -> bool:
        return byte not in self._costs.alphabet

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


class LooseLeaf(LockstepLeaf):
    """The same for what is excluded by another such leaf: nothing is searched, and every state of the base lives.

    What it accepts is exact. A state that were given up because a search found no end would accept too little here,
    and what should be excluded would be written.
    """

    __slots__ = ()

    def _first(self, _word: bytes | None) -> LockstepState | None:
        return LockstepState(self.base.start, tuple([machine.start for machine in self.others]))

    def _after(self, q: LockstepState, byte: int) -> LockstepState | None:
        return self._moved(q, byte)

    def next_bytes(self, q: LockstepState) -> bytes:
        return q.base.next_bytes()

    def cost(self, q: LockstepState) -> int:
        return self.base.cost(q.base)


_first_words: dict[Except, bytes | None] = {}


def lockstep_leaf(node: Except, costs: Costs, machine: type[Machine], kind: type[LockstepLeaf]) -> LockstepLeaf | None:
    """The leaf of an exclusion, of this kind; None: no text was found for it.

    Whether there is one does not depend on the vocabulary. `machine` is what runs side by side.
    """
    if kind is LooseLeaf:
        return _leaf(node, costs, machine, kind, None)
    if node not in _first_words:
        leaf = _leaf(node, ByteCosts(), machine, kind, None)
        if len(_first_words) >= MAX_FIRST:
            _first_words.clear()
        _first_words[node] = None if leaf is None else leaf.first_word
    word = _first_words[node]
    return None if word is None else _leaf(node, costs, machine, kind, word)


def _leaf(
    node: Except, costs: Costs, machine: type[Machine], kind: type[LockstepLeaf], word: bytes | None
) -> LockstepLeaf | None:
    others = []
    try:
        base = machine(Template(node.base, node.rules), costs, exclusions=kind)
    except UnsatisfiableForm:
        return None
    for without in node.without:
        with suppress(UnsatisfiableForm):  # nothing is excluded
            others.append(machine(Template(without, node.rules), costs, exclusions=LooseLeaf))
    return kind(base, tuple(others), costs, word)


def _compares_items(machine: Machine) -> bool:
    """Whether the machine is out where an item comes twice, of which the base may know nothing."""
    return any(
        isinstance(node, Unordered) and any(other.rest is None for other in node.others)
        for node in walk(machine.template)
    )


def _written(state: State) -> frozenset[bytes]:
    """What must not be written again."""
    found: set[bytes] = set()
    for _, _, frame in state.configurations:
        for entry in frames(frame):
            if entry.members is not None:
                found |= entry.members.words
    return frozenset(found)


def _collides(state: State, keys: frozenset[bytes]) -> bool:
    """Whether one of `keys` is written, or may be what is being written."""
    if not keys:
        return False
    for spot, q, _ in state.configurations:
        if isinstance(spot.leaf, FreshLeaf) and q.text is not None and any(key.startswith(q.text) for key in keys):
            return True
    return not keys.isdisjoint(_written(state))


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

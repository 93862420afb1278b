"""From expression trees to automata.

A Thompson automaton on bytes, determinised over the classes of bytes that the tree tells apart, then minimised.
Outlines-core is not used for whole trees on purpose: it determinises the unanchored search beside the anchored
one, which takes minutes for a DNS label, `[a-z]([-a-z0-9]{0,61}[a-z0-9])?` (here 2 ms). It is the source of
Unicode properties and of case folding.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from fillengine.automata import dfa as algebra
from fillengine.automata.tables import STATE_LIMIT, Dfa, minimise, tidy
from fillengine.errors import AutomatonTooLarge
from fillengine.templates.expression import (
    ANY,
    ANY_CHAR,
    EMPTY,
    NEVER,
    Chars,
    Concat,
    Either,
    Repeat,
    Tables,
    Text,
    Tree,
)

# Steps of the subset construction: about half a second of pure Python.
MAX_STEPS = 1_000_000
# A tree of more positions than this is put together on tables, where a repeated unit is copied by numpy.
MAX_POSITIONS = 6_000


class ConstructionTooLong(AutomatonTooLarge):
    """MAX_STEPS were spent: the sets of positions grow so fast that the states would go on doubling."""

    def __str__(self) -> str:
        return (
            f"its automaton is not finished after {MAX_STEPS} steps and {self.states} states; use smaller "
            "bounds on what is ambiguous"
        )


def language(tree: Tree) -> Dfa:
    """The minimal automaton of exactly the UTF-8 texts of `tree`. Raises AutomatonTooLarge."""
    tree = _without_never(tree)
    if tree == NEVER:
        return algebra.empty()
    return minimise(_language(tree))


def _language(tree: Tree) -> Dfa:
    """The automaton of a tree without dead parts, trimmed but not minimal."""
    if isinstance(tree, Tables):
        return tree.dfa
    if positions(tree) <= MAX_POSITIONS:
        return _Thompson(tree).determinise()
    return _assembled(tree)


def _assembled(tree: Tree) -> Dfa:
    """The automaton of a large tree, from the automata of its parts."""
    match tree:
        case Concat(items):
            parts = [_language(part) for part in _runs(items)]
            built = algebra.concat(*parts)
        case Either(options):
            built = algebra.union(*(_language(option) for option in options))
        case Repeat(item, low, high):
            unit = minimise(_language(item))
            copies = max(low, high or 0)
            if unit.next.shape[0] * copies > STATE_LIMIT:
                raise AutomatonTooLarge(unit.next.shape[0] * copies, STATE_LIMIT)
            built = algebra.repeat(unit, low, high)
        case _:
            raise AutomatonTooLarge(positions(tree), MAX_POSITIONS)
    return built


def _runs(items: tuple[Tree, ...]) -> Iterator[Tree]:
    """`items` with neighbours of few positions joined."""
    run: list[Tree] = []
    size = 0
    for item in items:
        more = positions(item)
        if run and size + more > MAX_POSITIONS:
            yield Concat(tuple(run))
            run, size = [], 0
        run.append(item)
        size += more
    if run:
        yield Concat(tuple(run)) if len(run) > 1 else run[0]


def positions(tree: Tree) -> int:
    """How many positions the tree has with its repetitions written out: the size of its first automaton."""
    match tree:
        case Text(text):
            return len(text.encode())
        case Chars():
            return len(_char_automaton(tree))
        case Concat(items):
            return sum(map(positions, items))
        case Either(options):
            return sum(map(positions, options))
        case Repeat(item, low, high):
            return positions(item) * max(low, high or 0, 1)
        case Tables(dfa):
            return len(dfa.next)
    raise AssertionError("conditions and rule names are resolved before automata are made")


def _without_never(tree: Tree) -> Tree:
    """`tree` without parts that match nothing, so that every position can still reach the end."""
    match tree:
        case Chars(ranges, rust):
            return NEVER if not ranges and not rust else tree
        case Concat(items):
            kept = tuple(_without_never(item) for item in items)
            return NEVER if NEVER in kept else Concat(kept)
        case Either(options):
            some = tuple(option for option in map(_without_never, options) if option != NEVER)
            return some[0] if len(some) == 1 else Either(some)
        case Repeat(item, low, high):
            unit = _without_never(item)
            if unit == NEVER:
                return NEVER if low else EMPTY
            return Repeat(unit, low, high)
        case Tables(dfa):
            return NEVER if dfa.is_empty else tree
    return tree


# One character as byte steps: for each position the steps (set of bytes as a 256-bit integer, next position),
# position 0 the start, -1 the end.
Steps = tuple[tuple[tuple[int, int], ...], ...]


@lru_cache(maxsize=4096)
def _char_automaton(chars: Chars) -> Steps:
    if chars.rust:
        return _steps_of(minimise(algebra.from_regex(chars.rust)))
    steps: list[list[tuple[int, int]]] = [[]]
    known: dict[tuple[tuple[int, int], ...], int] = {(): -1}

    def position(rest: tuple[tuple[int, int], ...]) -> int:
        if rest not in known:
            known[rest] = len(steps)
            steps.append([])
            steps[known[rest]].append((_byte_set(*rest[0]), position(rest[1:])))
        return known[rest]

    firsts: dict[int, int] = {}
    for low, high in chars.ranges:
        for sequence in _utf8_sequences(low, high):
            target = position(sequence[1:])
            firsts[target] = firsts.get(target, 0) | _byte_set(*sequence[0])
    steps[0] = [(mask, target) for target, mask in firsts.items()]
    return tuple(map(tuple, steps))


def _byte_set(low: int, high: int) -> int:
    return (1 << (high + 1)) - (1 << low)


def _utf8_sequences(low: int, high: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """The characters `low`..`high` as products of byte ranges (RFC 3629, section 4)."""
    for last in (0x7F, 0x7FF, 0xFFFF):
        if low <= last < high:
            yield from _utf8_sequences(low, last)
            yield from _utf8_sequences(last + 1, high)
            return
    if high > 0x7F:
        for bits in (6, 12, 18):
            mask = (1 << bits) - 1
            if low & ~mask == high & ~mask:
                break
            if low & mask:
                yield from _utf8_sequences(low, low | mask)
                yield from _utf8_sequences((low | mask) + 1, high)
                return
            if high & mask != mask:
                yield from _utf8_sequences(low, (high & ~mask) - 1)
                yield from _utf8_sequences(high & ~mask, high)
                return
    yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))


def _steps_of(dfa: Dfa) -> Steps:
    """The steps of an automaton for single characters: start first, its accepting states as the end."""
    order = [dfa.start]
    known = {dfa.start: 0}
    rows: list[tuple[tuple[int, int], ...]] = []
    for state in order:
        row: dict[int, int] = {}
        targets = dfa.next[state]
        for byte in np.flatnonzero(targets).tolist():
            target = int(targets[byte])
            if dfa.accept[target]:
                where = -1
            else:
                where = known.setdefault(target, len(known))
                if where == len(order):
                    order.append(target)
            row[where] = row.get(where, 0) | (1 << byte)
        rows.append(tuple((mask, where) for where, mask in row.items()))
    return tuple(rows)


class _Thompson:
    """A nondeterministic automaton of a tree: per position its steps on bytes and its free moves."""

    def __init__(self, tree: Tree) -> None:
        self._steps: list[list[tuple[int, int]]] = []
        self._free: list[list[int]] = []
        self._universe = -1
        start = self._new()
        if isinstance(tree, Concat) and tree.items and tree.items[-1] == ANY:
            self._final = self._add(Concat(tree.items[:-1]), start)
            self._universe = self._loop_any(self._final)
        else:
            self._final = self._add(tree, start)
        self._closures: dict[int, frozenset[int]] = {}

    def _new(self) -> int:
        self._steps.append([])
        self._free.append([])
        return len(self._steps) - 1

    def _loop_any(self, position: int) -> int:
        """Any text may follow; a set that holds the new position says no more than the position alone."""
        universe = self._new()
        self._free[position].append(universe)
        self._char(ANY_CHAR, universe, universe)
        self._final = universe
        return universe

    def _char(self, chars: Chars, start: int, end: int) -> None:
        rows = _char_automaton(chars)
        places = [start, *(self._new() for _ in rows[1:])]
        for place, row in zip(places, rows, strict=True):
            steps = self._steps[place]
            for mask, target in row:
                steps.append((mask, end if target < 0 else places[target]))

    def _add(self, tree: Tree, start: int) -> int:
        """Add `tree` from position `start`; its end position, which no step of the tree leaves."""
        match tree:
            case Text(text):
                for byte in text.encode():
                    end = self._new()
                    self._steps[start].append((1 << byte, end))
                    start = end
                return start
            case Chars():
                end = self._new()
                self._char(tree, start, end)
                return end
            case Concat(items):
                for item in items:
                    start = self._add(item, start)
                return start
            case Either(options):
                end = self._new()
                for option in options:
                    first = self._new()
                    self._free[start].append(first)
                    self._free[self._add(option, first)].append(end)
                return end
            case Repeat(item, low, high):
                return self._add_repeat(item, low, high, start)
            case Tables(dfa):
                return self._add_tables(dfa, start)
        raise AssertionError("conditions and rule names are resolved before automata are made")

    def _add_repeat(self, item: Tree, low: int, high: int | None, start: int) -> int:
        for _ in range(low):
            start = self._add(item, start)
        if high is None:
            loop, end = self._new(), self._new()
            self._free[start].append(loop)
            self._free[self._add(item, loop)].append(loop)
            self._free[loop].append(end)
            return end
        end = self._new()
        self._free[start].append(end)
        for _ in range(high - low):
            first = self._new()
            self._free[start].append(first)
            start = self._add(item, first)
            self._free[start].append(end)
        return end

    def _add_tables(self, dfa: Dfa, start: int) -> int:
        places = {0: -1} | {state: self._new() for state in range(1, dfa.next.shape[0])}
        end = self._new()
        self._free[start].append(places[dfa.start])
        for state in range(1, dfa.next.shape[0]):
            row = dfa.next[state]
            if dfa.accept[state]:
                self._free[places[state]].append(end)
            for target in np.unique(row[row != 0]).tolist():
                mask = int.from_bytes(np.packbits(row == target, bitorder="little").tobytes(), "little")
                self._steps[places[state]].append((mask, places[target]))
        return end

    def _closure(self, position: int) -> frozenset[int]:
        """The positions with steps (and the end) that free moves reach from `position`, itself included."""
        found = self._closures.get(position)
        if found is None:
            seen = {position}
            stack = [position]
            while stack:
                for target in self._free[stack.pop()]:
                    if target not in seen:
                        seen.add(target)
                        stack.append(target)
            found = frozenset(p for p in seen if self._steps[p] or p == self._final)
            self._closures[position] = found
        return found

    def _byte_classes(self) -> list[int]:
        """The coarsest sets of bytes that every step takes whole or not at all (256-bit integers)."""
        blocks = [_byte_set(0, 255)]
        for mask in {mask for steps in self._steps for mask, _ in steps}:
            halves = [half for block in blocks for half in (block & mask, block & ~mask) if half]
            blocks = halves
        return blocks

    def determinise(self) -> Dfa:
        classes = self._byte_classes()
        members = {
            mask: [index for index, block in enumerate(classes) if block & mask]
            for mask in {mask for steps in self._steps for mask, _ in steps}
        }
        moves: dict[int, list[tuple[list[int], frozenset[int]]]] = {}
        universe = frozenset((self._universe,))
        first = self._closure(0)
        if self._universe in first:
            first = universe
        states = {first: 1}
        order = [first]
        rows: list[list[int]] = [[0] * len(classes)]
        budget = MAX_STEPS
        for state in order:
            reached: list[frozenset[int] | set[int] | None] = [None] * len(classes)
            for position in state:
                steps = moves.get(position)
                if steps is None:
                    steps = [(members[mask], self._closure(target)) for mask, target in self._steps[position]]
                    moves[position] = steps
                for indexes, closure in steps:
                    budget -= len(indexes) * (1 + len(closure) // 8)
                    for index in indexes:
                        known = reached[index]
                        reached[index] = closure if known is None else known | closure
            row = [0] * len(classes)
            for index, positions in enumerate(reached):
                if positions is None:
                    continue
                target = frozenset(positions) if self._universe not in positions else universe
                number = states.get(target)
                if number is None:
                    number = states[target] = len(order) + 1
                    order.append(target)
                row[index] = number
            rows.append(row)
            if len(order) > STATE_LIMIT:
                raise AutomatonTooLarge(len(order), STATE_LIMIT)
            if budget < 0:
                raise ConstructionTooLong(len(order), STATE_LIMIT)
        class_of = np.zeros(256, np.uint8)
        for index, block in enumerate(classes):
            bits = np.frombuffer(block.to_bytes(32, "little"), np.uint8)
            class_of[np.unpackbits(bits, bitorder="little").astype(bool)] = index
        accept = np.array([False, *(self._final in state for state in order)])
        return tidy(np.array(rows, np.int32), class_of, accept, 1)

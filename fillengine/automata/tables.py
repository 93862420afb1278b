"""The byte automaton as numpy tables, and how tables are put in order.

Dfa of (ab)*:    state   a   b  other   accept
                   0     0   0    0     no      dead
                   1     2   0    0     yes     start
                   2     0   1    0     no
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fillengine.errors import AutomatonTooLarge

# A table row takes 1 KiB: the limit keeps one automaton under 50 MiB and every construction under a few
# seconds. A string of 5,000 counted characters of any kind takes about 40,000 states.
STATE_LIMIT = 50_000

# "Never" in `Dfa.shortest`: above every real length, and two of them still add up within int32.
NEVER = 1 << 30

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Dfa:
    """A deterministic automaton over bytes.

    next:      int32[n, 256], the state after a byte; state 0 is dead and `next[0, :] == 0`
    accept:    bool[n]
    start:     0 when the language is empty
    boundary:  bool[n] or None; set for automata of JSON strings (see `json_text`): the states that stand
               between two characters of the string's value, inside the quotes. Leaving such a state by a
               byte that does not lead to an accepting state (the closing quote) counts one character.

    Trimmed: every state but 0 is reachable from the start and can reach acceptance.
    """

    next: Ints
    accept: Bools
    start: int
    boundary: Bools | None = None

    @cached_property
    def key(self) -> bytes:
        """A digest of the tables: equal tables have equal keys. Tables are numbered canonically, so that
        minimised automata of the same language (and boundaries) have equal keys too."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self.start.to_bytes(4, "little"))
        # A byte class a column says the same as a byte a column, and is quicker to read.
        class_of, firsts = self.classes
        digest.update(class_of.data)
        digest.update(np.ascontiguousarray(self.next[:, firsts]).data)
        digest.update(np.ascontiguousarray(self.accept).data)
        if self.boundary is not None:
            digest.update(np.ascontiguousarray(self.boundary).data)
        return digest.digest()

    @cached_property
    def classes(self) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
        """Bytes that no state tells apart: (class of each byte: uint8[256], a byte of each class: intp[k])."""
        return byte_classes(self.next)

    @cached_property
    def shortest(self) -> Ints:
        """int32[n]: the fewest bytes to acceptance; NEVER for the dead state."""
        return distances(self.next[:, self.classes[1]], self.accept)

    @cached_property
    def is_endless(self) -> list[bool]:
        """For each state whether infinitely many words go on from it."""
        endless: list[bool] = (_longest(self.next[:, self.classes[1]]) == NEVER).tolist()
        endless[0] = False
        return endless

    @property
    def is_empty(self) -> bool:
        return self.start == 0

    def matches(self, text: bytes) -> bool:
        state = self.start
        for byte in text:
            state = int(self.next[state, byte])
            if state == 0:
                return False
        return bool(self.accept[state])

    def run(self, text: bytes, state: int | None = None) -> int:
        """The state after `text` from `state` (default: the start); 0 when no word goes on like that."""
        current = self.start if state is None else state
        for byte in text:
            current = int(self.next[current, byte])
        return current


def byte_classes(table: Ints) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """The equal columns of `table`: (class of each column, first column of each class)."""
    columns = np.ascontiguousarray(table.T)
    numbers: dict[bytes, int] = {}
    class_of = np.empty(len(columns), np.uint8)
    firsts: list[int] = []
    for index in range(len(columns)):
        column = columns[index].tobytes()
        number = numbers.get(column)
        if number is None:
            number = numbers[column] = len(firsts)
            firsts.append(index)
        class_of[index] = number
    return class_of, np.array(firsts, np.intp)


def check_size(states: int) -> None:
    if states > STATE_LIMIT:
        raise AutomatonTooLarge(states, STATE_LIMIT)


def distances(narrow: Ints, accept: Bools) -> Ints:
    """int32[n]: fewest steps from each state to acceptance. narrow: int32[n, k], one column a byte class."""
    count = len(narrow)
    result = np.full(count, NEVER, np.int32)
    frontier = np.flatnonzero(accept)
    result[frontier] = 0
    sources, begins, sizes = _edges_by_target(narrow)
    steps = 0
    while len(frontier):
        steps += 1
        # The edges into the frontier: a range of `sources` for each state of it.
        lengths = sizes[frontier]
        offsets = np.cumsum(lengths)
        places = np.repeat(begins[frontier] - offsets + lengths, lengths) + np.arange(offsets[-1])
        before = sources[places]
        before = before[result[before] == NEVER]
        result[before] = steps
        frontier = before if len(before) < 2 else np.unique(before)
    result[0] = NEVER
    return result


def _edges_by_target(narrow: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The sources of all living edges in the order of their targets, and each target's range in them."""
    sources, columns = np.nonzero(narrow)
    targets = narrow[sources, columns]
    sizes = np.bincount(targets, minlength=len(narrow))
    return sources[np.argsort(targets, kind="stable")], np.cumsum(sizes) - sizes, sizes


def _order_from(narrow: Ints, start: int, alive: Bools) -> list[int]:
    """The states reachable from `start` through living states, breadth first in the order of the classes."""
    living = alive[narrow]
    targets = narrow[living].tolist()
    ends = np.cumsum(living.sum(axis=1)).tolist()
    order = [start]
    seen = {start}
    add = seen.add
    for state in order:
        for target in targets[ends[state - 1] : ends[state]]:
            if target not in seen:
                add(target)
                order.append(target)
    return order


def empty() -> Dfa:
    """The automaton that accepts nothing."""
    return Dfa(np.zeros((1, 256), np.int32), np.zeros(1, np.bool_), 0)


def tidy(narrow: Ints, class_of: NDArray[np.uint8], accept: Bools, start: int, boundary: Bools | None = None) -> Dfa:
    """A trimmed `Dfa`, its states numbered breadth first, of a table with one column a byte class.

    narrow: int32[n, k] with a dead state 0; class_of: uint8[256], the column of each byte.
    """
    shortest = distances(narrow, accept)
    alive = shortest < NEVER
    if not alive[start]:
        nothing = empty()
        return nothing if boundary is None else Dfa(nothing.next, nothing.accept, 0, np.zeros(1, np.bool_))
    # Columns are put in the order of their first byte, so that the numbering depends on the language only.
    used, firsts = np.unique(class_of, return_index=True)
    ranks = np.argsort(firsts, kind="stable")
    ordered = narrow[:, used[ranks]]
    order = np.array([0, *_order_from(ordered, start, alive)], np.int32)
    check_size(len(order))
    renumber = np.zeros(len(narrow), np.int32)
    renumber[order] = np.arange(len(order), dtype=np.int32)
    narrowed = renumber[ordered[order]]
    # Columns may have become equal where states were cut off.
    merged, _ = byte_classes(narrowed)
    column = np.zeros(256, np.intp)
    column[used[ranks]] = np.arange(len(used))
    column = column[class_of]
    dfa = Dfa(narrowed[:, column], accept[order], 1, None if boundary is None else boundary[order])
    # What is known already need not be computed again.
    classes = merged[column]
    vars(dfa).update(classes=(classes, np.unique(classes, return_index=True)[1]), shortest=shortest[order])
    return dfa


def _longest(narrow: Ints) -> Ints:
    """int32[n]: the most steps from each state to the end of all paths; NEVER where paths go in cycles.

    Trimmed tables only, where every path leads to acceptance, so that this is a property of the language.
    """
    into, begins, sizes = _edges_by_target(narrow)
    sources, first, number = into.tolist(), begins.tolist(), sizes.tolist()
    pending = np.count_nonzero(narrow, axis=1).tolist()
    result = [NEVER] * len(narrow)
    todo = [state for state in range(1, len(narrow)) if pending[state] == 0]
    for state in todo:
        result[state] = 0
    for state in todo:
        length = result[state] + 1
        for source in sources[first[state] : first[state] + number[state]]:
            pending[source] -= 1
            # The last target to be known is the one with the longest path: `todo` is in order of length.
            if pending[source] == 0:
                result[source] = length
                todo.append(source)
    return np.array(result, np.int32)


# Odd 64-bit numbers, one for each byte class and one more: a sum over a row stands for the row.
_WEIGHTS = np.random.default_rng(0).integers(1, 1 << 62, size=257, dtype=np.int64) | 1


def minimise(dfa: Dfa) -> Dfa:
    """The smallest automaton of the same language that also keeps boundary and other states apart.

    Moore's partition refinement, begun from what is known of each state's language (its shortest and its
    longest word), so that long chains do not take one round a link.
    """
    if dfa.is_empty:
        return dfa
    class_of, reps = dfa.classes
    narrow = dfa.next[:, reps]
    # One number a state: both lengths are below 2**31, and accepting states are those of shortest 0.
    facts = (dfa.shortest.astype(np.int64) << 31) + _longest(narrow)
    if dfa.boundary is not None:
        facts = (facts << 1) + dfa.boundary
    _, block = np.unique(facts, return_inverse=True)
    block = block.reshape(-1)
    blocks = int(block.max()) + 1
    weights = _WEIGHTS[: narrow.shape[1] + 1]
    while blocks < len(narrow):
        # Rows are compared by a 64-bit sum, and the result is checked below.
        sums = block[narrow] @ weights[1:] + block * weights[0]
        _, finer = np.unique(sums, return_inverse=True)
        finer = finer.reshape(-1)
        num_finer = int(finer.max()) + 1
        if num_finer == blocks:
            break
        block, blocks = finer, num_finer
    _, members = np.unique(block, return_index=True)
    if not (
        np.array_equal(facts, facts[members][block]) and np.array_equal(block[narrow], block[narrow[members]][block])
    ):
        raise AssertionError("two rows of an automaton have the same 64-bit sum")  # once in 10**10 automata
    # Block numbers are put so that the dead state stays 0.
    dead = block[0]
    swap = np.arange(blocks)
    swap[dead], swap[0] = 0, dead
    block = swap[block]
    _, members = np.unique(block, return_index=True)
    boundary = None if dfa.boundary is None else dfa.boundary[members]
    return tidy(
        block[narrow[members]].astype(np.int32),
        class_of,
        dfa.accept[members],
        int(block[dfa.start]),
        boundary,
    )

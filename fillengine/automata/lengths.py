"""How a string of counted characters can still end: lengths and bytes.

For an automaton of JSON strings with `boundary` (see `tables.Dfa`). Example, for the strings that match
`^(aaa)*$`: behind `"a`, one character counted, at most 4 more characters can be 2 (`aa"`, three bytes), and
3 or 4 more cannot be.

Everything is a least number of bytes over the graph of the boundary states, an edge a character. Written as
vectors over the boundary states, with `step` (one more character, least bytes: a product in min-plus
algebra) and `close` (the bytes of closing at once):

    at most h characters                 H(0) = close,  H(h) = min(close, step(H(h-1)))
    at least l and at most l + h         step applied l times to H(h)

H(h) becomes constant as soon as h is no hindrance any more, so that huge upper bounds cost nothing. `step`
commutes with adding a constant, so that once a vector comes back, up to a constant, all later ones are known.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fillengine.automata.tables import NEVER, Dfa
from fillengine.errors import AutomatonTooLarge

# Numbers kept in one series of vectors: 200 MB. Reached by lower bounds of ten thousands of characters on
# patterns of hundreds of states, and then only when the vectors do not come back.
_CELL_LIMIT = 25_000_000

Vector = NDArray[np.int64]


class _Graph:
    """The boundary states, numbered from 0, with the least bytes of one character from one to another."""

    def __init__(self, dfa: Dfa) -> None:
        if dfa.boundary is None:
            raise ValueError("characters are counted only in automata of JSON strings (see lift_json)")
        boundary: NDArray[np.bool_] = dfa.boundary
        self.number = {state: number for number, state in enumerate(np.flatnonzero(boundary).tolist())}
        self._narrow = dfa.next[:, dfa.classes[1]]
        self._arrivals: dict[int, dict[int, int]] = {}
        numbers = np.cumsum(boundary) - 1

        # Every edge from a boundary state. Most characters are one byte and lead from one such state to the next.
        sources, columns = np.nonzero(self._narrow * boundary[:, None])
        targets = self._narrow[sources, columns]
        close = np.full(len(self.number), NEVER, np.int64)
        close[numbers[sources[dfa.accept[targets]]]] = 1
        is_whole = boundary[targets] & ~dfa.accept[targets]
        whole = np.unique(numbers[sources[is_whole]] * len(self.number) + numbers[targets[is_whole]])
        edges = dict.fromkeys(whole.tolist(), 1)
        is_part = ~boundary[targets] & ~dfa.accept[targets]
        parts = zip(numbers[sources[is_part]].tolist(), targets[is_part].tolist(), strict=True)
        for number, target in set(parts):
            for arrival, size in self.arrivals(target).items():
                edge = number * len(self.number) + arrival
                edges[edge] = min(edges.get(edge, NEVER), size + 1)
        ordered = np.array(sorted(edges), np.intp)
        with_edges, starts = np.unique(ordered // max(len(self.number), 1), return_index=True)
        self.close = close
        self.goes_on = len(with_edges) == len(self.number)
        """Every boundary state can be followed by one more character."""
        self._with_edges = with_edges
        self._starts = starts
        self._ends = ordered % max(len(self.number), 1)
        self._sizes = np.array([edges[edge] for edge in ordered.tolist()], np.int64)

    def arrivals(self, state: int) -> dict[int, int]:
        """Number of each boundary state that comes next on some path from `state`: the least bytes to it."""
        if state in self.number:
            return {self.number[state]: 0}
        found = self._arrivals.get(state)
        if found is None:
            found = {}
            for target in set(self._narrow[state].tolist()) - {0}:
                for arrival, size in self.arrivals(target).items():
                    found[arrival] = min(found.get(arrival, NEVER), size + 1)
            self._arrivals[state] = found
        return found

    def step(self, vector: Vector) -> Vector:
        """One more character: least bytes over the edges."""
        result = np.full(len(vector), NEVER, np.int64)
        if len(self._starts):
            sums = self._sizes + vector[self._ends]
            result[self._with_edges] = np.minimum(np.minimum.reduceat(sums, self._starts), NEVER)
        return result


class _Series:
    """`step` applied 0, 1, 2, ... times to a vector, as far as is asked for."""

    def __init__(self, graph: _Graph, first: Vector) -> None:
        self._graph = graph
        self._vectors = [first]
        self._seen = {self._shape(first): 0}
        # From `_begin` on, vectors repeat after every `_period`, `_growth` bytes dearer.
        self._begin = self._period = self._growth = 0

    @staticmethod
    def _shape(vector: Vector) -> bytes:
        lowest = int(vector.min(initial=NEVER))
        return np.where(vector < NEVER, vector - lowest, NEVER).tobytes()

    def at(self, number: int, length: int) -> int:
        """Least bytes from boundary state `number` after `length` steps; NEVER when there is no way."""
        growth = 0
        while length >= len(self._vectors):
            if self._period:
                turns = (length - self._begin) // self._period
                growth = turns * self._growth
                length -= turns * self._period
                break
            self._extend()
        bytes_left = int(self._vectors[length][number])
        return bytes_left + growth if bytes_left < NEVER else NEVER

    def _extend(self) -> None:
        vector = self._graph.step(self._vectors[-1])
        if (len(self._vectors) + 1) * len(vector) > _CELL_LIMIT:
            raise AutomatonTooLarge((len(self._vectors) + 1) * len(vector), _CELL_LIMIT)
        shape = self._shape(vector)
        before = self._seen.get(shape)
        if before is not None:
            self._begin = before
            self._period = len(self._vectors) - before
            self._growth = int(vector.min(initial=NEVER) - self._vectors[before].min(initial=NEVER))
        else:
            self._seen[shape] = len(self._vectors)
        self._vectors.append(vector)


class Lengths:
    """Answers about how an automaton of JSON strings can still end, when its characters are counted.

    `low_left` and `high_left` bound the characters that are counted from here on: with c counted so far,
    max(0, low - c) and high - c (None: no upper bound). A state inside a character counts it already.
    """

    def __init__(self, dfa: Dfa) -> None:
        self._dfa = dfa
        self._graph = _Graph(dfa)
        self._shortest: list[int] = dfa.shortest.tolist()
        self._accept: list[bool] = dfa.accept.tolist()
        self._at_most = [self._graph.close]  # H(0), H(1), ... up to where they stay the same
        self._at_most_is_whole = False
        self._series: dict[int, _Series] = {}

    @cached_property
    def settled(self) -> int | None:
        """The least k such that from every boundary state the text can end after k characters, after k + 1, and
        so on; None where there is no such number up to 64. For free strings it is 0."""
        vector = self._graph.close
        if not self._graph.goes_on:
            return None
        for length in range(65):
            if (vector < NEVER).all():
                return length
            vector = self._graph.step(vector)
        return None

    def can_finish(self, state: int, low_left: int, high_left: int | None) -> bool:
        """Whether some text from `state` to the end has a number of characters within the bounds."""
        return self.fewest_bytes(state, low_left, high_left) is not None

    def fewest_bytes(self, state: int, low_left: int, high_left: int | None) -> int | None:
        """The fewest bytes to the end (the closing quote included) within the bounds; None: no way."""
        if high_left is None:
            if low_left <= 0:
                bytes_left = self._shortest[state]
                return bytes_left if bytes_left < NEVER else None
        elif high_left < low_left or high_left < 0:
            return None
        low_left = max(low_left, 0)
        slack = self._clamped(None if high_left is None else high_left - low_left)
        series = self._series.get(slack)
        if series is None:
            series = self._series[slack] = _Series(self._graph, self._at_most[slack])
        number = self._graph.number.get(state)
        if number is not None:
            best = series.at(number, low_left)
        else:
            best = 0 if self._accept[state] and low_left == 0 else NEVER
            for arrival, size in self._graph.arrivals(state).items():
                best = min(best, size + series.at(arrival, low_left))
        return best if best < NEVER else None

    def _clamped(self, slack: int | None) -> int:
        """The first h with H(h) the same as H(slack), H(0) to H(h) being known."""
        while not self._at_most_is_whole and (slack is None or slack >= len(self._at_most)):
            last = self._at_most[-1]
            vector = np.minimum(self._graph.close, self._graph.step(last))
            if np.array_equal(vector, last):
                # H(h + 1) depends on H(h) alone: once the same, always the same.
                self._at_most_is_whole = True
            else:
                self._at_most.append(vector)
        end = len(self._at_most) - 1
        return end if slack is None else min(slack, end)


@lru_cache(maxsize=512)
def lengths(dfa: Dfa) -> Lengths:
    """The one `Lengths` of an automaton (by identity)."""
    return Lengths(dfa)

"""Which entries of an `Unordered` may stand together.

A clause (some, all) says: one of the entries `some` is written, or not all of the entries `all` are (each a set of
entries, as bits). What is written can be whole later if entries can be added to it until every clause holds:

    (a or b), (not a or c)      nothing written: b is enough, or a with c      a written: c is missing
"""

from __future__ import annotations

from collections.abc import Sequence

from fillengine.automata.prefixes import members

Clause = tuple[int, int]

MAX_KNOWN = 4_096
"""Sets of written entries of which it is remembered what they lack. Past it the memory is emptied."""


class Presence:
    """`costs`: of each entry; None where it cannot be written."""

    def __init__(self, clauses: Sequence[Clause], costs: Sequence[int | None]) -> None:
        self._costs = costs
        self._groups = [(clauses, _entries(clauses)) for clauses in connected(clauses)]
        self._known: list[dict[int, int | None]] = [{} for _ in self._groups]
        self.breaking = 0
        """The entries that may break a clause, as bits."""
        for _, entries in clauses:
            self.breaking |= entries

    def missing(self, written: int) -> int | None:
        """The cheapest entries, as bits, that make what is written whole; None where none do."""
        found = 0
        for number in range(len(self._groups)):
            some = self._repaired(number, written)
            if some is None:
                return None
            found |= some
        return found

    def cost(self, entries: int) -> int:
        return sum(self._costs[index] or 0 for index in members(entries))

    def _repaired(self, number: int, written: int) -> int | None:
        """As `missing`, for one group of clauses. The first clause that does not hold is made to, in each way."""
        clauses, entries = self._groups[number]
        known = self._known[number]
        key = written & entries
        if key in known:
            return known[key]
        best: int | None = 0
        for some, every in clauses:
            if every & ~written or some & written:
                continue
            best = None
            for index in members(some):
                if self._costs[index] is None:
                    continue
                rest = self._repaired(number, written | 1 << index)
                if rest is not None:
                    way = rest | 1 << index
                    if best is None or self.cost(way) < self.cost(best):
                        best = way
            break
        if len(known) >= MAX_KNOWN:
            known.clear()
        known[key] = best
        return best


def connected(clauses: Sequence[Clause]) -> list[list[Clause]]:
    """The clauses in groups that have no entry in common."""
    groups: list[tuple[int, list[Clause]]] = []
    for clause in clauses:
        entries, group = clause[0] | clause[1], [clause]
        apart = []
        for other, beside in groups:
            if other & entries:
                entries, group = other | entries, beside + group
            else:
                apart.append((other, beside))
        groups = [*apart, (entries, group)]
    return [group for _, group in groups]


def _entries(clauses: Sequence[Clause]) -> int:
    found = 0
    for some, every in clauses:
        found |= some | every
    return found

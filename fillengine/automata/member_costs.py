"""What is left to write in an `Unordered`: the required entries, the cheapest members up to `low`, and the end.

Asked for at every byte, and for every entry that may come next, so that it takes time in proportion to what is
missing, and for all entries together in proportion to their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fillengine.automata.leaf import INFINITE
from fillengine.automata.nodes import Other, Unordered
from fillengine.automata.presence import Presence
from fillengine.automata.state import Members

WORDS_SLACK = 10
"""What a new word may be longer than the shortest one where others were written before: where two bytes at least can
follow each other one, that is enough for a thousand of them. The word that comes next is not estimated."""


class MemberCosts:
    """The costs of one Unordered.

    entries  of each entry, its rest included
    others   of each other member, its rest included
    rests    of what stands behind the key of each other member
    new_key  what the key of an other member costs behind some members
    """

    def __init__(
        self,
        node: Unordered,
        entries: list[int],
        others: list[int],
        rests: list[int],
        comma: int,
        end: int,
        new_key: Callable[[Other, Members], int],
    ) -> None:
        self._node = node
        self._low = node.low
        self._entries = entries
        # The more are written, the longer a new one may have to be.
        self._other = min(others, default=INFINITE) + (2 + node.low.bit_length() if node.low else 0)
        self._others = others
        self._granting: dict[int, list[int]] = {0: []}
        self._rests = rests
        self._new_key = new_key
        self._comma = comma
        self._end = end
        self._required = sum(1 << index for index, entry in enumerate(node.entries) if entry.is_required)
        optional = [index for index, entry in enumerate(node.entries) if not entry.is_required]
        self._optional = sorted(optional, key=entries.__getitem__)
        self._missing: dict[int, int] = {}
        self._presence = Presence(node.clauses, [None if cost >= INFINITE else cost for cost in entries])

    def is_whole(self, written: int) -> bool:
        """Whether nothing is missing, however few members there must be."""
        return not self._required & ~written and not self._node.wants(written) and self._presence.missing(written) == 0

    def left(self, written: int, members: Members) -> int:
        """Behind what is written: entries as bits, and `members`."""
        missing = self._required & ~written
        if self._node.clauses:
            beside = self._presence.missing(written | self._required)
            if beside is None:
                return INFINITE
            missing |= beside
            if members.is_due and not missing:
                missing = self._addable(written)
        granting = self._granted(self._node.wants(written))
        num_missing = missing.bit_count() + len(granting)
        needed = self._low - self._node.num_written(written) - members.num_others - num_missing
        if members.is_due and not num_missing:
            needed = max(needed, 1)  # a comma is written, so something must follow it
        cheapest = self._cheapest(written, needed)
        following = num_missing + max(needed, 0)
        total = self._sum(missing) + sum(cheapest.values()) + sum(granting)
        total += self._new(max(needed, 0) - len(cheapest), members)
        commas = following - members.is_due if following else 0
        if members.key is not None:
            total += self._rests[members.key]
        return min(INFINITE, total + commas * self._comma + self._end)

    def left_behind(self, written: int, members: Members, indexes: Iterable[int]) -> list[int]:
        """Behind each of these entries, which are not written yet, where one is written next."""
        if self._node.clauses:
            return [self.left(written | 1 << index, members.written()) for index in indexes]
        missing = self._required & ~written
        granting = self._granted(self._node.wants(written))
        num_missing = missing.bit_count() + len(granting)
        needed = max(self._low - self._node.num_written(written) - members.num_others - num_missing, 0)
        cheapest = self._cheapest(written, needed)
        others = self._new(needed - len(cheapest), members.written())
        total = self._sum(missing) + sum(cheapest.values()) + sum(granting) + others + self._end
        # An optional entry stands in for the dearest of those that were counted on, or for itself.
        dearest = next(reversed(cheapest.values()), 0)
        found = []
        for index in indexes:
            if self._required >> index & 1:
                rest, following = total - self._entries[index], num_missing - 1 + needed
            else:
                rest, following = total - cheapest.get(index, dearest), num_missing + max(needed - 1, 0)
            found.append(min(INFINITE, rest + following * self._comma))
        return found

    def _addable(self, written: int) -> int:
        """The cheapest optional entry that may stand beside what is written, with what it takes; 0: there is none."""
        best = 0
        for index in self._optional:
            if not written >> index & 1 and self._entries[index] < INFINITE:
                beside = self._presence.missing(written | 1 << index)
                if beside is not None:
                    way = beside | 1 << index
                    if not best or self._sum(way) < self._sum(best):
                        best = way
        return best

    def growth(self, members: Members) -> int:
        """How much dearer the next new member is than the first one."""
        nearest = self._nearest(members)
        return 0 if nearest >= INFINITE else nearest - min(self._others)

    def _new(self, number: int, members: Members) -> int:
        """So many new members. The first one is known, unless the key is being written that it must differ from."""
        if not number:
            return 0
        nearest = self._nearest(members)
        following = max(self._other, nearest)
        return (following if members.key is not None else nearest) + (number - 1) * following

    def _nearest(self, members: Members) -> int:
        """The cheapest new member."""
        if not members.words:
            return min(self._others, default=INFINITE)
        keys = [self._new_key(other, members) for other in self._node.others]
        return min((min(INFINITE, key + rest) for key, rest in zip(keys, self._rests, strict=True)), default=INFINITE)

    def _granted(self, wants: int) -> list[int]:
        """The costs of the cheapest others that grant all of `wants`."""
        found = self._granting.get(wants)
        if found is None:
            ways = []
            for other, cost in zip(self._node.others, self._others, strict=True):
                if other.grants & wants:
                    ways.append([min(INFINITE, cost + WORDS_SLACK), *self._granted(wants & ~other.grants)])
            found = self._granting[wants] = min(ways, key=sum, default=[INFINITE])
        return found

    def _sum(self, entries: int) -> int:
        """The cost of entries, given as bits."""
        total = self._missing.get(entries)
        if total is None:
            total = sum(cost for index, cost in enumerate(self._entries) if entries >> index & 1)
            if len(self._missing) >= 4_096:
                self._missing.clear()
            self._missing[entries] = total
        return total

    def _cheapest(self, written: int, number: int) -> dict[int, int]:
        """The cheapest optional entries that are not written, with their costs, ascending."""
        found: dict[int, int] = {}
        if number > 0:
            for index in self._optional:
                if not written >> index & 1:
                    found[index] = self._entries[index]
                    if len(found) == number:
                        break
        return found

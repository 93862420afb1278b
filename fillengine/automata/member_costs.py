"""What is left to write in an `Unordered`: the required entries, the cheapest members up to `low`, and the end.

Asked for at every byte, and for every entry that may come next, so that it takes time in proportion to what is
missing, and for all entries together in proportion to their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

from fillengine.automata.cheap_words import MAX_WORDS, CheapWords
from fillengine.automata.leaf import INFINITE
from fillengine.automata.nodes import Other, Unordered
from fillengine.automata.presence import Presence
from fillengine.automata.state import Members


class MemberCosts:
    """The costs of one Unordered.

    entries  of each entry, its rest included
    others   of each other member, its rest included
    rests    of what stands behind the key of each other member
    new_key  what the key of an other member costs behind some members
    words    of each other member, what its keys can be

    New members that must come are counted as the next ones of a list of all that there are: the n-th costs at most
    what the n-th of the list does, whichever were written before. So what they cost depends on their number alone.
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
        words: list[CheapWords],
    ) -> None:
        self._node = node
        self._low = node.low
        self._entries = entries
        self._words = words
        # What grants something may be written while that is wanted only.
        self._plain = [which for which, other in enumerate(node.others) if not other.grants]
        self._sums = [0, min((others[which] for which in self._plain), default=INFINITE)]
        self._is_listed = False
        self._beyond = INFINITE
        self._grants: dict[tuple[int, int], list[int]] = {}
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
        granting = self._granted(self._node.wants(written), members)
        num_missing = missing.bit_count() + len(granting)
        needed = max(self._low - self._node.num_written(written) - members.num_others - num_missing, 0)
        is_one_more = members.is_due and not num_missing + needed  # a comma is written, so something must follow it
        needed += is_one_more
        # Where clauses say which entries may stand together, those that may come next are among the missing ones.
        cheapest = {} if self._node.clauses else self._cheapest(written, needed)
        following = num_missing + needed
        total = self._sum(missing) + sum(cheapest.values()) + sum(granting)
        if not is_one_more:
            total += self._new(needed - len(cheapest), members.num_others + len(granting))
        elif not cheapest:
            total += self._nearest(members)
        commas = following - members.is_due if following else 0
        if members.key is not None:
            total += self._rests[members.key]
        return min(INFINITE, total + commas * self._comma + self._end)

    def left_behind(self, written: int, members: Members, indexes: Iterable[int]) -> list[int]:
        """Behind each of these entries, which are not written yet, where one is written next."""
        if self._node.clauses:
            return [self.left(written | 1 << index, members.written()) for index in indexes]
        missing = self._required & ~written
        granting = self._granted(self._node.wants(written), members)
        num_missing = missing.bit_count() + len(granting)
        needed = max(self._low - self._node.num_written(written) - members.num_others - num_missing, 0)
        cheapest = self._cheapest(written, needed)
        others = self._new(needed - len(cheapest), members.num_others + len(granting))
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

    def _new(self, number: int, before: int) -> int:
        """So many new members behind so many others."""
        return self._first(before + number) - self._first(before) if number else 0

    def _first(self, number: int) -> int:
        """The first so many of all new members."""
        sums = self._sums
        if number >= len(sums) and not self._is_listed:
            self._is_listed = True
            listed = min(self._node.most_new, MAX_WORDS)
            found = [
                (min(INFINITE, self._words[which].bound(index) + self._rests[which]), word)
                for which in self._plain
                for index, word in enumerate(self._words[which].words(listed))
            ]
            costs = {word: cost for cost, word in sorted(found, reverse=True)}
            sums += accumulate(sorted(costs.values())[1:listed], initial=sums.pop())
            last = sums[-1] - sums[-2]
            is_whole = len(costs) < listed and all(
                self._words[which].bound(listed) >= INFINITE for which in self._plain
            )
            self._beyond = INFINITE if is_whole else last + self._node.most_new.bit_length()
        if number < len(sums):
            return sums[number]
        return sums[-1] + (number - len(sums) + 1) * self._beyond

    def _nearest(self, members: Members) -> int:
        """The cheapest new member."""
        costs = [self._new_key(self._node.others[which], members) + self._rests[which] for which in self._plain]
        return min(INFINITE, *costs) if costs else INFINITE

    def _granted(self, wants: int, members: Members) -> list[int]:
        """The costs of the cheapest others that grant all of `wants`, each as dear as the last one of them can be."""
        if not wants:
            return []
        return self._granting(wants, max(members.num_others, self._node.most_new) + wants.bit_count())

    def _granting(self, wants: int, number: int) -> list[int]:
        """As `_granted`, where that is the number of others at the end."""
        if not wants:
            return []
        found = self._grants.get((wants, number))
        if found is None:
            ways = []
            for other, words, rest in zip(self._node.others, self._words, self._rests, strict=True):
                if other.grants & wants:
                    cost = min(INFINITE, words.bound(number - 1) + rest)
                    ways.append([cost, *self._granting(wants & ~other.grants, number)])
            if len(self._grants) >= 4_096:
                self._grants.clear()
            found = self._grants[wants, number] = min(ways, key=sum, default=[INFINITE])
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

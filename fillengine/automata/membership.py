"""What may still be written in an `Unordered`, and what must be: its members, whatever the machine is elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from fillengine.automata.fresh import FreshLeaf
from fillengine.automata.leaf import INFINITE
from fillengine.automata.nodes import Fresh, Node, Other, Unordered
from fillengine.automata.prefixes import members as members_of
from fillengine.automata.presence import Presence
from fillengine.automata.state import Frame


class Membership:
    """`cost` gives what a node costs (INFINITE: it cannot be written), `leaf_of` the leaf of what must be new."""

    def __init__(self, cost: Callable[[Node], int], leaf_of: Callable[[Fresh], FreshLeaf]) -> None:
        self._cost = cost
        self._leaf_of = leaf_of
        self._required_bits: dict[Unordered, int] = {}
        self._writable_bits: dict[Unordered, int] = {}
        self._presences: dict[Unordered, Presence] = {}

    def open_entries(self, frame: Frame) -> int:
        """The entries that may come next, as bits."""
        node, count = frame.node, frame.count
        assert isinstance(node, Unordered)
        allowed = self._writable(node) & ~count
        if self._is_tight(frame):
            allowed &= self._required(node)
        if node.clauses:
            presence = self._presence(node)
            count |= self._required(node)
            for index in members_of(allowed & presence.breaking):
                if presence.missing(count | 1 << index) is None:
                    allowed &= ~(1 << index)
        return allowed

    def _writable(self, node: Unordered) -> int:
        """The entries that can be finished, as bits."""
        bits = self._writable_bits.get(node)
        if bits is None:
            bits = sum(
                1 << index
                for index, entry in enumerate(node.entries)
                if entry.rest is None or self._cost(entry.rest) < INFINITE
            )
            self._writable_bits[node] = bits
        return bits

    def _presence(self, node: Unordered) -> Presence:
        """Which entries may stand together."""
        presence = self._presences.get(node)
        if presence is None:
            writable = self._writable(node)
            costs = [1 if writable >> index & 1 else None for index in range(len(node.entries))]
            presence = self._presences[node] = Presence(node.clauses, costs)
        return presence

    def fits(self, frame: Frame, other: Other) -> bool:
        """Whether one more such member can be written. One that grants only what is granted is never needed."""
        node, members = frame.node, frame.members
        assert isinstance(node, Unordered)
        assert members is not None
        if other.rest is not None and self._cost(other.rest) >= INFINITE:
            return False
        wants = node.wants(frame.count)
        if other.grants and not other.grants & wants:
            return False
        if node.high is None:
            return True
        number = node.num_written(frame.count) + members.num_others
        missing = (self._required(node) & ~frame.count).bit_count() + self._least_others(node, wants & ~other.grants)
        return number + missing < node.high

    def _is_tight(self, frame: Frame) -> bool:
        """Only members that are needed fit in what is left of the upper bound."""
        node, members = frame.node, frame.members
        assert isinstance(node, Unordered)
        assert members is not None
        number = node.num_written(frame.count) + members.num_others
        return node.high is not None and number + self.num_missing(frame) >= node.high

    def num_missing(self, frame: Frame) -> int:
        """How many more members are needed at least: required entries and those that must stand with the written
        ones, and others that grant what is wanted."""
        node = frame.node
        assert isinstance(node, Unordered)
        missing = self._required(node) & ~frame.count
        if node.clauses:
            missing |= self._presence(node).missing(self._required(node) | frame.count) or 0
        return missing.bit_count() + self._least_others(node, node.wants(frame.count))

    def _least_others(self, node: Unordered, wants: int) -> int:
        """How many others it takes at least to grant all of `wants`."""
        if not wants:
            return 0
        granted = [other.grants & wants for other in node.others]
        return 1 + min((self._least_others(node, wants & ~some) for some in granted if some), default=INFINITE)

    def _required(self, node: Unordered) -> int:
        bits = self._required_bits.get(node)
        if bits is None:
            required = (1 << index for index, entry in enumerate(node.entries) if entry.is_required)
            bits = self._required_bits[node] = sum(required)
        return bits

    def can_go_on(self, frame: Frame) -> bool:
        """Whether one more member can be written."""
        node, members = frame.node, frame.members
        assert isinstance(node, Unordered)
        assert members is not None
        number, missing = node.num_written(frame.count) + members.num_others, self.num_missing(frame)
        if node.high is not None and number >= node.high:
            return False
        if missing:
            return True
        if self.open_entries(frame):
            return True
        return any(
            self.fits(frame, other)
            and self._leaf_of(other.key).begin(members.words, is_sealed=members.is_sealed) is not None
            for other in node.others
        )

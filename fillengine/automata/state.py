"""What the machine's states are made of: spots in leaves, stacks of frames, sets of configurations."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from fillengine.automata.leaf import Leaf
from fillengine.automata.nodes import Except, Fresh, Literal, Node, Pattern, Repeat, Sequence, Unordered, Words


class Frame:
    """One entry of a stack: what follows when the node above it is finished.

    For a Sequence `count` is the index of the next item. For a Repeat `count` items must still come and `room`
    may (None: no bound). For an Unordered `count` are the entries that are written, as bits, above
    them the wants that are granted, and `members` the rest.
    """

    __slots__ = ("__weakref__", "clamped", "cost", "count", "members", "nameless", "node", "parent", "resumed", "room")

    def __init__(
        self,
        node: Sequence | Repeat | Unordered,
        count: int,
        room: int | None,
        parent: Frame | None,
        members: Members | None = None,
    ) -> None:
        self.node = node
        self.count = count
        self.room = room
        self.parent = parent
        self.members = members
        self.cost: int | None = None
        self.clamped: Frame | None = None
        self.nameless: Frame | None = None
        self.resumed: State | None = None

    def is_due(self, node: Unordered) -> bool:
        """Whether a member of this node must come, rather than such a node within a member of itself."""
        return self.node is node and self.members is not None and self.members.is_due


def frames(frame: Frame | None) -> Iterator[Frame]:
    """The frames of a stack, the uppermost first."""
    while frame is not None:
        yield frame
        frame = frame.parent


Bytes = Literal | Pattern | Fresh | Except | Words | Unordered
Work = tuple["Node | None", "Frame | None"]


class Members(NamedTuple):
    """Where an Unordered stands, beside its entries.

    num_others  how many others are written (counted as far as it matters)
    words       what they begin with
    key         the one whose key is being written; what a frame resumes is its rest then
    is_due      a comma is written, so that a member must come
    is_sealed   one of `words` is not known (see FreshLeaf)
    """

    num_others: int = 0
    words: frozenset[bytes] = frozenset()
    key: int | None = None
    is_due: bool = False
    is_sealed: bool = False

    def written(self) -> Members:
        """Behind a member."""
        return Members(self.num_others, self.words, is_sealed=self.is_sealed)

    def begun(self, key: int, num_others: int) -> Members:
        """In the key of an other member."""
        return Members(num_others, self.words, key, is_sealed=self.is_sealed)


class Spot:
    """A leaf node of the template together with its automaton."""

    __slots__ = ("leaf", "node", "start")

    def __init__(self, node: Bytes, leaf: Leaf, start: Hashable | None) -> None:
        self.node = node
        self.leaf = leaf
        self.start = start


Configuration = tuple[Spot, Any, "Frame | None"]


class State:
    """A set of configurations. Compare by identity: the machine gives one object for one set."""

    __slots__ = ("_bytes", "_clamped", "_cost", "_forced", "_nameless", "_next", "configurations", "is_accepting")

    def __init__(self, configurations: tuple[Configuration, ...], *, is_accepting: bool) -> None:
        self.configurations = configurations
        self.is_accepting = is_accepting
        self._cost: int | None = None
        self._next: dict[int | bytes, State | None] = {}
        self._bytes: bytes | None = None
        self._forced: tuple[bytes, State] | None = None
        self._clamped: State | None = None
        self._nameless: State | None = None

    @property
    def is_final(self) -> bool:
        """The text is whole and nothing may follow."""
        return self.is_accepting and not self.configurations

    def only_byte(self) -> int | None:
        """The byte that must come next; None where there are several or none."""
        only = -1
        for spot, q, _frame in self.configurations:
            if spot.leaf.branches(q):
                return None
            following = spot.leaf.next_bytes(q)
            if len(following) != 1 or only not in (-1, following[0]):
                return None
            only = following[0]
        return only if only >= 0 else None

    def next_bytes(self) -> bytes:
        """The bytes that may come next, sorted."""
        if self._bytes is None:
            found: set[int] = set()
            for spot, q, _frame in self.configurations:
                found.update(spot.leaf.next_bytes(q))
            self._bytes = bytes(sorted(found))
        return self._bytes

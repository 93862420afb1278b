"""Stacks of frames without what does not matter soon, so that states that differ in it alone are one."""

from __future__ import annotations

from collections.abc import Callable

from fillengine.automata.fresh import FreshLeaf
from fillengine.automata.nodes import Fresh, Node, Repeat, Sequence, Unordered
from fillengine.automata.state import Frame, Members

FrameOf = Callable[["Sequence | Repeat | Unordered", int, "int | None", "Frame | None", "Members | None"], Frame]


class Stacks:
    """`frame_of` gives the one frame of its parts, `leaf_of` the leaf of what must be new."""

    def __init__(self, frame_of: FrameOf, leaf_of: Callable[[Fresh], FreshLeaf]) -> None:
        self._frame_of = frame_of
        self._leaf_of = leaf_of

    def clamped(self, frame: Frame | None, reach: int) -> Frame | None:
        """The same behaviour for the next `reach` bytes, with counters and written words cut to what matters."""
        if frame is None:
            return None
        if frame.clamped is None:
            for entry in _unknown(frame, "clamped"):
                parent = entry.parent.clamped if entry.parent is not None else None
                count, room = entry.count, entry.room
                members = entry.members
                if members is not None:
                    assert isinstance(entry.node, Unordered)
                    # Behind a key that is being written stands one word more, which a clamped state does not know.
                    members = members._replace(
                        num_others=min(members.num_others, entry.node.most_counted),
                        words=self._kept_words(entry.node, members.words),
                        is_sealed=members.is_sealed or members.key is not None,
                    )
                if isinstance(entry.node, Repeat):
                    # Every item takes a byte at least.
                    count = min(count, reach + 1)
                    room = None if room is None or room > 2 * reach + 2 else room
                entry.clamped = self._frame_of(entry.node, count, room, parent, members)
        return frame.clamped

    def nameless(self, frame: Frame | None) -> Frame | None:
        """The same without the written words that no token holds."""
        if frame is None:
            return None
        if frame.nameless is None:
            for entry in _unknown(frame, "nameless"):
                parent = entry.parent.nameless if entry.parent is not None else None
                members = entry.members
                if members is not None and members.words:
                    members = members._replace(words=self._kept_words(entry.node, members.words))
                entry.nameless = self._frame_of(entry.node, entry.count, entry.room, parent, members)
        return frame.nameless

    def _kept_words(self, node: Node, words: frozenset[bytes]) -> frozenset[bytes]:
        """Of the words that were written, those that matter before the next token."""
        assert isinstance(node, Unordered)
        kept: frozenset[bytes] = frozenset()
        if words:
            for other in node.others:
                kept |= self._leaf_of(other.key).kept(words)
        return kept


def _unknown(frame: Frame, name: str) -> list[Frame]:
    """The frames of a stack of which this is not known yet, the lowest first: stacks can be deeper than Python's."""
    missing: list[Frame] = []
    current: Frame | None = frame
    while current is not None and getattr(current, name) is None:
        missing.append(current)
        current = current.parent
    missing.reverse()
    return missing

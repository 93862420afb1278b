"""Some texts as a tree of their common beginnings, made as far as it is walked.

    ab, abc, b:   root -a-> . -b-> (ab) -c-> (abc)
                      -b-> (b)

A set of the texts is a number: bit i stands for text i.
"""

from __future__ import annotations

from collections.abc import Iterable


class Prefix:
    """What some of the texts begin with.

    below     the texts that begin so, as bits
    whole     those of them that are not longer, as bits
    """

    __slots__ = ("_children", "_depth", "_indexes", "_texts", "below", "whole")

    def __init__(self, texts: tuple[bytes, ...], indexes: tuple[int, ...], depth: int) -> None:
        self._texts = texts
        self._indexes = indexes
        self._depth = depth
        self._children: dict[int, Prefix] | None = None
        self.below = self.whole = 0
        for index in indexes:
            self.below |= 1 << index
            if len(texts[index]) == depth:
                self.whole |= 1 << index

    @property
    def children(self) -> dict[int, Prefix]:
        """One byte further, in the order of the bytes."""
        if self._children is None:
            groups: dict[int, list[int]] = {}
            texts, depth = self._texts, self._depth
            for index in self._indexes:
                if len(texts[index]) > depth:
                    groups.setdefault(texts[index][depth], []).append(index)
            self._children = {byte: Prefix(texts, tuple(groups[byte]), depth + 1) for byte in sorted(groups)}
        return self._children

    def rests(self) -> list[bytes]:
        """What is left of each of the texts."""
        return [self._texts[index][self._depth :] for index in self._indexes]

    @property
    def only(self) -> bytes | None:
        """What is left of the text, where it is a single one."""
        return self._texts[self._indexes[0]][self._depth :] if len(self._indexes) == 1 else None


def prefixes(texts: Iterable[bytes]) -> Prefix:
    """The root of the tree, text i being the i-th one."""
    found = tuple(texts)
    return Prefix(found, tuple(range(len(found))), 0)


def members(bits: int) -> list[int]:
    """The numbers whose bits are set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found

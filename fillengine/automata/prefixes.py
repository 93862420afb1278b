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

    __slots__ = ("_children", "_depth", "_texts", "below", "whole")

    def __init__(self, texts: list[tuple[int, bytes]], depth: int) -> None:
        self._texts = texts
        self._depth = depth
        self._children: dict[int, Prefix] | None = None
        self.below = self.whole = 0
        for index, text in texts:
            self.below |= 1 << index
            if len(text) == depth:
                self.whole |= 1 << index

    @property
    def children(self) -> dict[int, Prefix]:
        """One byte further, in the order of the bytes."""
        if self._children is None:
            groups: dict[int, list[tuple[int, bytes]]] = {}
            depth = self._depth
            for item in self._texts:
                if len(item[1]) > depth:
                    groups.setdefault(item[1][depth], []).append(item)
            self._children = {byte: Prefix(groups[byte], depth + 1) for byte in sorted(groups)}
        return self._children

    def rests(self) -> list[bytes]:
        """What is left of each of the texts."""
        return [text[self._depth :] for _, text in self._texts]


def prefixes(texts: Iterable[bytes]) -> Prefix:
    """The root of the tree, text i being the i-th one."""
    return Prefix(list(enumerate(texts)), 0)


def members(bits: int) -> list[int]:
    """The numbers whose bits are set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found

"""The trie of the tokens' bytes.

Kept as numpy arrays in breadth-first order, so that the children of a node are one range and a whole level is
walked at once; on top of them `TrieNode` objects, made when they are first asked for, for narrow walks.

A TrieNode may stand for several nodes of the arrays at once. That is how the tokens that leave a leaf at
different places are looked at together: what matters below those places is only what is left over of the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

_NONE = np.empty(0, dtype=np.int32)

MAX_MEMBERS = 1_000_000
"""Array nodes that remembered objects may stand for, together (some 40 MB). Past it the memory is emptied: an object
that is asked for again is then another one, and what is known by it is found anew."""

# The children of so many members are looked for one by one.
_FEW = 8


class Trie:
    """Arrays over the nodes, node 0 being the root:

    byte       uint8[n]    the byte that leads to the node
    first      int32[n]    its first child
    count      int32[n]    how many children; they are first .. first + count - 1, sorted by byte
    ids_first  int32[n]    range of `ids` (int32): the tokens whose text ends here
    ids_count  int32[n]
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        written = sorted((text, token_id) for token_id, text in enumerate(tokens) if text)
        texts: list[bytes] = []
        owners: list[list[int]] = []
        for text, token_id in written:
            if texts and texts[-1] == text:
                owners[-1].append(token_id)
            else:
                texts.append(text)
                owners.append([token_id])
        lengths = np.array([len(text) for text in texts], dtype=np.int32)
        width = int(lengths.max(initial=0))
        matrix = np.zeros((len(texts), width), dtype=np.uint8)
        flat = np.frombuffer(b"".join(texts), dtype=np.uint8)
        matrix[np.arange(width)[None, :] < lengths[:, None]] = flat
        owner_count = np.array([len(owner) for owner in owners], dtype=np.int32)
        owner_first = np.concatenate([[0], np.cumsum(owner_count)[:-1]]).astype(np.int32)
        self.ids = np.array([token_id for owner in owners for token_id in owner], dtype=np.int32)

        byte = [np.zeros(1, dtype=np.uint8)]
        ids_first = [np.zeros(1, dtype=np.int32)]
        ids_count = [np.zeros(1, dtype=np.int32)]
        first, count = [], []
        # One level after the other: `rows` are the texts that reach the level, `node` the node of each.
        rows = np.arange(len(texts))
        node = np.zeros(len(texts), dtype=np.int64)
        num_parents, num_nodes = 1, 1
        for depth in range(width):
            column = matrix[rows, depth]
            new = np.ones(len(rows), dtype=bool)
            new[1:] = (node[1:] != node[:-1]) | (column[1:] != column[:-1])
            index = np.cumsum(new) - 1
            starts = np.flatnonzero(new)
            children = np.bincount(node[starts], minlength=num_parents).astype(np.int32)
            count.append(children)
            first.append((num_nodes + np.cumsum(children) - children).astype(np.int32))
            byte.append(column[starts])
            level_first = np.zeros(len(starts), dtype=np.int32)
            level_count = np.zeros(len(starts), dtype=np.int32)
            ends = lengths[rows] == depth + 1
            level_first[index[ends]] = owner_first[rows[ends]]
            level_count[index[ends]] = owner_count[rows[ends]]
            ids_first.append(level_first)
            ids_count.append(level_count)
            num_nodes += len(starts)
            num_parents = len(starts)
            rows, node = rows[~ends], index[~ends]
        first.append(np.zeros(num_parents, dtype=np.int32))
        count.append(np.zeros(num_parents, dtype=np.int32))
        self.byte = np.concatenate(byte)
        self.first = np.concatenate(first)
        self.count = np.concatenate(count)
        self.ids_first = np.concatenate(ids_first)
        self.ids_count = np.concatenate(ids_count)
        # Tuples of numbers, which the garbage collector leaves alone.
        self._first_list: tuple[int, ...] = tuple(self.first.tolist())
        self._count_list: tuple[int, ...] = tuple(self.count.tolist())
        self._byte_list = self.byte.tobytes()
        self._ids_first_list: tuple[int, ...] = tuple(self.ids_first.tolist())
        self._ids_count_list: tuple[int, ...] = tuple(self.ids_count.tolist())
        self._ids_list: tuple[int, ...] = tuple(self.ids.tolist())
        self._objects: dict[tuple[int, ...], TrieNode] = {}
        self._num_members = 0
        self.root = self.node((0,))

    def node(self, members: tuple[int, ...]) -> TrieNode:
        """These nodes of the arrays (ascending) as one; the same object each time, as long as it is remembered."""
        found = self._objects.get(members)
        if found is None:
            self._num_members += len(members)
            if self._num_members > MAX_MEMBERS:
                self._objects.clear()
                self._num_members = len(members)
            found = self._objects[members] = TrieNode(self, members)
        return found

    def children(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The children of `nodes` (int[m]), and for each the index of its parent in `nodes`."""
        count = self.count[nodes]
        total = int(count.sum())
        parent = np.repeat(np.arange(len(nodes)), count)
        offset = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
        return self.first[nodes][parent] + offset, parent

    @cached_property
    def parent(self) -> np.ndarray:
        """int64[n]: the node above each node (0 above the root)."""
        return np.concatenate([[0], np.repeat(np.arange(len(self.count)), self.count)])

    def path(self, node: int, tops: frozenset[int]) -> bytes:
        """The bytes that lead to a node from the one of `tops` above it."""
        data = bytearray()
        while node not in tops:
            data.append(self._byte_list[node])
            node = int(self.parent[node])
        data.reverse()
        return bytes(data)

    def token_ids(self, nodes: np.ndarray) -> np.ndarray:
        """int32[k]: the tokens that end at any of `nodes`."""
        count = self.ids_count[nodes]
        nodes = nodes[count > 0]
        count = count[count > 0]
        total = int(count.sum())
        offset = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
        found: np.ndarray = self.ids[np.repeat(self.ids_first[nodes], count) + offset]
        return found


class TrieNode:
    """One or more nodes of the arrays, seen as one.

    Nodes below it are made when they are first asked for, one by one: most never are, and each is an object that
    Python's garbage collector looks at.
    """

    __slots__ = ("_bytes", "_children", "_ids", "_made", "_member_set", "_nodes", "_trie", "members")

    def __init__(self, trie: Trie, members: tuple[int, ...]) -> None:
        self._trie = trie
        self.members = members
        self._made: dict[int, TrieNode | None] = {}
        self._children: dict[int, TrieNode] | None = None
        self._ids: list[int] | None = None
        self._member_set: frozenset[int] | None = None
        # All children of many members in the order of their bytes: uint8[k] as bytes, int64[k].
        self._bytes: bytes | None = None
        self._nodes: np.ndarray = _NONE

    @property
    def member_set(self) -> frozenset[int]:
        if self._member_set is None:
            self._member_set = frozenset(self.members)
        return self._member_set

    @property
    def has_children(self) -> bool:
        count = self._trie._count_list
        if len(self.members) == 1:
            return count[self.members[0]] > 0
        return any(count[member] for member in self.members)

    @property
    def num_children(self) -> int:
        return len(self._next_bytes())

    @property
    def children(self) -> dict[int, TrieNode]:
        """The nodes one byte further, by byte, all of them."""
        if self._children is None:
            found = ((byte, self.child(byte)) for byte in self._next_bytes())
            self._children = {byte: node for byte, node in found if node is not None}
        return self._children

    def child(self, byte: int) -> TrieNode | None:
        """The node one byte further."""
        try:
            return self._made[byte]
        except KeyError:
            pass
        trie = self._trie
        found: tuple[int, ...]
        if len(self.members) == 1:
            first = trie._first_list[self.members[0]]
            place = trie._byte_list.find(byte, first, first + trie._count_list[self.members[0]])
            found = (place,) if place >= 0 else ()
        elif len(self.members) <= _FEW:
            places = (
                trie._byte_list.find(byte, first := trie._first_list[member], first + trie._count_list[member])
                for member in self.members
            )
            found = tuple([place for place in places if place >= 0])
        else:
            every = self._sorted()
            begin = every.find(byte)
            found = tuple(self._nodes[begin : every.rfind(byte) + 1].tolist()) if begin >= 0 else ()
        node = self._made[byte] = trie.node(found) if found else None
        return node

    def _next_bytes(self) -> list[int]:
        trie = self._trie
        if len(self.members) == 1:
            first = trie._first_list[self.members[0]]
            return list(trie._byte_list[first : first + trie._count_list[self.members[0]]])
        return sorted(set(self._sorted()))

    def _sorted(self) -> bytes:
        if self._bytes is None:
            nodes, _ = self._trie.children(np.array(self.members))
            byte = self._trie.byte[nodes]
            order = np.argsort(byte, kind="stable")
            self._nodes = nodes[order]
            self._bytes = byte[order].tobytes()
        return self._bytes

    def all_below(self) -> list[int]:
        """Its nodes of the arrays, and all that are below them."""
        first, count = self._trie._first_list, self._trie._count_list
        found = list(self.members)
        for node in found:
            if count[node]:
                found += range(first[node], first[node] + count[node])
        return found

    @property
    def ids(self) -> list[int]:
        """The tokens that end here."""
        if self._ids is None:
            trie = self._trie
            if len(self.members) <= _FEW:
                self._ids = []
                for member in self.members:
                    first = trie._ids_first_list[member]
                    self._ids += trie._ids_list[first : first + trie._ids_count_list[member]]
            else:
                self._ids = trie.token_ids(np.array(self.members)).tolist()
        return self._ids

    @property
    def has_tokens(self) -> bool:
        return bool(self.ids)

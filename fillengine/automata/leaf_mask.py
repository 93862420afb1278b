"""The tokens that stay in a leaf: found once for each leaf state and trie node, for all forms of a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from fillengine.automata.fresh import FreshLeaf, FreshState
from fillengine.automata.leaf import INFINITE, CountedLeaf, DfaLeaf, Leaf
from fillengine.automata.lockstep import DEAD, MAX_ROWS, NAMED, UNKNOWN, LockstepLeaf, Rows
from fillengine.automata.trie import Trie, TrieNode
from fillengine.automata.vocabulary import Vocabulary

MAX_LEAF_MASKS = 8_192
"""Leaf masks that one vocabulary remembers for all forms. Past it the memory is emptied."""

MAX_WALKS = 512
"""Walks of a vocabulary along an automaton that are remembered for other bounds on its characters (some 12 bytes
for each node of the trie: 1 MB where all of a large vocabulary fits). Past it the memory is emptied."""

MAX_LOOPS = 256
"""Parts of the trie that some bytes reach, remembered for all automata (as large as walks)."""

NARROW_STEPS = 400
"""A walk over objects that takes more steps than this starts anew with numpy, level by level."""

_NONE = np.empty(0, dtype=np.int32)


class LeafMask:
    """The tokens below a trie node that stay in a leaf.

    bits   uint32[num_words]
    leaf   the leaf itself
    ends   finds its states in which such tokens end (those that the mask of a leaf below does not know)
    exit   the trie below all places where the leaf may end and tokens go on (None: there are none)
    """

    __slots__ = ("_below", "_ends", "_worst", "bits", "exit", "leaf")

    def __init__(
        self,
        bits: np.ndarray,
        leaf: Leaf,
        ends: list[Any] | Callable[[], list[Any]],
        exit_node: TrieNode | None,
        below: LeafMask | None = None,
    ) -> None:
        self.bits = bits
        self.leaf = leaf
        self._ends = ends
        self.exit = exit_node
        self._below = below
        self._worst: int | None = None

    @property
    def ends(self) -> list[Any]:
        if callable(self._ends):
            self._ends = self._ends()
        return self._ends

    @property
    def is_sealed(self) -> bool:
        """Whether the tokens begin what must differ from a word that is not known."""
        return isinstance(self.leaf, FreshLeaf) and any(q.is_sealed for q in self.ends)

    def worst_cost(self) -> int:
        """The most that finishing the leaf can cost after one of the tokens."""
        if self._worst is None:
            worst = 0 if self._below is None else self._below.worst_cost()
            self._worst = max(map(self.leaf.cost, self.ends), default=0)
            self._worst = max(self._worst, worst)
        return self._worst


class Loop:
    """The trie below a node, as far as only certain bytes are read.

    nodes          by depth (1 is the node's children) what these bytes lead to; index 0 is empty
    bits           uint32[num_words], the tokens that end there
    leaving        int32[k]: the nodes behind the first other byte, and how many bytes were read before it
    leaving_depth  int32[k]
    """

    __slots__ = ("_some", "bits", "leaving", "leaving_depth", "nodes")

    def __init__(
        self, nodes: list[np.ndarray], bits: np.ndarray, leaving: np.ndarray, leaving_depth: np.ndarray
    ) -> None:
        self.nodes = nodes
        self.bits = bits
        self.leaving = leaving
        self.leaving_depth = leaving_depth
        self._some: dict[tuple[int, ...], np.ndarray] = {}

    def bits_at(self, trie: Trie, depths: tuple[int, ...]) -> np.ndarray:
        """uint32[num_words]: the tokens that end at these depths."""
        found = self._some.get(depths)
        if found is None:
            if len(self._some) >= 256:
                self._some.clear()
            found = self._some[depths] = np.zeros_like(self.bits)
            set_bits(found, trie.token_ids(np.concatenate([self.nodes[depth] for depth in depths])))
        return found


class Walk:
    """Where the trie leads in an automaton: the bytes that do not leave the first state (`loop`), and for each
    other node (int32[k]) its state and the characters that are counted on the way there."""

    __slots__ = ("counts", "loop", "nodes", "states")

    def __init__(self, loop: Loop, nodes: np.ndarray, states: np.ndarray, counts: np.ndarray) -> None:
        self.loop = loop
        self.nodes = nodes
        self.states = states
        self.counts = counts


class LeafMasks:
    """The leaf masks of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._is_complete = len(vocabulary.alphabet) == 256
        self._cache: dict[tuple[Leaf, Hashable, TrieNode], LeafMask] = {}
        self._walks: dict[tuple[DfaLeaf, int, TrieNode], Walk] = {}
        self._loops: dict[tuple[TrieNode, bytes], Loop] = {}

    def of(self, leaf: Leaf, q: Any, node: TrieNode) -> LeafMask:
        """The tokens below `node` that stay in `leaf`, which is in state `q`."""
        if isinstance(leaf, CountedLeaf) and q[1] == 0 and q[2] is None:
            leaf, q = leaf.plain, q[0]
        key = (leaf, q, node)
        found = self._cache.get(key)
        if found is None:
            if len(self._cache) >= MAX_LEAF_MASKS:
                self._cache.clear()
            found = self._cache[key] = self._compute(leaf, q, node)
        return found

    def _compute(self, leaf: Leaf, q: Any, node: TrieNode) -> LeafMask:
        if isinstance(leaf, FreshLeaf) and not q.is_sealed:
            return self._without(leaf, q, node)
        if isinstance(leaf, LockstepLeaf):
            return self._side_by_side(leaf, q, node)
        if isinstance(leaf, DfaLeaf | CountedLeaf):
            if len(leaf.next_bytes(q)) <= 16 or node.num_children <= 16:
                found = self._narrow(leaf, q, node, NARROW_STEPS)
                if found is not None:
                    return found
            return self._wide(leaf, q, node)
        found = self._narrow(leaf, q, node, INFINITE)
        assert found is not None
        return found

    def _without(self, leaf: FreshLeaf, q: FreshState, node: TrieNode) -> LeafMask:
        """The mask of the leaf below, and what excluded words take away from it."""
        below = self.of(leaf.base, q.q, node)
        if q.is_free:
            return below
        if isinstance(leaf.base, DfaLeaf) and leaf.base.is_open:
            return self._without_words(leaf, q, node, below)
        dead: list[int] = []
        ended: set[int] = set()
        ends: list[FreshState] = []
        work = [(q, node)]
        while work:
            q, node = work.pop()
            for byte in q.taken():
                child = node.child(byte)
                if child is None:
                    continue
                after = leaf.step(q, byte)
                if after is None:
                    dead += self.all_ids(child)
                    ended.update(child.all_below())
                    continue
                if child.ids:
                    ends.append(after)
                if after.is_excluded:
                    ended.update(child.members)
                if not after.is_free and child.has_children:
                    work.append((after, child))
        return self._taken_away(leaf, below, ends, dead, ended)

    def _without_words(self, leaf: FreshLeaf, q: FreshState, node: TrieNode, below: LeafMask) -> LeafMask:
        """As `_without`, where a text dies only by being an excluded word."""
        dead: list[int] = []
        ended: set[int] = set()
        for rest in leaf.left(q):
            child: TrieNode | None = node
            for byte in rest:
                assert child is not None
                child = child.child(byte)
                if child is None:
                    break
            else:
                assert child is not None
                dead += self.all_ids(child)
                ended.update(child.all_below())
        return self._taken_away(leaf, below, lambda: self._ends_in_words(leaf, q, node), dead, ended)

    @staticmethod
    def _ends_in_words(leaf: FreshLeaf, q: FreshState, node: TrieNode) -> list[FreshState]:
        """The states in which tokens end that agree with an excluded word, or leave it with their last byte."""
        ends: list[FreshState] = []
        work = [(q, node)]
        while work:
            q, node = work.pop()
            for byte in q.taken():
                child = node.child(byte)
                after = None if child is None else leaf.step(q, byte)
                if child is not None and after is not None:
                    if child.ids:
                        ends.append(after)
                    if not after.is_free and child.has_children:
                        work.append((after, child))
        return ends

    def worst_in_words(self, leaf: FreshLeaf, q: FreshState) -> int:
        """The most that finishing the leaf can cost after a token that agrees with an excluded word."""
        return max(map(leaf.cost, self._ends_in_words(leaf, q, self.vocabulary.trie.root)), default=0)

    def _taken_away(
        self,
        leaf: FreshLeaf,
        below: LeafMask,
        ends: list[Any] | Callable[[], list[Any]],
        dead: list[int],
        ended: set[int],
    ) -> LeafMask:
        """The mask of the leaf below without `dead` tokens, and without the trie nodes `ended` where it may end."""
        bits = below.bits
        if dead:
            gone = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
            set_bits(gone, dead)
            bits = bits & ~gone
        exit_node = below.exit
        if exit_node is not None and not ended.isdisjoint(exit_node.member_set):
            exit_node = self._exit([member for member in exit_node.members if member not in ended])
        return LeafMask(bits, leaf, ends, exit_node, below)

    def side_by_side(self, leaf: LockstepLeaf, q: Any, node: TrieNode) -> tuple[np.ndarray, np.ndarray]:
        """Trie nodes below `node` that the leaf reaches (int64[k]), and the number of its state (of `leaf.rows`) there.

        Walks the trie level by level, and steps each state by each byte once.
        """
        trie = self.vocabulary.trie
        if len(leaf.rows) >= MAX_ROWS:
            leaf.rows = Rows()
        rows = leaf.rows
        members = np.array(node.members, dtype=np.int64)
        states = np.full(len(members), rows.number(leaf, q), dtype=np.int64)
        levels: list[tuple[np.ndarray, np.ndarray]] = [(_NONE, _NONE)]
        while len(members):
            members, parent = trie.children(members)
            before, byte = states[parent], trie.byte[members].astype(np.int64)
            found = rows.table[before, byte]
            unknown = found == UNKNOWN
            if unknown.any():
                for pair in np.unique(before[unknown] << 8 | byte[unknown]).tolist():
                    rows.follow(leaf, pair >> 8, pair & 255)
                found = rows.table[before, byte]
            for index in np.flatnonzero(found == NAMED).tolist():
                # A key ends here: which one it is stands in the trie.
                after: Any = q
                for step in trie.path(int(members[index]), node.member_set):
                    after = leaf.step(after, step) if after is not None else None
                found[index] = DEAD if after is None else rows.number(leaf, after)
            alive = found > 0
            members, states = members[alive], found[alive].astype(np.int64)
            levels.append((members, states))
        nodes, states = (np.concatenate(column) for column in zip(*levels, strict=True))
        return nodes, states

    def _side_by_side(self, leaf: LockstepLeaf, q: Any, node: TrieNode) -> LeafMask:
        trie = self.vocabulary.trie
        nodes, states = self.side_by_side(leaf, q, node)
        rows = leaf.rows
        exits = nodes[rows.accept[states] & (trie.count[nodes] > 0)]
        written = trie.ids_count[nodes] > 0
        if not self._is_complete:
            finite = [state is not None and leaf.cost(state) < INFINITE for state in rows.states]
            written &= np.array(finite, dtype=np.bool_)[states]
        bits = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
        set_bits(bits, trie.token_ids(nodes[written]))
        ends = [rows.states[number] for number in np.unique(states[written]).tolist()]
        return LeafMask(bits, leaf, ends, self._exit(exits.tolist()))

    def all_ids(self, node: TrieNode) -> list[int]:
        """The tokens that end at a node or below it."""
        found: list[int] = self.vocabulary.trie.token_ids(np.array(node.all_below())).tolist()
        return found

    def _narrow(self, leaf: Leaf, q: Any, node: TrieNode, max_steps: int) -> LeafMask | None:
        """Walk leaf and trie together, object by object; None where that takes too many steps."""
        ids: list[int] = []
        ends: set[Any] = set()
        exits: list[int] = []
        work = [(q, node)]
        steps = 0
        while work:
            q, node = work.pop()
            options = leaf.next_bytes(q)
            find = node.child if len(options) <= 4 else node.children.get
            for byte in options:
                child = find(byte)
                if child is None:
                    continue
                steps += 1
                after = leaf.step(q, byte)
                if after is None:
                    continue
                if child.ids and (self._is_complete or leaf.cost(after) < INFINITE):
                    ids += child.ids
                    ends.add(after)
                if child.has_children:
                    if leaf.is_accepting(after):
                        exits += child.members
                    work.append((after, child))
            if steps > max_steps:
                return None
        bits = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
        set_bits(bits, ids)
        return LeafMask(bits, leaf, list(ends), self._exit(exits))

    def _wide(self, leaf: DfaLeaf | CountedLeaf, q: Any, node: TrieNode) -> LeafMask:
        """Walk whole levels of the trie at once."""
        trie = self.vocabulary.trie
        counted = leaf if isinstance(leaf, CountedLeaf) else None
        plain = counted.plain if counted is not None else leaf
        assert isinstance(plain, DfaLeaf)
        state = q[0] if counted is not None else q
        walk = self._walk(plain, state, node)
        bits = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
        ends: list[Any] = []
        exits: list[np.ndarray] = []
        # What stays in the state is decided depth by depth, what leaves it node by node.
        is_counting = counted is not None and bool(counted.boundary[state])
        depths = range(1, len(walk.loop.nodes)) if is_counting else range(1 if walk.loop.nodes else 0)
        living = [depth for depth in depths if counted is None or self._lives(counted, q, state, depth)]
        if self._is_complete or plain.cost(state) < INFINITE:
            if len(living) == len(depths):
                bits |= walk.loop.bits
            elif living:
                bits |= walk.loop.bits_at(trie, tuple(living))
            ends += [state if counted is None else self._counted(q, state, depth) for depth in living]
        if plain.is_accepting(state):
            exits += [level for depth, level in enumerate(walk.loop.nodes) if counted is None or depth >= q[1]]
        nodes, states, counts = walk.nodes, walk.states, walk.counts
        if counted is not None:
            alive = self._can_finish(counted, q, states, counts)
            nodes, states, counts = nodes[alive], states[alive], counts[alive]
        accepting = plain.dfa.accept[states]
        if counted is not None:
            accepting &= counts >= q[1]
        exits.append(nodes[accepting & (trie.count[nodes] > 0)])
        written = trie.ids_count[nodes] > 0
        if not self._is_complete:
            written &= np.array(plain.costs)[states] < INFINITE
        set_bits(bits, trie.token_ids(nodes[written]))
        keys = np.unique(states[written].astype(np.int64) << 32 | counts[written]).tolist()
        if counted is None:
            ends += list({key >> 32 for key in keys})
        else:
            ends += [self._counted(q, key >> 32, key & 0xFFFFFFFF) for key in keys]
        return LeafMask(bits, leaf, ends, self._exit(np.concatenate(exits).tolist()))

    def ends(self, plain: DfaLeaf, state: int, node: TrieNode) -> tuple[np.ndarray, np.ndarray]:
        """Trie nodes below `node` that an automaton reaches (int64[k]), and `state << 32 | characters` there."""
        walk = self._walk(plain, state, node)
        boundary = plain.dfa.boundary
        is_counting = boundary is not None and bool(boundary[state])
        nodes, keys = [walk.nodes], [walk.states.astype(np.int64) << 32 | walk.counts]
        for depth, level in enumerate(walk.loop.nodes):
            nodes.append(level)
            keys.append(np.full(len(level), state << 32 | (depth if is_counting else 0), dtype=np.int64))
        return np.concatenate(nodes), np.concatenate(keys)

    def _lives(self, leaf: CountedLeaf, q: Any, state: int, count: int) -> bool:
        _, low, high = self._counted(q, state, count)
        return (high is None or high >= 0) and leaf.can_finish(state, low, high)

    def _walk(self, plain: DfaLeaf, state: int, node: TrieNode) -> Walk:
        """The trie below `node` along the automaton, whatever the bounds on its characters."""
        key = (plain, state, node)
        found = self._walks.get(key)
        if found is not None:
            return found
        trie, table = self.vocabulary.trie, plain.dfa.next
        boundary, accept = plain.dfa.boundary, plain.dfa.accept
        counts_here = boundary is not None and bool(boundary[state]) and not accept[state]
        loop = self._loop(node, bytes(np.flatnonzero(table[state] == state).tolist()))
        members = loop.leaving
        before = np.full(len(members), state, dtype=np.int32)
        counts = loop.leaving_depth if counts_here else np.zeros(len(members), dtype=np.int32)
        levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        while len(members):
            states = table[before, trie.byte[members]]
            alive = states != 0
            members, states, before, counts = members[alive], states[alive], before[alive], counts[alive]
            if boundary is not None:
                counts = counts + (boundary[before] & ~accept[states])
            levels.append((members, states, counts))
            members, parent = trie.children(members)
            before, counts = states[parent], counts[parent]
        if not levels:
            levels.append((_NONE, _NONE, _NONE))
        nodes, states, counts = (np.concatenate(column) for column in zip(*levels, strict=True))
        if len(self._walks) >= MAX_WALKS:
            self._walks.clear()
        found = self._walks[key] = Walk(loop, nodes, states, counts)
        return found

    def _loop(self, node: TrieNode, stay: bytes) -> Loop:
        key = (node, stay)
        found = self._loops.get(key)
        if found is not None:
            return found
        trie = self.vocabulary.trie
        stays = np.zeros(256, dtype=np.bool_)
        stays[list(stay)] = True
        members = np.array(node.members, dtype=np.int64)
        levels, leaving, depths = [_NONE], [_NONE], [_NONE]
        while len(members):
            children, _ = trie.children(members)
            inside = stays[trie.byte[children]]
            out = children[~inside]
            leaving.append(out)
            depths.append(np.full(len(out), len(levels) - 1, dtype=np.int32))
            members = children[inside]
            if len(members):
                levels.append(members)
        bits = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
        set_bits(bits, trie.token_ids(np.concatenate(levels)))
        if len(self._loops) >= MAX_LOOPS:
            self._loops.clear()
        nodes = levels if len(levels) > 1 else []
        found = self._loops[key] = Loop(nodes, bits, np.concatenate(leaving), np.concatenate(depths))
        return found

    def _can_finish(self, leaf: CountedLeaf, q: Any, states: np.ndarray, counts: np.ndarray) -> np.ndarray:
        pairs = states.astype(np.int64) << 32 | counts
        unique, inverse = np.unique(pairs, return_inverse=True)
        answers = np.zeros(len(unique), dtype=bool)
        for index, pair in enumerate(unique.tolist()):
            answers[index] = self._lives(leaf, q, pair >> 32, pair & 0xFFFFFFFF)
        return answers[inverse]

    @staticmethod
    def _counted(q: Any, state: int, count: int) -> tuple[int, int, int | None]:
        return (state, max(q[1] - count, 0), None if q[2] is None else q[2] - count)

    def _exit(self, members: list[int]) -> TrieNode | None:
        return self.vocabulary.trie.node(tuple(sorted(set(members)))) if members else None


def set_bits(bits: np.ndarray, ids: list[int] | np.ndarray) -> None:
    if len(ids) < 24:
        for token_id in ids:
            bits[token_id >> 5] |= np.uint32(1 << (int(token_id) & 31))
        return
    flags = np.zeros(len(bits) * 32, dtype=np.uint8)
    flags[ids] = 1
    bits |= np.packbits(flags, bitorder="little").view(np.uint32)

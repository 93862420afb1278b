"""Token masks: which tokens a state allows.

How a mask is found (`Masks.of`): a literal goes down the vocabulary trie byte by byte. The tokens that stay
inside a leaf are found once for each (leaf, leaf state, trie node), whatever the template (`LeafMasks`). A token
that leaves the leaf is looked at by what is left over of it: the trie below all the places where the leaf may end
is one merged node, and only the part of it that what follows permits is walked.

Masks are cached by state, with counters cut to what a token can reach, so that a string of at most 1,000
characters has one mask for all positions that are far from the end.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fillengine.automata.leaf import INFINITE, CountedLeaf, DfaLeaf, Leaf, LiteralLeaf
from fillengine.automata.machine import Frame, Machine, State
from fillengine.automata.trie import TrieNode
from fillengine.automata.vocabulary import Vocabulary

MAX_MASKS = 4_096
"""Masks that one form remembers (a mask of 49,152 tokens takes 6 KiB). Past it the memory is emptied."""

MAX_LEAF_MASKS = 8_192
"""Leaf masks that one vocabulary remembers for all forms. Past it the memory is emptied."""

NARROW_STEPS = 400
"""A walk over objects that takes more steps than this starts anew with numpy, level by level."""


class Mask:
    """The tokens that are allowed. Shared and long-lived; compare by identity.

    bits    uint32[num_words], token t being bit t % 32 of word t // 32
    single  the only allowed token, where there is just one
    """

    __slots__ = ("_bits", "_num_words", "single")

    def __init__(self, bits: np.ndarray | None, single: int | None, num_words: int) -> None:
        self._bits = bits
        self._num_words = num_words
        self.single = single

    @property
    def bits(self) -> np.ndarray:
        if self._bits is None:
            assert self.single is not None
            self._bits = np.zeros(self._num_words, dtype=np.uint32)
            self._bits[self.single >> 5] = np.uint32(1 << (self.single & 31))
        return self._bits

    def allows(self, token_id: int) -> bool:
        if self._bits is None:
            return token_id == self.single
        return bool(int(self._bits[token_id >> 5]) >> (token_id & 31) & 1)

    def unpacked(self, size: int) -> np.ndarray:
        """bool[size]"""
        return np.unpackbits(self.bits.view(np.uint8), count=size, bitorder="little").view(np.bool_)

    def token_ids(self, size: int) -> np.ndarray:
        """The allowed tokens, ascending."""
        return np.flatnonzero(self.unpacked(size))


class LeafMask:
    """The tokens below a trie node that stay in a leaf.

    bits   uint32[num_words]
    leaf   the leaf itself
    ends   its states in which such tokens end
    exit   the trie below all places where the leaf may end and tokens go on (None: there are none)
    """

    __slots__ = ("bits", "ends", "exit", "leaf")

    def __init__(self, bits: np.ndarray, leaf: Leaf, ends: list[Any], exit_node: TrieNode | None) -> None:
        self.bits = bits
        self.leaf = leaf
        self.ends = ends
        self.exit = exit_node

    def worst_cost(self) -> int:
        """The most that finishing the leaf can cost after one of the tokens."""
        return max(map(self.leaf.cost, self.ends), default=0)


Part = tuple["LeafMask | LiteralLeaf", "Frame | None"]
"""What a mask is made of, with what follows behind it."""


class LeafMasks:
    """The leaf masks of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._is_complete = len(vocabulary.alphabet) == 256
        self._cache: dict[tuple[Leaf, Hashable, TrieNode], LeafMask] = {}

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
        if isinstance(leaf, DfaLeaf | CountedLeaf):
            if len(leaf.next_bytes(q)) <= 16 or len(node.children) <= 16:
                found = self._narrow(leaf, q, node, NARROW_STEPS)
                if found is not None:
                    return found
            return self._wide(leaf, q, node)
        found = self._narrow(leaf, q, node, INFINITE)
        assert found is not None
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
            children = node.children
            for byte in leaf.next_bytes(q):
                child = children.get(byte)
                if child is None:
                    continue
                steps += 1
                after = leaf.step(q, byte)
                if after is None:
                    continue
                if child.ids and (self._is_complete or leaf.cost(after) < INFINITE):
                    ids += child.ids
                    ends.add(after)
                if child.children:
                    if leaf.is_accepting(after):
                        exits += child.members
                    work.append((after, child))
            if steps > max_steps:
                return None
        bits = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
        _set_bits(bits, ids)
        return LeafMask(bits, leaf, list(ends), self._exit(exits))

    def _wide(self, leaf: DfaLeaf | CountedLeaf, q: Any, node: TrieNode) -> LeafMask:
        """Walk whole levels of the trie at once."""
        trie = self.vocabulary.trie
        plain = leaf.plain if isinstance(leaf, CountedLeaf) else leaf
        table = plain.dfa.next
        members = np.array(node.members, dtype=np.int64)
        states = np.full(len(members), q[0] if isinstance(leaf, CountedLeaf) else q, dtype=np.int32)
        counts = np.zeros(len(members), dtype=np.int32)
        levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        while len(members):
            members, parent = trie.children(members)
            before = states[parent]
            states = table[before, trie.byte[members]]
            counts = counts[parent]
            alive = states != 0
            if isinstance(leaf, CountedLeaf):
                assert leaf.dfa.boundary is not None
                counts = counts + (leaf.dfa.boundary[before] & ~leaf.dfa.accept[states])
                alive &= self._can_finish(leaf, q, states, counts)
            members, states, counts = members[alive], states[alive], counts[alive]
            levels.append((members, states, counts))
        nodes = np.concatenate([level[0] for level in levels])
        states = np.concatenate([level[1] for level in levels])
        counts = np.concatenate([level[2] for level in levels])
        accepting = plain.dfa.accept[states]
        if isinstance(leaf, CountedLeaf):
            accepting = accepting & (counts >= q[1])
        exits = nodes[accepting & (trie.count[nodes] > 0)]
        written = trie.ids_count[nodes] > 0
        if not self._is_complete:
            written &= np.array(plain.costs)[states] < INFINITE
        bits = np.zeros(self.vocabulary.num_words, dtype=np.uint32)
        _set_bits(bits, trie.token_ids(nodes[written]))
        ends: list[Any]
        if isinstance(leaf, CountedLeaf):
            pairs = np.unique(np.stack([states[written], counts[written]]), axis=1)
            ends = [self._counted(q, state, count) for state, count in pairs.T.tolist()]
        else:
            ends = np.unique(states[written]).tolist()
        return LeafMask(bits, leaf, ends, self._exit(exits.tolist()))

    def _can_finish(self, leaf: CountedLeaf, q: Any, states: np.ndarray, counts: np.ndarray) -> np.ndarray:
        pairs = states.astype(np.int64) << 32 | counts
        unique, inverse = np.unique(pairs, return_inverse=True)
        answers = np.zeros(len(unique), dtype=bool)
        for index, pair in enumerate(unique.tolist()):
            state, low, high = self._counted(q, pair >> 32, pair & 0xFFFFFFFF)
            answers[index] = state != 0 and (high is None or high >= 0) and leaf.can_finish(state, low, high)
        return answers[inverse]

    @staticmethod
    def _counted(q: Any, state: int, count: int) -> tuple[int, int, int | None]:
        return (state, max(q[1] - count, 0), None if q[2] is None else q[2] - count)

    def _exit(self, members: list[int]) -> TrieNode | None:
        return TrieNode(self.vocabulary.trie, tuple(members)) if members else None


class Masks:
    """The masks of one machine over one vocabulary."""

    def __init__(self, machine: Machine, leaf_masks: LeafMasks) -> None:
        self.machine = machine
        self.vocabulary = leaf_masks.vocabulary
        self._leaf_masks = leaf_masks
        self._is_complete = len(self.vocabulary.alphabet) == 256
        self._found: dict[State, tuple[Mask, list[Part]]] = {}
        self._singles: dict[int, Mask] = {}
        self._worst: dict[State, int] = {}

    def of(self, state: State) -> Mask:
        """The tokens that `state` allows, the end of sequence among them where the text is whole."""
        return self._entry(state)[0]

    def single(self, token_id: int) -> Mask:
        """The mask that allows this token alone."""
        mask = self._singles.get(token_id)
        if mask is None:
            mask = self._singles[token_id] = Mask(None, token_id, self.vocabulary.num_words)
        return mask

    def growth(self, state: State) -> int:
        """How much more the text can cost after one allowed token than before it (upper bound)."""
        clamped = self.machine.clamped(state, self.vocabulary.reach)
        worst = self._worst.get(clamped)
        if worst is None:
            machine = self.machine
            costs = [0]
            for part, frame in self._entry(state)[1]:
                costs.append(part.worst_cost() + machine.frame_cost(frame))
            worst = self._worst[clamped] = max(costs) - machine.cost(clamped)
        return worst

    def affordable(self, state: State, budget: int) -> Mask:
        """The allowed tokens after which the text can be completed with `budget` - 1 more tokens."""
        vocabulary, machine = self.vocabulary, self.machine
        kept = []
        for token_id in self.of(state).token_ids(vocabulary.size).tolist():
            text = vocabulary.tokens[token_id]
            if text is None:
                kept.append(token_id)
                continue
            after = machine.advance(state, text)
            if after is not None and machine.cost(after) <= budget - 1:
                kept.append(token_id)
        if len(kept) == 1:
            return self.single(kept[0])
        bits = np.zeros(vocabulary.num_words, dtype=np.uint32)
        _set_bits(bits, kept)
        return Mask(bits, None, vocabulary.num_words)

    def _entry(self, state: State) -> tuple[Mask, list[Part]]:
        clamped = self.machine.clamped(state, self.vocabulary.reach)
        found = self._found.get(clamped)
        if found is None:
            if len(self._found) >= MAX_MASKS:
                self._found.clear()
                self._worst.clear()
            found = self._found[clamped] = self._compute(clamped)
        return found

    def _compute(self, state: State) -> tuple[Mask, list[Part]]:
        machine = self.machine
        num_words = self.vocabulary.num_words
        bits: np.ndarray | None = None
        ids: list[int] = []
        parts: list[Part] = []
        work: list[tuple[State, TrieNode]] = [(state, self.vocabulary.trie.root)]
        seen = {work[0]}
        while work:
            current, node = work.pop()
            for spot, q, frame in current.configurations:
                leaf = spot.leaf
                below: TrieNode | None = node
                if isinstance(leaf, LiteralLeaf):
                    parts.append((leaf, frame))
                    below = self._descend(leaf, q, node, ids)
                else:
                    part = self._leaf_masks.of(leaf, q, node)
                    parts.append((part, frame))
                    if bits is None:
                        bits = part.bits.copy()
                    else:
                        bits |= part.bits
                    below = part.exit
                if below is not None and below.children:
                    item = (machine.after(frame), below)
                    if item[0].configurations and item not in seen:
                        seen.add(item)
                        work.append(item)
        if state.is_accepting:
            ids += self.vocabulary.eos_ids
        if bits is None:
            if len(set(ids)) == 1:
                return self.single(ids[0]), parts
            bits = np.zeros(num_words, dtype=np.uint32)
        _set_bits(bits, ids)
        return Mask(bits, _only(bits), num_words), parts

    def _descend(self, leaf: LiteralLeaf, q: int, node: TrieNode, ids: list[int]) -> TrieNode | None:
        """Collect the tokens below `node` that write the rest of a literal or part of it."""
        for offset in range(q, len(leaf.text)):
            below = node.children.get(leaf.text[offset])
            if below is None:
                return None
            node = below
            if node.ids and (self._is_complete or leaf.cost(offset + 1) < INFINITE):
                ids += node.ids
        return node


def _set_bits(bits: np.ndarray, ids: list[int] | np.ndarray) -> None:
    if len(ids) < 24:
        for token_id in ids:
            bits[token_id >> 5] |= np.uint32(1 << (int(token_id) & 31))
        return
    flags = np.zeros(len(bits) * 32, dtype=np.uint8)
    flags[ids] = 1
    bits |= np.packbits(flags, bitorder="little").view(np.uint32)


def _only(bits: np.ndarray) -> int | None:
    """The only token of a mask, or None where there are several or none."""
    words = np.flatnonzero(bits)
    if len(words) != 1:
        return None
    word = int(bits[words[0]])
    return None if word & (word - 1) else int(words[0]) * 32 + word.bit_length() - 1

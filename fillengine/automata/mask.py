"""Token masks: which tokens a state allows.

How a mask is found (`Masks.of`): a literal goes down the vocabulary trie byte by byte. The tokens that stay
inside a leaf are found once for each (leaf, leaf state, trie node), whatever the template (`LeafMasks`). A token
that leaves the leaf is looked at by what is left over of it: the trie below all the places where the leaf may end
is one merged node, and only the part of it that what follows permits is walked.

Masks are cached by state, with counters cut to what a token can reach, so that a string of at most 1,000
characters has one mask for all positions that are far from the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fillengine.automata.affordable import AffordableMasks
from fillengine.automata.fresh import FreshLeaf
from fillengine.automata.leaf import EntriesLeaf, LiteralLeaf
from fillengine.automata.leaf_mask import LeafMask, LeafMasks, set_bits
from fillengine.automata.machine import Machine
from fillengine.automata.prefixes import Prefix, members
from fillengine.automata.state import Frame, State
from fillengine.automata.trie import TrieNode

MAX_MASKS = 4_096
"""Masks that one form remembers (a mask of 49,152 tokens takes 6 KiB). Past it the memory is emptied."""


NEW_MARGIN = 200
"""What a token that goes on into the next new key or item can leave to write beside what is known, since not all that
it must differ from is known. Within it of the budget's end masks are made by what each token leaves to write."""


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


class _Entries:
    """The entries that may be being written behind a token."""

    __slots__ = ("_frame", "_machine", "_q")

    def __init__(self, machine: Machine, q: Any, frame: Frame) -> None:
        self._machine, self._q, self._frame = machine, q, frame

    def worst_cost(self) -> int:
        return self._machine.worst_entry(self._q, self._frame)


class _Found(NamedTuple):
    """A mask, what it is made of, and for each part what follows behind it."""

    mask: Mask
    parts: tuple[LeafMask | LiteralLeaf | _Entries, ...]
    frames: tuple[Frame | None, ...]


class Masks:
    """The masks of one machine over one vocabulary."""

    def __init__(self, machine: Machine, leaf_masks: LeafMasks) -> None:
        self.machine = machine
        self.vocabulary = leaf_masks.vocabulary
        self._leaf_masks = leaf_masks
        self._affordable = AffordableMasks(machine, leaf_masks)
        self._found: dict[State, _Found] = {}
        self._singles: dict[int, Mask] = {}
        self._worst: dict[State, int] = {}

    def of(self, state: State) -> Mask:
        """The tokens that `state` allows, the end of sequence among them where the text is whole."""
        return self._entry(state).mask

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
            _, parts, frames = self._entry(state)
            for part, frame in zip(parts, frames, strict=True):
                is_next = isinstance(part, LeafMask) and part.is_sealed
                costs.append(part.worst_cost() + machine.frame_cost(frame) + is_next * NEW_MARGIN)
            worst = self._worst[clamped] = max(costs)
        for spot, q, frame in state.configurations:
            if isinstance(spot.leaf, FreshLeaf) and spot.leaf.clamp(q, self.vocabulary.reach).rests != q.rests:
                worst = max(worst, self._leaf_masks.worst_in_words(spot.leaf, q) + self.machine.frame_cost(frame))
        return worst + self.machine.growth(state, self.vocabulary.reach) - self.machine.cost(state)

    def within(self, state: State, budget: int | None) -> Mask:
        """The allowed tokens after which the text can be completed with `budget` - 1 more (None: with any number)."""
        if budget is None or self.machine.cost(state) + self.growth(state) <= budget - 1:
            return self.of(state)
        return self.affordable(state, budget)

    def affordable(self, state: State, budget: int) -> Mask:
        """As `within`, for a budget that may be short."""
        bits = self._affordable.bits(state, budget)
        bits &= self.of(state).bits
        single = _only(bits)
        return Mask(bits, None, self.vocabulary.num_words) if single is None else self.single(single)

    def _entry(self, state: State) -> _Found:
        clamped = self.machine.clamped(state, self.vocabulary.reach)
        found = self._found.get(clamped)
        if found is None:
            if len(self._found) >= MAX_MASKS:
                self._found.clear()
                self._worst.clear()
            found = self._found[clamped] = self._compute(clamped)
        return found

    def _compute(self, state: State) -> _Found:
        machine = self.machine
        num_words = self.vocabulary.num_words
        bits: np.ndarray | None = None
        ids: list[int] = []
        parts: list[LeafMask | LiteralLeaf | _Entries] = []
        frames: list[Frame | None] = []
        work: list[tuple[State, TrieNode]] = [(state, self.vocabulary.trie.root)]
        seen = {work[0]}
        while work:
            current, node = work.pop()
            for spot, q, frame in current.configurations:
                leaf = spot.leaf
                frames.append(frame)
                below: TrieNode | None = node
                if isinstance(leaf, LiteralLeaf):
                    parts.append(leaf)
                    below = self._descend(leaf, q, node, ids)
                elif isinstance(leaf, EntriesLeaf):
                    assert frame is not None
                    parts.append(_Entries(machine, q, frame))
                    for index, exit_node in self._enter(leaf, q, node, ids):
                        item = (machine.after_entry(frame, index), exit_node)
                        if item[0].configurations and item not in seen:
                            seen.add(item)
                            work.append(item)
                    continue
                else:
                    part = self._leaf_masks.of(leaf, q, node)
                    parts.append(part)
                    if bits is None:
                        bits = part.bits.copy()
                    else:
                        bits |= part.bits
                    below = part.exit
                if below is not None and below.has_children:
                    item = (machine.after(frame), below)
                    if item[0].configurations and item not in seen:
                        seen.add(item)
                        work.append(item)
        if state.is_accepting:
            ids += self.vocabulary.eos_ids
        if bits is None:
            if len(set(ids)) == 1:
                return _Found(self.single(ids[0]), tuple(parts), tuple(frames))
            bits = np.zeros(num_words, dtype=np.uint32)
        set_bits(bits, ids)
        return _Found(Mask(bits, _only(bits), num_words), tuple(parts), tuple(frames))

    def _enter(self, leaf: EntriesLeaf, q: Any, node: TrieNode, ids: list[int]) -> list[tuple[int, TrieNode]]:
        """Collect the tokens below `node` that write parts of entries; (entry, node) where tokens go on behind."""
        exits: list[tuple[int, TrieNode]] = []
        work: list[tuple[int, Prefix, int, TrieNode]] = [(*q, node)]
        while work:
            bits, at, depth, node = work.pop()
            if not bits & (bits - 1):
                index = bits.bit_length() - 1
                text = leaf.texts[index]
                below: TrieNode | None = node
                while depth < len(text):
                    below = node.child(text[depth])
                    if below is None:
                        break
                    node, depth = below, depth + 1
                    if node.ids and leaf.can_finish(index, depth):
                        ids += node.ids
                if below is not None and node.has_children:
                    exits.append((index, node))
                continue
            for byte, child in at.children.items():
                group = bits & child.below
                below = node.child(byte) if group else None
                if below is None:
                    continue
                if below.ids and any(leaf.can_finish(index, depth + 1) for index in members(group)):
                    ids += below.ids
                if below.has_children:
                    exits += [(index, below) for index in members(group & child.whole)]
                    left = group & ~child.whole
                    if left:
                        work.append((left, child, depth + 1, below))
        return exits

    def _descend(self, leaf: LiteralLeaf, q: int, node: TrieNode, ids: list[int]) -> TrieNode | None:
        """Collect the tokens below `node` that write the rest of a literal or part of it."""
        for offset in range(q, len(leaf.text)):
            below = node.child(leaf.text[offset])
            if below is None:
                return None
            node = below
            if node.ids and leaf.can_finish(offset + 1):
                ids += node.ids
        return node


def _only(bits: np.ndarray) -> int | None:
    """The only token of a mask, or None where there are several or none."""
    words = np.flatnonzero(bits)
    if len(words) != 1:
        return None
    word = int(bits[words[0]])
    return None if word & (word - 1) else int(words[0]) * 32 + word.bit_length() - 1

"""Masks under a budget: the allowed tokens after which the text can still be completed with so many more.

As a mask is put together from leaves (`mask.Masks`), so is this one, and for each token that stays in a leaf it is
known what is left to write: from where it ends in the leaf, and behind the leaf. No token is tried by itself, with
one exception: what a token can write behind a key or an item that must be new depends on what that was.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fillengine.automata.fresh import FreshLeaf, FreshState
from fillengine.automata.leaf import INFINITE, CountedLeaf, DfaLeaf, EntriesLeaf, EntriesState, Leaf, LiteralLeaf
from fillengine.automata.leaf_mask import NARROW_STEPS, LeafMasks, set_bits
from fillengine.automata.lockstep import LockstepLeaf
from fillengine.automata.machine import Machine
from fillengine.automata.state import Frame, State
from fillengine.automata.trie import TrieNode

MAX_LEAF_COSTS = 32
"""Leaf states whose tokens' costs one form remembers (some 0.6 MB each where all tokens are allowed)."""


class LeafCosts(NamedTuple):
    """The tokens below a trie node that stay in a leaf, and what they leave to write.

    ids      int32[k]
    costs    int64[k]: to finish the leaf where it goes on (INFINITE: nothing can follow in it)
    accepts  bool[k]: the leaf may end behind the token
    """

    ids: np.ndarray
    costs: np.ndarray
    accepts: np.ndarray

    def within(self, inside: int, *, behind: bool) -> np.ndarray:
        """Of `ids` those that leave at most `inside`, and those behind which the leaf may end if `behind`."""
        kept = self.costs <= inside
        if behind:
            kept = kept | self.accepts
        found: np.ndarray = self.ids[kept]
        return found


class AffordableMasks:
    """The masks under a budget of one machine over one vocabulary."""

    def __init__(self, machine: Machine, leaf_masks: LeafMasks) -> None:
        self._machine = machine
        self._vocabulary = leaf_masks.vocabulary
        self._leaf_masks = leaf_masks
        self._costs: dict[tuple[Leaf, Any, TrieNode], LeafCosts] = {}

    def bits(self, state: State, budget: int) -> np.ndarray:
        """uint32[num_words]: the tokens that `budget` pays for, with all that must follow them.

        An end of sequence costs nothing.
        """
        machine = self._machine
        found: list[np.ndarray] = []
        ids: list[int] = list(self._vocabulary.eos_ids) if state.is_accepting else []
        unsure: list[int] = []
        limit = budget - 1
        work: list[tuple[State, TrieNode, bool]] = [(state, self._vocabulary.trie.root, False)]
        seen = {work[0]}
        while work:
            current, node, is_behind_new = work.pop()
            written = unsure if is_behind_new else ids
            for spot, q, frame in current.configurations:
                leaf = spot.leaf
                following: list[tuple[State, TrieNode, bool]] = []
                if isinstance(leaf, EntriesLeaf):
                    assert frame is not None
                    for index, below in self._enter(leaf, q, node, frame, written, limit):
                        following.append((machine.after_entry(frame, index), below, is_behind_new))
                elif isinstance(leaf, LiteralLeaf):
                    end = self._descend(leaf, q, node, frame, written, limit)
                    if end is not None:
                        following.append((machine.after(frame), end, is_behind_new))
                else:
                    behind = machine.after(frame)
                    inside = limit - machine.frame_cost(frame)
                    tokens = self._leaf_costs(leaf, q, node)
                    paid = tokens.within(inside, behind=machine.cost(behind) <= limit)
                    if is_behind_new:
                        unsure += paid.tolist()
                    else:
                        found.append(paid)
                    end = self._leaf_masks.of(leaf, q, node).exit
                    if end is not None:
                        following.append((behind, end, is_behind_new or isinstance(leaf, FreshLeaf)))
                for item in following:
                    if item[1].children and item[0].configurations and item not in seen:
                        seen.add(item)
                        work.append(item)
        ids += [token_id for token_id in set(unsure) if self._pays(state, token_id, limit)]
        bits = np.zeros(self._vocabulary.num_words, dtype=np.uint32)
        set_bits(bits, np.concatenate([np.array(ids, dtype=np.int64), *found]))
        return bits

    def _pays(self, state: State, token_id: int, limit: int) -> bool:
        after = self._machine.advance(state, self._vocabulary.tokens[token_id] or b"")
        return after is not None and self._machine.cost(after) <= limit

    def _descend(
        self, leaf: LiteralLeaf, q: int, node: TrieNode, frame: Frame | None, ids: list[int], limit: int
    ) -> TrieNode | None:
        """Collect the tokens that write a part of a literal; the node behind all of it."""
        inside = limit - self._machine.frame_cost(frame)
        size = len(leaf.text)
        for offset in range(q, size):
            below = node.children.get(leaf.text[offset])
            if below is None:
                return None
            node = below
            if not node.ids:
                continue
            if offset + 1 < size:
                is_paid = leaf.cost(offset + 1) <= inside
            else:
                is_paid = self._machine.cost(self._machine.after(frame)) <= limit
            if is_paid:
                ids += node.ids
        return node

    def _enter(
        self, leaf: EntriesLeaf, q: Any, node: TrieNode, frame: Frame, ids: list[int], limit: int
    ) -> list[tuple[int, TrieNode]]:
        """Collect the tokens that write parts of entries; (entry, node) where tokens go on behind one."""
        machine = self._machine
        exits: list[tuple[int, TrieNode]] = []
        work: list[tuple[EntriesState, TrieNode]] = [(q, node)]
        while work:
            q, node = work.pop()
            for byte in leaf.next_bytes(q):
                below = node.children.get(byte)
                after = leaf.step(q, byte) if below is not None else None
                if below is None or after is None:
                    continue
                whole = leaf.whole(after)
                bits, at, depth = after
                left = bits & ~at.whole, at, depth
                if below.ids:
                    costs = [machine.cost(machine.after_entry(frame, index)) for index in whole]
                    if left[0]:
                        costs.append(machine.entries_cost(leaf, left, frame))
                    if min(costs) <= limit:
                        ids += below.ids
                if below.children:
                    exits += [(index, below) for index in whole]
                    if left[0]:
                        work.append((left, below))
        return exits

    def _leaf_costs(self, leaf: Leaf, q: Any, node: TrieNode) -> LeafCosts:
        if isinstance(leaf, CountedLeaf) and q[1] == 0 and q[2] is None:
            leaf, q = leaf.plain, q[0]
        key = (leaf, q, node)
        found = self._costs.get(key)
        if found is None:
            if len(self._costs) >= MAX_LEAF_COSTS:
                self._costs.clear()
            found = self._costs[key] = self._compute(leaf, q, node)
        return found

    def _compute(self, leaf: Leaf, q: Any, node: TrieNode) -> LeafCosts:
        if isinstance(leaf, FreshLeaf):
            return self._fresh(leaf, q, node)
        if isinstance(leaf, LockstepLeaf):
            nodes, numbers = self._leaf_masks.side_by_side(leaf, q, node)
            states = leaf.rows.states
            return self._at(leaf, nodes, numbers, lambda number: states[number])
        if isinstance(leaf, DfaLeaf | CountedLeaf):
            if len(leaf.next_bytes(q)) > 16 and len(node.children) > 16:
                return self._wide(leaf, q, node)
            return self._narrow(leaf, q, node, NARROW_STEPS) or self._wide(leaf, q, node)
        found = self._narrow(leaf, q, node, INFINITE)
        assert found is not None
        return found

    def _narrow(self, leaf: Leaf, q: Any, node: TrieNode, max_steps: int) -> LeafCosts | None:
        """Walk leaf and trie together, object by object; None where that takes too many steps."""
        ends: dict[Any, list[int]] = {}
        work = [(q, node)]
        steps = 0
        while work:
            q, node = work.pop()
            for byte in leaf.next_bytes(q):
                child = node.children.get(byte)
                after = leaf.step(q, byte) if child is not None else None
                if child is None or after is None:
                    continue
                if child.ids:
                    ends.setdefault(after, []).extend(child.ids)
                if child.children:
                    work.append((after, child))
                steps += 1
            if steps > max_steps:
                return None
        return _leaf_costs(leaf, list(ends.items()))

    def _wide(self, leaf: DfaLeaf | CountedLeaf, q: Any, node: TrieNode) -> LeafCosts:
        """Walk whole levels of the trie at once."""
        if isinstance(leaf, DfaLeaf):
            nodes, keys = self._leaf_masks.ends(leaf, q, node)
            return self._at(leaf, nodes, keys >> 32, lambda state: state)
        nodes, keys = self._leaf_masks.ends(leaf.plain, q[0], node)

        def counted(key: int) -> tuple[int, int, int | None] | None:
            low, high = max(q[1] - (key & 0xFFFFFFFF), 0), None if q[2] is None else q[2] - (key & 0xFFFFFFFF)
            if high is not None and high < 0:
                return None
            return (key >> 32, low, high) if leaf.can_finish(key >> 32, low, high) else None

        return self._at(leaf, nodes, keys, counted)

    def _at(self, leaf: Leaf, nodes: np.ndarray, keys: np.ndarray, state_of: Any) -> LeafCosts:
        """The tokens at trie nodes, each node with the key (int64) of the leaf's state there."""
        trie = self._leaf_masks.vocabulary.trie
        count = trie.ids_count[nodes]
        written = count > 0
        ids = trie.token_ids(nodes)
        unique, inverse = np.unique(keys[written], return_inverse=True)
        states = [state_of(key) for key in unique.tolist()]
        costs, accepts = _columns(leaf, states)
        which = np.repeat(inverse, count[written])
        return LeafCosts(ids, costs[which], accepts[which])

    def _fresh(self, leaf: FreshLeaf, q: FreshState, node: TrieNode) -> LeafCosts:
        """The costs of the leaf below, but for the tokens that agree with excluded words."""
        below = self._leaf_costs(leaf.base, q.q, node)
        if q.is_free:
            return below
        ends: list[tuple[Any, list[int]]] = []
        gone: list[int] = []
        work = [(q, node)]
        while work:
            q, node = work.pop()
            for byte in q.taken():
                child = node.children.get(byte)
                if child is None:
                    continue
                after = leaf.step(q, byte)
                if after is None:
                    gone += self._leaf_masks.all_ids(child)
                    continue
                if child.ids and not after.is_free:
                    ends.append((after, child.ids))
                    gone += child.ids
                if not after.is_free and child.children:
                    work.append((after, child))
        others = ~np.isin(below.ids, np.array(gone, dtype=np.int64))
        mine = _leaf_costs(leaf, ends)
        return LeafCosts(*(np.concatenate([a[others], b]) for a, b in zip(below, mine, strict=True)))


def _leaf_costs(leaf: Leaf, ends: list[tuple[Any, list[int]]]) -> LeafCosts:
    costs, accepts = _columns(leaf, [state for state, _ in ends])
    which = np.repeat(np.arange(len(ends)), [len(ids) for _, ids in ends])
    ids = np.array([token_id for _, ids in ends for token_id in ids], dtype=np.int64)
    return LeafCosts(ids, costs[which], accepts[which])


def _columns(leaf: Leaf, states: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The cost of going on in each state and whether the leaf may end there; None stands for no state."""
    costs = np.full(len(states), INFINITE, dtype=np.int64)
    accepts = np.zeros(len(states), dtype=np.bool_)
    for index, state in enumerate(states):
        if state is not None:
            accepts[index] = leaf.is_accepting(state)
            if leaf.can_go_on(state):
                costs[index] = leaf.cost(state)
    return costs, accepts

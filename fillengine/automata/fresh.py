"""The leaf of what must be new: keys that are not written twice, items of which no two are the same.

It runs another leaf, and beside it what is left over of each excluded word that agrees with the bytes so far.
Once none agrees any more it behaves like the leaf below, so that their masks are one.

    without "ab" and "b":   before anything: rests (ab, b)    behind a: (b)    behind ab: ("" - it may not end)

Words that are excluded from the start are kept as a tree (`at`) until one of them is left, which is a rest then, as
words that were written are.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from fillengine.automata.cheap_words import CheapWords
from fillengine.automata.leaf import INFINITE, Costs, DfaLeaf, Leaf
from fillengine.automata.prefixes import Prefix, prefixes

KEPT_WORDS = 64
"""At most so many words are looked through for those whose exclusion leaves something; above, all are kept that could
run out."""


MAX_WORDS = 20_000
"""Words of which one leaf remembers what they are to it. Past it the memory is emptied."""


class Word(NamedTuple):
    """What an excluded word, or what is left of it, is to a leaf in some state.

    is_open  infinitely many words go on from each part of it, so that nothing runs out by excluding it
    stands   it stands in some token
    begins   it begins some token
    """

    is_open: bool
    stands: bool
    begins: bool


class FreshState(NamedTuple):
    """q: state of the leaf below; at: where the excluded words of the leaf are that agree with the bytes so far
    (None: there are none); rests: sorted, what the other excluded words have left; text: the bytes so far.

    `text` None: not known. `is_sealed`: one more word is excluded, and it is not known which, so that the text
    may not end, and must have two ways to go on. `planned`: the rest of a word that the leaf counts on, where what is
    written agrees with one (see `cheap_words`).
    """

    q: Any
    at: Prefix | None
    rests: tuple[bytes, ...]
    text: bytes | None
    is_sealed: bool
    planned: bytes | None = None

    @property
    def is_free(self) -> bool:
        """No word agrees with what is written, neither an excluded nor a planned one."""
        return self.at is None and not self.rests and self.planned is None

    @property
    def is_excluded(self) -> bool:
        """What is written is an excluded word."""
        return (self.at is not None and self.at.whole != 0) or b"" in self.rests

    def taken(self) -> set[int]:
        """The bytes that these words go on with."""
        found = {rest[0] for rest in self.rests if rest}
        if self.planned:
            found.add(self.planned[0])
        return found.union(self.at.children) if self.at is not None else found


class FreshLeaf:
    """`base` without `excluded`, and without the words that `begin` is told.

    `is_planned`: several of its words may have to be written, so that there is always one that is counted on.
    """

    __slots__ = (
        "__weakref__", "_branches", "_costs", "_forgotten", "_is_planned", "_living", "_root", "_words", "base",
        "cheap_words", "excluded", "start",
    )  # fmt: skip

    def __init__(
        self, base: Leaf, start: Hashable | None, excluded: tuple[bytes, ...], costs: Costs, *, is_planned: bool = False
    ) -> None:
        self.base = base
        self.start = start
        self.excluded = excluded
        self._root = prefixes(excluded) if excluded else None
        self._costs = costs
        self._living: dict[tuple[Any, Prefix | None, tuple[bytes, ...], bool], bool] = {}
        self._branches: dict[bytes, int] = {}
        self._words: dict[tuple[Any, bytes], Word] = {}
        self._forgotten: set[bytes] = set()
        self._is_planned = is_planned
        self.cheap_words = CheapWords(base, start, frozenset(excluded), costs)

    def begin(self, words: frozenset[bytes], *, is_sealed: bool) -> FreshState | None:
        """The first state; None where every word of the leaf is excluded."""
        if self.start is None:
            return None
        at, rests = _without_one(self._root, tuple(sorted(words)))
        planned = self.cheap_words.first(words) if self._is_planned and not is_sealed else None
        return self._alive(FreshState(self.start, at, rests, b"", is_sealed, planned or None))

    def step(self, q: FreshState, byte: int) -> FreshState | None:
        below, at, rests, text, is_sealed, planned = q
        after = self.base.step(below, byte)
        if after is None:
            return None
        if rests:
            rests = tuple([rest[1:] for rest in rests if rest and rest[0] == byte])
        if at is not None:
            at, rests = _without_one(at.children.get(byte), rests)
        if text is not None:
            text += bytes((byte,))
        if planned is not None:
            planned = planned[1:] or None if planned[0] == byte else None
        state = FreshState(after, at, rests, text, is_sealed, planned)
        return self._alive(state) if at is not None or rests or is_sealed else state

    def left(self, q: FreshState) -> list[bytes]:
        """What is left of each excluded word that agrees with what is written."""
        found = list(q.rests)
        if q.at is not None:
            found += q.at.rests()
        return found

    def is_accepting(self, q: FreshState) -> bool:
        return not q.is_sealed and self.base.is_accepting(q.q) and not q.is_excluded

    def next_bytes(self, q: FreshState) -> bytes:
        options = self.base.next_bytes(q.q)
        if q.is_sealed:
            return bytes(byte for byte in options if self.step(q, byte) is not None)
        taken = q.taken()
        if not taken:
            return options
        return bytes(byte for byte in options if byte not in taken or self.step(q, byte) is not None)

    def can_go_on(self, q: FreshState) -> bool:
        if not self.is_accepting(q):
            return True
        return self.base.can_go_on(q.q) and bool(self.next_bytes(q))

    def branches(self, q: FreshState) -> bool:
        options = len(self.base.next_bytes(q.q))
        num_taken = len(q.rests) + (0 if q.at is None else len(q.at.children))
        return options > 1 and not q.is_sealed and options > num_taken + 1

    def cost(self, q: FreshState) -> int:
        """The planned word, or one byte that no excluded word goes on with, and the leaf below from there."""
        if q.planned is not None:
            return min(self._costs.literal(q.planned)[0], self.cost(q._replace(planned=None)))
        alphabet, spent = self._costs.alphabet, 0
        while not (q.is_free or self.is_accepting(q)):
            taken = q.taken()
            best, tried = INFINITE, 0
            for byte in self.base.next_bytes(q.q):
                if byte in alphabet and byte not in taken:
                    after = self.base.step(q.q, byte)
                    if after is not None:
                        best, tried = min(best, 1 + self.base.cost(after)), tried + 1
                        if tried == 8:
                            break
            if best < INFINITE:
                return spent + best
            ways = [after for byte in sorted(taken) if byte in alphabet and (after := self.step(q, byte)) is not None]
            if len(ways) != 1:
                return min(INFINITE, spent + min((1 + self.cost(after) for after in ways), default=INFINITE))
            q, spent = ways[0], spent + 1
        return spent + (self.base.cost(q.q) if q.is_free else 0)

    def clamp(self, q: FreshState, reach: int) -> FreshState:
        """What is written is not kept, and of the words those that a token may run into."""
        rests = q.rests
        if rests:
            number = len(rests) + len(self.excluded)
            is_start = q.text == b""
            kept = []
            for rest in rests:
                word = self._word(q.q, rest)
                if word.begins or not (word.is_open or (is_start and self._has_ways_out(rest, number))):
                    kept.append(rest)
            rests = tuple(kept)
        return FreshState(self.base.clamp(q.q, reach), q.at, rests, None, q.is_sealed)

    def kept(self, words: frozenset[bytes]) -> frozenset[bytes]:
        """Of the words that were written, those that matter before the next token."""
        if not words:
            return words
        number = len(words) + len(self.excluded)
        kept = []
        for text in words - self._forgotten:
            word = self._word(self.start, text)
            if word.is_open and not word.stands:
                self._forgotten.add(text)
            elif word.stands or not self._has_ways_out(text, number):
                kept.append(text)
        return frozenset(kept)

    def _word(self, q: Any, text: bytes) -> Word:
        key = (q, text)
        found = self._words.get(key)
        if found is None:
            if len(self._words) > MAX_WORDS:
                self._words.clear()
                self._forgotten.clear()
            costs = self._costs
            found = self._words[key] = Word(self._is_open(q, text), costs.holds(text), costs.begins(text))
        return found

    def _is_open(self, q: Any, text: bytes) -> bool:
        """Whether infinitely many words go on from each part of this text, which begins in `q`."""
        if not isinstance(self.base, DfaLeaf):
            return False
        endless = self.base.dfa.is_endless
        for byte in text:
            if q is None:
                return True  # none of this leaf's words
            if not endless[q]:
                return False
            q = self.base.step(q, byte)
        return True

    def _has_ways_out(self, word: bytes, number: int) -> bool:
        """Whether `number` excluded words leave something to write behind each part of this one."""
        if number > KEPT_WORDS:
            return False
        branches = self._branches.get(word)
        if branches is None:
            branches, q = 256, self.start
            for byte in word:
                if q is None:
                    break
                num_options = len(self.base.next_bytes(q))
                if num_options > 1:
                    branches = min(branches, num_options)
                q = self.base.step(q, byte)
            if q is None:
                branches = INFINITE  # none of this leaf's words
            if branches == 256:
                branches = 0  # it is the only one
            if len(self._branches) > MAX_WORDS:
                self._branches.clear()
            self._branches[word] = branches
        return branches > number + 1

    def _alive(self, state: FreshState) -> FreshState | None:
        if state.is_free and not state.is_sealed:
            return state
        key = (state.q, state.at, state.rests, state.is_sealed)
        living = self._living.get(key)
        if living is None:
            if len(self._living) > MAX_WORDS:
                self._living.clear()
            need = 2 if state.is_sealed else 1
            living = self._living[key] = self._count(state, need) >= need
        return state if living else None

    def _count(self, state: FreshState, need: int) -> int:
        """How many words are left, counted up to `need`."""
        base = self.base
        found = 0
        while True:
            q, taken = state.q, state.taken()
            if base.is_accepting(q) and not state.is_excluded:
                found += 1
            options = base.next_bytes(q)
            if not options or found >= need:
                return found
            # Each of these begins one word at least; where that is not enough, they are few.
            num_free = sum(byte not in taken for byte in options)
            if found + num_free >= need:
                return found + num_free
            if len(options) == 1:
                state = self._behind(state, options[0])
                if state.is_free and found + 1 >= need:
                    return found + 1
                continue
            for byte in options:
                found += self._count(self._behind(state, byte), need - found)
                if found >= need:
                    break
            return found

    def _behind(self, state: FreshState, byte: int) -> FreshState:
        """What one more byte leaves, living or not."""
        rests = tuple(rest[1:] for rest in state.rests if rest and rest[0] == byte)
        at, rests = _without_one(state.at.children.get(byte) if state.at is not None else None, rests)
        return FreshState(self.base.step(state.q, byte), at, rests, None, False)  # noqa: FBT003 (a field)


def _without_one(at: Prefix | None, rests: tuple[bytes, ...]) -> tuple[Prefix | None, tuple[bytes, ...]]:
    """A tree and rests, where a tree of one text is a rest: it takes no object for each byte."""
    if at is None:
        return None, rests
    only = at.only
    return (at, rests) if only is None else (None, tuple(sorted((*rests, only))))


_leaves: WeakValueDictionary[Hashable, FreshLeaf] = WeakValueDictionary()


def fresh_leaf(
    base: Leaf, start: Hashable | None, excluded: tuple[bytes, ...], costs: Costs, *, is_planned: bool
) -> FreshLeaf:
    """The one leaf of these words over this leaf."""
    key = (base, start, excluded, costs, is_planned)
    leaf = _leaves.get(key)
    if leaf is None:
        leaf = _leaves[key] = FreshLeaf(base, start, excluded, costs, is_planned=is_planned)
    return leaf

"""The fill session: one text being written under a constraint, token by token.

    session = constraint.session(max_tokens=200)
    while not session.is_finished:
        token_id = choose(session.allowed())
        session.advance(token_id)

What a session allows depends on the tokens so far and on nothing else. That is what makes drafts, batches and
replays harmless.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import numpy as np

from fillengine.automata.control import visible
from fillengine.automata.leaf import INFINITE
from fillengine.automata.mask import Mask
from fillengine.automata.nodes import Pattern, Repeat, Unordered
from fillengine.automata.state import Frame, State
from fillengine.errors import BudgetTooSmall, TokenRejected
from fillengine.fill.canonical import CONTEXT_BYTES
from fillengine.fill.guard import Guard
from fillengine.fill.place import Place

if TYPE_CHECKING:
    from fillengine.fill.constraint import Constraint

Hole = tuple[Pattern | Repeat | Unordered, "Frame | None"]


class Session:
    """One text being written. `Constraint.session` makes it."""

    __slots__ = (
        "_closing", "_constraint", "_data", "_ended", "_ends", "_forced", "_guard", "_holes", "_max_tokens",
        "_place", "_rest", "_state", "_token_ids", "closed",
    )  # fmt: skip

    def __init__(self, constraint: Constraint, *, max_tokens: int | None, guard: Guard | None) -> None:
        self._constraint = constraint
        self._guard = guard
        self._max_tokens = max_tokens
        self._state: State = constraint.machine.start
        self._token_ids: list[int] = []
        self._data = bytearray()
        self._ends: list[int] = []
        self._ended = False
        self._forced: tuple[int, ...] | None = None
        self._rest: tuple[int, ...] = ()
        self._place: Place | None = None
        self._holes: tuple[tuple[Hole, int, int], ...] = ()
        self._closing: Hole | None = None
        self.closed: tuple[str, ...] = ()
        """Where the guard acted: "label: reason"."""
        if max_tokens is not None and max_tokens < constraint.fewest_tokens:
            raise BudgetTooSmall(max_tokens, constraint.fewest_tokens)
        self._enter_holes()

    @property
    def constraint(self) -> Constraint:
        return self._constraint

    @property
    def state(self) -> State:
        return self._state

    @property
    def token_ids(self) -> list[int]:
        """The tokens so far, without an end of sequence."""
        return list(self._token_ids)

    @property
    def num_tokens(self) -> int:
        return len(self._token_ids)

    @property
    def num_bytes(self) -> int:
        return len(self._data)

    @property
    def data(self) -> bytes:
        """The text so far, as bytes: it may end inside a character, and control tokens are marked (see `control`)."""
        return bytes(self._data)

    @property
    def text(self) -> str:
        """The text so far, without a character that is not whole yet."""
        return text_of(bytes(self._data))

    @property
    def raw(self) -> str:
        """The text so far as a form reads it: decoded with "surrogateescape", which keeps the marks."""
        return raw_of(bytes(self._data))

    @property
    def remaining(self) -> int | None:
        """Tokens that the budget still has; None without a budget."""
        return None if self._max_tokens is None else self._max_tokens - len(self._token_ids)

    @property
    def is_complete(self) -> bool:
        """The text so far is a whole instance of the form."""
        return self._state.is_accepting

    @property
    def is_finished(self) -> bool:
        """Nothing more comes: the end was chosen, nothing may follow, or the budget is used up."""
        return self._ended or self._state.is_final or self.remaining == 0

    @property
    def is_cut(self) -> bool:
        """The budget ended a text that could have gone on."""
        return self.remaining == 0 and not self._ended and not self._state.is_final

    def allowed(self) -> np.ndarray:
        """bool[size of the vocabulary]: the tokens that may come next."""
        return self.mask().unpacked(self._constraint.vocabulary.size)

    def mask(self) -> Mask:
        """The tokens that may come next."""
        return self.place().mask

    def place(self) -> Place:
        """What may come next, as a mask that is made when it is asked for."""
        if self._place is None:
            self._place = self._find_place()
        return self._place

    def allows(self, token_id: int) -> bool:
        """Whether the token may come next: as `mask` says, without making one."""
        return self._after(token_id) is not None

    def forced(self) -> list[int]:
        """The token ids that must come now, in order (may be empty)."""
        forced = self._canonical()
        if not forced and not self.is_finished and not self._allows_two():
            single = self.mask().single
            if single is not None and single not in self._constraint.vocabulary.eos_ids:
                return [single]
        return list(forced)

    def likely(self) -> list[int]:
        """What the tokenizer would give for bytes that are forced, where more than one token may begin them."""
        return [] if self._canonical() else list(self._rest)

    def advance(self, token_id: int) -> None:
        """Write one token. Raises TokenRejected where it is not allowed; the session is unchanged then."""
        if self.try_advance(token_id):
            return
        if self.is_finished:
            raise TokenRejected(token_id, f"token {token_id} comes after the end of the text")
        vocabulary = self._constraint.vocabulary
        text = vocabulary.tokens[token_id] if 0 <= token_id < vocabulary.size else None
        raise TokenRejected(token_id, f"token {token_id} ({text!r}) is not allowed after {bytes(self._data[-40:])!r}")

    def try_advance(self, token_id: int) -> bool:
        """Write one token if it is allowed; whether it was."""
        state = self._after(token_id)
        if state is None:
            return False
        text = self._constraint.vocabulary.tokens[token_id]
        if text is None:
            self._ended = True
            return True
        forced = self._canonical()
        self._state = state
        self._token_ids.append(token_id)
        self._data += text
        self._ends.append(len(self._data))
        self._place = None
        self._forced = forced[1:] or None
        self._enter_holes()
        return True

    def fork(self) -> Session:
        """A session at the same place; what happens to one does not touch the other."""
        other = Session.__new__(Session)
        for name in Session.__slots__:
            setattr(other, name, getattr(self, name))
        other._token_ids = self._token_ids.copy()
        other._data = self._data.copy()
        other._ends = self._ends.copy()
        return other

    def _canonical(self) -> tuple[int, ...]:
        """The canonical tokens that must come now. Once begun, a span is written to its end."""
        if self._forced is None:
            self._forced, self._rest = (), ()
            if not self.is_finished and self._closing is None:
                span = self._constraint.canonical.span(self._state, self._data, self._boundary())
                if self._can_afford(span.token_ids):
                    self._forced, self._rest = span.token_ids, span.rest
        return self._forced

    def _boundary(self) -> int:
        first = len(self._data) - CONTEXT_BYTES
        if first <= 0:
            return 0
        index = len(self._ends) - 1
        while index >= 0 and self._ends[index] >= first:
            index -= 1
        return self._ends[index + 1]

    def _can_afford(self, token_ids: tuple[int, ...]) -> bool:
        """Whether the budget pays for the text behind each of these tokens: a span may end nearer to the end of the
        text than its costs tell on the way."""
        remaining = self.remaining
        if remaining is None:
            return True
        machine, tokens, state = self._constraint.machine, self._constraint.vocabulary.tokens, self._state
        for token_id in token_ids:
            after = machine.advance(state, tokens[token_id] or b"")
            assert after is not None
            state, remaining = after, remaining - 1
            if machine.cost(state) > remaining:
                return False
        return True

    def _find_place(self) -> Place:
        masks = self._constraint.masks
        forced = self._canonical()
        if forced:
            return Place(masks, self._state, None, forced[0])
        budget = self.remaining
        if self._closing is not None:
            cost = masks.machine.cost(self._state)
            budget = cost if budget is None else min(budget, cost)
        return Place(masks, self._state, budget, None)

    def _allows_two(self) -> bool:
        """Whether two tokens are easily found that may come next: then it takes no mask to know that not one must."""
        machine, root = self._constraint.machine, self._constraint.vocabulary.trie.root
        num_allowed = 0
        for byte in self._state.next_bytes():
            node = root.child(byte)
            if node is not None:
                num_allowed += sum(map(self.allows, node.ids))
                if num_allowed > 1:
                    return True
        forced, _end = machine.forced(self._state)
        node = root.child(forced[0]) if forced else None
        for byte in forced[1:]:
            node = None if node is None else node.child(byte)
            if node is None:
                return False
            num_allowed += sum(map(self.allows, node.ids))
            if num_allowed > 1:
                return True
        return False

    def _after(self, token_id: int) -> State | None:
        """The state behind a token (behind an end of sequence: the same one); None where it is not allowed."""
        vocabulary, machine = self._constraint.vocabulary, self._constraint.machine
        if self.is_finished or not 0 <= token_id < vocabulary.size:
            return None
        place = self.place()
        if place.single is not None and token_id != place.single:
            return None
        text = vocabulary.tokens[token_id]
        if text is None:
            return self._state if self._state.is_accepting and token_id in vocabulary.eos_ids else None
        state = machine.advance(self._state, text)
        if state is None or place.single is not None:
            return state
        cost = machine.cost(state)
        return state if cost < INFINITE and (place.budget is None or cost < place.budget) else None

    def _enter_holes(self) -> None:
        """Keep book of the open values, and let the guard look at them."""
        if self._guard is None and not self._constraint.has_limits:
            return
        open_holes = _open_holes(self._state)
        before = {hole: (offset, tokens) for hole, offset, tokens in self._holes}
        here = (len(self._data), len(self._token_ids))
        self._holes = tuple((hole, *before.get(hole, here)) for hole in open_holes)
        if self._closing is not None and self._closing not in open_holes:
            self._closing = None
        if self._closing is None:
            self._guard_holes()
        if self._closing is not None and self._state.is_accepting:
            # The value that is to be closed is the whole text, and the text is whole.
            self._ended = True

    def _guard_holes(self) -> None:
        guard = self._guard
        for hole, offset, tokens in self._holes:
            num_tokens = len(self._token_ids) - tokens
            limit = hole[0].max_tokens if isinstance(hole[0], Pattern) else None
            reason = None if limit is None or num_tokens < limit else "tokens"
            if reason is None and guard is not None:
                reason = guard.reason(bytes(self._data[offset:]), num_tokens, self._max_tokens)
            if reason is not None:
                self._closing = hole
                self.closed += (f"{hole[0].label or '/'}: {reason}",)
                return


def text_of(data: bytes) -> str:
    """`Session.text` of these bytes."""
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(visible(data))


def raw_of(data: bytes) -> str:
    """`Session.raw` of these bytes."""
    return data.decode("utf-8", "surrogateescape")


def _open_holes(state: State) -> list[Hole]:
    """The values and lists that the text so far may be in, outer ones first."""
    found: dict[Hole, None] = {}
    for spot, _q, frame in state.configurations:
        path: list[Hole] = []
        current = frame
        while current is not None:
            if isinstance(current.node, Repeat | Unordered):
                path.append((current.node, current.parent))
            current = current.parent
        found.update(dict.fromkeys(reversed(path)))
        if isinstance(spot.node, Pattern):
            found[(spot.node, frame)] = None
    return list(found)

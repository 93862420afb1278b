"""Instances of a form as a hypothesis strategy, drawn through the fill session itself.

    @given(instances(Person))
    def test_the_handler_takes_every_person(person: Person) -> None: ...

A session over the 256 bytes writes what the form determines; hypothesis chooses where there is a choice. The first
alternative is always the one that ends soonest, so that examples shrink to short strings, few items and early enum
members. Whatever is drawn is valid: what the session does not allow is never on offer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pydantic
from hypothesis import reject
from hypothesis import strategies as st

from fillengine.automata.leaf import LiteralLeaf
from fillengine.automata.mask import Mask
from fillengine.automata.nodes import Pattern, Words
from fillengine.automata.state import State
from fillengine.fill.constraint import Constraint
from fillengine.templates import Form, compile
from fillengine.templates.completion import shortest
from fillengine.testing.tokenizer import byte_tokenizer

END = 256
MAX_BYTES = 600
"""Behind so many bytes a text takes the shortest way to its end."""

# How long a value or a list becomes is drawn at its beginning: so many bytes, so many members more, then it is closed
# as soon as can be. Were the end one of the choices of each place, with a weight, many choices would make one text, and
# hypothesis, which tells examples by their choices, would repeat itself.
NUM_BYTES = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32)
NUM_MEMBERS = (0, 1, 2, 3, 4, 6)
_CLOSING = frozenset([END, *b"]}"])

PLAIN = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ -_."
_RANK = {byte: rank for rank, byte in enumerate(PLAIN)}


def instances(form: Any, **options: Any) -> st.SearchStrategy[Any]:
    """A strategy of the values that a form permits: objects of the form's type where it is one, else what
    `Form.parse` gives (JSON values; texts for forms that are no JSON).

    form, options: see `fillengine.compile`; it raises at once. Instances that a model's own validators refuse are
    left out.
    """
    compiled = compile(form, **options)
    return texts(compiled).map(lambda text: _parsed(compiled, text))


def texts(form: Form) -> st.SearchStrategy[str]:
    """A strategy of the texts of a form, as a model would write them. Raises UnsatisfiableForm."""
    writer = _Writer(form)
    return st.composite(writer.draw)()


def _parsed(form: Form, text: str) -> Any:
    try:
        return form.parse(text)
    except pydantic.ValidationError:
        reject()


class _Menu:
    """What may come at a state.

    first      what ends the text soonest
    others     the other tokens, from plain to odd
    ends       whether `first` ends a value, a list or an object
    is_in_value
    words      where the state is the beginning of an enum, its members in the order of the schema
    """

    __slots__ = ("ends", "first", "is_in_value", "others", "words")

    def __init__(self, first: int, others: list[int], words: list[bytes], *, ends: bool, is_in_value: bool) -> None:
        self.first = first
        self.others = others
        self.words = words
        self.ends = ends
        self.is_in_value = is_in_value


def _rank(token_id: int) -> int:
    return _RANK.get(token_id, 256 + token_id)


_num_bytes, _num_members = st.sampled_from(NUM_BYTES), st.sampled_from(NUM_MEMBERS)


class _Writer:
    """Writes texts of one form from hypothesis' choices. Menus are kept by mask, since states with one mask differ
    in counters only."""

    def __init__(self, form: Form) -> None:
        self._constraint = Constraint(form, byte_tokenizer())
        self._order = {word: place for place, word in enumerate(_members(form.schema))}
        self._menus: dict[tuple[Mask, bool], _Menu] = {}
        self._choices: dict[int, st.SearchStrategy[int]] = {}

    def draw(self, draw: st.DrawFn) -> str:
        session = self._constraint.session()
        # Bytes that are still chosen in the value at hand, and members before a list or an object is closed; None: not
        # drawn yet.
        num_bytes: int | None = None
        num_members: int | None = None
        was_in_value = False
        is_in_value = _is_in_value(session.state)
        while not session.is_finished:
            if len(session.data) > MAX_BYTES:
                return (session.data + shortest(self._constraint.machine, session.state)).decode()
            token_ids: bytes | list[int] = session.forced()
            if not token_ids:
                menu = self._menu(session.state, session.mask())
                if menu.words:
                    token_ids = menu.words[draw(self._below(len(menu.words)))]
                elif menu.is_in_value and was_in_value:
                    num_bytes = draw(_num_bytes) if num_bytes is None else num_bytes
                    token_ids = [self._chosen(draw, menu, is_over=num_bytes == 0)]
                    num_bytes = max(0, num_bytes - 1)
                elif menu.ends and not menu.is_in_value:
                    num_members = draw(_num_members) if num_members is None else num_members
                    token_ids = [self._chosen(draw, menu, is_over=num_members == 0)]
                    num_members = num_members - 1 if num_members else None
                else:
                    token_ids = [[menu.first, *menu.others][draw(self._below(1 + len(menu.others)))]]
            for token_id in token_ids:
                session.advance(token_id)
                was_in_value, is_in_value = is_in_value, _is_in_value(session.state)
                if not is_in_value:
                    num_bytes = None
        return session.data.decode()

    def _chosen(self, draw: st.DrawFn, menu: _Menu, *, is_over: bool) -> int:
        choices = menu.others if menu.ends else [menu.first, *menu.others]
        if is_over or not choices:
            return menu.first
        return choices[draw(self._below(len(choices)))]

    def _below(self, number: int) -> st.SearchStrategy[int]:
        found = self._choices.get(number)
        if found is None:
            found = self._choices[number] = st.integers(0, number - 1)
        return found

    def _menu(self, state: State, mask: Mask) -> _Menu:
        key = (mask, state.is_accepting)
        found = self._menus.get(key)
        if found is None:
            first = self._soonest(state, mask)
            others = sorted((one for one in mask.token_ids(END + 1).tolist() if one != first), key=_rank)
            is_in_value = _is_in_value(state)
            ends = self._leaves_value(state, first) if is_in_value else first in _CLOSING
            found = _Menu(first, others, self._words(state), ends=ends, is_in_value=is_in_value)
            self._menus[key] = found
        return found

    def _leaves_value(self, state: State, token_id: int) -> bool:
        after = None if token_id == END else self._constraint.machine.step(state, token_id)
        return after is None or not _is_in_value(after)

    def _soonest(self, state: State, mask: Mask) -> int:
        """The token behind which the fewest are left; of equals the plainest one."""
        if state.is_accepting:
            return END
        machine = self._constraint.machine

        def left(token_id: int) -> tuple[int, int]:
            after = machine.step(state, token_id)
            assert after is not None
            return machine.cost(after), _rank(token_id)

        token_ids: list[int] = mask.token_ids(END + 1).tolist()
        return min(token_ids, key=left)

    def _words(self, state: State) -> list[bytes]:
        if len(state.configurations) != 1:
            return []
        ((spot, q, _),) = state.configurations
        if not isinstance(spot.node, Words) or q != spot.start or isinstance(spot.leaf, LiteralLeaf):
            return []
        last = len(self._order)
        return sorted(spot.node.words, key=lambda word: (self._order.get(word, last), word))


def _is_in_value(state: State) -> bool:
    return any(isinstance(spot.node, Pattern) for spot, _, _ in state.configurations)


def _members(schema: Any) -> Iterator[bytes]:
    """The members of all enums of a schema, as JSON, in their order."""
    if isinstance(schema, dict):
        if isinstance(schema.get("enum"), list):
            yield from (json.dumps(member, ensure_ascii=False).encode() for member in schema["enum"])
        for part in schema.values():
            yield from _members(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _members(part)

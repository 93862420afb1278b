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
from fillengine.fill.session import Session
from fillengine.templates import Form, compile
from fillengine.testing.tokenizer import byte_tokenizer

END = 256
MAX_BYTES = 600
"""Behind so many bytes a text takes the shortest way to its end."""

# What ends the text soonest comes with one choice in so many: within a value, and between values.
END_IN_VALUE, END_BETWEEN = 9, 3
# How often a byte is on offer in a value: plain ones, other ASCII, the first bytes of other characters.
WEIGHTS = (6, 4, 1)

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

    choices: tokens, some of them several times, the one that ends the text soonest first, the others from plain to odd
    words: where the state is the beginning of an enum, its members in the order of the schema
    """

    __slots__ = ("choices", "words")

    def __init__(self, first: int, others: list[int], words: list[bytes], *, is_in_value: bool) -> None:
        self.words = words
        others = sorted(others, key=_rank)
        if is_in_value:
            others = [token_id for token_id in others for _ in range(WEIGHTS[_kind(token_id)])]
        share = END_IN_VALUE if is_in_value else END_BETWEEN
        self.choices = [first] * max(1, len(others) // (share - 1)) + others


def _kind(token_id: int) -> int:
    return 0 if token_id in _RANK else 1 if token_id < 0x80 else 2


def _rank(token_id: int) -> int:
    return _RANK.get(token_id, 256 + token_id)


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
        while not session.is_finished:
            forced = session.forced()
            for token_id in forced:
                session.advance(token_id)
            if not forced:
                for byte in self._chosen(draw, session):
                    session.advance(byte)
        return session.data.decode()

    def _chosen(self, draw: st.DrawFn, session: Session) -> bytes | list[int]:
        if len(session.data) > MAX_BYTES:
            return [self._soonest(session.state, session.mask())]
        menu = self._menu(session.state, session.mask())
        if menu.words:
            return menu.words[draw(self._below(len(menu.words)))]
        return [menu.choices[draw(self._below(len(menu.choices)))]]

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
            others = [token_id for token_id in mask.token_ids(END + 1).tolist() if token_id != first]
            is_in_value = any(isinstance(spot.node, Pattern) for spot, _, _ in state.configurations)
            found = self._menus[key] = _Menu(first, others, self._words(state), is_in_value=is_in_value)
        return found

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

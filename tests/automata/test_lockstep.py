"""What machines side by side allow depends on the text alone, however much a search finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from templates_strategy import nodes
from vocabularies import byte_vocabulary

from fillengine.automata import lockstep
from fillengine.automata.fresh import FreshLeaf
from fillengine.automata.leaf import INFINITE, ByteCosts
from fillengine.automata.leaf_mask import LeafMasks
from fillengine.automata.lockstep import LockstepLeaf, Rows
from fillengine.automata.machine import Machine
from fillengine.automata.mask import Masks
from fillengine.automata.nodes import Choice, Except, Literal, Node, Repeat, Sequence, Template, Words
from fillengine.automata.state import State
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile

VOCABULARY = byte_vocabulary()

SCHEMAS: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "integer"}, "maxItems": 2, "not": {"uniqueItems": True}},
    {"type": "array", "items": {"type": "string"}, "not": {"uniqueItems": True}},
    {
        "type": "array",
        "items": {"enum": [[0], [0, 1], [1]]},
        "minItems": 3,
        "maxItems": 4,
        "not": {"uniqueItems": True},
    },
    {"type": "array", "items": {"type": "object"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "array", "items": {"enum": [0, 1]}, "uniqueItems": True}, "uniqueItems": True},
]


@cache
def template_of(number: int) -> Template:
    return compile(SCHEMAS[number], additional="schema").template


def _exclusions() -> st.SearchStrategy[Template]:
    without = st.lists(nodes(rules=True), min_size=1, max_size=2).map(tuple)
    rules: dict[str, Node] = {"again": Choice((Literal(b"e"), Literal(b"[e]")))}
    root = st.builds(lambda base, without: Except(base, without, rules), nodes(rules=True), without)
    return root.map(lambda node: Template(node, rules))


TEMPLATES = st.one_of(_exclusions(), st.integers(0, len(SCHEMAS) - 1).map(template_of))
LIMITS = st.sampled_from([2, 12, 60])
"""With few steps most searches fail, so that what lives does so by what was found before."""


@contextmanager
def search_steps(limit: int) -> Iterator[None]:
    with patch.object(lockstep, "SEARCH_STEPS", limit):
        yield


class Writer:
    """A form over the vocabulary, with memories of its own."""

    def __init__(self, template: Template) -> None:
        try:
            self.machine = Machine(template, VOCABULARY)
        except UnsatisfiableForm:
            reject()
        self.masks = Masks(self.machine, LeafMasks(VOCABULARY))

    def looks(self, state: State) -> tuple[Any, ...]:
        machine = self.machine
        return self.masks.of(state).bits.tobytes(), machine.cost(state), state.next_bytes(), machine.forced(state)[0]

    def walk(self, random: Random, length: int) -> bytes:
        """Any text that may be written."""
        state, text = self.machine.start, b""
        for _ in range(length):
            self.looks(state)
            tokens = self.masks.of(state).token_ids(VOCABULARY.size).tolist()
            token = VOCABULARY.tokens[random.choice(tokens)] if tokens else None
            if token is None:
                break
            following = self.machine.advance(state, token)
            assert following is not None
            state, text = following, text + token
        return text

    def places(self, text: bytes) -> list[tuple[Any, ...]]:
        state, found = self.machine.start, []
        for byte in text:
            found.append(self.looks(state))
            following = self.machine.step(state, byte)
            assert following is not None
            state = following
        return [*found, self.looks(state)]

    def forget(self) -> None:
        """As when every memory was full."""
        forget(self.machine)
        self.masks = Masks(self.machine, LeafMasks(VOCABULARY))


def forget(machine: Machine) -> None:
    for spot in machine._spots.values():
        leaf = spot.leaf.base if isinstance(spot.leaf, FreshLeaf) else spot.leaf
        if isinstance(leaf, LockstepLeaf):
            for memory in (leaf._ways, leaf._exact, leaf._next, leaf._bytes):
                memory.clear()
            leaf.rows = Rows()
            for inner in (leaf.base, *leaf.others):
                forget(inner)
    machine._forget()


@settings(max_examples=30, deadline=None)
@given(template=TEMPLATES, limit=LIMITS, seed=st.integers(0, 2**32))
@example(template_of(0), 200, 0).via("campaign, block 14: behind `[9, {` others' searches decided")
def test_what_is_allowed_behind_a_text_does_not_depend_on_what_was_written_before(
    template: Template, limit: int, seed: int
) -> None:
    random = Random(seed)
    with search_steps(limit):
        first, other = Writer(template), Writer(template)
        text = first.walk(random, 10)
        places = first.places(text)
        for _ in range(3):
            other.walk(random, 10)
        assert other.places(text) == places
        other.forget()
        assert other.places(text) == places
        for _ in range(2):
            first.walk(random, 10)
        assert first.places(text) == places


@settings(max_examples=30, deadline=None)
@given(template=TEMPLATES, limit=LIMITS, seed=st.integers(0, 2**32))
@example(template_of(5), 1_000, 0).via("campaign, block 4: behind the comma of `[[0], [1], [],` no token was paid for")
def test_every_state_that_lives_has_a_token_that_brings_the_end_nearer(
    template: Template, limit: int, seed: int
) -> None:
    random = Random(seed)
    with search_steps(limit):
        writer = Writer(template)
        machine, state = writer.machine, writer.machine.start
        for _ in range(14):
            cost = machine.cost(state)
            assert cost < INFINITE
            if not state.is_accepting:
                nearer = writer.masks.affordable(state, cost).token_ids(VOCABULARY.size).tolist()
                assert nearer
                for token in nearer:
                    after = machine.advance(state, VOCABULARY.tokens[token] or b"")
                    assert after is not None
                    assert machine.cost(after) <= cost - 1
            tokens = writer.masks.of(state).token_ids(VOCABULARY.size).tolist()
            token_text = VOCABULARY.tokens[random.choice(tokens)] if tokens else None
            if token_text is None:
                break
            following = machine.advance(state, token_text)
            assert following is not None
            state = following


@settings(max_examples=15, deadline=None)
@given(number=st.integers(0, len(SCHEMAS) - 1), limit=LIMITS, seed=st.integers(0, 2**32))
def test_what_is_written_cheaply_to_its_end_is_valid(number: int, limit: int, seed: int) -> None:
    random = Random(seed)
    with search_steps(limit):
        writer = Writer(template_of(number))
        machine = writer.machine
        text = writer.walk(random, 8)
        state = machine.advance(machine.start, text)
        assert state is not None
        while not state.is_accepting:
            token = writer.masks.affordable(state, machine.cost(state)).token_ids(VOCABULARY.size).tolist()[0]
            text += VOCABULARY.tokens[token] or b""
            state = machine.advance(state, VOCABULARY.tokens[token] or b"")
            assert state is not None
    try:
        value = json.loads(text)
    except UnicodeDecodeError:
        reject()
    jsonschema.validate(value, SCHEMAS[number])


def test_items_that_have_several_orders_are_not_excluded_for_being_distinct() -> None:
    with pytest.raises(UnsupportedForm, match="/not/uniqueItems: items that are the same in another order"):
        compile({"type": "array", "not": {"uniqueItems": True}}, additional="schema")
    compile({"type": "array", "items": {"type": "string"}, "not": {"uniqueItems": True}}, additional="schema")


def test_a_search_is_shared_by_the_vocabularies_and_its_first_text_can_be_written() -> None:
    template = template_of(0)
    words = []
    for costs in (None, VOCABULARY):
        machine = Machine(template, costs)
        leaf = machine.start.configurations[0][0].leaf
        assert isinstance(leaf, LockstepLeaf)
        assert leaf.first_word is not None
        words.append(leaf.first_word)
        assert machine.advance(machine.start, leaf.first_word) is not None
    assert words[0] == words[1]


def test_what_an_exclusion_excludes_is_exact_however_little_its_own_searches_find() -> None:
    letters = Repeat(Words((b"a", b"b")), 1, None)
    # All but what holds a b beyond the first forty letters: no short search finds such a text.
    late = Except(letters, (Sequence((Repeat(Words((b"a", b"b")), 40, 40), Repeat(Literal(b"a"), 0, None))),), {})
    long = Repeat(Words((b"a", b"b")), 42, None)
    with search_steps(5):
        machine = Machine(Template(Except(long, (late,), {})))
    assert machine.accepts(b"b" * 40 + b"a" * 5)
    assert not machine.accepts(b"a" * 41 + b"b")
    assert not machine.accepts(b"a" * 45 + b"b" + b"a" * 3)


def test_which_written_words_matter_is_the_same_whenever_it_is_asked() -> None:
    machine = Machine(Template(Except(Words((b"only",)), (), {})))
    base = machine.start.configurations[0][0].leaf
    leaf = FreshLeaf(base, base.start, (), ByteCosts())
    # The first time, a word that is the only one was said not to matter.
    assert leaf.kept(frozenset({b"only"})) == leaf.kept(frozenset({b"only"})) == {b"only"}

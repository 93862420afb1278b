"""Keys of undeclared properties."""

from __future__ import annotations

import json

import pytest

from fillengine.automata import dfa as automata
from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Fresh, Literal, Other, Pattern, Template, Unordered
from fillengine.templates.keys import few_words, key_classes, lifted_keys


def test_classes_are_disjoint_and_cover_all_keys() -> None:
    classes = key_classes((("a", ""), ("b", ""), ("^a", "")))
    for text in ("a", "b", "ab", "ba", "abab", "c", ""):
        found = [matching for matching, keys in classes if keys is not None and keys.matches(text.encode())]
        assert len(found) == 1, text
        assert set(found[0]) == {p for p in ("a", "b", "^a") if (text.startswith("a") if p == "^a" else p in text)}


@pytest.mark.parametrize("name", ["", "a", 'q"', "\\", "\u0001", "àb"])
def test_a_declared_name_is_no_undeclared_key_and_no_key_comes_twice(name: str) -> None:
    excluded = json.dumps(name, ensure_ascii=False).encode()
    key = Fresh(Pattern(lifted_keys(None)), (excluded,))
    members = Unordered((), (Other(key, None),), 0, None, Literal(b""), Literal(b","), Literal(b"}"), Literal(b"}"))
    machine = Machine(Template(members))
    longer = json.dumps(name + "a", ensure_ascii=False).encode()
    assert machine.accepts(longer + b"}")
    assert machine.accepts(longer + b',"z"}')
    assert not machine.accepts(excluded + b"}")
    assert not machine.accepts(longer + b"," + longer + b"}")


def test_few_keys_are_told_one_by_one() -> None:
    assert few_words(lifted_keys(automata.from_regex("[ab]|c")), 0, None) == ("a", "b", "c")
    assert few_words(lifted_keys(automata.from_regex("[ab]*")), 1, 1) == ("a", "b")
    assert few_words(lifted_keys(automata.from_regex("[ab]*")), 0, None) is None
    assert few_words(lifted_keys(None), 1, 1) is None

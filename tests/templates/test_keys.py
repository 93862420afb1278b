"""Keys of undeclared properties."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fillengine.automata import dfa as automata
from fillengine.automata.dfa import Dfa, lift_json
from fillengine.templates.keys import key_classes, undeclared_keys

TEXTS = st.text(alphabet='ab"\\\né€一😀', max_size=4)


def spelled(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


@settings(deadline=None, max_examples=60)
@example(names={"àb", "áb", "ࠀb", "一b"}, text="ab")
@given(st.sets(TEXTS, min_size=1, max_size=5), TEXTS)
def test_a_key_is_any_text_but_the_declared_names(names: set[str], text: str) -> None:
    keys = undeclared_keys(tuple(sorted(names)))
    assert keys.matches(spelled(text)) == (text not in names)
    for name in names:
        assert not keys.matches(spelled(name))
        assert keys.matches(spelled(name + "x")) == (name + "x" not in names)


@settings(deadline=None, max_examples=30)
@given(st.sets(TEXTS, min_size=1, max_size=5))
def test_the_quick_construction_is_the_set_operation(names: set[str]) -> None:
    quick = undeclared_keys(tuple(sorted(names)))
    words = automata.words(name.encode() for name in names)
    slow = lift_json(automata.difference(automata.any_text(), words))
    assert automata.difference(plain(quick), plain(slow)).is_empty
    assert automata.difference(plain(slow), plain(quick)).is_empty
    assert quick.boundary is not None


def plain(dfa: Dfa) -> Dfa:
    return Dfa(dfa.next, dfa.accept, dfa.start)


def test_classes_are_disjoint_and_cover_all_keys_but_the_declared() -> None:
    classes = key_classes(("ab",), (("a", ""), ("b", ""), ("^a", "")))
    for text in ("a", "b", "ab", "ba", "abab", "c", ""):
        found = [matching for matching, keys in classes if keys is not None and keys.matches(text.encode())]
        assert len(found) == (text != "ab"), text
        if found:
            assert set(found[0]) == {p for p in ("a", "b", "^a") if (text.startswith("a") if p == "^a" else p in text)}


@pytest.mark.parametrize("name", ["", "a", 'q"', "\\", "\u0001"])
def test_an_awkward_name_is_excluded_too(name: str) -> None:
    keys = undeclared_keys((name,))
    assert not keys.matches(spelled(name))
    assert keys.matches(spelled(name + "a"))


def test_half_of_a_surrogate_pair_is_no_key_anyway() -> None:
    assert undeclared_keys(("\ud800",)) is automata.free_string()
    assert undeclared_keys(("\ud800", "a")).matches(b'"b"')

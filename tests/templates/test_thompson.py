"""Automata of expression trees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.automata.dfa import from_regex
from fillengine.templates import thompson
from fillengine.templates.expression import (
    ANY,
    NEVER,
    Chars,
    Concat,
    Either,
    Repeat,
    Text,
    Tree,
    can_be_empty,
    invert_ranges,
    longest,
    shortest,
    tidy_ranges,
)

RANGES = st.lists(
    st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 0x3000)).map(lambda r: (r[0], min(r[0] + r[1], 0x10FFFF))),
    max_size=4,
).map(tidy_ranges)
LEAVES = st.sampled_from(["a", "b", "ab", "é", ""]).map(Text) | st.sampled_from(
    [Chars(((97, 98),)), Chars(tidy_ranges([(0x80, 0xFFFF)])), Chars(invert_ranges(((97, 97),))), ANY, NEVER]
)
TREES = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.lists(trees, max_size=3).map(tuple).map(Concat),
        st.lists(trees, max_size=3).map(tuple).map(Either),
        st.tuples(trees, st.integers(0, 2), st.none() | st.integers(2, 4)).map(lambda part: Repeat(*part)),
    ),
    max_leaves=5,
)


@settings(deadline=None, max_examples=100)
@given(TREES)
def test_an_automaton_is_the_same_when_it_is_put_together_on_tables(tree: Tree) -> None:
    whole = thompson.language(tree)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thompson, "MAX_POSITIONS", 8)
        assert thompson.language(tree).key == whole.key


@settings(deadline=None, max_examples=100)
@given(TREES, st.text(alphabet="abé", max_size=5))
def test_a_tree_bounds_the_length_of_its_texts(tree: Tree, text: str) -> None:
    automaton = thompson.language(tree)
    if not automaton.is_empty:
        assert automaton.matches(b"") == can_be_empty(tree) or NEVER in _parts(tree)
    if automaton.matches(text.encode()):
        most = longest(tree)
        assert shortest(tree) <= len(text)
        assert most is None or len(text) <= most


def _parts(tree: Tree) -> list[Tree]:
    match tree:
        case Concat(items) | Either(items):
            return [tree, *(part for item in items for part in _parts(item))]
        case Repeat(item, _, _):
            return [tree, *_parts(item)]
    return [tree]


@settings(deadline=None, max_examples=60)
@given(RANGES, st.integers(0, 0x10FFFF))
def test_a_class_and_its_inverse_share_the_characters_between_them(
    ranges: tuple[tuple[int, int], ...], point: int
) -> None:
    if 0xD800 <= point <= 0xDFFF:
        return
    one, other = Chars(ranges), Chars(invert_ranges(ranges))
    character = chr(point).encode()
    assert thompson.language(one).matches(character) != thompson.language(other).matches(character)


@pytest.mark.parametrize("ranges", [((0, 0x10FFFF),), ((0x7F, 0x800), (0xFFFF, 0x10000)), ((0x20AC, 0x1F600),)])
def test_a_class_has_the_bytes_that_the_regex_crate_gives_it(ranges: tuple[tuple[int, int], ...]) -> None:
    spelled = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)
    assert thompson.language(Chars(tidy_ranges(list(ranges)))).key == from_regex(f"[{spelled}]").key

"""Laws of the byte automata. The oracles are Python's `re`, sets of short strings and `json`."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fillengine.automata import dfa as fa
from fillengine.automata import tables
from fillengine.errors import AutomatonTooLarge, FillError, InvalidForm

LONGEST = 5
SHORT = [
    "".join(letters).encode() for length in range(LONGEST + 1) for letters in itertools.product("ab", repeat=length)
]

small = settings(deadline=None, max_examples=60)


Language = frozenset[bytes]  # its texts of at most LONGEST bytes


def join(left: Language, right: Language) -> Language:
    return frozenset(a + b for a in left for b in right if len(a) + len(b) <= LONGEST)


def power(unit: Language, low: int, high: int | None) -> Language:
    """From `low` to `high` texts of `unit`; more than LONGEST of them that are not empty are too long."""
    result: set[bytes] = set()
    texts: Language = frozenset([b""])
    for copies in range(max(low, LONGEST) + 1 if high is None else high + 1):
        if copies >= low:
            result |= texts
        texts = join(texts, unit)
    return frozenset(result)


@dataclass(frozen=True)
class Expression:
    """A regular expression with what it means, so that no oracle has to backtrack."""

    pattern: str
    language: Language


def read(pattern: str) -> Expression:
    return Expression(pattern, frozenset(text for text in SHORT if re.fullmatch(pattern.encode(), text)))


def expressions() -> st.SearchStrategy[Expression]:
    leaves = st.sampled_from(["a", "b", "ab", "[ab]", "a?", "b*", "", "a+?", "(?:a|ab)", "a{2}"]).map(read)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(
                lambda x, y: Expression(f"(?:{x.pattern})(?:{y.pattern})", join(x.language, y.language)),
                inner,
                inner,
            ),
            st.builds(lambda x, y: Expression(f"(?:{x.pattern}|{y.pattern})", x.language | y.language), inner, inner),
            inner.map(lambda x: Expression(f"(?:{x.pattern})*", power(x.language, 0, None))),
            inner.map(lambda x: Expression(f"(?:{x.pattern}){{1,2}}?", power(x.language, 1, 2))),
        ),
        max_leaves=5,
    )


def accepted(dfa: fa.Dfa) -> set[bytes]:
    return {text for text in SHORT if dfa.matches(text)}


def assert_trimmed(dfa: fa.Dfa) -> None:
    assert dfa.next.dtype == np.int32
    assert dfa.next.shape == (len(dfa.accept), 256)
    assert not dfa.next[0].any()
    assert not dfa.accept[0]
    if dfa.is_empty:
        assert len(dfa.next) == 1
        return
    reached, todo = {0, dfa.start}, [dfa.start]
    for state in todo:
        for target in set(dfa.next[state].tolist()) - reached:
            reached.add(target)
            todo.append(target)
    assert reached == set(range(len(dfa.next)))
    assert (dfa.shortest[1:] < fa.NEVER).all()


@small
@given(expressions())
@example(read("a|ab"))
@example(read("(?:a|ab)(?:b|bab)"))
@example(read("a*?"))
def test_a_regular_expression_accepts_the_whole_texts_that_it_describes(expression: Expression) -> None:
    dfa = fa.from_regex(expression.pattern)
    assert_trimmed(dfa)
    assert accepted(dfa) == expression.language


@small
@given(expressions(), expressions())
def test_set_operations_are_those_of_the_languages(left: Expression, right: Expression) -> None:
    a, b = fa.from_regex(left.pattern), fa.from_regex(right.pattern)
    for result, expected in [
        (fa.union(a, b), left.language | right.language),
        (fa.intersection(a, b), left.language & right.language),
        (fa.difference(a, b), left.language - right.language),
        (fa.complement(a), set(SHORT) - left.language),
    ]:
        assert_trimmed(result)
        assert accepted(result) == expected


@small
@given(expressions(), expressions(), st.integers(0, 3), st.none() | st.integers(0, 3))
@example(read("a*b"), read("b"), 0, 2)
@example(read(""), read("a"), 3, 3)
@example(read("a"), read("a"), 2, 1)
def test_concatenation_and_repetition_are_those_of_the_languages(
    left: Expression, right: Expression, low: int, high: int | None
) -> None:
    a, b = fa.from_regex(left.pattern), fa.from_regex(right.pattern)
    joined = fa.concat(a, b)
    assert_trimmed(joined)
    assert accepted(joined) == join(left.language, right.language)
    repeated = fa.repeat(a, low, high)
    assert_trimmed(repeated)
    assert accepted(repeated) == power(left.language, low, high)
    assert accepted(fa.star(a)) == power(left.language, 0, None)


@small
@given(expressions(), expressions())
def test_minimised_automata_of_equal_languages_have_equal_keys(left: Expression, right: Expression) -> None:
    one = fa.minimise(fa.union(fa.from_regex(left.pattern), fa.from_regex(right.pattern)))
    other = fa.from_regex(f"(?:{right.pattern})|(?:{left.pattern})")
    assert one.key == other.key
    assert len(fa.minimise(fa.concat(one, other)).next) <= len(fa.concat(one, other).next)


@small
@given(expressions())
def test_shortest_is_the_length_of_the_shortest_word(expression: Expression) -> None:
    dfa = fa.from_regex(expression.pattern)
    if expression.language:
        assert int(dfa.shortest[dfa.start]) == min(map(len, expression.language))


@small
@given(st.sets(st.binary(max_size=4), max_size=20))
def test_words_accept_exactly_the_words(texts: set[bytes]) -> None:
    dfa = fa.words(texts)
    assert_trimmed(dfa)
    assert all(dfa.matches(text) for text in texts)
    others = {text + b"a" for text in texts} | {text[:-1] for text in texts} | {b"", b"\xff"}
    assert not any(dfa.matches(text) for text in others - texts)
    assert fa.minimise(dfa).key == dfa.key


def test_words_over_all_256_bytes_keep_every_byte_apart() -> None:
    dfa = fa.words(bytes([byte]) + bytes([255 - byte]) for byte in range(256))
    assert dfa.matches(b"\x00\xff")
    assert not dfa.matches(b"\x00\xfe")


def test_a_literal_accepts_only_itself() -> None:
    dfa = fa.literal(b'{"a": ')
    assert dfa.matches(b'{"a": ')
    assert not dfa.matches(b'{"a":')
    assert dfa.run(b'{"a"') != 0
    assert dfa.run(b": ", dfa.run(b'{"a"')) == dfa.run(b'{"a": ')
    assert fa.literal(b"").matches(b"")


def test_an_empty_language_has_start_zero() -> None:
    for dfa in (
        fa.words([]),
        fa.union(),
        fa.intersection(fa.literal(b"a"), fa.literal(b"b")),
        fa.from_regex(r"[^\x00-\x{10FFFF}]"),
        fa.from_regex(r"a[^\x00-\x{10FFFF}]"),
        fa.concat(fa.literal(b"a"), fa.empty()),
    ):
        assert dfa.is_empty
        assert dfa.start == 0
        assert not dfa.matches(b"")
    assert fa.lift_json(fa.empty()).is_empty


def test_a_dead_branch_takes_nothing_from_the_others() -> None:
    dfa = fa.from_regex("(?:a|b[^\\x00-\\x{10FFFF}]|\x01)*")
    assert accepted(dfa) == read("a*").language
    assert dfa.matches(b"\x01a\x01")


@pytest.mark.parametrize("pattern", ["^a", "a(", r"\bfoo", "(?=a)b", "^a*", "a*$"])
def test_an_expression_that_cannot_be_compiled_is_named(pattern: str) -> None:
    with pytest.raises(InvalidForm, match="cannot be compiled") as caught:
        fa.from_regex(pattern)
    assert repr(pattern) in str(caught.value)


def test_a_construction_past_the_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(AutomatonTooLarge, match=str(fa.STATE_LIMIT)) as caught:
        fa.repeat(fa.any_text(), 0, 1_000_000)
    assert isinstance(caught.value, FillError)
    assert caught.value.states > caught.value.limit
    with pytest.raises(AutomatonTooLarge):
        # The 17th letter from the end is an "a": 2**17 states.
        fa.concat(fa.star(fa.from_regex("[ab]")), fa.literal(b"a"), fa.repeat(fa.from_regex("[ab]"), 16, 16))


def test_a_long_counted_string_is_built_on_the_tables() -> None:
    dfa = fa.repeat(fa.from_regex("(?s:.)"), 2, 1000)
    assert not dfa.matches(b"a")
    assert dfa.matches("é€😀".encode())
    assert dfa.matches(("€" * 1000).encode())
    assert not dfa.matches(("€" * 1001).encode())
    assert fa.minimise(dfa).matches(("€" * 1000).encode())


@small
@given(st.text())
def test_any_text_is_all_well_formed_utf8(text: str) -> None:
    assert fa.any_text().matches(text.encode())
    assert fa.ANY_TEXT() is fa.any_text()


@pytest.mark.parametrize("text", [b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_any_text_refuses_ill_formed_utf8(text: bytes) -> None:
    assert not fa.any_text().matches(text)


def count(dfa: fa.Dfa, spelling: bytes) -> int:
    """The characters that the boundary rule counts over a whole spelling."""
    assert dfa.boundary is not None
    state, total = dfa.start, 0
    for byte in spelling:
        target = int(dfa.next[state, byte])
        assert target
        if dfa.boundary[state] and not dfa.accept[target]:
            total += 1
        state = target
    assert dfa.accept[state]
    return total


awkward = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7fé€😀\u2028\uffff'))
)


@small
@given(awkward)
@example('"\\\b\f\n\r\t\x00\x1f\x7f/é€😀')
def test_a_lifted_text_has_exactly_the_spelling_of_json_dumps(text: str) -> None:
    lifted = fa.lift_json(fa.any_text())
    spelling = json.dumps(text, ensure_ascii=False).encode()
    assert lifted.matches(spelling)
    assert count(lifted, spelling) == len(text)
    ascii_spelling = json.dumps(text).encode()
    assert lifted.matches(ascii_spelling) == (ascii_spelling == spelling)
    only = fa.lift_json(fa.literal(text.encode()))
    assert only.matches(spelling)
    assert count(only, spelling) == len(text)
    assert int(only.shortest[only.start]) == len(spelling)


@small
@given(st.sets(awkward, max_size=8), awkward)
def test_lifting_keeps_the_values_and_nothing_else(values: set[str], other: str) -> None:
    lifted = fa.lift_json(fa.words(value.encode() for value in values))
    if values:
        assert_trimmed(lifted)
    for value in values | {other}:
        assert lifted.matches(json.dumps(value, ensure_ascii=False).encode()) == (value in values)


@small
@given(st.sets(awkward, max_size=8))
def test_lifting_a_minimal_automaton_gives_a_minimal_one(values: set[str]) -> None:
    lifted = fa.lift_json(fa.words(value.encode() for value in values))
    assert fa.minimise(lifted).key == lifted.key
    everything = fa.lift_json(fa.any_text())
    assert fa.minimise(everything).key == everything.key


@small
@given(awkward)
def test_the_free_string_accepts_both_spellings_and_counts_characters(text: str) -> None:
    free = fa.free_string()
    for spelling in (
        json.dumps(text),
        json.dumps(text, ensure_ascii=False),
        json.dumps(text).replace("/", "\\/"),
    ):
        assert count(free, spelling.encode()) == len(text)
    upper = re.sub(r"(?<!\\)((?:\\\\)*\\u)(....)", lambda m: m[1] + m[2].upper(), json.dumps(text))
    assert json.loads(upper) == text
    assert count(free, upper.encode()) == len(text)


@pytest.mark.parametrize(
    "spelling",
    [
        rb'"\ud83d"',
        rb'"\ude00"',
        rb'"\ud83d\ud83d"',
        rb'"\ud83d\n"',
        rb'"\x41"',
        b'"\n"',
        b'"\x1f"',
        b'"a',
        b'a"',
        b'"\xff"',
        rb'"\u12"',
        rb'"\"',
        b'"a"b"',
    ],
)
def test_the_free_string_refuses_what_is_no_json_string(spelling: bytes) -> None:
    assert not fa.free_string().matches(spelling)


def test_minimising_keeps_boundary_states_apart() -> None:
    # Two states with the same future, of which one is a boundary.
    table = np.zeros((5, 256), np.int32)
    table[1, ord("a")], table[1, ord("b")] = 2, 3
    table[2, ord("c")] = table[3, ord("c")] = 4
    accept = np.array([False, False, False, False, True])
    boundary = np.array([False, False, True, False, False])
    assert len(fa.minimise(fa.Dfa(table, accept, 1)).next) == 4
    kept = fa.minimise(fa.Dfa(table, accept, 1, boundary))
    assert len(kept.next) == 5
    assert kept.boundary is not None
    assert kept.boundary.tolist() == [False, False, True, False, False]


def test_a_long_chain_is_minimised_without_a_round_for_each_link() -> None:
    chain = fa.repeat(fa.from_regex("a"), 0, 3000)
    assert fa.minimise(chain).key == chain.key


def test_distances_count_steps_backwards_from_acceptance() -> None:
    narrow = np.array([[0], [2], [3], [0]], np.int32)
    accept = np.array([False, False, False, True])
    assert tables.distances(narrow, accept).tolist() == [fa.NEVER, 2, 1, 0]


def test_a_long_repetition_of_an_ambiguous_unit_is_built_or_refused_in_time() -> None:
    unit = fa.from_regex("a|ab|ba|b")
    assert fa.repeat(unit, 1, 60).matches(b"ab" * 60)
    assert not fa.repeat(unit, 1, 60).matches(b"ab" * 60 + b"a")
    with pytest.raises(AutomatonTooLarge):
        fa.repeat(unit, 0, 5000)

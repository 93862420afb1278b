r"""ECMA-262 patterns as automata, against regress (an ECMA-262 engine)."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
import regress
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.regex import fullmatch, search

TEXTS = st.text(alphabet="ab-é1 \n_c", max_size=7)

_ATOMS = st.sampled_from(
    ["a", "b", "-", "é", "1", " ", "ab", ".", "[ab]", "[^a]", "[a-c-]", "[]", "[^]", r"[^\w]", r"[^\p{L}\d]"]
) | st.sampled_from([r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\u{e9}", r"\x61", r"\cA", r"\n", r"\p{L}"])
_CONDITIONS = st.sampled_from(["^", "$", r"\b", r"\B"])
_TIMES = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "{2,}"])


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, parts).map("".join),
        st.tuples(parts, parts).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        parts.map(lambda part: f"({part})"),
    )


# One quantifier inside another at most: regress 2026.9 misreads three ((?:(?:b+){1,3}){2} against "bb").
_REPEATED = st.tuples(_ATOMS, _TIMES).map("".join)
_PLAIN = st.recursive(_ATOMS | _REPEATED, _joined, max_leaves=5)
_LOOKS = st.tuples(st.sampled_from(["(?=", "(?!", "(?<=", "(?<!"]), _PLAIN).map(lambda pair: f"{pair[0]}{pair[1]})")
PATTERNS = st.recursive(_ATOMS | _REPEATED | _CONDITIONS | _LOOKS, _joined, max_leaves=6)
PATTERNS |= st.tuples(PATTERNS, _TIMES).map(lambda pair: f"(?:{pair[0]}){pair[1]}")


def found(pattern: str, text: str) -> bool:
    return regress.Regex(pattern, "u").find(text) is not None


@settings(deadline=None, max_examples=200)
@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=25))
@example("(?<=(?:[^a]|\\d))(^)(?:é|[a-c-]\\w)\\d", ["-11_", "é1"])
@example("[^a](?=(?<!^))(?:$){2,}", ["b", "a"])
def test_search_accepts_the_texts_in_which_an_ecma_engine_finds_the_pattern(pattern: str, texts: list[str]) -> None:
    try:
        automaton = search(pattern)
    except UnsupportedForm:
        assume(False)
    for text in texts:
        assert automaton.matches(text.encode()) == found(pattern, text), (pattern, text)


@settings(deadline=None, max_examples=100)
@given(PATTERNS, st.lists(TEXTS, min_size=1, max_size=15))
def test_fullmatch_accepts_the_texts_that_the_pattern_matches_whole(pattern: str, texts: list[str]) -> None:
    try:
        automaton = fullmatch(pattern)
    except UnsupportedForm:
        assume(False)
    for text in texts:
        assert automaton.matches(text.encode()) == found(f"^(?:{pattern})$", text), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "accepted", "rejected"),
    [
        ("^go|end$", ["go", "goat", "weekend", "end"], ["ago", "ending", "x", ""]),
        (r"^(?!-)[a-z-]{1,6}(?<!-)$", ["a", "ab-c", "a--b"], ["-ab", "ab-", "-", "", "abcdefg"]),
        (r"^((?!foo).)*$", ["", "fo", "bar"], ["foo", "a foo b", "a\nb"]),
        (r"^((?!-)[a-z-]{1,63}(?<!-)\.)+[a-z]{2,6}$", ["a.de", "a-b.c.de"], ["-a.de", "a-.de", "de"]),
        (r"^(?=.*\d)(?=.*[a-z])\w{4,8}$", ["abc1", "1aaaaaaa"], ["abcd", "1234", "ab1"]),
        (r"(^|,)x(,|$)", ["x", "a,x", "x,b"], ["ax", "xb", ""]),
        (r"^([a-z]*($|/))*$", ["a", "a/b", "a/", ""], ["a b", "A"]),
        (r"\bcat\b", ["cat", "a cat.", "cat\n"], ["cats", "concat"]),
        (r"^a$", ["a"], ["a\n", "\na"]),
        (r"\A[a-f]+\Z", ["beef"], ["beef\n", "xbeef"]),
        (r"(?i)^grüße$", ["GRÜßE", "grüße"], ["grusse"]),
        (r"^(?P<year>\d{4})-(?<month>\d\d)$", ["2024-05"], ["2024-5"]),
        (r"^\/a\-b\@c$", ["/a-b@c"], [r"\/a-b@c"]),
        ("^🐲*$", ["", "🐲🐲"], ["🐉", "D"]),
        (r"^\ud83d\udc32$", ["🐲"], ["🐉"]),
        (r"^[\w-.]+$", ["a-.b"], ["a b"]),
        (r"^x{2,3}}$", ["xx}"], ["xx"]),
    ],
)
def test_a_pattern_means_what_it_says(pattern: str, accepted: list[str], rejected: list[str]) -> None:
    automaton = search(pattern)
    assert [text for text in accepted if not automaton.matches(text.encode())] == []
    assert [text for text in rejected if automaton.matches(text.encode())] == []


@pytest.mark.parametrize(
    ("pattern", "error", "says"),
    [
        (r"(a)\1", UnsupportedForm, r"back-reference \1 at column 4"),
        (r"a++b", UnsupportedForm, "possessive quantifier ++ at column 2"),
        (r"(?>ab)", UnsupportedForm, "(?> at column 1"),
        (r"(?s)a.b", UnsupportedForm, "(?s) at column 1"),
        (r"x\Qa", UnsupportedForm, r"\Q at column 2"),
        (r"\p{Nonsense}", UnsupportedForm, r"\p{Nonsense} at column 1"),
        (r"(a(?=b)c?)*d", UnsupportedForm, "(?=...) at column 3"),
        (r"(a", InvalidForm, "column 3: a group is not closed"),
        (r"a)", InvalidForm, "column 2"),
        (r"[a", InvalidForm, "column 1: a class is not closed"),
        (r"a|*", InvalidForm, "column 3: nothing to repeat before *"),
        (r"[z-a]", InvalidForm, "range z-a out of order at column 2"),
        (r"a{3,1}", InvalidForm, "{3,1} out of order at column 2"),
        (r"^(?:[ab]{1,40}a){1,40}$", UnsupportedForm, "states"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name_and_place(pattern: str, error: type, says: str) -> None:
    with pytest.raises(error) as caught:
        search(pattern, pointer="/properties/x/pattern")
    assert caught.value.pointer == "/properties/x/pattern"
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z]([-a-z0-9]{0,61}[a-z0-9])?){0,4}$",
        r"^(a|bc){0,50}$",
        r"^(?:[^\"]|\\.|\\u[0-9a-f]{4}){0,50}$",
        r"^.{0,500}$",
        r"(ab|a|b){0,30}c",
        r"^[\w.+-]+@[\w-]+(\.[\w-]+)+$",
        r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$",
    ],
)
def test_bounded_repetition_never_explodes(pattern: str) -> None:
    start = time.process_time()
    with contextlib.suppress(UnsupportedForm):
        search(pattern)
    assert time.process_time() - start < 2


def test_searching_again_costs_nothing() -> None:
    assert search(r"^\d{3}-\d{4}$") is search(r"^\d{3}-\d{4}$", pointer="/elsewhere")


@pytest.mark.parametrize("name", ["pattern", "optional/ecmascript-regex", "optional/non-bmp-regex"])
def test_patterns_of_the_json_schema_test_suite_agree(shared: Path, name: str) -> None:
    groups = json.loads((shared / "data/json-schema-test-suite/draft2020-12" / f"{name}.json").read_text("utf-8"))
    for group in groups:
        schema = group["schema"]
        for test in group["tests"]:
            data = test["data"]
            if "pattern" in schema and isinstance(data, str):
                accepted = search(schema["pattern"]).matches(data.encode())
            elif "patternProperties" in schema:
                (pattern, wanted), *_ = schema["patternProperties"].items()
                if wanted is not True:
                    continue
                accepted = all(search(pattern).matches(key.encode()) for key in data)
            else:
                continue
            assert accepted == test["valid"], (schema, data)

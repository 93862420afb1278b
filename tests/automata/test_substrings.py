"""The passages of a text, against all slices of it."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fillengine.automata.dfa import from_regex, intersection, lift_json
from fillengine.automata.substrings import substrings
from fillengine.errors import AutomatonTooLarge

SOURCE = """glibc (2.26+dfsg-1) unstable; urgency=medium

  * Send it to J. Doe,
    room 7: needs C++ and python>=3.10.
  * naïve re\u0301sumé, 5€, 👩\u200d💻 and 東京都 (Tokyo)
"""


def has(text: str, source: str = SOURCE, *, whole_words: bool = True) -> bool:
    return substrings(source, whole_words=whole_words).matches(text.encode())


@pytest.mark.parametrize(
    "passage",
    [
        "glibc",
        "2.26+dfsg-1",
        "(2.26+dfsg-1)",
        "urgency=medium",
        "medium",
        "J. Doe",
        "J. Doe, room 7",
        "Send it to J. Doe, room 7: needs C++ and python>=3.10. * naïve",
        "3.10",
        "3.10.",
        "C++",
        "python>=3.10",
        ">=3.10",
        "naïve",
        "re\u0301sumé",
        "5€",
        "5",
        "👩\u200d💻",
        "東京",
        "京都 (Tokyo",
    ],
)
def test_passages_that_begin_and_end_at_word_boundaries_are_accepted(passage: str) -> None:
    assert has(passage)


@pytest.mark.parametrize(
    "passage",
    [
        "",
        " ",
        "libc",
        "glib",
        "glibc ",
        " (2.26",
        "Doe,\n    room",
        "Doe,  room",
        "dfs",
        "3.1",
        "10",
        "2.26",
        "dfsg",
        "2.26+dfsg",
        "medium * Send",
        "re",
        "\u0301sumé",
        "👩",
        "Toky",
        "glibc 2.26",
    ],
)
def test_parts_of_words_and_white_space_at_an_edge_are_refused(passage: str) -> None:
    assert not has(passage)


def test_parts_of_words_are_accepted_when_asked_for() -> None:
    assert has("libc", whole_words=False)
    assert has("Doe, ro", whole_words=False)
    assert not has("libc ", whole_words=False)
    assert not has("", whole_words=False)


def test_a_text_without_any_words_has_no_passages() -> None:
    assert substrings("").is_empty
    assert substrings(" \n\t ").is_empty


def test_a_lone_surrogate_stands_in_no_passage_and_ends_those_around_it() -> None:
    dfa = substrings("one \ud83d two")
    assert dfa.matches(b"one")
    assert dfa.matches(b"two")
    assert not dfa.matches(b"one two")


def is_inside(text: str, place: int) -> bool:
    """Whether `place` stands between two characters of one word, glue counting as one where it joins two."""

    def is_word(at: int) -> bool:
        if not 0 <= at < len(text):
            return False
        if text[at].isalnum() or text[at] == "_":
            return True
        return (
            text[at] in ".-+~@"
            and 0 < at < len(text) - 1
            and all(text[i].isalnum() or text[i] == "_" for i in (at - 1, at + 1))
        )

    return is_word(place - 1) and is_word(place)


texts = st.text(st.sampled_from("aab  -.é€_\n"), max_size=14)


@settings(deadline=None, max_examples=200)
@given(texts, texts, st.booleans())
@example("ab ab-ab", "", True)
@example("aé aé", "é", False)
def test_the_passages_are_all_the_slices_between_boundaries(source: str, other: str, whole: bool) -> None:
    every, expected = {other}, set()
    for paragraph in re.split(r"\n[ ]*\n", source):
        text = " ".join(paragraph.split())
        bounds = [place for place in range(len(text) + 1) if not whole or not is_inside(text, place)]
        expected |= {text[i:j] for i in bounds for j in bounds if i < j and text[i:j] == text[i:j].strip()}
        every |= {text[i:j] for i in range(len(text) + 1) for j in range(i, len(text) + 1)}
    dfa = substrings(source, whole_words=whole)
    assert {passage for passage in every if dfa.matches(passage.encode())} == expected


def test_long_runs_of_the_same_word_are_handled() -> None:
    dfa = substrings("0 " * 2000)
    assert dfa.matches(b"0 0 0")
    assert dfa.matches(("0 " * 2000).strip().encode())
    assert not dfa.matches(("0 " * 2001).strip().encode())


def test_passages_combine_with_patterns_and_lift_to_json() -> None:
    names = intersection(substrings(SOURCE), from_regex("[A-Z](?s:.)*"))
    assert names.matches(b"J. Doe")
    assert not names.matches(b"room 7")
    lifted = lift_json(substrings('He said "no"\\ \u0001 twice'))
    assert lifted.matches(json.dumps('said "no"\\ \u0001').encode())


def test_a_document_is_ready_quickly() -> None:
    source = " ".join(f"word{n % 173} {n * 7919 % 1009}," for n in range(210))[:2500]
    lift_json(substrings("warm"))
    begin = time.process_time()
    lift_json(substrings(source))
    assert time.process_time() - begin < 0.3  # 0.025 s on a quiet machine


def test_a_text_past_the_limit_is_refused() -> None:
    with pytest.raises(AutomatonTooLarge):
        substrings(" ".join(map(str, range(20_000))))

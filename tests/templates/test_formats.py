"""String formats: never more than the judges accept, and a recorded part of what the suite calls valid."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from rfc3986_validator import validate_rfc3986
from rfc3987_syntax import is_valid_syntax

from fillengine.automata.dfa import Dfa
from fillengine.templates import compile
from fillengine.templates.ecma import parse
from fillengine.templates.formats import format_dfa, format_names

CHECKER = Draft202012Validator.FORMAT_CHECKER

# How many of the valid=true texts of the suite's file are accepted. Only ever raise these.
ACCEPTED_OF_SUITE = {
    "date": 17,
    "date-time": 6,
    "duration": 21,
    "email": 10,
    "hostname": 8,
    "idn-email": 9,
    "idn-hostname": 12,
    "ipv4": 5,
    "ipv6": 11,
    "iri": 9,
    "iri-reference": 5,
    "json-pointer": 22,
    "regex": 1,
    "relative-json-pointer": 6,
    "time": 7,
    "uri": 15,
    "uri-reference": 11,
    "uri-template": 17,
    "uuid": 9,
}


def random_word(dfa: Dfa, seed: int, *, long: int = 60) -> bytes:
    """A word of `dfa`: a random walk that turns home after `long` bytes."""
    dice = random.Random(seed)
    state, word = dfa.start, bytearray()
    while True:
        row = dfa.next[state]
        steps = np.flatnonzero(row).tolist()
        if dfa.accept[state] and (not steps or len(word) >= long or dice.random() < 0.1):
            return bytes(word)
        if len(word) >= long:
            steps = [byte for byte in steps if dfa.shortest[row[byte]] < dfa.shortest[state]]
        byte = dice.choice(steps)
        word.append(byte)
        state = int(row[byte])


def test_every_format_of_the_specification_is_known() -> None:
    assert format_names() == sorted(ACCEPTED_OF_SUITE)


def test_an_unknown_format_is_an_annotation() -> None:
    assert format_dfa("colour") is None
    assert format_dfa("../formats/date") is None


@pytest.mark.parametrize("name", format_names())
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_every_word_of_a_format_is_valid_for_the_judges(name: str, seed: int) -> None:
    dfa = format_dfa(name)
    assert dfa is not None
    text = random_word(dfa, seed).decode()
    assert CHECKER.conforms(text, name), text
    # The checker takes another library for these where one is installed.
    if name in ("uri", "uri-reference"):
        assert validate_rfc3986(text, rule=name.replace("uri", "URI").replace("-", "_")), text
    if name in ("iri", "iri-reference") and seed % 4 == 0:
        assert is_valid_syntax(name.replace("-", "_"), text), text
    if name == "regex":
        parse(text)


@pytest.mark.parametrize("name", format_names())
def test_nothing_that_the_suite_calls_invalid_is_accepted(shared: Path, name: str) -> None:
    files = [name, "ecmascript-regex"] if name == "regex" else [name]
    dfa = format_dfa(name)
    assert dfa is not None
    accepted = 0
    for file in files:
        path = shared / "data/json-schema-test-suite/draft2020-12/optional/format" / f"{file}.json"
        for group in json.loads(path.read_text("utf-8")):
            for test in group["tests"]:
                if not isinstance(test["data"], str):
                    continue
                matches = dfa.matches(test["data"].encode())
                assert test["valid"] or not matches, test["data"]
                accepted += matches
    assert accepted >= ACCEPTED_OF_SUITE[name]


@pytest.mark.parametrize("name", format_names())
def test_the_tables_of_a_format_stay_small(name: str) -> None:
    dfa = format_dfa(name)
    assert dfa is not None
    assert len(dfa.next) <= 1_500


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_a_time_with_its_offset_is_valid_in_every_draft(draft):
    form = compile({"$schema": draft, "type": "string", "format": "time"})
    assert form.parse('"17:23:29Z"') == "17:23:29Z"

"""What each source proposes behind a text, and that it looks at texts byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine import templates
from fillengine.automata.machine import Machine
from fillengine.fill.sources import (
    INSIDE,
    Constants,
    Cursor,
    Echo,
    OwnOutput,
    Prediction,
    Source,
    UnstableRest,
    defaults,
    usual_sources,
)

DOCUMENT = """Package: hello-world 2.10-3
Maintainer: Anouk Drummel <anouk.drummel@example.org>, of the "Tools" team (Oslo)
Installed size: 4,009 KiB, Download: 53 kB. Released on 29 November 2022. Priority: optional

This package greets the world. It is small; it says "hello".
Tags: alpha, beta, gamma
"""


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}


def cursor(form: dict[str, Any], written: str) -> Cursor:
    place = Cursor(Machine(templates.compile(form).template))
    data = written.encode()
    assert place.advance(data) == len(data)
    return place


def proposed(source: Source, place: Cursor) -> list[str]:
    return [guess.text.decode() for guess in source.propose(place)]


def test_a_cursor_keeps_the_values_with_their_places() -> None:
    place = cursor(schema(a=TEXT, b={"type": "integer"}, c={"type": "array", "items": TEXT}), '{"a": "x\\"y", "b": 12')
    assert [(hole.label, hole.start) for hole in place.holes] == [("/b", len('{"a": "x\\"y", "b": '))]
    place.advance(b', "c": ["p", "q"')
    assert [(value.label, value.text) for value in place.values] == [
        ("/a", b'"x\\"y"'), ("/b", b"12"), ("/c/*", b'"p"'), ("/c/*", b'"q"'),
    ]  # fmt: skip
    assert all(place.data[value.start : value.end] == value.text for value in place.values)


def test_a_cursor_stops_at_what_the_form_does_not_allow() -> None:
    place = cursor(schema(a=TEXT), '{"a": "')
    ahead = place.copy()
    assert ahead.advance(b'x"]') == 2
    assert place.data == b'{"a": "'
    assert ahead.data == b'{"a": "x"'


def test_the_rest_is_all_that_the_form_determines() -> None:
    assert proposed(UnstableRest(), cursor(schema(a=TEXT, b=TEXT), '{"a": ""')) == [', "b": "']
    assert proposed(UnstableRest(), cursor(schema(a=TEXT), '{"a": "')) == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("An", 'ouk Drummel"'),
        ("hello-", 'world"'),
        ("anouk.d", 'rummel@example.org"'),
        ("Os", 'lo"'),
        ("Too", 'ls"'),
        ("This pack", 'age greets the world."'),
        ("It is small; it s", 'ays \\"hello\\"."'),
    ],
)
def test_a_value_goes_on_like_the_passage_that_it_began_and_ends_with_it(written: str, expected: str) -> None:
    place = cursor(schema(a=TEXT), json.dumps({"a": written})[:-2])
    assert proposed(Echo(DOCUMENT), place) == [expected]


def test_a_passage_begins_at_a_word() -> None:
    assert proposed(Echo(DOCUMENT), cursor(schema(a=TEXT), '{"a": "rummel')) == []
    assert proposed(Echo(DOCUMENT), cursor(schema(a=TEXT), '{"a": "drummel')) != []


def test_a_passage_is_cut_where_the_form_ends_it() -> None:
    short = {"type": "string", "maxLength": 7}
    assert proposed(Echo(DOCUMENT), cursor(schema(a=short), '{"a": "An')) == ['ouk D"']


@pytest.mark.parametrize(
    ("key", "shape", "expected"),
    [
        ("email", {"type": "string", "format": "email"}, 'anouk.drummel@example.org"'),
        ("released", {"type": "string", "format": "date"}, '2022-11-29"'),
        ("priority", {"enum": ["optional", "required", "extra"]}, 'optional"'),
        ("maintainer", TEXT, 'Anouk Drummel"'),
        ("package", TEXT, 'hello-world"'),
    ],
)
def test_a_value_is_found_before_its_first_byte(key: str, shape: dict[str, Any], expected: str) -> None:
    found = proposed(Echo(DOCUMENT), cursor(schema(**{key: shape}), f'{{"{key}": "'))
    assert any(text.startswith(expected[:-1]) for text in found)


def test_what_the_source_ends_with_is_no_value_unless_the_form_allows_it() -> None:
    """The end of the text was once taken for the end of a value."""
    source = Echo("Anouk Drummel <anouk@example.org>  Tue, 29 Nov 2022 13:17:46 +0100")
    form = schema(email={"type": "string", "format": "email"}, date={"type": "string", "format": "date"})
    assert proposed(source, cursor(form, '{"email": "')) == ['anouk@example.org"']
    assert proposed(source, cursor(form, '{"email": "anouk@example.org", "date": "')) == ['2022-11-29"']


def test_a_number_is_the_one_that_stands_by_the_keys_words() -> None:
    place = cursor(schema(installed_size_kib={"type": "integer"}, x=TEXT), '{"installed_size_kib": ')
    assert proposed(Echo(DOCUMENT), place) == ["4009,"]


def test_items_that_the_source_lists_follow_one_another() -> None:
    form = schema(tags={"type": "array", "items": TEXT})
    source = Echo(DOCUMENT)
    place = cursor(form, '{"tags": ["alpha"')
    assert proposed(source, place) == [","]
    assert any(text == 'beta"' for text in proposed(source, cursor(form, '{"tags": ["alpha", "')))
    assert proposed(source, cursor(form, '{"tags": ["alpha", "beta", "gamma"')) == ["]"]


def test_a_value_that_the_source_lacks_is_likely_to_be_null() -> None:
    nullable = {"type": ["string", "null"], "format": "uri"}
    assert proposed(Echo(DOCUMENT), cursor(schema(homepage=nullable), '{"homepage": ')) == ["null"]


def test_like_objects_repeat_their_values_and_their_shape() -> None:
    link = {
        "type": "object",
        "properties": {"name": TEXT, "kind": TEXT, "up": {"type": "boolean"}, "mtu": {"type": "integer"}},
        "required": ["name", "kind"],
        "additionalProperties": False,
    }
    form = {"type": "array", "items": link}
    before = '[{"name": "eth0", "kind": "link", "mtu": 1500}, {"name": "eth1"'
    own = OwnOutput()
    assert '"link"' in proposed(own, cursor(form, before + ', "kind": '))
    assert 'ink"' in proposed(own, cursor(form, before + ', "kind": "l'))
    assert ', "mtu": ' in proposed(own, cursor(form, before + ', "kind": "link"'))
    assert '"mtu": '[2:] in proposed(own, cursor(form, before + ', "kind": "link", "m'))


def test_a_prediction_is_followed_past_what_differs() -> None:
    expected = '{"host": "a.example", "port": 80, "tls": false}'
    form = schema(host=TEXT, port={"type": "integer"}, tls={"type": "boolean"})
    source = Prediction(expected)
    assert proposed(source, cursor(form, "")) == [expected]
    assert proposed(source, cursor(form, '{"host": "')) == ['a.example", "port": 80, "tls": false}']
    assert proposed(source, cursor(form, '{"host": "backup.ex')) == []
    assert proposed(source, cursor(form, '{"host": "backup.example", "po')) == ['rt": 80, "tls": false}']
    assert proposed(source, cursor(form, '{"host": "backup.example", "port": 80, "tls": f')) == ["alse}"]


@settings(max_examples=200, deadline=None)
@given(
    expected=st.text("ab, ", max_size=30),
    written=st.text("ab, ", max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_a_prediction_says_the_same_however_often_it_was_asked_before(
    expected: str, written: str, cuts: list[int]
) -> None:
    place = Cursor(Machine(templates.compile({"type": "string"}).template))
    place.advance(b'"')
    often = Prediction('"' + expected)
    for cut in sorted(cut for cut in cuts if cut <= len(written)):
        place.advance(written[len(place.data) - 1 : cut].encode())
        ahead = place.copy()
        ahead.advance(b"ab ab ab")
        proposed(often, ahead)
        proposed(often, place)
    place.advance(written[len(place.data) - 1 :].encode())
    assert proposed(often, place) == proposed(Prediction('"' + expected), place)


def test_a_default_is_proposed_at_its_own_place() -> None:
    port = {"type": "integer", "default": 80}
    form = schema(host={"type": "string", "default": "localhost"}, ports={"type": "array", "items": port})
    values = defaults(form)
    assert values == {"/host": b'"localhost"', "/ports/*": b"80"}
    source = Constants(values)
    assert proposed(source, cursor(form, '{"host": "')) == ['localhost"']
    assert proposed(source, cursor(form, '{"host": "local')) == ['host"']
    assert proposed(source, cursor(form, '{"host": "other')) == []
    assert proposed(source, cursor(form, '{"host": "localhost", "ports": [')) == ["80"]


@pytest.mark.parametrize("text", ["", " ", "\x00", "é", '"', "\\", "a\nb", "\ud800", "1,234", ",", "a" * 500])
def test_any_source_text_is_good_for_any_form(text: str) -> None:
    form = schema(a=TEXT, n={"type": ["integer", "null"]}, l={"type": "array", "items": TEXT})
    sources = usual_sources(source_text=text, prediction=text, schema=form)
    begun = ("", '{"a": ', '{"a": "', '{"a": "a', '{"a": "\\', '{"a": "x", "n": ', '{"a": "x", "n": 1, "l": ["a"')
    for written in begun:
        for source in sources:
            for guess in source.propose(cursor(form, written)):
                assert all(part.kind in source.odds for part in guess.parts)


def test_every_source_knows_the_odds_inside_a_part() -> None:
    for source in usual_sources(source_text="x", prediction="x", schema=schema(a={"default": 1})):
        assert 0 < source.odds[INSIDE] <= 1

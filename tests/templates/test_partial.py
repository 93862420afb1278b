"""Whatever part of a text is there, the shortest text completes it to a valid value."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.templates import Choice, Regex, compile
from fillengine.templates.completion import Partial

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 3},
        "kind": {"enum": ["node", "leaf"]},
        "at": {"type": "string", "format": "date"},
        "size": {"type": "number", "minimum": 10},
        "inner": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["name", "kind", "size"],
    "additionalProperties": False,
}
FORM = compile(SCHEMA)


def nodes() -> st.SearchStrategy[dict[str, Any]]:
    def one(inner: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
        some = st.just([]) if inner is None else st.lists(inner, max_size=2)
        optional = {"at": st.dates().map(str), "inner": some}
        required = {
            "name": st.text(st.characters(exclude_categories=["Cs"]), min_size=3, max_size=6),
            "kind": st.sampled_from(["node", "leaf"]),
            "size": st.integers(10, 999),
        }
        return st.fixed_dictionaries(required, optional=optional).map(
            lambda node: {name: node[name] for name in SCHEMA["properties"] if name in node}
        )

    return st.recursive(one(), one, max_leaves=4)


@settings(max_examples=60, deadline=None)
@given(node=nodes(), data=st.data())
def test_every_beginning_is_completed_and_what_is_finished_stays(node: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(node, ensure_ascii=False)
    partial = Partial(FORM)
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        partial.feed(rest[:size])
        rest = rest[size:]
        assert partial.completed.startswith(partial.raw)
        value = partial.value
        jsonschema.validate(value, SCHEMA)
        for pointer in partial.finished:
            assert _at(value, pointer) == _at(node, pointer)
    assert partial.value == node
    assert len(partial.finished) == len(FORM.places(text))


def _at(value: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def test_the_completion_is_the_shortest() -> None:
    partial = Partial(FORM)
    assert partial.completed == '{"name": "   ", "kind": "leaf", "size": 10}'
    partial.feed('{"name": "Ada", "kind": "n')
    assert partial.completed == '{"name": "Ada", "kind": "node", "size": 10}'
    assert partial.finished == ("/name",)
    partial.feed('ode", "size": 12')
    assert partial.finished == ("/name", "/kind")
    partial.feed("}")
    assert partial.finished == ("/name", "/kind", "/size")


def test_forms_that_are_no_json_have_values_so_far() -> None:
    partial = Partial(compile(Regex("[a-z]+-[0-9]{2}")))
    partial.feed("ab")
    assert partial.value == "ab-00"
    partial = Partial(compile(Choice(["yes", "yesterday"])))
    partial.feed("yest")
    assert partial.value == "yesterday"


def test_a_text_that_leaves_the_form_is_refused() -> None:
    with pytest.raises(ValueError, match="goes on with 'x'"):
        Partial(FORM).feed("x")

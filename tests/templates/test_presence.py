"""Which properties may be there together: as jsonschema judges it, for every set of them."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from json_schema_tools import machine
from jsonschema import Draft7Validator

from fillengine.automata import nodes
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile
from fillengine.templates.presence import PresenceRules
from fillengine.templates.reading import Reader
from fillengine.templates.schema import Place

NAMES = "abcd"
OBJECTS = [dict.fromkeys(some, 1) for size in range(len(NAMES) + 1) for some in combinations(NAMES, size)]


def rules() -> st.SearchStrategy[Any]:
    name = st.sampled_from(NAMES)
    names = st.lists(name, min_size=1, max_size=2, unique=True)
    required = st.builds(lambda names: {"required": names}, names)
    needs = st.builds(lambda name, names: {"dependencies": {name: names}}, name, names)
    leaves = st.one_of(required, needs, st.booleans(), st.just({"type": "object"}))

    def inner(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        some = st.lists(children, min_size=1, max_size=3)
        return st.one_of(
            *(st.builds(lambda some, key=key: {key: some}, some) for key in ("allOf", "anyOf", "oneOf")),
            children.map(lambda child: {"not": child}),
            st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, children, children, children),
            st.builds(lambda name, child: {"dependencies": {name: child}}, name, children),
        )

    return st.recursive(leaves, inner, max_leaves=5)


@given(rules())
def test_a_rule_says_what_its_schema_says(schema: Any) -> None:
    reader = Reader({"$schema": "http://json-schema.org/draft-07/schema#"})
    rule = PresenceRules(reader).of(Place(schema, "", reader.resource))
    assert rule is not None
    judge = Draft7Validator(schema)
    for value in OBJECTS:
        held = all(some & value.keys() or every - value.keys() for some, every in rule.clauses)
        assert held == judge.is_valid(value), value
    assert rule.elsewhere == judge.is_valid("text")


@given(
    rules(),
    st.sampled_from(
        [{}, {"required": ["b"]}, {"minProperties": 2}, {"maxProperties": 2}, {"properties": {"a": False}}]
    ),
    st.booleans(),
    st.sampled_from(["closed", "schema"]),
)
@example({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"maxProperties": 2}, True, "closed")
def test_the_objects_that_can_be_written_are_those_that_fit(
    rule: Any, beside: Any, in_any_order: bool, additional: Any
) -> None:
    properties = dict.fromkeys(NAMES, True) | beside.get("properties", {})
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        **beside,
        "allOf": [rule],
        "properties": properties,
    }
    judge = Draft7Validator(schema)
    fitting = [value for value in OBJECTS if judge.is_valid(value)]
    try:
        automaton = machine(schema, order="any" if in_any_order else "declared", additional=additional)
    except UnsatisfiableForm:
        assert not fitting
        return
    for value in OBJECTS:
        assert automaton.accepts(json.dumps(value).encode()) == (value in fitting), value
        backwards = dict(reversed(value.items()))
        if in_any_order:
            assert automaton.accepts(json.dumps(backwards).encode()) == (value in fitting), backwards


def test_many_dependencies_are_one_object() -> None:
    names = [f"p{number}" for number in range(40)]
    pairs = [{"anyOf": [{"required": [a]}, {"required": [b]}]} for a, b in zip(names[::2], names[1::2], strict=True)]
    schema = {"type": "object", "properties": dict.fromkeys(names, True), "allOf": pairs}
    template = compile(schema, order="any").template
    assert sum(isinstance(node, nodes.Unordered) for node in nodes.walk(template)) == 1
    automaton = machine(schema, order="any")
    assert automaton.accepts(json.dumps(dict.fromkeys(names[::2], 1)).encode())
    assert not automaton.accepts(json.dumps(dict.fromkeys(names[2::2], 1)).encode())


def test_too_many_ways_to_be_together_are_refused() -> None:
    names = [f"p{number}" for number in range(30)]
    wheel = [{"anyOf": [{"required": [name]} for name in names[i : i + 3]]} for i in range(27)]
    with pytest.raises(UnsupportedForm, match="more than 4096 ways") as raised:
        compile({"properties": {"x": {"type": "object", "allOf": wheel}}})
    assert raised.value.pointer.startswith("/properties/x")

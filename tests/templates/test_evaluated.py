"""What is unevaluated, as jsonschema judges it, for small schemas of every kind that applies in place."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from hypothesis import example, given, reject
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fillengine.automata.machine import Machine
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile

NAMES = "abc"
OBJECTS = [
    {name: value for name, value in zip(NAMES, values, strict=True) if value is not None}
    for values in product((None, 1, 2), repeat=len(NAMES))
]
ARRAYS = [list(values) for length in range(4) for values in product((1, 2), repeat=length)]


def objects() -> st.SearchStrategy[Any]:
    name, value = st.sampled_from(NAMES), st.sampled_from([True, {"const": 1}, {"const": 2}])
    leaves = st.one_of(
        st.builds(lambda name, value: {"properties": {name: value}}, name, value),
        st.builds(lambda name, value: {"properties": {name: value}, "required": [name]}, name, value),
        st.builds(lambda name: {"required": [name]}, name),
        st.builds(lambda name: {"patternProperties": {f"^{name}": True}}, name),
        st.just({"unevaluatedProperties": False}),
    )
    return st.recursive(leaves, lambda children: _in_place(children, name, "unevaluatedProperties"), max_leaves=5)


def arrays() -> st.SearchStrategy[Any]:
    value = st.sampled_from([True, {"const": 1}, {"const": 2}])
    leaves = st.one_of(
        st.lists(value, min_size=1, max_size=3).map(lambda prefix: {"prefixItems": prefix}),
        st.builds(lambda value: {"contains": value}, value),
        st.builds(lambda value: {"items": value}, value),
        st.builds(lambda number: {"minItems": number}, st.integers(1, 2)),
    )
    return st.recursive(leaves, lambda children: _in_place(children, None, "unevaluatedItems"), max_leaves=5)


def _in_place(children: st.SearchStrategy[Any], name: Any, keyword: str) -> st.SearchStrategy[Any]:
    some = st.lists(children, min_size=1, max_size=2)
    options = [st.builds(lambda some, key=key: {key: some}, some) for key in ("allOf", "anyOf", "oneOf")]
    options.append(st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, children, children, children))
    options.append(children.map(lambda child: {"not": child}))
    if name is not None:
        options.append(st.builds(lambda name, child: {"dependentSchemas": {name: child}}, name, children))
    rest = st.sampled_from([False, {"const": 1}])
    options.append(st.builds(lambda child, rest: {"allOf": [child], keyword: rest}, children, rest))
    return st.one_of(options)


def check(schema: Any, values: list[Any]) -> None:
    judge = Draft202012Validator(schema)
    try:
        form = compile(schema, additional="schema")
    except UnsatisfiableForm:
        assert not any(map(judge.is_valid, values))
        return
    except UnsupportedForm:
        reject()
    automaton = Machine(form.template)
    for value in values:
        is_written = automaton.accepts(json.dumps(value).encode())
        # Where texts are compared, a search for an end may give up.
        is_left_out = form.outline.has_opposites and not is_written
        assert is_written == judge.is_valid(value) or is_left_out, value


@given(objects(), st.sampled_from([False, {"const": 1}]))
def test_properties_are_unevaluated_where_jsonschema_says_so(schema: Any, rest: Any) -> None:
    check({"type": "object", **schema, "unevaluatedProperties": rest}, OBJECTS)


@example(schema={"not": {"anyOf": [{"prefixItems": [True]}, {"contains": True}]}}, rest=False)
@given(arrays(), st.sampled_from([False, {"const": 1}]))
def test_items_are_unevaluated_where_jsonschema_says_so(schema: Any, rest: Any) -> None:
    check({"type": "array", **schema, "unevaluatedItems": rest}, ARRAYS)

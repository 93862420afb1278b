"""Distinct items behind a prefix: as jsonschema judges them, for all short arrays of a few values."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from json_schema_tools import machine
from jsonschema import Draft202012Validator

from fillengine.errors import UnsatisfiableForm

VALUES = st.sampled_from([1, 2, 3.0, "a", "b", True, None])
ENUMS = st.lists(VALUES, min_size=1, max_size=3, unique_by=str).map(lambda values: {"enum": values})
ARRAYS = [list(values) for length in range(5) for values in product([1, 2, "a", True], repeat=length)]


@example([{"enum": [1]}, {"enum": [1]}], {"type": "integer"}, 0, 2)
@given(
    st.lists(ENUMS, min_size=1, max_size=3),
    st.one_of(ENUMS, st.booleans(), st.just({"type": "integer"})),
    st.integers(0, 4),
    st.none() | st.integers(0, 4),
)
def test_no_two_items_are_the_same(prefix: list[Any], rest: Any, low: int, high: int | None) -> None:
    schema = {"type": "array", "prefixItems": prefix, "items": rest, "uniqueItems": True, "minItems": low}
    if high is not None:
        schema["maxItems"] = high
    judge = Draft202012Validator(schema)
    try:
        automaton = machine(schema, additional="schema")
    except UnsatisfiableForm:
        assert not any(map(judge.is_valid, ARRAYS))
        return
    for value in ARRAYS:
        assert automaton.accepts(json.dumps(value).encode()) == judge.is_valid(value), value

"""Laws of JSON Schema forms, over made-up schemas."""

from __future__ import annotations

import json
import os
import re
from random import Random
from typing import Any

import jsonschema
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from json_schema_tools import random_text

from fillengine.automata.machine import Machine
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile
from fillengine.testing.hostile_schema import NAMES, SCALARS, any_schemas

EXAMPLES = int(os.environ.get("FILLENGINE_EXAMPLES", "40"))
DOCUMENTS = any_schemas()
LAW = settings(deadline=None, max_examples=EXAMPLES)


def compiled(schema: Any, **options: Any) -> Machine:
    try:
        return Machine(compile(schema, **options).template)
    except UnsupportedForm:
        assume(False)
        raise


def judge(schema: Any) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def fits(schema: Any, value: Any) -> bool:
    try:
        return bool(judge(schema).is_valid(value))
    except BaseException as error:
        # jsonschema follows a reference to itself without end, and its Rust part panics on that.
        assume(type(error).__name__ not in ("RecursionError", "PanicException"))
        raise


@LAW
@given(DOCUMENTS, st.integers(0, 2**16), st.sampled_from(["closed", "schema"]))
def test_whatever_can_be_written_validates(schema: Any, seed: int, additional: Any) -> None:
    machine = compiled(schema, additional=additional)
    for number in range(4):
        text = random_text(machine, Random(seed + number), wander=12 * number)
        # More digits than a float has: what json.loads reads is another number than the text says.
        assume(not re.search("[0-9.]{16}", text))
        assert fits(schema, json.loads(text)), text


@LAW
@given(DOCUMENTS, st.integers(0, 2**16))
def test_closed_objects_are_objects_of_the_schema(schema: Any, seed: int) -> None:
    closed, everything = compiled(schema, additional="closed"), compiled(schema, additional="schema")
    text = random_text(closed, Random(seed), wander=30)
    assert everything.accepts(text.encode())


@LAW
@given(DOCUMENTS, st.integers(0, 2**16))
def test_a_value_of_one_style_can_be_written_in_every_style(schema: Any, seed: int) -> None:
    value = json.loads(random_text(compiled(schema), Random(seed), wander=30))
    spaced = json.dumps(value, ensure_ascii=False)
    assume("Infinity" not in spaced and compiled(schema).accepts(spaced.encode()))
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    indented = json.dumps(value, ensure_ascii=False, indent=2)
    assert compiled(schema, style="compact").accepts(compact.encode())
    assert compiled(schema, style="indented").accepts(indented.encode())
    assert compiled(schema, style="any").accepts(spaced.encode())


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)


VALUES = SCALARS | containers(SCALARS | containers(SCALARS))


@LAW
@given(DOCUMENTS, VALUES)
def test_a_value_that_does_not_fit_cannot_be_written(schema: Any, value: Any) -> None:
    machine = compiled(schema, additional="schema")
    if machine.accepts(json.dumps(value, ensure_ascii=False).encode()):
        assert fits(schema, value)


def without_order(value: Any) -> bool:
    """No object with two properties: their order is not the schema's business, but the form's."""
    if isinstance(value, dict):
        return len(value) < 2 and all(map(without_order, value.values()))
    return not isinstance(value, list) or all(map(without_order, value))


@LAW
@given(DOCUMENTS, VALUES.filter(without_order))
def test_a_value_that_fits_can_be_written(schema: Any, value: Any) -> None:
    assume(fits(schema, value))
    try:
        machine = Machine(compile(schema, additional="schema").template)
    except UnsupportedForm:
        return
    assert machine.accepts(json.dumps(value, ensure_ascii=False).encode())


@LAW
@given(DOCUMENTS, VALUES)
def test_a_schema_without_instances_is_said_to_be_one(schema: Any, value: Any) -> None:
    try:
        compile(schema, additional="schema")
    except UnsatisfiableForm:
        assert not fits(schema, value)
    except UnsupportedForm:
        assume(False)

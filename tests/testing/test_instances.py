"""Instances are valid, various, and shrink to what a person would write."""

from __future__ import annotations

import json
from typing import Any, Literal

import jsonschema
import pydantic
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from fillengine.automata.machine import Machine
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile
from fillengine.testing import Violation, instances, invalid_instances, schemas
from fillengine.testing.instance import texts
from fillengine.testing.schema import witnessed_schemas

LAW = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
# Searches that are no laws: the first find counts.
SEARCH = settings(deadline=None, max_examples=500, database=None, suppress_health_check=list(HealthCheck))


class Line(pydantic.BaseModel):
    article: str = pydantic.Field(max_length=40)
    quantity: int = pydantic.Field(ge=1, le=500)


class Note(pydantic.BaseModel):
    supplier: str
    status: Literal["open", "paid", "cancelled"]
    lines: list[Line]
    remark: str | None = None


class Even(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0, le=99)

    @pydantic.field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


def judge(schema: Any) -> Any:
    kind = jsonschema.Draft202012Validator
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


@LAW
@given(note=instances(Note))
def test_instances_of_a_model_are_its_objects(note: Note) -> None:
    assert isinstance(note, Note)
    assert all(1 <= line.quantity <= 500 for line in note.lines)


@LAW
@given(even=instances(Even))
def test_what_a_model_s_own_validators_refuse_is_left_out(even: Even) -> None:
    assert even.number % 2 == 0


@LAW
@given(data=st.data(), schema=schemas())
def test_instances_of_any_schema_are_valid(data: st.DataObject, schema: Any) -> None:
    try:
        strategy = texts(compile(schema))
    except (UnsupportedForm, UnsatisfiableForm):
        # closed, so that a property that only a pattern describes may be missing
        return
    assert judge(schema).is_valid(json.loads(data.draw(strategy)))


def test_examples_shrink_to_short_strings_few_items_and_early_members() -> None:
    notes = instances(Note)
    assert find(notes, lambda note: True, settings=SEARCH) == Note(supplier="", status="open", lines=[])
    assert find(notes, lambda note: note.status != "open", settings=SEARCH).supplier == ""
    several = find(notes, lambda note: len(note.lines) > 1, settings=SEARCH)
    assert [line.model_dump() for line in several.lines] == [{"article": "", "quantity": 1}] * 2
    assert find(notes, lambda note: len(note.supplier) > 2, settings=SEARCH).supplier == "aaa"


def test_a_hundred_instances_are_not_all_alike() -> None:
    seen = []

    @settings(max_examples=100, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(instances(Note))
    def collect(note: Note) -> None:
        seen.append(note.model_dump_json())

    collect()
    assert len(set(seen)) > 60


def test_what_is_wrong_with_the_form_is_said_at_the_call() -> None:
    with pytest.raises(UnsatisfiableForm):
        instances({"type": "integer", "minimum": 3, "maximum": 2})


@LAW
@given(pair=witnessed_schemas())
def test_every_drawn_schema_has_the_value_that_it_was_drawn_for(pair: Any) -> None:
    assert judge(pair.schema).is_valid(pair.value)
    try:
        form = compile(pair.schema, additional="schema")
    except UnsupportedForm as refused:
        # Refused is fair, but it must not be said to have no value.
        assert not isinstance(refused, UnsatisfiableForm)  # noqa: PT017
        return
    assert Machine(form.template).accepts(json.dumps(pair.value, ensure_ascii=False).encode())


ORDER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "count": {"type": "integer", "minimum": 3, "maximum": 9},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True},
        "when": {"type": "string", "format": "date"},
    },
    "required": ["name", "count"],
    "additionalProperties": False,
}


@LAW
@given(violation=invalid_instances(ORDER))
def test_an_invalid_instance_violates_one_keyword_where_its_label_says(violation: Any) -> None:
    (error,) = judge(ORDER).iter_errors(violation.value)
    assert error.validator == violation.keyword
    assert "".join(f"/{step}" for step in error.absolute_schema_path) == violation.pointer
    assert violation.pointer.endswith(violation.keyword)


IS_MINIMAL = {
    "required": lambda value: len({"name", "count"} & value.keys()) == 1,
    "minimum": lambda value: value["count"] == 2,
    "maximum": lambda value: value["count"] == 10,
    "minLength": lambda value: value["name"] == "",
    "maxLength": lambda value: len(value["name"]) == 6,
    "uniqueItems": lambda value: len(value["tags"]) - len(set(value["tags"])) == 1,
    "additionalProperties": lambda value: len(value.keys() - ORDER["properties"].keys()) == 1,
    "enum": lambda value: len(value["tags"]) > 0,
    "format": lambda value: isinstance(value["when"], str),
}


def test_violations_of_all_keywords_come_and_are_minimal() -> None:
    seen = set()

    @settings(max_examples=400, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(invalid_instances(ORDER))
    def collect(violation: Violation) -> None:
        seen.add(violation.keyword)
        if violation.keyword in IS_MINIMAL and violation.instance_path.count("/") < 2:
            assert IS_MINIMAL[violation.keyword](violation.value)

    collect()
    assert seen >= {*IS_MINIMAL, "type"}


def test_a_schema_that_forbids_nothing_has_no_violation() -> None:
    with pytest.raises(UnsatisfiableForm, match="every value fits this schema"):
        invalid_instances(True)

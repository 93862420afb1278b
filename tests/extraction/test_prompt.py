"""The prompt: what it says of a schema, and in which order."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from fillengine.extraction.prompt import Example, build_messages, context


class Line(BaseModel):
    article: str = Field(description="Article number")
    quantity: int


class Order(BaseModel):
    """An order of goods."""

    number: str
    lines: list[Line]
    state: Literal["open", "closed"]
    note: str | None = None


SCHEMA = Order.model_json_schema()


def fields(schema):
    return {field.name: field for field in context(schema).fields}


def test_the_document_comes_last_and_all_before_it_is_the_same_for_every_document():
    one, other = (build_messages(SCHEMA, text, instructions="Be exact.") for text in ("ONE", "OTHER"))
    assert one[:-1] == other[:-1]
    assert one[-1]["content"].removesuffix("ONE") == other[-1]["content"].removesuffix("OTHER")


def test_title_description_fields_and_instructions_are_said():
    messages = build_messages(SCHEMA, "x", instructions="Only the last order counts.")
    assert "Only the last order counts." in messages[0]["content"]
    for said in ("Order", "An order of goods.", "Article number", "quantity"):
        assert said in messages[-1]["content"]


def test_a_worked_example_of_ones_own_stands_before_the_document():
    messages = build_messages(SCHEMA, "DOC", example=Example("EXAMPLE", '{"number": "1"}'))
    assert [message["role"] for message in messages[-3:]] == ["user", "assistant", "user"]
    assert messages[-2]["content"] == '{"number": "1"}'
    assert "EXAMPLE" in messages[-3]["content"]
    assert "quantity" in messages[-3]["content"]


def test_the_shipped_examples_are_whole():
    messages = build_messages(SCHEMA, "DOC")
    assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * 4, "user"]
    for question, answer in zip(messages[1:-1:2], messages[2:-1:2], strict=True):
        for name in json.loads(answer["content"]):
            assert f"- {name} (" in question["content"]


def test_nested_fields_follow_their_parent_one_level_deeper():
    order = [(field.name, field.depth) for field in context(SCHEMA).fields]
    assert order == [("number", 0), ("lines", 0), ("article", 1), ("quantity", 1), ("state", 0), ("note", 0)]


def test_kinds_members_null_and_need_are_said():
    found = fields(SCHEMA)
    assert found["state"].type == 'one of "open", "closed"'
    assert found["state"].members == ('"open"', '"closed"')
    assert found["note"].type == "text or null"
    assert found["note"].is_nullable
    assert not found["note"].is_required
    assert found["lines"].type == "list of object"
    assert found["quantity"].type == "whole number"


def test_titles_that_only_repeat_the_name_are_left_out():
    assert fields(SCHEMA)["number"].description == ""


def test_what_stands_beside_a_reference_goes_before_what_stands_behind_it():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/t", "description": "beside"}, "b": {"$ref": "#/$defs/t"}},
        "$defs": {"t": {"type": "string", "format": "date", "description": "behind"}},
    }
    assert [field.description for field in context(schema).fields] == ["beside", "behind"]
    assert fields(schema)["a"].type == "date as YYYY-MM-DD"


def test_recursion_ends():
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"kids": {"items": {"$ref": "#/$defs/t"}}}}}}
    assert len(context(tree).fields) <= 2
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert context(loop).fields == ()


def test_a_long_enum_is_cut():
    schema = {"properties": {"n": {"enum": list(range(1000))}}}
    assert fields(schema)["n"].type.endswith(", 23, …")


@pytest.mark.parametrize("schema", [True, {}, {"type": "string"}, {"properties": {"a": True}}, {"$ref": "x.json"}])
def test_a_schema_that_says_little_still_gives_a_prompt(schema):
    assert build_messages(schema, "DOC")[-1]["content"].endswith("DOC")


@given(st.text(min_size=1), st.text(min_size=1))
def test_texts_are_data_and_never_templates(document, description):
    document = "{{ 7 * 6 }}" + document
    schema = {"description": "{% raw %}" + description, "properties": {"{{ a }}": {"description": "{# b #}"}}}
    asked = build_messages(schema, document)[-1]["content"]
    assert asked.endswith(document)
    for said in ("{% raw %}" + description, "{{ a }}", "{# b #}"):
        assert said in asked

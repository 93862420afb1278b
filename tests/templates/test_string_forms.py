"""Text forms as what a JSON string holds."""

from __future__ import annotations

import json
from typing import Annotated, Any

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_schema_tools import accepts
from pydantic import BaseModel
from text_walks import machine_of, random_text

import fillengine as fe


class Query(BaseModel):
    sql: Annotated[str, fe.Grammar.named("sql-select")]
    code: Annotated[str, fe.Regex('[A-Z"]+')]
    mood: Annotated[str, fe.Choice(["good", "bad"])]
    note: Annotated[str, fe.Template('"{count}"\n{what}', count=int, what=str)]
    rows: list[Annotated[str, fe.Many(fe.Regex("[a-z]+"), separator="\n")]]


VALUE: dict[str, Any] = {
    "sql": "SELECT \"a b\" FROM t WHERE x IN (SELECT y FROM z WHERE w = 'é')",
    "code": 'A"B',
    "mood": "bad",
    "note": '"3"\nab "c" \u00e9',
    "rows": ["a", "a\nbc"],
}


def test_a_string_holds_a_text_of_its_form() -> None:
    form = fe.compile(Query)
    text = json.dumps(VALUE, ensure_ascii=False)
    assert machine_of(form).accepts(text.encode())
    form.validate(text)
    assert form.parse(text) == Query(**VALUE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sql", "SELECT"),
        ("sql", "SELECT * FROM t WHERE x IN (SELECT"),
        ("code", "a"),
        ("code", ""),
        ("mood", "goodbad"),
        ("note", '"x"\nb'),
        ("note", '"3"\n'),
        ("rows", ["A"]),
        ("rows", ["a\n"]),
    ],
)
def test_other_strings_are_neither_written_nor_validated(field: str, value: Any) -> None:
    assert not accepts(Query, {**VALUE, field: value})
    with pytest.raises(pydantic.ValidationError):
        Query(**{**VALUE, field: value})


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_written_is_validated(seed: int) -> None:
    form = fe.compile(Query)
    form.validate(random_text(machine_of(form), seed))


def test_a_schema_names_shipped_grammars_as_formats() -> None:
    schema = {"type": "string", "format": "grammar:json"}
    assert accepts(schema, '{"a": [1, "b\\n"]}')
    assert not accepts(schema, "{a}")
    form = fe.compile(schema)
    form.validate('"[1, 2]"')
    with pytest.raises(jsonschema.ValidationError):
        form.validate('"[1, 2"')


def test_a_string_form_is_held_to_the_document() -> None:
    class Note(BaseModel):
        who: Annotated[str, fe.Template("{name}!", name=str)]

    form = fe.compile(Note, grounding="Ada met Charles.", ground="verbatim")
    assert accepts(form, {"who": "Ada!"})
    assert not accepts(form, {"who": "Bob!"})


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "string", "format": "grammar:csv", "maxLength": 3}, "/format: a text form stands beside other"),
        ({"enum": ["a", "b"], "format": "grammar:csv"}, "/format: a text form stands beside other"),
        (
            {"type": "string", "not": {"format": "grammar:csv"}},
            "/not/format: a text form stands beside other constraints",
        ),
    ],
)
def test_what_stands_beside_a_text_form_is_refused(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(fe.UnsupportedForm, match=says):
        fe.compile(schema)


def test_json_with_bounded_strings_is_refused_inside_a_string() -> None:
    class Inner(BaseModel):
        name: Annotated[str, pydantic.Field(max_length=5)]

    class Outer(BaseModel):
        text: Annotated[str, fe.Template("{inner}", inner=Inner)]

    with pytest.raises(fe.UnsupportedForm, match="at /text: JSON whose strings have bounded lengths"):
        fe.compile(Outer)


def test_a_text_form_says_what_a_str_is_and_nothing_else() -> None:
    with pytest.raises(fe.UnsupportedForm, match="not what a field of type int is; annotate str with it"):
        pydantic.TypeAdapter(Annotated[int, fe.Regex("[0-9]")])


def test_a_pattern_beside_another_one_holds_too() -> None:
    form = Annotated[str, pydantic.Field(pattern="a"), fe.Regex("[a-c]+")]
    assert [accepts(form, text) for text in ("cab", "cb", "dad")] == [True, False, False]

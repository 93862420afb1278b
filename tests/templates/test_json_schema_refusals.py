"""What a schema cannot be: wrong, unsatisfiable, or not to be honoured exactly. Each says where and why."""

from __future__ import annotations

from typing import Any

import pytest

from fillengine.errors import InvalidForm, UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile


def under(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a/b": keywords}, "required": ["a/b"]}


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        (under(type="strin"), "/properties/a~1b/type", "'strin'"),
        (under(minLength="3"), "/properties/a~1b/minLength", "non-negative integer"),
        (under(maxItems=-1), "/properties/a~1b/maxItems", "non-negative integer"),
        (under(minimum="3"), "/properties/a~1b/minimum", "a number"),
        (under(multipleOf=0), "/properties/a~1b/multipleOf", "above 0"),
        (under(enum="x"), "/properties/a~1b/enum", "an array"),
        (under(enum=[float("nan")]), "/properties/a~1b/enum", "JSON"),
        (under(required="x"), "/properties/a~1b/required", "array of strings"),
        (under(properties=[]), "/properties/a~1b/properties", "object of schemas"),
        (under(properties={"x": 3}), "/properties/a~1b/properties/x", "object or a boolean"),
        (under(anyOf=[]), "/properties/a~1b/anyOf", "non-empty"),
        (under(pattern="("), "/properties/a~1b/pattern", ""),
        (under(**{"$ref": "#/$defs/nowhere"}), "/properties/a~1b/$ref", "leads nowhere"),
        (under(**{"x-fill": "maybe"}), "/properties/a~1b/x-fill", "verbatim"),
        ("{", "", "no JSON"),
        ("3", "", "object or a boolean"),
        (3, "", "int"),
    ],
)
def test_a_wrong_schema_is_invalid_and_says_where(schema: Any, pointer: str, words: str) -> None:
    with pytest.raises(InvalidForm) as raised:
        compile(schema)
    assert raised.value.pointer == pointer
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        (False, "", "false"),
        (under(type="string", minLength=5, maxLength=3), "/properties/a~1b", "minLength 5 is above maxLength 3"),
        (under(type="array", minItems=5, maxItems=3), "/properties/a~1b", "minItems 5 is above maxItems 3"),
        (under(type="integer", minimum=3, maximum=2), "/properties/a~1b", "number"),
        (under(type="integer", minimum=3.2, maximum=3.8), "/properties/a~1b", "number"),
        (under(enum=[]), "/properties/a~1b", "enum is empty"),
        (under(enum=["a"], type="integer"), "/properties/a~1b", "none of the values"),
        (under(type="string", pattern="^(aaa)+$", minLength=4, maxLength=5), "/properties/a~1b", "length"),
        (under(type="string", format="date", pattern="x"), "/properties/a~1b", "format"),
        (under(allOf=[{"type": "string"}, {"type": "null"}]), "/properties/a~1b", ""),
        (under(type="object", required=["x"], properties={"x": False}), "/properties/a~1b/properties/x", "false"),
        (under(type="object", required=["x"], propertyNames={"maxLength": 0}), "/properties/a~1b", "propertyNames"),
        ({"$ref": "#"}, "", "never ends"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "/properties/a", "never ends"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "/items", "never ends"),
    ],
)
def test_a_schema_without_values_is_unsatisfiable_and_says_where(schema: Any, pointer: str, words: str) -> None:
    with pytest.raises(UnsatisfiableForm) as raised:
        compile(schema)
    assert raised.value.pointer == pointer
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        (under(type="array", uniqueItems=True, prefixItems=[{}]), "uniqueItems"),
        (under(type="array", contains={"type": "null"}, minContains=2, uniqueItems=True), "contains"),
        (under(type="array", contains={"type": "null"}, maxContains=100, minItems=100, maxItems=200), "contains"),
        (
            under(
                type="object",
                allOf=[
                    {"$ref": "#/$defs/x"},
                    {"properties": {"b": {}}, "allOf": [{"$ref": "#/$defs/x"}], "unevaluatedProperties": False},
                ],
            )
            | {"$defs": {"x": {"properties": {"c": {"type": "string"}}}}},
            "unevaluatedProperties",
        ),
        (under(type="object", unevaluatedProperties=False, anyOf=[{"minProperties": n} for n in range(7)]), "anyOf"),
        (under(**{"$ref": "https://example.org/schema.json"}), "$ref"),
        (
            {
                "properties": {"a": {"$dynamicRef": "one#x"}},
                "$defs": {
                    name: {"$id": name, "$defs": {"x": {"$dynamicAnchor": "x", "type": type}}}
                    for name, type in (("one", "string"), ("two", "number"))
                },
            },
            "$dynamicRef",
        ),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$schema"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_pointer_and_keyword(schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedForm) as raised:
        compile(schema)
    assert raised.value.keyword == keyword
    assert raised.value.pointer.startswith("/")
    assert ";" in str(raised.value), "says what to do"


def test_a_keyword_that_cannot_matter_is_not_refused() -> None:
    compile({"type": "string", "uniqueItems": True, "contains": {}, "minContains": 2})
    compile({"type": "array", "contains": {}, "minContains": 0})


def test_unknown_options_are_refused() -> None:
    for options in ({"style": "pretty"}, {"order": "random"}, {"additional": "open"}, {"ground": "some"}):
        with pytest.raises(ValueError, match="must be one of"):
            compile({}, **options)  # type: ignore[arg-type]

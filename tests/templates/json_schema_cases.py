"""Keyword by keyword: (name, schema, values that it allows, values that it does not)."""

from __future__ import annotations

from typing import Any

CASES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("a type list", {"type": ["string", "null"]}, ["x", None], [1, {}]),
    ("the schema true", True, [1, "x", {"a": [{}]}, None], []),
    ("an integer is no fraction", {"type": "integer"}, [0, -12], [1.5, True, "1"]),
    ("bounds", {"type": "integer", "minimum": 3, "exclusiveMaximum": 6}, [3, 5], [2, 6]),
    (
        "draft 4's exclusive bound",
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "number",
            "minimum": 3,
            "exclusiveMinimum": True,
        },
        [3.5, 4],
        [3, 2.9],
    ),
    (
        "multiples of several steps",
        {"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]},
        [0, 12],
        [4, 6],
    ),
    ("lengths", {"type": "string", "minLength": 1, "maxLength": 2}, ["é", "ab", "\n"], ["", "abc"]),
    ("a pattern is a search", {"type": "string", "pattern": "b+"}, ["abc"], ["ac", 1]),
    (
        "pattern, format and length at once",
        {"type": "string", "format": "date", "pattern": "^19"},
        ["1999-01-31"],
        ["2000-01-31", "1999-02-31"],
    ),
    ("an enum of anything", {"enum": ["a", 1, None, {"k": [1]}]}, ["a", 1, None, {"k": [1]}], ["b", {"k": []}]),
    ("an enum under a type", {"type": "string", "enum": ["a", 1, None]}, ["a"], [1, None]),
    ("enum and const together", {"enum": [1, 2], "const": 2}, [2], [1]),
    ("const true is not 1", {"enum": [True, 1], "type": "integer"}, [1], [True]),
    (
        "items of one kind",
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [[1], [1, 2]],
        [[], [1, 2, 3], ["a"]],
    ),
    ("no items", {"type": "array", "items": False}, [[]], [[1]]),
    (
        "a tuple",
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        [[], ["a"], ["a", 1]],
        [[1], ["a", 1, 1]],
    ),
    (
        "draft 7's tuple",
        {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}},
        [["a"], ["a", None]],
        [[1], ["a", 1]],
    ),
    ("an unsatisfiable item ends a tuple", {"type": "array", "prefixItems": [{}, False]}, [[], [1]], [[1, 1]]),
    (
        "patternProperties",
        {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}},
        [{}, {"n_a": 1}],
        [{"n_a": "x"}, {"m": 1}],
    ),
    (
        "overlapping patternProperties",
        {
            "type": "object",
            "patternProperties": {"a": {"minimum": 3}, "b": {"maximum": 5}},
            "additionalProperties": False,
        },
        [{"a": 9, "b": 0, "ab": 4}],
        [{"ab": 9}, {"ab": 0}, {"c": 1}],
    ),
    (
        "a pattern that matches a declared name",
        {"type": "object", "properties": {"n_a": {"minimum": 1}}, "patternProperties": {"^n_": {"type": "integer"}}},
        [{"n_a": 1}],
        [{"n_a": 1.5}, {"n_a": 0}],
    ),
    (
        "additional values",
        {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
        [{"a": None, "b": 1}, {"b": 1}],
        [{"b": None}, {"b": 1, "a": None}],
    ),
    (
        "propertyNames",
        {"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": {"type": "integer"}},
        [{"ab": 1}],
        [{"abc": 1}],
    ),
    (
        "a required name that nothing describes",
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]},
        [{"a": None, "b": 3}, {"b": {}}],
        [{"a": None}, {}],
    ),
    (
        "minProperties counts",
        {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2, "maxProperties": 2},
        [{"a": 1, "c": 1}],
        [{"a": 1}, {"a": 1, "b": 1, "c": 1}],
    ),
    (
        "dependentRequired",
        {"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
        [{}, {"b": 1}, {"a": 1, "b": 1}],
        [{"a": 1}],
    ),
    (
        "draft 7's dependencies",
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "dependencies": {"a": {"properties": {"b": {"type": "null"}}}},
        },
        [{"b": 1}, {"a": 1, "b": None}],
        [{"a": 1, "b": 1}],
    ),
    (
        "anyOf beside other keywords",
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            "additionalProperties": False,
        },
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
        [{}, {"c": 1}],
    ),
    (
        "allOf that tightens a property",
        {
            "allOf": [
                {"properties": {"a": {"minimum": 3}}},
                {"type": "object", "properties": {"a": {"type": "integer", "maximum": 4}}, "required": ["a"]},
            ]
        },
        [{"a": 3}],
        [{"a": 5}, {"a": 2}, {}],
    ),
    (
        "a false property inside allOf",
        {"allOf": [{"type": "object", "properties": {"a": {}, "b": {}}}, {"properties": {"b": False}}]},
        [{"a": 1}],
        [{"b": 1}],
    ),
    (
        "oneOf by type",
        {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        ["a", ["a"]],
        [1],
    ),
    (
        "oneOf by required keys",
        {"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "b": 1}],
    ),
    (
        "oneOf of overlapping numbers",
        {"oneOf": [{"type": "integer"}, {"minimum": 2, "type": "number"}]},
        [1, 2.5],
        [3, 1.5],
    ),
    ("not a value", {"type": "string", "not": {"enum": ["a", "b"]}}, ["c", ""], ["a", "b"]),
    (
        "not with a property",
        {"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a"]}},
        [{}, {"b": 1}],
        [{"a": 1}],
    ),
    (
        "if, then, else",
        {
            "type": "object",
            "properties": {"k": {"enum": ["x", "y"]}, "v": {}},
            "required": ["k", "v"],
            "if": {"properties": {"k": {"const": "x"}}},
            "then": {"properties": {"v": {"type": "null"}}},
            "else": {"properties": {"v": {"type": "integer"}}},
        },
        [{"k": "x", "v": None}, {"k": "y", "v": 1}],
        [{"k": "x", "v": 1}, {"k": "y", "v": None}],
    ),
    ("uniqueItems of one item", {"type": "array", "uniqueItems": True, "maxItems": 1}, [[], [1]], [[1, 1]]),
    (
        "uniqueItems of an enum",
        {"type": "array", "uniqueItems": True, "items": {"enum": ["a", 1, None]}, "minItems": 2},
        [["a", 1], [1, None, "a"]],
        [["a"], [1, 1], ["a", 1, "a"]],
    ),
    ("contains", {"type": "array", "contains": {"type": "null"}}, [[None], [1, None, 2]], [[], [1]]),
    (
        "contains that is counted, behind a tuple and with a bound of items",
        {
            "type": "array",
            "prefixItems": [{"type": "string"}],
            "contains": {"type": "integer"},
            "minContains": 1,
            "maxContains": 2,
            "maxItems": 4,
        },
        [["a", 1], ["a", 1, None, 2], ["a", None, 1]],
        [["a"], [1, 2], ["a", 1, 2, 3], ["a", 1, None, None, None], []],
    ),
    (
        "two kinds that are counted",
        {"allOf": [{"type": "array", "contains": {"minimum": 3}}, {"contains": {"multipleOf": 2}, "minContains": 2}]},
        [[2, 4], ["x", "y"], [4, 3, 2]],
        [[2, 2], [3, 2], []],
    ),
    ("distinct items of which one is wanted", {"uniqueItems": True, "contains": {"const": 1}}, [[2, 1]], [[2], [1, 1]]),
    (
        "not all items are strings",
        {"type": "array", "not": {"items": {"type": "string"}}},
        [[1], ["a", 1]],
        [[], ["a"]],
    ),
    (
        "not a tuple",
        {"type": "array", "not": {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}},
        [[1], ["a", "b"], ["a", 1, None]],
        [[], ["a"], ["a", 1]],
    ),
    (
        "some name is wanted",
        {"type": "object", "not": {"propertyNames": {"not": {"pattern": "4"}}}},
        [{"a4": 1}, {"b": 1, "4": 2}],
        [{}, {"a": 1}],
    ),
    (
        "some property is wanted, and there is room for one",
        {"type": "object", "maxProperties": 1, "not": {"patternProperties": {"a": {"not": {"type": "string"}}}}},
        [{"a": "x"}, {"ba": "x"}],
        [{}, {"a": 1}, {"b": "x"}, {"a": "x", "b": 1}],
    ),
    (
        "some undeclared property is no integer",
        {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}},
        [{"a": 1, "b": "x"}, {"b": None}],
        [{}, {"a": "x"}, {"b": 1}],
    ),
    ("not a whole value", {"not": {"const": [1, {"a": 2}]}}, [[1], [1, {"a": 3}], [1, {}]], [[1, {"a": 2}]]),
    ("no multiple", {"type": "number", "not": {"multipleOf": 3}}, [1, 2.5, -4], [3, 0, -6]),
    ("not a format", {"type": "string", "not": {"format": "ipv4"}}, ["1.2.3", "x"], ["1.2.3.4"]),
    (
        "not a format that others read more widely",
        {"type": "string", "not": {"format": "date-time"}},
        ["2024-01-01", "x"],
        ["2024-01-01T00:00:00Z", "1998-12-31T23:59:60Z"],
    ),
    (
        "oneOf of objects that a property without need tells apart, where it is there",
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"enum": [kind]}, kind: {"type": "integer"}, "size": {"minimum": 0}},
                    "additionalProperties": False,
                }
                for kind in "abcdefg"
            ]
        },
        [{"kind": "a", "a": 1}, {"kind": "g"}, {"a": 1, "size": 2}],
        [{}, {"size": 1}, {"kind": "a", "b": 1}, {"kind": "x"}, {"a": 1, "b": 1}],
    ),
    (
        "oneOf of required properties with values of their own",
        {
            "type": "object",
            "properties": dict.fromkeys("abcdefg", True),
            "oneOf": [
                {"properties": {name: {"type": "object", "required": ["k"]}}, "required": [name]} for name in "abcdefg"
            ],
        },
        [{"a": {"k": 1}}, {"a": {"k": 1}, "b": {}}, {"a": 1, "b": 2, "c": {"k": 3}}],
        [{}, {"a": {}}, {"a": {"k": 1}, "g": {"k": 1}}],
    ),
    (
        "distinct items behind a prefix of few values",
        {
            "type": "array",
            "prefixItems": [{"enum": ["a", "b"]}, {"enum": ["b", 1]}],
            "items": {"type": ["string", "integer"]},
            "uniqueItems": True,
            "minItems": 2,
            "maxItems": 4,
        },
        [["a", "b"], ["b", 1], ["a", 1, "b"], ["a", "b", 2, "c"], ["b", 1, 12]],
        [["b", "b"], ["a"], ["a", 1, "a"], ["a", 1, 1], ["a", "b", "c", "c"], ["a", "b", "c", "d", "e"]],
    ),
    (
        "a tuple of distinct items",
        {"type": "array", "prefixItems": [{"type": "boolean"}] * 2, "items": False, "uniqueItems": True},
        [[], [True], [False, True]],
        [[True, True], [True, False, 1]],
    ),
    (
        "what several branches evaluate, each of them that holds",
        {
            "properties": {"a": {"type": "string"}},
            "anyOf": [
                {"properties": {"b": {"const": 1}}, "required": ["b"]},
                {"patternProperties": {"^c": {"const": 2}}},
            ],
            "if": {"required": ["d"]},
            "then": {"properties": {"d": True, "e": True}},
            "not": {"not": {"properties": {"f": True}}},
            "unevaluatedProperties": {"type": "null"},
        },
        [{"b": 1}, {"b": 1, "c": 2}, {"a": "x", "d": 5, "e": 6}, {"f": None}, {"x": None, "c1": 2}],
        [{"b": 2}, {"f": 1}, {"e": 6}, {"a": 1}, {"b": 1, "x": 1}],
    ),
    (
        "what nested schemas leave unevaluated",
        {
            "$ref": "#/$defs/base",
            "properties": {"own": {}},
            "unevaluatedProperties": False,
            "$defs": {
                "base": {
                    "allOf": [{"properties": {"deep": {}}}],
                    "dependentSchemas": {"deep": {"properties": {"with": {}}}},
                }
            },
        },
        [{}, {"own": 1}, {"deep": 1, "with": 2}],
        [{"with": 2}, {"other": 1}],
    ),
    (
        "items that a contains or a prefix evaluates",
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}],
            "allOf": [{"contains": {"type": "string"}}],
            "unevaluatedItems": {"type": "null"},
        },
        [[1, "a"], [1, None, "a"], [1, "b", None]],
        [[1], [1, 2, "a"], ["a"], [1, None]],
    ),
    (
        "items of a tuple that an anyOf makes longer",
        {
            "prefixItems": [{"const": 1}],
            "anyOf": [{"prefixItems": [True, {"const": 2}]}, {"prefixItems": [True, True, {"const": 3}]}],
            "unevaluatedItems": False,
        },
        [[], [1], [1, 2], [1, 3], [1, 2, 3], [1, 5, 3], "text"],
        [[2], [1, 2, 4], [1, 5, 4], [1, 2, 3, 4]],
    ),
    (
        "none or both of a oneOf",
        {"type": "number", "not": {"oneOf": [{"type": "integer"}, {"minimum": 3}]}},
        [4, 1.5],
        [1, 3.5],
    ),
    (
        "not a condition",
        {"type": "integer", "not": {"if": {"minimum": 3}, "then": {"multipleOf": 2}, "else": {"maximum": 1}}},
        [3, 5, 2],
        [4, 1],
    ),
    (
        "unknown keywords and annotations",
        {"type": "null", "title": "x", "x-y": 1, "default": 3, "contentEncoding": "base64"},
        [None],
        [3],
    ),
]

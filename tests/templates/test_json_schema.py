"""JSON Schema forms, keyword by keyword: what they allow and what they do not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from json_schema_cases import CASES
from json_schema_tools import accepts, machine
from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    ValidationError,
    validators,
)

from fillengine.automata import nodes
from fillengine.templates import FormWarning, compile, reading, validator


@pytest.mark.parametrize(("schema", "good", "bad"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_keyword_allows_what_it_says(schema: Any, good: list[Any], bad: list[Any]) -> None:
    form = machine(schema)
    for value in good:
        assert form.accepts(json.dumps(value, ensure_ascii=False).encode()), value
    for value in bad:
        assert not form.accepts(json.dumps(value, ensure_ascii=False).encode()), value


def test_references_resolve_by_pointer_anchor_and_identifier() -> None:
    schema = {
        "$id": "https://example.org/root.json",
        "type": "array",
        "prefixItems": [
            {"$ref": "#/$defs/with~1slash~0tilde%25percent"},
            {"$ref": "#named"},
            {"$ref": "inner.json"},
            {"$ref": "inner.json#/$defs/deep"},
        ],
        "minItems": 4,
        "items": False,
        "$defs": {
            "with/slash~tilde%percent": {"const": 1},
            "other": {"$anchor": "named", "const": 2},
            "inner": {"$id": "inner.json", "$ref": "#/$defs/own", "$defs": {"own": {"const": 3}, "deep": {"const": 4}}},
        },
    }
    assert accepts(schema, [1, 2, 3, 4])
    assert not accepts(schema, [1, 2, 3, 3])


def test_a_dynamic_reference_leads_to_the_outermost_anchor() -> None:
    tree = {
        "$id": "tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"data": {}, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    }
    strict = {"$id": "strict", "$dynamicAnchor": "node", "$ref": "tree", "$defs": {"tree": tree}, "required": ["data"]}
    assert accepts(strict, {"data": 1, "children": [{"data": 2}]})
    assert not accepts(strict, {"data": 1, "children": [{}]})
    assert accepts(tree, {"children": [{"children": []}]})
    assert not accepts(tree, {"children": [1]})


def test_a_recursive_reference_leads_to_its_own_resource_or_the_outermost_that_says_so() -> None:
    draft = "https://json-schema.org/draft/2019-09/schema"
    for marks in ({}, {"$recursiveAnchor": True}):
        schema = {"$schema": draft, **marks, "type": "array", "items": {"$recursiveRef": "#"}}
        assert accepts(schema, [[], [[]]])
        assert not accepts(schema, [1])


def test_the_order_of_definitions_does_not_matter() -> None:
    definitions = {
        "A": {"properties": {"q": {"$ref": "#/$defs/E"}}, "required": ["q"], "type": "object"},
        "E": {"enum": ["on"]},
    }
    for defs in (definitions, dict(reversed(definitions.items()))):
        schema = {"$defs": defs, "$ref": "#/$defs/A"}
        assert accepts(schema, {"q": "on"})
        assert not accepts(schema, {"q": {}})


def test_recursion_nests_as_deep_as_the_text_does() -> None:
    schema = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "required": ["kids"]}
    value: Any = {"kids": []}
    for _ in range(50):
        value = {"kids": [value, {"kids": []}]}
    assert accepts(schema, value)
    assert not accepts(schema, {"kids": [{"kids": [1]}]})


def test_siblings_of_a_reference_count_since_draft_2019_and_not_before() -> None:
    schema = {"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "maxLength": 1}
    assert not accepts(schema, "ab")
    assert accepts({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, "ab")


def test_undeclared_properties_are_closed_unless_the_schema_describes_them() -> None:
    plain = {"type": "object", "properties": {"a": {"type": "null"}}}
    assert not accepts(plain, {"b": 1})
    assert accepts(plain, {"b": 1}, additional="schema")
    assert accepts({**plain, "additionalProperties": True}, {"b": 1})
    assert not accepts({**plain, "additionalProperties": False}, {"b": 1}, additional="schema")
    assert accepts({"type": "object"}, {"b": 1})
    assert not accepts({"type": "object", "properties": {}}, {"b": 1})


def test_an_additional_key_is_no_declared_one_however_it_is_spelled() -> None:
    form = machine(
        {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": {"type": "integer"}}
    )
    assert form.accepts(b'{"b": null, "bb": 1}')
    for text in (b'{"b": 1}', b'{"\\u0062": 1}', b'{"a": 1, "b": 1}'):
        assert not form.accepts(text)


def test_properties_come_in_declared_order_then_required_ones_then_others() -> None:
    schema = {"type": "object", "required": ["z", "a"], "properties": {"b": {}, "a": {}}, "additionalProperties": {}}
    assert accepts(schema, {"b": 1, "a": 1, "z": 1, "c": 1})
    assert not accepts(schema, {"a": 1, "b": 1, "z": 1})


def test_base_schemas_that_stand_first_are_written_first() -> None:
    base = {"$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}}}
    own = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert accepts({**base, "allOf": [{"$ref": "#/$defs/base"}], **own}, {"id": 1, "name": "x"})
    assert accepts({**base, **own, "allOf": [{"$ref": "#/$defs/base"}]}, {"name": "x", "id": 1})


def test_an_optional_part_without_values_is_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 2, "maxLength": 1},
            "b": {"anyOf": [False, {"type": "null"}]},
        },
    }
    assert accepts(schema, {"b": None})
    assert not accepts(schema, {"a": ""})


def test_a_discriminator_makes_its_tag_required() -> None:
    branch = {"type": "object", "additionalProperties": False}
    branches = [{**branch, "properties": {"t": {"const": t, "default": t}, "n": {"type": "integer"}}} for t in "ab"]
    schema = {"oneOf": branches, "discriminator": {"propertyName": "t"}}
    assert accepts(schema, {"t": "a", "n": 1})
    assert not accepts(schema, {"n": 1})


@pytest.mark.parametrize("style", ["spaced", "compact", "indented", "any"])
def test_a_style_writes_the_white_space_that_json_dumps_writes(style: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "empty": {"type": "array"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            "constant": {"const": {"k": [1, 2], "e": {}}},
            "free": {},
            "tuple": {"type": "array", "prefixItems": [{"type": "integer"}]},
        },
    }
    value = {
        "empty": [],
        "list": [{}, {"a": 1}],
        "constant": {"k": [1, 2], "e": {}},
        "free": [{"x": []}, {}],
        "tuple": [1],
    }
    texts = {
        "spaced": json.dumps(value),
        "compact": json.dumps(value, separators=(",", ":")),
        "indented": json.dumps(value, indent=2),
    }
    form = machine(schema, style=style)
    for name, text in texts.items():
        constant_is_spaced = name == "spaced" or '"constant"' not in text
        assert form.accepts(text.encode()) == (name == style or (style == "any" and constant_is_spaced))
    del value["constant"]
    if style == "any":
        assert form.accepts(json.dumps(value, indent=4).encode())
        assert form.accepts(json.dumps(value, separators=(" ,\t", "\n:")).encode())
        assert not form.accepts(json.dumps(value, indent=50).encode())


def test_scaffolding_is_one_literal_and_holes_are_labelled_by_their_place() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b/c": {"type": "string"}}, "required": ["b/c"]},
            "l": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["a", "l"],
    }
    root = compile(schema).template.root
    assert isinstance(root, nodes.Sequence)
    literals = [item.text for item in root.items if isinstance(item, nodes.Literal)]
    assert literals == [b'{"a": {"b/c": ', b'}, "l": [', b"]}"]
    hole, items = root.items[1], root.items[3]
    assert isinstance(hole, nodes.Pattern)
    assert hole.label == "/a/b~1c"
    assert isinstance(items, nodes.Repeat)
    assert items.label == "/l"
    assert isinstance(items.item, nodes.Pattern)
    assert items.item.label == "/l/*"


def test_enums_are_spelled_as_json_dumps_spells_them() -> None:
    form = machine({"enum": ["北京", "tab\t", 'q"', 1.5, -0.0, 1e30, "\ud800"]})
    for text in ('"北京"', '"tab\\t"', '"q\\""', "1.5", "-0.0", "1e+30", '"\\ud800"'):
        assert form.accepts(text.encode()), text
    assert not form.accepts(b'"\\u5317\\u4eac"')


def test_an_unknown_format_is_passed_over_with_one_warning() -> None:
    with pytest.warns(FormWarning, match="no-such-format-1"):
        assert accepts({"type": "string", "format": "no-such-format-1"}, "anything")
    assert accepts({"type": "string", "format": "no-such-format-1"}, "anything")
    assert accepts({"type": "integer", "format": "no-such-format-2"}, 1)


@pytest.mark.parametrize(
    ("draft", "keyword", "schema"),
    [
        ("http://json-schema.org/draft-04/schema#", "if", {"if": {"type": "object"}, "then": {"required": ["a"]}}),
        ("http://json-schema.org/draft-06/schema#", "if", {"if": {"type": "object"}, "then": {"required": ["a"]}}),
        ("http://json-schema.org/draft-04/schema#", "const", {"const": 1}),
        ("http://json-schema.org/draft-04/schema#", "propertyNames", {"propertyNames": False}),
        ("http://json-schema.org/draft-07/schema#", "prefixItems", {"properties": {"b": {"prefixItems": [False]}}}),
        ("http://json-schema.org/draft-07/schema#", "dependentRequired", {"dependentRequired": {"b": ["a"]}}),
        ("https://json-schema.org/draft/2020-12/schema", "$recursiveRef", {"$recursiveRef": "#nowhere"}),
    ],
)
def test_a_keyword_that_the_named_draft_does_not_know_is_an_annotation(draft: str, keyword: str, schema: Any) -> None:
    reading._passed_over.clear()
    value = {"b": [1]}
    with pytest.warns(FormWarning, match=re.escape(repr(keyword))):
        assert accepts({"$schema": draft, **schema}, value, additional="schema")
    judge = validators.validator_for({"$schema": draft})
    assert judge({"$schema": draft, **schema}).is_valid(value)


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", None])
def test_a_keyword_counts_where_the_draft_knows_it_or_none_is_named(draft: str | None) -> None:
    schema = {"if": {"type": "object"}, "then": {"required": ["a"]}}
    assert not accepts({"$schema": draft, **schema} if draft else schema, {"b": 1}, additional="schema")


def test_each_keyword_has_the_drafts_that_jsonschema_gives_it() -> None:
    judges = {4: Draft4Validator, 6: Draft6Validator, 7: Draft7Validator, 2019: Draft201909Validator}
    judges[2020] = Draft202012Validator
    for keyword in reading.DRAFTS_OF.keys() - {"minContains", "maxContains"}:  # it reads these with contains
        known = [draft for draft, judge in judges.items() if keyword in judge.VALIDATORS]
        assert reading.DRAFTS_OF[keyword] == (known[0], known[-1]), keyword


def test_a_form_knows_its_schema_and_judges_texts() -> None:
    form = compile('{"title": "T", "type": "object", "properties": {"d": {"type": "string", "format": "date"}}}')
    assert (form.title, form.source) == ("T", None)
    assert form.parse('{"d": "2024-02-29"}') == {"d": "2024-02-29"}
    form.validate('{"d": "2024-02-29"}')
    with pytest.raises(Exception, match="is not a 'date'"):
        form.validate('{"d": "2024-02-30"}')


def test_a_form_is_judged_by_the_draft_that_it_is_written_in() -> None:
    old = compile({"type": "array", "items": [{"type": "string"}], "additionalItems": False})
    old.validate('["a"]')
    with pytest.raises(Exception, match="Additional items"):
        old.validate('["a", 1]')


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"not": {"type": "array", "items": {"type": "string"}}}, [[1], ["a", 1], 3, {}], [[], ["a"]]),
        (
            {"oneOf": [{"type": "array"}, {"type": "array", "items": {"type": "string"}}]},
            [[1], ["a", 1]],
            [[], ["a"], 3],
        ),
        (
            {
                "type": "array",
                "if": {"items": {"type": "string"}},
                "then": {"maxItems": 1},
                "else": {"minItems": 2},
            },
            [[], ["a"], ["a", 1]],
            [["a", "b"], [1]],
        ),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, [[], ["a", "b"]], [["a", "a"]]),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [[1, 12, 2]], [[1, 12, 1]]),
        (
            {"type": "array", "items": {"enum": list(range(20))}, "uniqueItems": True, "minItems": 3},
            [[1, 12, 2]],
            [[1, 12], [1, 2, 1]],
        ),
        (
            {
                "type": "array",
                "uniqueItems": True,
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            },
            [[{"a": "x"}, {"a": "y"}, {"a": "x", "b": 1}]],
            [[{"a": "x"}, {"a": "x"}]],
        ),
        (
            {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
            [{"a": 1, "b": 2}],
            [{}, {"a": 1}],
        ),
    ],
)
def test_what_takes_a_memory_is_compared_as_it_is_written(schema: Any, good: list[Any], bad: list[Any]) -> None:
    form = machine(schema)
    for value in good:
        assert form.accepts(json.dumps(value).encode()), value
    for value in bad:
        assert not form.accepts(json.dumps(value).encode()), value


def test_properties_come_in_any_order_where_that_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a"]}
    for value in ({"b": None, "a": None}, {"a": None, "b": None}, {"a": None}):
        assert accepts(schema, value, order="any")
    assert not accepts(schema, {"b": None}, order="any")
    assert not accepts(schema, {"b": None, "a": None})
    assert not machine(schema, order="any").accepts(b'{"a": null, "a": null}')


def test_a_value_that_is_nested_too_deeply_to_be_judged_is_a_recursion_error(monkeypatch: pytest.MonkeyPatch) -> None:
    form = compile({"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}})
    with pytest.raises(RecursionError):
        form.validate("[" * 500 + "]" * 500)

    class PanicException(BaseException):
        """What jsonschema's maps raise where the stack ends within them."""

    def panic(*_: object) -> None:
        raise PanicException("__eq__ failed!")

    monkeypatch.setattr(validator._VALIDATORS[2020], "validate", panic)
    with pytest.raises(RecursionError, match="nested too deeply to be judged"):
        form.validate("[]")


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"^\S+$", "\x1f", " "),
        (r"^.{0,8}$", "abc", "abc\n"),
        (r"^\d+$", "12", "\u0661"),
        (r"^\w$", "a", "\u00e9"),
    ],
)
def test_a_pattern_is_judged_as_ecma_262_has_it(pattern: str, fitting: str, other: str) -> None:
    form = compile({"type": "string", "pattern": pattern})
    form.validate(json.dumps(fitting))
    with pytest.raises(ValidationError, match="does not match"):
        form.validate(json.dumps(other))

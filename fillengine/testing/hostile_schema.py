"""JSON Schemas that nobody should write: any keywords together, and single sources of trouble."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "kind", 'q"\\é')
SCALARS = st.sampled_from([None, True, False, 0, 1, -3, 2.5, "", "x", "kind", "é\n"])
SMALL = st.integers(0, 3)

BOMBS: tuple[Any, ...] = (
    {"type": "string", "pattern": "^(a|a)*b$"},
    {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"},
    {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
    {"type": "string", "minLength": 300, "maxLength": 100_000},
    {"type": "integer", "minimum": -(10**18), "exclusiveMaximum": 10**18 + 1, "multipleOf": 7},
    {"type": "number", "multipleOf": 0.01, "minimum": 1e-9, "maximum": 1e9},
    {"enum": [f"member {number}" for number in range(300)]},
    {"$ref": "#"},
    {"$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}, "$ref": "#/$defs/x"},
    {"$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}, "minItems": 1}}, "$ref": "#/$defs/x"},
    {"type": "array", "items": {"type": "array", "items": {"enum": [0, 1]}, "uniqueItems": True}, "uniqueItems": True},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}, {"multipleOf": 3}]},
    {"not": {"not": {"type": "object", "required": ["a"]}}},
    {"type": "object", "additionalProperties": {"$ref": "#"}, "maxProperties": 2},
    {"type": "object", "patternProperties": {"a": {"minimum": 3}, "b": {"maximum": 5}}},
    {"enum": []},
    {"type": "string", "minLength": 5, "maxLength": 3},
)


def parts(children: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """A strategy for the value of each keyword, over strategies of subschemas."""
    names = st.sampled_from(NAMES)
    some = st.lists(children, min_size=1, max_size=2)
    types = ["object", "array", "string", "integer", "number", ["string", "null"], ["object", "array"]]
    return {
        "type": st.sampled_from(types),
        "properties": st.dictionaries(names, children, max_size=3),
        "required": st.lists(names, unique=True, max_size=2),
        "additionalProperties": children,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "."]), children, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 3}, {"pattern": "^[a-k]"}, {"enum": ["a", "kind"]}]),
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2), max_size=1),
        "items": children,
        "prefixItems": st.lists(children, min_size=1, max_size=2),
        "minItems": SMALL,
        "uniqueItems": st.sampled_from([True]),
        "maxItems": SMALL,
        "minLength": SMALL,
        "maxLength": SMALL,
        "pattern": st.sampled_from(["^a", "b", "^[ab]{2}", "é"]),
        "format": st.sampled_from(["date", "ipv4"]),
        "minimum": st.sampled_from([-3, 0, 1.5]),
        "exclusiveMaximum": st.sampled_from([0, 2.5, 7]),
        "multipleOf": st.sampled_from([1, 2, 3]),
        "enum": st.lists(SCALARS, min_size=1, max_size=3),
        "const": SCALARS,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": children,
        "if": children,
        "then": children,
        "else": children,
    }


@st.composite
def few(draw: st.DrawFn, children: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Two to four keywords, sensible together or not: with more, most schemas have no instance."""
    known = parts(children)
    keys = draw(st.lists(st.sampled_from(sorted(known)), min_size=2, max_size=4, unique=True))
    return {key: draw(known[key]) for key in keys}


_REFS: st.SearchStrategy[Any] = st.sampled_from(
    [{"$ref": "#"}, {"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}, True, False, {}]
)
_SCHEMAS = few(few(_REFS) | _REFS) | _REFS


def any_schemas() -> st.SearchStrategy[Any]:
    """Keywords at random, with references in circles. Most can be honoured, many have no instance."""
    return st.fixed_dictionaries({"x": _SCHEMAS, "y": _SCHEMAS, "root": few(_SCHEMAS)}).map(
        lambda parts: {**parts["root"], "$defs": {"x": parts["x"], "y": parts["y"]}}
    )


def hostile_schemas() -> st.SearchStrategy[Any]:
    """`any_schemas`, and schemas that are known for trouble."""
    return st.one_of(any_schemas(), st.sampled_from(BOMBS))

"""`unevaluatedProperties` and `unevaluatedItems`, said without looking at other schemas.

In a flat conjunction it is known which schemas apply to a value in place, and so which properties and items they
evaluate. What is left is an `additionalProperties` or an `items` behind all of these:

    {"properties": {"a": A}, "allOf": [{"properties": {"b": B}}], "unevaluatedProperties": S}
    is    {"properties": {"a": A}}, {"properties": {"b": B}}
    and   {"properties": {"a": {}, "b": {}}, "additionalProperties": S}

An item that fits a `contains` is evaluated too: items are of any of these kinds, or S.

An alternative that says nothing of a schema which holds too leaves more unevaluated than there is, and so allows less:
whatever it allows is right, and another alternative allows the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fillengine.templates.schema import Arrays, Logic, Objects, Schema


def looks_around(schema: Schema) -> bool:
    """Whether a schema restricts what other schemas, that apply in place, leave unevaluated."""
    arrays, objects = schema.arrays, schema.objects
    if arrays is not None and arrays.unevaluated_items is not None:
        return True
    if objects is None or objects.unevaluated_properties is None:
        return False
    # Beside keywords of its own alone it is as additionalProperties.
    return schema.logic is not None or objects.dependent_schemas is not None


def settled(owner: Schema, applied: Iterable[Schema]) -> tuple[Schema, Schema]:
    """A schema that looks around without the keywords that do, and what these say beside the schemas `applied`."""
    applied = tuple(applied)
    arrays, objects = owner.arrays, owner.objects
    rest_objects = rest_arrays = None
    if objects is not None and objects.unevaluated_properties is not None:
        rest_objects = _properties(owner, objects, applied)
        objects = replace(objects, unevaluated_properties=None)
    if arrays is not None and arrays.unevaluated_items is not None:
        rest_arrays = _items(owner, arrays, applied)
        arrays = replace(arrays, unevaluated_items=None)
    rest = Schema(owner.pointer, owner.resource, objects=rest_objects, arrays=rest_arrays)
    return replace(owner, objects=objects, arrays=arrays), rest


def _properties(owner: Schema, objects: Objects, applied: tuple[Schema, ...]) -> Objects | None:
    """None: all properties are evaluated."""
    names: dict[str, None] = {}
    patterns: dict[str, None] = {}
    for schema in applied:
        other = schema.objects
        if other is None or other.derived:
            continue
        if other.additional is not None or (schema is not owner and other.unevaluated_properties is not None):
            return None
        names.update(dict.fromkeys(other.properties or ()))
        patterns.update(dict.fromkeys(other.pattern_properties or ()))
    anything = Schema(owner.pointer, owner.resource)
    return Objects(
        properties=dict.fromkeys(names, anything),
        pattern_properties=dict.fromkeys(patterns, anything) or None,
        additional=objects.unevaluated_properties,
        derived=True,
    )


def _items(owner: Schema, arrays: Arrays, applied: tuple[Schema, ...]) -> Arrays | None:
    """None: all items are evaluated."""
    length = 0
    for schema in applied:
        other = schema.arrays
        if other is None:
            continue
        if other.items is not None or (schema is not owner and other.unevaluated_items is not None):
            return None
        length = max(length, len(other.prefix))
    anything = Schema(owner.pointer, owner.resource)
    rest = arrays.unevaluated_items
    contained = [schema.arrays.evaluates for schema in applied if schema.arrays is not None]
    either = tuple(item for item in contained if item is not None)
    if either and rest is not None:
        logic = Logic(any_of=(*either, rest), derived=True)
        rest = Schema(f"{owner.pointer}/unevaluatedItems", owner.resource, logic=logic)
    return Arrays(prefix=(anything,) * length, items=rest)

"""Looking into a JSON Schema for people: what is behind references, which properties there are.

Only for texts (prompts, displays). What a schema *means* is the business of `fillengine.templates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def hint_at(schema: Any, pointer: str) -> str:
    """What a schema calls the value at a place ("/items/*/date"): its `format`, or the range of a number.

    "date", "from 1 to 500", "" where the schema says nothing of the kind.
    """
    root = schema if isinstance(schema, Mapping) else {}
    found = [resolved(root, root)]
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = [inner for place in found for inner in _below(place, key, root)]
    hints = [_hint(option) for place in found for option in (place, *options(place, root))]
    return next(filter(None, hints), "")


def _hint(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("format"), str):
        return str(schema["format"])
    low, high = schema.get("minimum"), schema.get("maximum")
    parts = ([] if low is None else [f"from {low}"]) + ([] if high is None else [f"to {high}"])
    return " ".join(parts)


def _below(schema: Mapping[str, Any], key: str, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for place in (schema, *options(schema, root)):
        inner = place.get("items") if key == "*" else properties(place, root).get(key)
        if inner is not None:
            yield resolved(inner, root)


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Behind local references; {} where there is nothing to say (booleans, references to elsewhere)."""
    for _ in range(16):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = _at(root, reference)
    return {}


def _at(root: Mapping[str, Any], reference: str) -> Any:
    if not reference.startswith("#"):
        return {}
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found


def properties(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an object, those of its `allOf` included: name to schema."""
    merged: dict[str, Any] = {}
    for part in schema.get("allOf", ()):
        merged.update(properties(resolved(part, root), root))
    own = schema.get("properties", {})
    if isinstance(own, Mapping):
        merged.update(own)
    return merged


def options(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What `anyOf` or `oneOf` offers; [] where there is none."""
    return [resolved(option, root) for option in schema.get("anyOf") or schema.get("oneOf") or []]

"""Reading a JSON Schema, one level at a time.

Reading never recurses, and unused definitions are free. Annotations and unknown keywords are passed over. In
drafts 4 to 7 the siblings of `$ref` are too, as those drafts say. A keyword that the draft named by `$schema` does
not know is an unknown one: `if` in draft 4 (with a warning). Where `$schema` names none, all are honoured.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.references import Resource, resource_of
from fillengine.templates.scalars import FormWarning
from fillengine.templates.schema import (
    ATOMS,
    Arrays,
    Contains,
    Logic,
    Numbers,
    Objects,
    Place,
    Schema,
    Source,
    Strings,
    escape,
    identity,
)

TEXT_LIMIT = 100_000
"""Bytes of one value or name that stands in the schema. What is forced is remembered byte by byte, and so much is
more than most models can write."""


ALIKE_PARTS, ALIKE_DEPTH = 10_000, 100
"""Of schemas that are compared word by word."""


class Reader:
    """Reads the places of one document; remembers each."""

    def __init__(self, document: Any) -> None:
        self.resource = resource_of(document)
        self._raws: dict[Schema, Any] = {}
        self._texts: dict[Schema, str | None] = {}
        self.root = self.read(Place(document, "", self.resource))

    @property
    def dialect(self) -> int:
        """The draft to judge by: the one that `$schema` names, else 2020-12, unless what was read is older."""
        return self.resource.draft if self.resource.names_draft else self.resource.oldest

    def read(self, place: Source) -> Schema:
        if isinstance(place, Schema):
            return place
        if isinstance(place.raw, bool):
            return _read(place)
        known: Schema | None = place.resource.records.get(id(place.raw))
        if known is None:
            known = place.resource.records[id(place.raw)] = _read(place)
            self._raws[known] = place.raw
        return known

    def are_alike(self, a: Schema, b: Schema) -> bool:
        """Whether the document says the same in two places, word by word. Large schemas are alike only to themselves:
        many pairs are compared, and each comparison must be short."""
        if a is b:
            return True
        if a.resource is not b.resource:
            return False
        text = self._text(a)
        return text is not None and text == self._text(b)

    def _text(self, schema: Schema) -> str | None:
        """What a schema says, for comparison; it tells `true` from `1`. None for one that is large, or stands in no
        document."""
        if schema not in self._texts:
            raw = self._raws.get(schema)
            try:
                self._texts[schema] = None if raw is None or _is_large(raw) else json.dumps(raw, sort_keys=True)
            except TypeError:  # an annotation that is no JSON: never mind
                self._texts[schema] = None
        return self._texts[schema]

    def followed(self, schema: Schema) -> list[Schema]:
        """The schemas that `$ref`, `$dynamicRef` and `$recursiveRef` in `schema` name."""
        logic = schema.logic
        assert logic is not None
        found = []
        if logic.ref is not None:
            found.append(schema.resource.lookup(logic.ref, f"{schema.pointer}/$ref"))
        if logic.dynamic_ref is not None:
            keyword, reference = logic.dynamic_ref
            found.append(schema.resource.lookup_dynamic(reference, keyword, schema.pointer))
        return [self.read(Place(*target)) for target in found]


def _is_large(raw: Any) -> bool:
    """Whether a schema has more parts, or nests deeper, than is compared."""
    work, num_parts = [(raw, 0)], 0
    while work:
        value, depth = work.pop()
        if not isinstance(value, dict | list):
            continue
        num_parts += len(value)
        if num_parts > ALIKE_PARTS or depth > ALIKE_DEPTH:
            return True
        work += [(part, depth + 1) for part in (value.values() if isinstance(value, dict) else value)]
    return False


def _read(place: Place) -> Schema:
    raw, pointer, resource = place
    if raw is True:
        return Schema(pointer, resource)
    if raw is False:
        return Schema(pointer, resource, never=True)
    if not isinstance(raw, dict):
        raise InvalidForm(
            f"a schema is an object or a boolean, this is {_shown(raw)}",
            pointer=pointer,
            remedy="write a schema here",
        )
    if resource.root is not raw:
        resource = resource.inside(raw)
    if "$ref" in raw and resource.draft <= 7:
        raw = {key: raw[key] for key in raw if key in ("$ref", "x-fill")}
    elif resource.names_draft and not raw.keys().isdisjoint(_unknown_to(resource.draft)):
        raw = _known(raw, resource.draft)
    keywords = _Keywords(raw, pointer, resource)
    parts: dict[str, Any] = {}
    for key in raw:
        part = KEYWORDS.get(key)
        if part is not None and part not in parts:
            parts[part] = _READERS[part](keywords)
    return Schema(pointer, resource, **parts)


@lru_cache(maxsize=8)
def _unknown_to(draft: int) -> frozenset[str]:
    """The keywords that a draft does not have and never had."""
    return frozenset(key for key, (first, last) in DRAFTS_OF.items() if not first <= draft <= last)


_passed_over: set[tuple[str, int]] = set()


def _known(raw: dict[str, Any], draft: int) -> dict[str, Any]:
    """A schema without the keywords that its draft does not know; a warning the first time for each."""
    unknown = _unknown_to(draft)
    for key in raw:
        if key in unknown and (key, draft) not in _passed_over:
            _passed_over.add((key, draft))
            message = f"{key!r} is no keyword of the draft that $schema names and constrains nothing"
            warnings.warn(message, FormWarning, stacklevel=2)
    return {key: value for key, value in raw.items() if key not in unknown}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Keywords:
    """The keywords of one schema object, each asked for with the type that it must have."""

    __slots__ = ("pointer", "raw", "resource")

    def __init__(self, raw: dict[str, Any], pointer: str, resource: Resource) -> None:
        self.raw, self.pointer, self.resource = raw, pointer, resource

    def wrong(self, key: str, expected: str) -> InvalidForm:
        return InvalidForm(
            f"{key} must be {expected}, not {_shown(self.raw[key])}", pointer=f"{self.pointer}/{escape(key)}"
        )

    def count(self, key: str) -> int | None:
        """A non-negative integer (2.0 is one)."""
        value = self.raw.get(key)
        if value is None and key not in self.raw:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or value < 0:
            raise self.wrong(key, "a non-negative integer")
        return value

    def number(self, key: str) -> int | float | None:
        if key not in self.raw:
            return None
        value = self.raw[key]
        if type(value) not in (int, float) or not isfinite(value):
            raise self.wrong(key, "a number")
        return value  # type: ignore[no-any-return]

    def text(self, key: str) -> str | None:
        if key not in self.raw:
            return None
        value = self.raw[key]
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        if key not in self.raw:
            return ()
        return self.name_list(self.raw[key], key)

    def name_list(self, value: Any, key: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(key, "an array of strings")
        for number, name in enumerate(value):
            self.check_name(name, number, key)
        return tuple(dict.fromkeys(value))

    def check_name(self, name: str, number: int, key: str) -> None:
        if len(name) > TEXT_LIMIT:
            raise UnsupportedForm(
                f"name {number} is {len(name)} characters long, the limit is {TEXT_LIMIT}",
                keyword=key,
                pointer=f"{self.pointer}/{key}",
                remedy="use a shorter one",
            )

    def place(self, key: str) -> Place | None:
        if key not in self.raw:
            return None
        return Place(self.raw[key], f"{self.pointer}/{key}", self.resource)

    def places(self, key: str) -> tuple[Place, ...]:
        if key not in self.raw:
            return ()
        value = self.raw[key]
        if not isinstance(value, list):
            raise self.wrong(key, "an array of schemas")
        return tuple(Place(item, f"{self.pointer}/{key}/{number}", self.resource) for number, item in enumerate(value))

    def table(self, key: str) -> dict[str, Place] | None:
        if key not in self.raw:
            return None
        value = self.raw[key]
        if not isinstance(value, dict):
            raise self.wrong(key, "an object of schemas")
        base, resource = f"{self.pointer}/{key}/", self.resource
        places = {}
        for number, (name, item) in enumerate(value.items()):
            if type(name) is not str:
                raise InvalidForm(f"property names are strings, not {_shown(name)}", pointer=base[:-1])
            self.check_name(name, number, key)
            places[name] = Place(item, base + escape(name), resource)
        return places


def _types(k: _Keywords) -> frozenset[str]:
    value = k.raw["type"]
    if type(value) is str and value in ATOMS:
        return ATOMS[value]
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name in ATOMS for name in names):
        raise k.wrong("type", f"one of {', '.join(ATOMS)}, or an array of them")
    return frozenset().union(*(ATOMS[name] for name in names))


def _values(k: _Keywords) -> tuple[Any, ...]:
    raw = k.raw
    if "enum" not in raw:
        _check_json(k, "const", (raw["const"],))
        _check_size(k, "const", raw["const"], f"{k.pointer}/const")
        return (raw["const"],)
    if not isinstance(raw["enum"], list):
        raise k.wrong("enum", "an array of values")
    values = tuple(raw["enum"])
    _check_json(k, "enum", values)
    for number, value in enumerate(values):
        _check_size(k, "enum", value, f"{k.pointer}/enum/{number}")
    if "const" in raw:
        const = identity(raw["const"])
        values = tuple(value for value in values if identity(value) == const)
    return values


def _check_json(k: _Keywords, key: str, values: tuple[Any, ...]) -> None:
    if all(type(value) is str for value in values):
        return
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidForm(f"{key} holds what JSON cannot write ({error})", pointer=f"{k.pointer}/{key}") from error


def _check_size(k: _Keywords, key: str, value: Any, pointer: str) -> None:
    if type(value) is str and 6 * len(value) < TEXT_LIMIT:  # at most six bytes a character, as \u001f
        return
    size = len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > TEXT_LIMIT:
        raise UnsupportedForm(
            f"this value takes {size} bytes to write, the limit is {TEXT_LIMIT}",
            keyword=key,
            pointer=pointer,
            remedy="leave it out, or let a short name stand for it",
        )


def _numbers(k: _Keywords) -> Numbers:
    minimum, maximum = k.number("minimum"), k.number("maximum")
    bounds: list[int | float | None] = []
    for key, inclusive in (("exclusiveMinimum", minimum), ("exclusiveMaximum", maximum)):
        value = k.raw.get(key)
        if isinstance(value, bool):  # draft 4: it turns the bound beside it into an exclusive one
            k.resource.note_draft(4)
            bounds.append(inclusive if value else None)
        else:
            bounds.append(k.number(key))
    multiple_of = k.number("multipleOf")
    if multiple_of is not None and multiple_of <= 0:
        raise k.wrong("multipleOf", "above 0")
    return Numbers(minimum, maximum, bounds[0], bounds[1], multiple_of)


def _strings(k: _Keywords) -> Strings:
    return Strings(k.count("minLength") or 0, k.count("maxLength"), k.text("pattern"), k.text("format"))


def _arrays(k: _Keywords) -> Arrays:
    prefix, items = k.places("prefixItems"), None
    if isinstance(k.raw.get("items"), list):
        if k.resource.draft >= 2020 and k.resource.names_draft:
            raise k.wrong("items", "a schema in draft 2020-12 (prefixItems takes an array)")
        k.resource.note_draft(7)
        prefix, items = k.places("items"), k.place("additionalItems")
    else:
        items = k.place("items")
    unique = k.raw.get("uniqueItems", False)
    if not isinstance(unique, bool):
        raise k.wrong("uniqueItems", "a boolean")
    return Arrays(
        prefix,
        items,
        k.count("minItems") or 0,
        k.count("maxItems"),
        unique,
        _contains(k),
        k.place("unevaluatedItems"),
        k.place("contains") if k.resource.draft >= 2020 else None,
    )


def _contains(k: _Keywords) -> tuple[Contains, ...]:
    item, low, high = k.place("contains"), k.count("minContains"), k.count("maxContains")
    if item is None or (low == 0 and high is None):
        return ()
    return (Contains(item, 1 if low is None else low, high),)


def _objects(k: _Keywords) -> Objects:
    raw = k.raw
    needs: dict[str, tuple[str, ...]] = {}
    schemas = dict(k.table("dependentSchemas") or {})
    for key in ("dependentRequired", "dependencies"):
        if key not in raw:
            continue
        if not isinstance(raw[key], dict):
            raise k.wrong(key, "an object")
        if key == "dependencies":
            k.resource.note_draft(7)
        for name, value in raw[key].items():
            if key == "dependencies" and isinstance(value, dict | bool):
                schemas[name] = Place(value, f"{k.pointer}/dependencies/{escape(name)}", k.resource)
            elif key == "dependencies" and isinstance(value, str):  # draft 3 wrote a single name
                needs[name] = (value,)
            else:
                needs[name] = needs.get(name, ()) + k.name_list(value, key)
    return Objects(
        k.table("properties"),
        k.table("patternProperties"),
        k.place("additionalProperties"),
        k.names("required"),
        k.place("propertyNames"),
        k.count("minProperties") or 0,
        k.count("maxProperties"),
        needs or None,
        schemas or None,
        k.place("unevaluatedProperties"),
    )


def _logic(k: _Keywords) -> Logic | None:
    raw = k.raw
    keys = [key for key in raw if key in ("$ref", "allOf", "properties")]
    discriminator = raw.get("discriminator")
    tag = discriminator.get("propertyName") if isinstance(discriminator, dict) else None
    for key in ("anyOf", "oneOf"):
        if raw.get(key) == []:
            raise k.wrong(key, "a non-empty array of schemas")
    return Logic(
        k.text("$ref"),
        _dynamic_ref(k),
        k.places("allOf"),
        k.places("anyOf"),
        k.places("oneOf"),
        k.place("not"),
        k.place("if"),
        k.place("then") if "if" in raw else None,
        k.place("else") if "if" in raw else None,
        tag if isinstance(tag, str) else None,
        bool(keys) and keys[0] != "properties",
    )


def _dynamic_ref(k: _Keywords) -> tuple[str, str] | None:
    for keyword in ("$dynamicRef", "$recursiveRef"):
        reference = k.text(keyword)
        if reference is not None:
            return keyword, reference
    return None


def _fill(k: _Keywords) -> str:
    value = k.raw["x-fill"]
    if value not in ("verbatim", "free"):
        raise k.wrong("x-fill", '"verbatim" or "free"')
    return str(value)


_READERS: Mapping[str, Any] = {
    "types": _types,
    "values": _values,
    "numbers": _numbers,
    "strings": _strings,
    "arrays": _arrays,
    "objects": _objects,
    "logic": _logic,
    "fill": _fill,
}

KEYWORDS: Mapping[str, str] = {
    key: part
    for part, keys in {
        "types": "type",
        "values": "enum const",
        "numbers": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
        "strings": "minLength maxLength pattern format",
        "arrays": "prefixItems items additionalItems minItems maxItems uniqueItems contains minContains "
        "maxContains unevaluatedItems",
        "objects": "properties patternProperties additionalProperties required propertyNames minProperties "
        "maxProperties dependentRequired dependentSchemas dependencies unevaluatedProperties",
        "logic": "$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if",
        "fill": "x-fill",
    }.items()
    for key in keys.split()
}


_LATEST = 2020
DRAFTS_OF: Mapping[str, tuple[int, int]] = {
    key: drafts
    for drafts, keys in {
        (6, _LATEST): "const contains propertyNames",
        (7, _LATEST): "if",
        (2019, _LATEST): "dependentRequired dependentSchemas minContains maxContains unevaluatedItems "
        "unevaluatedProperties",
        (2020, _LATEST): "prefixItems $dynamicRef",
        (2019, 2019): "$recursiveRef",
    }.items()
    for key in keys.split()
}
"""The first and the last draft that has a keyword; those that are missing here are in draft 4 already. A keyword that
later drafts took back (`dependencies`, `items` as an array) is honoured there, as they recommend."""


def keyword_in(pointer: str) -> str:
    """The last keyword on the way to a schema; "" for the whole document.

    "/properties/a/properties/x"     properties
    """
    tokens = reversed(pointer.split("/"))
    return next((token for token in tokens if token in KEYWORDS or token in ("then", "else")), "")

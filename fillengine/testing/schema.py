"""JSON Schemas as a hypothesis strategy. A value is drawn first, then keywords that it fits: so each schema has an
instance, whatever it is combined from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema
from hypothesis import strategies as st

from fillengine.testing.hostile_schema import hostile_schemas

NAMES = ("a", "b", "kind", "name", "items", "x-1", "é", 'q"\\')
TEXTS = ("", "a", "ab", "abc", "red", "redder", "green", "x y", 'a"b', "\\n", "é", "😀!", "line\nline", "12", "0")
FORMATS = {
    "2024-02-29": "date",
    "23:59:59Z": "time",
    "2024-02-29T12:00:00Z": "date-time",
    "192.168.0.1": "ipv4",
    "::1": "ipv6",
    "ada@example.org": "email",
    "example.org": "hostname",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8": "uuid",
    "https://example.org/a?b#c": "uri",
    "P1DT2H": "duration",
}
PATTERNS = ("^a", "b", "^[a-z]*$", "^.{0,8}$", "[0-9]", "^[^x]", "e{1,2}", "^(red|green|re.*)$", "\\.", "^\\S+$", "é|!")
STEPS = (1, 2, 3, 5, 0.5, 0.25)
DEPTH = 3


class Witnessed(NamedTuple):
    """A schema and a value that fits it."""

    schema: Any
    value: Any


def schemas(*, hostile: bool = False) -> st.SearchStrategy[Any]:
    """A strategy of JSON Schemas (2020-12) over all that is supported: types, bounds, patterns and formats, enums,
    objects and arrays, `$ref` and recursion, allOf, anyOf, oneOf, not, if. Each has an instance.

    hostile: also such as have none, cannot be honoured or are wrong: any keywords together, references in circles,
    patterns that blow up, names and numbers at their limits.
    """
    found = witnessed_schemas().map(lambda pair: pair.schema)
    return found | hostile_schemas() if hostile else found


def witnessed_schemas() -> st.SearchStrategy[Witnessed]:
    """As `schemas()`, each with the value that it was drawn for."""
    return _witnessed()


@st.composite
def _witnessed(draw: st.DrawFn) -> Witnessed:
    value = draw(VALUES)
    builder = _Builder(draw)
    schema = builder.schema(value, DEPTH)
    if builder.definitions:
        schema = {**schema, "$defs": builder.definitions}
    return Witnessed(schema, value)


_numbers = st.integers(-5, 120) | st.sampled_from([0.5, -2.25, 99.5, 1000, -1000, 10**6])
_scalars = st.one_of(
    st.none(), st.booleans(), _numbers, st.sampled_from(TEXTS), st.sampled_from(sorted(FORMATS)), st.text(max_size=5)
).filter(lambda value: value != "\ud800")


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), st.recursive(_scalars, _containers, max_leaves=5), max_size=4),
    st.recursive(_scalars, _containers, max_leaves=8),
)

_index = lru_cache(lambda size: st.integers(0, size - 1))
_one_in = lru_cache(lambda number: st.integers(0, number - 1).map(lambda drawn: drawn == number - 1))


class _Builder:
    """Draws a schema around a value. Nothing that is drawn first (index 0) is a combination."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.definitions: dict[str, Any] = {}
        self._can_refer = True

    def _pick(self, options: Sequence[Any]) -> Any:
        return options[self._draw(_index(len(options)))]

    def _maybe(self, one_in: int = 2) -> bool:
        return bool(self._draw(_one_in(one_in)))

    def schema(self, value: Any, depth: int) -> Any:
        """A schema that `value` fits."""
        if depth <= 0:
            return self._plain(value, 0)
        combined: list[Callable[[Any, int], Any]] = [
            self._plain, self._plain, self._plain, self._plain,
            self._all_of, self._any_of, self._one_of, self._not, self._if,
        ]  # fmt: skip
        if self._can_refer:
            combined.append(self._reference)
        return self._pick(combined)(value, depth)

    def other(self, depth: int) -> tuple[Any, Any]:
        """Some value and a schema that it fits, without references."""
        value = self._draw(_scalars if depth < 2 else VALUES)
        could, self._can_refer = self._can_refer, False
        try:
            return value, self.schema(value, depth)
        finally:
            self._can_refer = could

    # Combinations.

    def _all_of(self, value: Any, depth: int) -> Any:
        return {"allOf": [self.schema(value, depth - 1), self._plain(value, 0)]}

    def _any_of(self, value: Any, depth: int) -> Any:
        branches = [self.schema(value, depth - 1), self.other(depth - 1)[1]]
        return {"anyOf": branches if self._maybe() else branches[::-1]}

    def _one_of(self, value: Any, depth: int) -> Any:
        own, (_, other) = self.schema(value, depth - 1), self.other(depth - 1)
        return self._any_of(value, depth) if _fits(other, value) else {"oneOf": [own, other]}

    def _not(self, value: Any, depth: int) -> Any:
        plain, (_, other) = self._plain(value, depth - 1), self.other(0)
        return plain if _fits(other, value) or not isinstance(plain, dict) else {**plain, "not": other}

    def _if(self, value: Any, depth: int) -> Any:
        condition = self.other(0)[1]
        branches = {"then": self.schema(value, depth - 1), "else": self.other(depth - 1)[1]}
        if not _fits(condition, value):
            branches = {"then": branches["else"], "else": branches["then"]}
        return {"type": _types(value), "if": condition, **branches}

    def _reference(self, value: Any, depth: int) -> Any:
        name = f"d{len(self.definitions)}"
        self.definitions[name] = True
        found = self.schema(value, depth - 1)
        if isinstance(value, dict) and "next" not in value and isinstance(found, dict) and "properties" in found:
            # The value has no such property, so recursion changes nothing for it.
            found["properties"] = {**found["properties"], "next": {"$ref": f"#/$defs/{name}"}}
        self.definitions[name] = found
        return {"$ref": f"#/$defs/{name}"}

    # The keywords of one type.

    def _plain(self, value: Any, depth: int) -> Any:
        if self._maybe(8):
            return self._members(value)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, list):
            return self._array(value, depth)
        if isinstance(value, dict):
            return self._object(value, depth)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(value)
        return {"type": _types(value)} if self._maybe() else {"const": value}

    def _members(self, value: Any) -> Any:
        others = [self._draw(_scalars) for _ in range(self._draw(_index(4)))]
        members = [value, *others]
        distinct = [one for place, one in enumerate(members) if not any(_same(one, two) for two in members[:place])]
        return {"enum": distinct} if len(distinct) > 1 or self._maybe() else {"const": value}

    def _string(self, value: str) -> Any:
        schema: dict[str, Any] = {"type": "string"}
        if value in FORMATS and self._maybe():
            return {**schema, "format": FORMATS[value]}
        if self._maybe():
            schema["maxLength"] = len(value) + self._pick((0, 1, 3, 10))
        if self._maybe(3):
            schema["minLength"] = max(0, len(value) - self._pick((0, 1, 3)))
        fitting = [pattern for pattern in PATTERNS if "\n" not in value and re.search(pattern, value)]
        if fitting and self._maybe(3):
            schema["pattern"] = self._pick(fitting)
        return schema

    def _number(self, value: int | float) -> Any:
        is_whole = float(value).is_integer()
        schema: dict[str, Any] = {"type": "integer" if is_whole and self._maybe() else "number"}
        if self._maybe():
            schema["minimum"] = value - self._pick((0, 1, 0.5, 10))
        elif self._maybe(4):
            schema["exclusiveMinimum"] = value - self._pick((1, 0.5, 10))
        if self._maybe():
            schema["maximum"] = value + self._pick((0, 1, 0.5, 10, 1000))
        elif self._maybe(4):
            schema["exclusiveMaximum"] = value + self._pick((1, 0.5, 10))
        steps = [step for step in STEPS if Decimal(repr(value)) % Decimal(repr(step)) == 0]
        if steps and self._maybe(4):
            schema["multipleOf"] = self._pick(steps)
        return schema

    def _array(self, value: list[Any], depth: int) -> Any:
        schema: dict[str, Any] = {"type": "array"}
        num_prefixed = self._draw(_index(len(value) + 1)) if value and self._maybe(3) else 0
        if num_prefixed:
            schema["prefixItems"] = [self.schema(item, depth - 1) for item in value[:num_prefixed]]
        rest = value[num_prefixed:]
        if not rest:
            schema["items"] = self._pick((False, True, {"type": "string", "maxLength": 3}))
        elif self._maybe(4):
            schema["items"] = True
        else:
            kinds = [self.schema(item, depth - 1) for item in rest[:1]]
            kinds += [self.schema(item, depth - 1) for item in rest[1:]]
            schema["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        if self._maybe(3):
            schema["minItems"] = max(0, len(value) - self._pick((0, 1)))
        if self._maybe():
            schema["maxItems"] = len(value) + self._pick((0, 1, 2))
        are_distinct = not any(_same(one, two) for place, one in enumerate(value) for two in value[:place])
        if are_distinct and self._maybe(4):
            schema["uniqueItems"] = True
        return schema

    def _object(self, value: dict[str, Any], depth: int) -> Any:
        schema: dict[str, Any] = {"type": "object"}
        declared = [name for name in value if not self._maybe(6)]
        properties = {name: self.schema(value[name], depth - 1) for name in declared}
        for name in NAMES[: self._draw(_index(3))]:
            if name not in value:
                properties[name] = self.other(depth - 1)[1]
        schema["properties"] = properties
        required = [name for name in value if self._maybe()]
        if required:
            schema["required"] = required
        if len(declared) == len(value) and self._maybe():
            schema["additionalProperties"] = False
        elif self._maybe(4):
            kinds = sorted({kind for name in value if name not in declared for kind in _type_list(value[name])})
            schema["additionalProperties"] = {"type": kinds} if kinds else {"type": "integer"}
        if self._maybe(6):
            schema["patternProperties"] = {"^z": self.other(0)[1]}
        if self._maybe(8):
            schema["propertyNames"] = {"maxLength": max(map(len, value), default=0) + self._pick((0, 2))}
        if self._maybe(8):
            schema["minProperties"] = max(0, len(value) - self._pick((0, 1)))
        if self._maybe(8):
            schema["maxProperties"] = len(value) + self._pick((0, 1))
        if value and self._maybe(8):
            schema["dependentRequired"] = {self._pick(list(value)): [self._pick(list(value))]}
        return schema


def _types(value: Any) -> Any:
    found = _type_list(value)
    return found[0] if len(found) == 1 else found


def _type_list(value: Any) -> list[str]:
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["boolean"]
    if isinstance(value, int | float):
        return ["number"]
    return ["string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"]


def _fits(schema: Any, value: Any) -> bool:
    judge = jsonschema.Draft202012Validator
    return bool(judge(schema, format_checker=judge.FORMAT_CHECKER).is_valid(value))


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON Schema sees it: true is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return type(one) is type(other) and bool(one == other) if isinstance(one, str) else bool(one == other)

"""Objects: the merged keywords of all schemas that apply, name by name and key class by key class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fillengine.automata.dfa import Dfa, intersection
from fillengine.errors import UnsupportedForm
from fillengine.templates.keys import few_words, key_classes, lifted_keys
from fillengine.templates.scalars import StringShape, can_have_length, string_value
from fillengine.templates.schema import Conjunction, Objects, Problem, Schema

if TYPE_CHECKING:
    from fillengine.templates.shapes import Shapes


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A property that has a name of its own."""

    name: str
    value: Conjunction
    is_required: bool


@dataclass(frozen=True, slots=True, eq=False)
class Extra:
    """Properties without a declared name: keys of the JSON automaton `key` but `ObjectShape.names`, of `low` to
    `high` characters, have values that fit `value`. Each key has one spelling."""

    key: Dfa
    low: int
    high: int | None
    value: Conjunction


@dataclass(frozen=True, slots=True, eq=False)
class ObjectShape:
    """`members` in the order in which they are written; `low` and `high` bound the number of properties.

    names: all keys that are told apart from `extras`, also those that are never written.
    """

    members: tuple[Member, ...]
    extras: tuple[Extra, ...]
    low: int
    high: int | None
    names: tuple[str, ...]


class ObjectMerge:
    """One object shape in the making."""

    def __init__(self, shapes: Shapes, parts: Sequence[tuple[Schema, Objects]]) -> None:
        self._shapes, self._parts = shapes, parts
        self._read = shapes.alternatives.reader.read
        self._is_closed = shapes.is_closed
        self._patterns: dict[str, StringShape] = {}
        for schema, objects in parts:
            _refuse_objects(schema, objects)
            for pattern in objects.pattern_properties or ():
                if pattern not in self._patterns:
                    place = f"{schema.pointer}/patternProperties"
                    self._patterns[pattern] = StringShape(patterns=((pattern, place),))
        self._names = dict.fromkeys(
            name for _, objects in parts for name in objects.properties or () if not objects.derived
        )
        for _, objects in parts:
            self._names.update(dict.fromkeys(objects.required))
            self._names.update(dict.fromkeys(objects.properties or ()))
        self._key_rules = tuple(
            self._read(objects.property_names) for _, objects in parts if objects.property_names is not None
        )

    def result(self) -> tuple[ObjectShape | None, Problem | None]:
        parts = self._parts
        low = max((objects.min_properties for _, objects in parts), default=0)
        high = None
        for _, objects in parts:
            high = lower(high, objects.max_properties)
        required = {name for _, objects in parts for name in objects.required}
        low = max(low, len(required))
        if high is not None and low > high:
            problem = f"at least {low} properties are required, maxProperties is {high}"
            return None, Problem(problem, "maxProperties", parts[0][0].pointer)
        extras = self._extras()
        members = []
        judge = self._shapes.judge
        for name in self._names:
            if self._key_rules and not judge.admits(name, self._key_rules):
                if name in required:
                    problem = f"property {name!r} is required, but propertyNames forbids its name"
                    return None, Problem(problem, "propertyNames", parts[0][0].pointer)
                continue
            members.append(Member(name, self._value_of(name), name in required))
        return ObjectShape(tuple(members), extras, low, high, tuple(self._names)), None

    def _value_of(self, name: str) -> Conjunction:
        found = []
        matching = {
            pattern for pattern, shape in self._patterns.items() if _matches(shape, name)
        }  # most objects have no patterns
        for _, objects in self._parts:
            place = (objects.properties or {}).get(name)
            is_described = place is not None
            if place is not None:
                found.append(self._read(place))
            if matching:
                for pattern, inner in (objects.pattern_properties or {}).items():
                    if pattern in matching:
                        is_described = True
                        found.append(self._read(inner))
            rest = objects.additional
            if rest is None:
                rest = objects.unevaluated_properties
            if not is_described and rest is not None:
                found.append(self._read(rest))
        return tuple(dict.fromkeys(found))

    def _extras(self) -> tuple[Extra, ...]:
        """The classes of undeclared keys, by the patterns that they match."""
        if not self._patterns and (not self._may_be_open() or self._is_false()):
            return ()
        if not self._patterns and not self._key_rules:
            return (Extra(lifted_keys(None), 0, None, self._class_value(())),)
        patterns = tuple((pattern, shape.patterns[0][1]) for pattern, shape in self._patterns.items())
        extras = []
        for matching, keys in key_classes(patterns):
            if not matching and not self._may_be_open():
                continue
            value = self._class_value(matching)
            if any(schema.never for schema in value):
                continue
            for lifted, low, high in self._allowed_keys(keys):
                words = few_words(lifted, low, high)
                if words is None:
                    extras.append(Extra(lifted, low, high, value))
                else:  # they can run out, so they are members like others
                    self._names.update(dict.fromkeys(words))
        return tuple(extras)

    def _is_false(self) -> bool:
        return any(self._read(rest).never for rest in self._rests() if rest is not None)

    def _rests(self) -> list[Any]:
        return [
            objects.unevaluated_properties if objects.additional is None else objects.additional
            for _, objects in self._parts
        ]

    def _may_be_open(self) -> bool:
        """Whether keys that nothing describes are written."""
        if not self._is_closed or any(rest is not None for rest in self._rests()):
            return True
        return not self._patterns and all(objects.derived or objects.properties is None for _, objects in self._parts)

    def _class_value(self, matching: tuple[str, ...]) -> Conjunction:
        found = []
        for _, objects in self._parts:
            table = objects.pattern_properties or {}
            places = [place for pattern, place in table.items() if pattern in matching]
            rest = objects.additional if objects.additional is not None else objects.unevaluated_properties
            if places:
                found += [self._read(place) for place in places]
            elif rest is not None:
                found.append(self._read(rest))
        return tuple(dict.fromkeys(found))

    def _allowed_keys(self, keys: Dfa | None) -> list[tuple[Dfa, int, int | None]]:
        """The parts of a key class that `propertyNames` allows: (JSON automaton, fewest, most characters)."""
        if not self._key_rules:
            return [(lifted_keys(keys), 0, None)]
        allowed = []
        for flat in self._shapes.alternatives.of(self._key_rules):
            shape = self._shapes.of(flat)
            strings = shape.strings
            if shape.values is not None:
                strings = StringShape(words=tuple(name for name in shape.values if isinstance(name, str)))
            if strings is None:
                continue
            both = _both(keys, string_value(strings))
            if both is not None and both.is_empty:
                continue
            lifted = lifted_keys(both)
            if can_have_length(lifted, strings.low, strings.high):
                allowed.append((lifted, strings.low, strings.high))
        return allowed


def _both(a: Dfa | None, b: Dfa | None) -> Dfa | None:
    """Intersection, where None is any text."""
    if a is None or b is None:
        return b if a is None else a
    return intersection(a, b)


def _matches(shape: StringShape, text: str) -> bool:
    return shape.admits(text)


def lower(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _refuse_objects(schema: Schema, objects: Objects) -> None:
    if objects.unevaluated_properties is None:
        return
    if schema.logic is None and objects.dependent_schemas is None:
        return
    raise UnsupportedForm(
        "unevaluatedProperties beside schemas that apply in place is not supported",
        keyword="unevaluatedProperties",
        pointer=f"{schema.pointer}/unevaluatedProperties",
        remedy="use additionalProperties and repeat the property names",
    )

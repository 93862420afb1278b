"""The opposite of a schema, as schemas again.

    not {"required": ["x", "y"]}        an object without x, or an object without y
    not {"type": "string"}              any other type
    not {"properties": {"k": S}}        an object that has k, and k is no S
    ... and "required": ["k"]           an object without k, or k is no S
    not {"items": S}                    an array that contains something that is no S
    not {"propertyNames": S}            an object that has a property whose name is no S

A schema is the conjunction of its keywords, so its opposite is the disjunction of theirs. Opposites of what stands
below a schema are worked out when they are reached, so that recursion ends where it comes back to itself. Keywords
that have no opposite of this kind (`uniqueItems`, `unevaluatedProperties`) are only marked: a value must not fit a
schema that has them alone (`Schema.opposite`), and the template compares the texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from fillengine.templates.reading import Reader
from fillengine.templates.schema import (
    ALL_ATOMS,
    ATOMS,
    Arrays,
    Contains,
    Logic,
    Numbers,
    Objects,
    Schema,
    Source,
    Strings,
    Wanted,
)

Disjunction = tuple[Schema, ...]

# An opposite of more parts than this is not worth its alternatives.
_PARTS_LIMIT = 64
# None or two of the branches of a oneOf: up to this number of them.
_BRANCHES_LIMIT = 3
# Excluded arrays and objects are taken apart up to this number: each has as many opposites as it has parts.
_WHOLE_LIMIT = 4


class Negations:
    """Remembers the opposite of each schema, so that equal questions get identical records."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[Schema, Disjunction] = {}
        self._without: dict[tuple[Schema, str], Schema] = {}
        self._any: dict[Disjunction, Schema] = {}
        self._not: dict[Schema, Schema] = {}
        self._apart: dict[Schema, Schema] = {}
        self._again: dict[Schema, Schema] = {}
        self.parts: set[Schema] = set()
        """All that is part of an opposite: none of it evaluates properties or items."""

    def of(self, schema: Schema) -> Disjunction:
        """Schemas of which a value satisfies one exactly when it does not satisfy `schema`."""
        found = self._known.get(schema)
        if found is None:
            # What a recursion through itself finds.
            self._known[schema] = (self.apart(schema),)
            parts = self._opposite(schema)
            found = tuple(parts) if len(parts) <= _PARTS_LIMIT else self._known[schema]
            self._known[schema] = found
            self.parts.update(found)
        return found

    def without(self, schema: Schema, name: str) -> Schema:
        """Anything but an object that has property `name`."""
        key = (schema, name)
        if key not in self._without:
            objects = Objects(properties={name: self._never(schema)}, derived=True)
            self._without[key] = Schema(schema.pointer, schema.resource, objects=objects)
        return self._without[key]

    def any_of(self, schema: Schema, parts: Disjunction) -> Schema:
        """One schema that says "any of `parts`"."""
        if len(parts) == 1:
            return parts[0]
        if parts not in self._any:
            if parts:
                logic = Logic(any_of=parts, derived=True)
                self._any[parts] = Schema(schema.pointer, schema.resource, logic=logic)
            else:
                self._any[parts] = self._never(schema)
        return self._any[parts]

    def no(self, source: Source) -> Schema:
        """One schema that says "not `source`", without asking yet what that means."""
        schema = self._reader.read(source)
        if schema not in self._not:
            logic = Logic(negated=schema, derived=True)
            self._not[schema] = Schema(schema.pointer, schema.resource, logic=logic)
        return self._not[schema]

    def apart(self, schema: Schema) -> Schema:
        """As `of`, only marked: texts are compared."""
        if schema not in self._apart:
            self._apart[schema] = Schema(schema.pointer, schema.resource, opposite=schema)
        return self._apart[schema]

    def _again_not_not(self, schema: Schema) -> Schema:
        """The same under two negations, where it evaluates nothing."""
        if schema not in self._again:
            logic = Logic(all_of=(schema,), derived=True)
            self._again[schema] = Schema(schema.pointer, schema.resource, logic=logic)
        return self._again[schema]

    def _never(self, schema: Schema) -> Schema:
        return Schema(schema.pointer, schema.resource, never=True)

    def _opposite(self, schema: Schema) -> list[Schema]:
        pointer, resource = schema.pointer, schema.resource
        if schema.never:
            return [Schema(pointer, resource)]
        arrays, objects = schema.arrays, schema.objects
        if (arrays is not None and arrays.unevaluated_items is not None) or (
            objects is not None and objects.unevaluated_properties is not None
        ):  # these look at the other keywords beside them
            return [Schema(pointer, resource, opposite=schema)]
        parts = self._type(schema) + self._values(schema)
        if schema.opposite is not None:
            parts.append(self._again_not_not(schema.opposite))
        for part in _numbers(schema.numbers):
            parts.append(Schema(pointer, resource, types=ATOMS["number"], numbers=part))
        for text in _strings(schema.strings):
            parts.append(Schema(pointer, resource, types=ATOMS["string"], strings=text))
        return parts + self._array(schema) + self._object(schema) + self._logic(schema)

    def _type(self, schema: Schema) -> list[Schema]:
        if schema.types is None or schema.types == ALL_ATOMS:
            return []
        return [Schema(schema.pointer, schema.resource, types=ALL_ATOMS - schema.types)]

    def _values(self, schema: Schema) -> list[Schema]:
        parts = []
        if schema.values is not None:
            plain = tuple(value for value in schema.values if not isinstance(value, dict | list))
            whole = tuple(value for value in schema.values if isinstance(value, dict | list))
            logic = opposite = None
            if 0 < len(whole) <= _WHOLE_LIMIT:
                each = tuple(self.no(_exactly(schema, value)) for value in whole)
                logic = Logic(all_of=each, derived=True)
            elif whole:
                opposite = Schema(schema.pointer, schema.resource, values=whole)
            parts.append(Schema(schema.pointer, schema.resource, excluded=plain, opposite=opposite, logic=logic))
        if schema.excluded:
            parts.append(Schema(schema.pointer, schema.resource, values=schema.excluded))
        return parts

    def _array(self, schema: Schema) -> list[Schema]:
        arrays, pointer, resource = schema.arrays, schema.pointer, schema.resource
        if arrays is None:
            return []
        opposites = []
        if arrays.min_items:
            opposites.append(Arrays(max_items=arrays.min_items - 1))
        if arrays.max_items is not None:
            opposites.append(Arrays(min_items=arrays.max_items + 1))
        anything = Schema(pointer, resource)
        for number, item in enumerate(arrays.prefix):
            wrong = (*(anything for _ in range(number)), self.no(item))
            opposites.append(Arrays(prefix=wrong, min_items=number + 1))
        if arrays.items is not None:
            opposites.append(Arrays(contains=(Contains(self.no(arrays.items), skip=len(arrays.prefix)),)))
        for counted in arrays.contains:
            if counted.low:
                fewer = Contains(counted.item, 0, counted.low - 1, counted.skip)
                opposites.append(Arrays(contains=(fewer,)))
            if counted.high is not None:
                more = Contains(counted.item, counted.high + 1, None, counted.skip)
                opposites.append(Arrays(contains=(more,)))
        parts = [Schema(pointer, resource, types=ATOMS["array"], arrays=part) for part in opposites]
        if arrays.unique_items:
            alone = Schema(pointer, resource, types=ATOMS["array"], arrays=Arrays(unique_items=True))
            parts.append(Schema(pointer, resource, types=ATOMS["array"], opposite=alone))
        return parts

    def _object(self, schema: Schema) -> list[Schema]:
        objects = schema.objects
        if objects is None:
            return []
        parts = [
            Schema(schema.pointer, schema.resource, types=ATOMS["object"], objects=part)
            for part in self._objects(schema, objects)
        ]
        for wanted in objects.wanted:  # every property has another name, or another value
            names = self.no(wanted.name)
            if wanted.value is None:
                parts.append(
                    Schema(schema.pointer, schema.resource, objects=Objects(property_names=names, derived=True))
                )
            else:
                alone = Schema(schema.pointer, schema.resource, objects=Objects(wanted=(wanted,), derived=True))
                parts.append(Schema(schema.pointer, schema.resource, types=ATOMS["object"], opposite=alone))
        for name, source in (objects.dependent_schemas or {}).items():
            needs = Objects(required=(name,), derived=True)
            logic = Logic(all_of=(self.no(source),), derived=True)
            parts.append(Schema(schema.pointer, schema.resource, types=ATOMS["object"], objects=needs, logic=logic))
        return parts

    def _objects(self, schema: Schema, objects: Objects) -> Iterator[Objects]:
        never = self._never(schema)
        described = {
            name: source for name, source in (objects.properties or {}).items() if not self._reader.read(source).is_true
        }
        for name in objects.required:
            if name not in described:
                yield Objects(properties={name: never}, derived=True)
        for name, source in described.items():
            # One object says that a required one is absent, or there and no such value.
            needs: tuple[str, ...] = () if name in objects.required else (name,)
            yield Objects(properties={name: self.no(source)}, required=needs, derived=True)
        for some, every in objects.together:
            yield Objects(properties=dict.fromkeys(sorted(some), never), required=tuple(sorted(every)), derived=True)
        if objects.min_properties:
            yield Objects(max_properties=objects.min_properties - 1, derived=True)
        if objects.max_properties is not None:
            yield Objects(min_properties=objects.max_properties + 1, derived=True)
        for pattern, source in (objects.pattern_properties or {}).items():
            name_fits = Schema(schema.pointer, schema.resource, strings=Strings(pattern=pattern))
            yield Objects(wanted=(Wanted(name_fits, self.no(source)),), derived=True)
        if objects.additional is not None:
            others = Strings(excluded_patterns=tuple(objects.pattern_properties or ()))
            undeclared = tuple(objects.properties or ())
            name_fits = Schema(schema.pointer, schema.resource, excluded=undeclared, strings=others)
            yield Objects(wanted=(Wanted(name_fits, self.no(objects.additional)),), derived=True)
        if objects.property_names is not None:
            yield Objects(wanted=(Wanted(self.no(objects.property_names)),), derived=True)
        for name, needs in (objects.dependent_required or {}).items():
            for needed in needs:
                if needed != name:
                    yield Objects(properties={needed: never}, required=(name,), derived=True)

    def _logic(self, schema: Schema) -> list[Schema]:
        logic = schema.logic
        if logic is None:
            return []
        read = self._reader.read
        pointer, resource = schema.pointer, schema.resource
        parts: list[Schema] = []
        for part in (*map(read, logic.all_of), *self._reader.followed(schema)):
            parts += self.of(part)
        if logic.any_of:
            each = tuple(self.no(place) for place in logic.any_of)
            parts.append(Schema(pointer, resource, logic=Logic(all_of=each, derived=True)))
        if len(logic.one_of) > _BRANCHES_LIMIT:
            alone = Schema(pointer, resource, logic=Logic(one_of=logic.one_of, derived=True))
            parts.append(self.apart(alone))
        elif logic.one_of:
            each = tuple(self.no(place) for place in logic.one_of)
            parts.append(Schema(pointer, resource, logic=Logic(all_of=each, derived=True)))
            for two in combinations(logic.one_of, 2):
                parts.append(Schema(pointer, resource, logic=Logic(all_of=two, derived=True)))
        if logic.negated is not None:
            parts.append(self._again_not_not(read(logic.negated)))
        if logic.conditional is not None:
            if logic.then is not None:
                held = (logic.conditional, self.no(logic.then))
                parts.append(Schema(pointer, resource, logic=Logic(all_of=held, derived=True)))
            if logic.otherwise is not None:
                failed = (self.no(logic.conditional), self.no(logic.otherwise))
                parts.append(Schema(pointer, resource, logic=Logic(all_of=failed, derived=True)))
        return parts


def _exactly(schema: Schema, value: Any) -> Schema:
    """A schema of one array or object."""
    pointer, resource = schema.pointer, schema.resource
    if isinstance(value, list):
        items = tuple(Schema(pointer, resource, values=(item,)) for item in value)
        exact = Arrays(prefix=items, min_items=len(items), max_items=len(items))
        return Schema(pointer, resource, types=ATOMS["array"], arrays=exact)
    members = {name: Schema(pointer, resource, values=(item,)) for name, item in value.items()}
    never = Schema(pointer, resource, never=True)
    fixed = Objects(properties=members, additional=never, required=tuple(members))
    return Schema(pointer, resource, types=ATOMS["object"], objects=fixed)


def _numbers(numbers: Numbers | None) -> Iterator[Numbers]:
    if numbers is None:
        return
    if numbers.minimum is not None:
        yield Numbers(exclusive_maximum=numbers.minimum)
    if numbers.maximum is not None:
        yield Numbers(exclusive_minimum=numbers.maximum)
    if numbers.exclusive_minimum is not None:
        yield Numbers(maximum=numbers.exclusive_minimum)
    if numbers.exclusive_maximum is not None:
        yield Numbers(minimum=numbers.exclusive_maximum)
    if numbers.multiple_of is not None:
        yield Numbers(not_multiple_of=(numbers.multiple_of,))
    for step in numbers.not_multiple_of:
        yield Numbers(multiple_of=step)


def _strings(strings: Strings | None) -> Iterator[Strings]:
    if strings is None:
        return
    if strings.min_length:
        yield Strings(max_length=strings.min_length - 1)
    if strings.max_length is not None:
        yield Strings(min_length=strings.max_length + 1)
    if strings.pattern is not None:
        yield Strings(excluded_patterns=(strings.pattern,))
    if strings.format is not None:
        yield Strings(excluded_formats=(strings.format,))
    for pattern in strings.excluded_patterns:
        yield Strings(pattern=pattern)
    for name in strings.excluded_formats:
        yield Strings(format=name)

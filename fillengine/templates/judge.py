"""Whether a given value fits a schema: for the members of enums and for declared property names."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from fillengine.errors import UnsupportedForm
from fillengine.templates.alternatives import Alternatives
from fillengine.templates.scalars import StringShape, is_multiple
from fillengine.templates.schema import Arrays, Conjunction, Numbers, Objects, Schema, Strings, Wanted, identity


def atom_of(value: Any) -> str:
    """The atom (see schema.ATOMS) of a JSON value; 1.0 is an integer, as drafts 6 and later say."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class Judge:
    def __init__(self, alternatives: Alternatives) -> None:
        self._alternatives = alternatives
        self._read = alternatives.reader.read
        self._identities: dict[Schema, frozenset[Any]] = {}

    def admits(self, value: Any, conjunction: Conjunction) -> bool:
        """Whether the value fits all the schemas, with everything that they refer to."""
        return any(all(self.fits(value, schema) for schema in flat) for flat in self._alternatives.of(conjunction))

    def fits(self, value: Any, schema: Schema) -> bool:
        """Whether the value fits one schema of a flat conjunction: its own keywords, without `logic`."""
        atom = atom_of(value)
        if atom == "integer" and isinstance(value, float) and schema.resource.draft == 4:
            atom = "fraction"
        if schema.types is not None and atom not in schema.types:
            return False
        if schema.values is not None or schema.excluded:
            key = identity(value)
            if schema.values is not None and key not in self._identities_of(schema):
                return False
            if any(identity(other) == key for other in schema.excluded):
                return False
        if schema.opposite is not None and self.admits(value, (schema.opposite,)):
            return False
        if schema.numbers is not None and atom in ("integer", "fraction"):
            return _number_fits(value, schema.numbers)
        if schema.strings is not None and atom == "string":
            return _string_fits(value, schema.strings, schema.pointer)
        if schema.arrays is not None and atom == "array":
            return self._array_fits(value, schema, schema.arrays)
        if schema.objects is not None and atom == "object":
            return self._object_fits(value, schema, schema.objects)
        return True

    def _identities_of(self, schema: Schema) -> frozenset[Any]:
        if schema not in self._identities:
            self._identities[schema] = frozenset(map(identity, schema.values or ()))
        return self._identities[schema]

    def _array_fits(self, value: list[Any], schema: Schema, arrays: Arrays) -> bool:
        if arrays.unevaluated_items is not None:
            raise UnsupportedForm(
                "an enum of arrays beside unevaluatedItems is not supported",
                keyword="enum",
                pointer=f"{schema.pointer}/enum",
                remedy="list only the arrays that fit",
            )
        if len(value) < arrays.min_items or (arrays.max_items is not None and len(value) > arrays.max_items):
            return False
        if arrays.unique_items and len({identity(item) for item in value}) < len(value):
            return False
        for contains in arrays.contains:
            count = sum(self.admits(item, (self._read(contains.item),)) for item in value[contains.skip :])
            if count < contains.low or (contains.high is not None and count > contains.high):
                return False
        for number, item in enumerate(value):
            source = arrays.prefix[number] if number < len(arrays.prefix) else arrays.items
            if source is not None and not self.admits(item, (self._read(source),)):
                return False
        return True

    def _object_fits(self, value: dict[str, Any], schema: Schema, objects: Objects) -> bool:
        if objects.unevaluated_properties is not None:
            raise UnsupportedForm(
                "an enum of objects beside unevaluatedProperties is not supported",
                keyword="enum",
                pointer=f"{schema.pointer}/enum",
                remedy="list only the objects that fit",
            )
        if len(value) < objects.min_properties or not set(objects.required) <= set(value):
            return False
        if objects.max_properties is not None and len(value) > objects.max_properties:
            return False
        if not all(some & value.keys() or every - value.keys() for some, every in objects.together):
            return False
        rule = objects.property_names
        if rule is not None and not all(self.admits(name, (self._read(rule),)) for name in value):
            return False
        for name, item in value.items():
            sources = [objects.properties[name]] if name in (objects.properties or {}) else []  # type: ignore[index]
            for pattern, source in (objects.pattern_properties or {}).items():
                if StringShape(patterns=((pattern, schema.pointer),)).admits(name):
                    sources.append(source)
            if not sources and objects.additional is not None:
                sources.append(objects.additional)
            if not all(self.admits(item, (self._read(source),)) for source in sources):
                return False
        return all(
            any(self._is_wanted(name, item, wanted) for name, item in value.items()) for wanted in objects.wanted
        )

    def _is_wanted(self, name: str, value: Any, wanted: Wanted) -> bool:
        return self.admits(name, (self._read(wanted.name),)) and (
            wanted.value is None or self.admits(value, (self._read(wanted.value),))
        )


def _number_fits(value: int | float, numbers: Numbers) -> bool:
    exact = Decimal(repr(value))
    if numbers.minimum is not None and exact < Decimal(repr(numbers.minimum)):
        return False
    if numbers.maximum is not None and exact > Decimal(repr(numbers.maximum)):
        return False
    if numbers.exclusive_minimum is not None and exact <= Decimal(repr(numbers.exclusive_minimum)):
        return False
    if numbers.exclusive_maximum is not None and exact >= Decimal(repr(numbers.exclusive_maximum)):
        return False
    if any(is_multiple(exact, Decimal(repr(step))) for step in numbers.not_multiple_of):
        return False
    return numbers.multiple_of is None or is_multiple(exact, Decimal(repr(numbers.multiple_of)))


def _string_fits(value: str, strings: Strings, pointer: str) -> bool:
    if len(value) < strings.min_length or (strings.max_length is not None and len(value) > strings.max_length):
        return False
    shape = StringShape(
        patterns=() if strings.pattern is None else ((strings.pattern, f"{pointer}/pattern"),),
        formats=() if strings.format is None else ((strings.format, f"{pointer}/format"),),
        excluded_patterns=tuple((pattern, f"{pointer}/pattern") for pattern in strings.excluded_patterns),
        excluded_formats=tuple((name, f"{pointer}/format") for name in strings.excluded_formats),
    )
    return shape.admits(value)

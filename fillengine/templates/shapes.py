"""What a flat conjunction of schemas allows, type by type: the typed middle between reading and emitting.

The keywords of all schemas of the conjunction are merged: the tighter bound, all patterns, and for each
property or item the conjunction of what every schema says about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import gcd
from typing import Any

from fillengine.errors import UnsupportedForm
from fillengine.templates.alternatives import Alternatives, Flat
from fillengine.templates.array_shapes import ArrayMerge, ArrayShape
from fillengine.templates.formats import format_dfa, is_exact
from fillengine.templates.judge import Judge
from fillengine.templates.object_shapes import ObjectMerge, ObjectShape, lower
from fillengine.templates.scalars import (
    NumberShape,
    StringShape,
    number_dfa,
    string_pattern,
)
from fillengine.templates.schema import (
    ALL_ATOMS,
    ATOMS,
    NUMERIC,
    Arrays,
    Conjunction,
    Contains,
    Numbers,
    Problem,
    Schema,
    Strings,
    identity,
)

# `is_empty` looks this many required properties or items deep.
_PROOF_DEPTH = 4
_PROOF_BREADTH = 256


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """`atoms`: the types (see schema.ATOMS) of which there may be a value. A part is set where its type is
    among them. `values` not None: one of these and nothing else. `problem`: why a part of the schema can never
    be satisfied, if so. `opposites`: schemas that must not hold besides."""

    pointer: str
    atoms: frozenset[str]
    values: tuple[Any, ...] | None
    booleans: tuple[bool, ...]
    numbers: NumberShape | None
    strings: StringShape | None
    array: ArrayShape | None
    objects: tuple[ObjectShape, ...]
    fill: str | None
    problem: Problem | None
    opposites: tuple[Schema, ...] = ()


class Shapes:
    """The shapes of one document, each worked out once.

    is_closed: undeclared properties are not written unless the schema describes them.
    """

    def __init__(self, alternatives: Alternatives, *, is_closed: bool) -> None:
        self.alternatives = alternatives
        self.judge = Judge(alternatives)
        self._read = alternatives.reader.read
        self.is_closed = is_closed
        self._known: dict[Flat, Shape] = {}
        self._empty: dict[tuple[Conjunction, int], bool] = {}
        self._turned: dict[tuple[Schema, Contains], Schema] = {}
        alternatives.is_empty = self.is_empty

    def of(self, flat: Flat) -> Shape:
        shape = self._known.get(flat)
        if shape is None:
            shape = self._known[flat] = self._merge(flat)
        return shape

    def is_empty(self, conjunction: Conjunction, depth: int = 0) -> bool:
        """Whether provably no value satisfies the conjunction (False: perhaps one does)."""
        if depth > _PROOF_DEPTH:
            return False
        key = (conjunction, depth)
        if key not in self._empty:
            flats = self.alternatives.loose(conjunction)
            self._empty[key] = len(flats) <= _PROOF_BREADTH and all(
                self._has_no_value(self.of(flat), depth) for flat in flats
            )
        return self._empty[key]

    def _has_no_value(self, shape: Shape, depth: int) -> bool:
        if shape.values is not None:
            return not shape.values
        if shape.atoms - {"array", "object"}:
            return False
        if shape.array is not None and not any(
            self.is_empty(item, depth + 1) for item in shape.array.prefix[: shape.array.low]
        ):
            return False
        return all(
            any(member.is_required and self.is_empty(member.value, depth + 1) for member in one.members)
            for one in shape.objects
        )

    def _merge(self, flat: Flat) -> Shape:
        pointer = flat[0].pointer if flat else ""
        atoms, fill, values = ALL_ATOMS, None, None
        excluded: list[Any] = []
        for schema in flat:
            if schema.types is not None:
                atoms &= schema.types
            fill = fill or schema.fill
            excluded += schema.excluded
            if schema.values is not None:
                values = schema.values if values is None else values
        problem = None if atoms else Problem("no type fits all the schemas that apply", "type", pointer)
        if values is not None:
            return self._enumerated(flat, pointer, values, fill)
        booleans = tuple(b for b in (False, True) if not any(b is value for value in excluded))
        if not booleans:
            atoms -= {"boolean"}
        if any(value is None for value in excluded):
            atoms -= {"null"}
        numbers = strings = array = None
        shaped: tuple[ObjectShape, ...] = ()
        if atoms & NUMERIC:
            numbers, trouble = _merge_numbers(flat, atoms & NUMERIC, excluded)
            if numbers is None:
                atoms -= NUMERIC
            problem = problem or trouble
        if "string" in atoms:
            strings, trouble = _merge_strings(flat, excluded)
            if strings is not None and self.alternatives.is_negated:
                _refuse_narrow_formats(strings)
            if strings is None:
                atoms -= {"string"}
            problem = problem or trouble
        if "array" in atoms:
            _refuse_excluded(excluded, list, pointer)
            array, trouble = ArrayMerge(self, flat).result()
            if array is None:
                atoms -= {"array"}
            problem = problem or trouble
        if "object" in atoms:
            _refuse_excluded(excluded, dict, pointer)
            shaped, trouble = self._merge_objects(flat)
            if not shaped:
                atoms -= {"object"}
            problem = problem or trouble
        opposites = [
            schema.opposite
            for schema in flat
            if schema.opposite is not None and (schema.opposite.types is None or schema.opposite.types & atoms)
        ]
        if array is not None and array.is_unique:
            opposites += self._as_opposites(flat)
        return Shape(
            pointer,
            atoms,
            None,
            booleans,
            numbers,
            strings,
            array,
            shaped,
            fill,
            problem,
            tuple(dict.fromkeys(opposites)),
        )

    def _enumerated(self, flat: Flat, pointer: str, values: tuple[Any, ...], fill: str | None) -> Shape:
        fitting: dict[Any, Any] = {}
        if values and len(flat) == 1 and flat[0].says_values_only and all(type(value) is str for value in values):
            fitting = dict.fromkeys(values)
            values = tuple(fitting) if flat[0].types is None or "string" in flat[0].types else ()
            problem = None if values else Problem("none of the values fits", "enum", pointer)
            return Shape(pointer, frozenset(), values, (), None, None, None, (), fill, problem)
        for value in values:
            key = identity(value)
            if key not in fitting and all(self.judge.fits(value, schema) for schema in flat):
                fitting[key] = value
        problem = None
        if not fitting:
            problem = Problem("none of the values fits" if values else "enum is empty", "enum", pointer)
        return Shape(pointer, frozenset(), tuple(fitting.values()), (), None, None, None, (), fill, problem)

    def values_of(self, conjunction: Conjunction) -> tuple[Any, ...] | None:
        """All values of a conjunction, where they are told one by one."""
        values: dict[Any, Any] = {}
        for flat in self.alternatives.of(conjunction):
            own = _all_values(self.of(flat))
            if own is None:
                return None
            for value in own:
                values.setdefault(identity(value), value)
        return tuple(values.values())

    def _as_opposites(self, flat: Flat) -> list[Schema]:
        """That distinct items contain one of a kind, said the other way round: not all of them are of another."""
        found = []
        for schema in flat:
            for contains in schema.arrays.contains if schema.arrays is not None else ():
                key = (schema, contains)
                if key not in self._turned:
                    item = self.alternatives.negations.no(contains.item)
                    anything = Schema(schema.pointer, schema.resource)
                    none = Arrays(prefix=(anything,) * contains.skip, items=item)
                    self._turned[key] = Schema(schema.pointer, schema.resource, types=ATOMS["array"], arrays=none)
                found.append(self._turned[key])
        return found

    def _merge_objects(self, flat: Flat) -> tuple[tuple[ObjectShape, ...], Problem | None]:
        parts = [(schema, schema.objects) for schema in flat if schema.objects is not None]
        return ObjectMerge(self, parts).result()


def _all_values(shape: Shape) -> tuple[Any, ...] | None:
    """All values of a shape, where it says them one by one."""
    if shape.values is not None:
        return shape.values
    if shape.atoms <= {"null", "boolean"}:
        return (*(shape.booleans if "boolean" in shape.atoms else ()), *((None,) if "null" in shape.atoms else ()))
    return None


def _exact(number: int | float) -> Decimal:
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def _merge_numbers(flat: Flat, atoms: frozenset[str], excluded: list[Any]) -> tuple[NumberShape | None, Problem | None]:
    low: tuple[Decimal, bool] | None = None  # (bound, is exclusive): the greater one binds
    high: tuple[Decimal, bool] | None = None  # (-bound, is exclusive), so that the greater one binds too
    multiple: Decimal | None = None
    steps: set[Decimal] = set()
    pointer = flat[0].pointer if flat else ""
    for schema in flat:
        numbers: Numbers | None = schema.numbers
        if numbers is None:
            continue
        pointer = schema.pointer
        for bound, is_exclusive in ((numbers.minimum, False), (numbers.exclusive_minimum, True)):
            if bound is not None:
                found = (_exact(bound), is_exclusive)
                low = found if low is None else max(low, found)
        for bound, is_exclusive in ((numbers.maximum, False), (numbers.exclusive_maximum, True)):
            if bound is not None:
                found = (-_exact(bound), is_exclusive)
                high = found if high is None else max(high, found)
        if numbers.multiple_of is not None:
            step = _exact(numbers.multiple_of)
            multiple = step if multiple is None else _common_multiple(multiple, step)
        steps.update(map(_exact, numbers.not_multiple_of))
    shape = NumberShape(
        atoms,
        None if low is None else low[0],
        None if high is None else -high[0],
        low is not None and low[1],
        high is not None and high[1],
        multiple,
        tuple(sorted({_exact(v) for v in excluded if isinstance(v, int | float) and not isinstance(v, bool)})),
        tuple(sorted(steps)),
    )
    if number_dfa(shape, pointer) is None:
        keyword = "minimum" if multiple is None else "multipleOf"
        return None, Problem("no number fits the bounds", keyword, pointer)
    return shape, None


def _common_multiple(a: Decimal, b: Decimal) -> Decimal:
    """The least positive number that both divide."""
    (an, ad), (bn, bd) = a.as_integer_ratio(), b.as_integer_ratio()
    numerator, denominator = an * bn // gcd(an, bn), gcd(ad, bd)
    return Decimal(numerator) / Decimal(denominator)


def _merge_strings(flat: Flat, excluded: list[Any]) -> tuple[StringShape | None, Problem | None]:
    low, high = 0, None
    patterns: list[tuple[str, str]] = []
    formats: list[tuple[str, str]] = []
    against: list[tuple[str, str]] = []
    other_formats: list[tuple[str, str]] = []
    pointer = flat[0].pointer if flat else ""
    for schema in flat:
        strings: Strings | None = schema.strings
        if strings is None:
            continue
        pointer = schema.pointer
        low, high = max(low, strings.min_length), lower(high, strings.max_length)
        if strings.pattern is not None:
            patterns.append((strings.pattern, f"{pointer}/pattern"))
        if strings.format is not None:
            formats.append((strings.format, f"{pointer}/format"))
        against += [(pattern, f"{pointer}/pattern") for pattern in strings.excluded_patterns]
        other_formats += [(name, f"{pointer}/format") for name in strings.excluded_formats]
    if high is not None and low > high:
        return None, Problem(f"minLength {low} is above maxLength {high}", "minLength", pointer)
    names = tuple(sorted({value for value in excluded if isinstance(value, str)}))
    shape = StringShape(low, high, tuple(patterns), tuple(formats), tuple(against), tuple(other_formats), names)
    if string_pattern(shape, pointer) is None:
        keyword = "pattern" if patterns else "format" if formats else "not"
        return None, Problem("no string fits the pattern, the format and the length together", keyword, pointer)
    return shape, None


def _refuse_narrow_formats(strings: StringShape) -> None:
    """What is compared with texts must be all that may be of a format."""
    for name, pointer in strings.formats:
        if format_dfa(name) is not None and not is_exact(name):
            raise UnsupportedForm(
                f"what is no {name!r} cannot be told",
                keyword="format",
                pointer=pointer,
                remedy="use a pattern instead",
            )


def _refuse_excluded(excluded: list[Any], kind: type, pointer: str) -> None:
    if any(isinstance(value, kind) for value in excluded):
        raise UnsupportedForm(
            "excluding one whole array or object is not supported",
            keyword="not",
            pointer=pointer,
            remedy="say what is allowed instead",
        )

"""What a flat conjunction of schemas allows, type by type: the typed middle between reading and emitting.

The keywords of all schemas of the conjunction are merged: the tighter bound, all patterns, and for each
property or item the conjunction of what every schema says about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import gcd
from typing import Any

from fillengine.errors import UnsupportedForm
from fillengine.templates.alternatives import Alternatives, Flat
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
    NUMERIC,
    Arrays,
    Conjunction,
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
class ArrayShape:
    """`prefix`: the first items one by one; `rest`: those behind; `high` None: any number.

    `is_unique`: no two items are the same.
    """

    prefix: tuple[Conjunction, ...]
    rest: Conjunction
    low: int
    high: int | None
    is_unique: bool = False


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
    object: ObjectShape | None
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
        return shape.object is None or any(
            member.is_required and self.is_empty(member.value, depth + 1) for member in shape.object.members
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
        numbers = strings = array = shaped = None
        if atoms & NUMERIC:
            numbers, trouble = _merge_numbers(flat, atoms & NUMERIC, excluded)
            if numbers is None:
                atoms -= NUMERIC
            problem = problem or trouble
        if "string" in atoms:
            strings, trouble = _merge_strings(flat, excluded)
            if strings is None:
                atoms -= {"string"}
            problem = problem or trouble
        if "array" in atoms:
            _refuse_excluded(excluded, list, pointer)
            array, trouble = self._merge_arrays(flat)
            if array is None:
                atoms -= {"array"}
            problem = problem or trouble
        if "object" in atoms:
            _refuse_excluded(excluded, dict, pointer)
            shaped, trouble = self._merge_objects(flat)
            if shaped is None:
                atoms -= {"object"}
            problem = problem or trouble
        opposites = [
            schema.opposite
            for schema in flat
            if schema.opposite is not None and (schema.opposite.types is None or schema.opposite.types & atoms)
        ]
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
            return Shape(pointer, frozenset(), values, (), None, None, None, None, fill, problem)
        for value in values:
            key = identity(value)
            if key not in fitting and all(self.judge.fits(value, schema) for schema in flat):
                fitting[key] = value
        problem = None
        if not fitting:
            problem = Problem("none of the values fits" if values else "enum is empty", "enum", pointer)
        return Shape(pointer, frozenset(), tuple(fitting.values()), (), None, None, None, None, fill, problem)

    def _merge_arrays(self, flat: Flat) -> tuple[ArrayShape | None, Problem | None]:
        parts: list[Arrays] = []
        low, high = 0, None
        for schema in flat:
            arrays = schema.arrays
            if arrays is None:
                continue
            parts.append(arrays)
            low = max(low, arrays.min_items)
            high = lower(high, arrays.max_items)
        is_unique = any(arrays.unique_items for arrays in parts) and (high is None or high > 1)
        for schema in flat:
            if schema.arrays is not None:
                _refuse_arrays(schema, schema.arrays, has_prefix=is_unique and any(a.prefix for a in parts))
        if is_unique and (distinct := self._distinct(parts)) is not None:
            high = lower(high, len(distinct))
        if high is not None and low > high:
            return None, Problem(f"minItems {low} is above maxItems {high}", "minItems", flat[0].pointer)
        length = max((len(arrays.prefix) for arrays in parts), default=0)
        if high is not None:
            length = min(length, high)
        prefix = []
        for number in range(length):
            sources = (a.prefix[number] if number < len(a.prefix) else a.items for a in parts)
            prefix.append(tuple(self._read(source) for source in sources if source is not None))
        rest = tuple(self._read(arrays.items) for arrays in parts if arrays.items is not None)
        return ArrayShape(tuple(prefix), rest, low, high, is_unique), None

    def _distinct(self, parts: Sequence[Arrays]) -> tuple[Any, ...] | None:
        """The values among which the items of a uniqueItems array choose, where they are told one by one."""
        rest = tuple(self._read(arrays.items) for arrays in parts if arrays.items is not None)
        if not rest:
            return None
        values: dict[Any, Any] = {}
        for flat in self.alternatives.of(rest):
            own = _all_values(self.of(flat))
            if own is None:
                return None
            for value in own:
                values.setdefault(identity(value), value)
        return tuple(values.values())

    def _merge_objects(self, flat: Flat) -> tuple[ObjectShape | None, Problem | None]:
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
    shape = NumberShape(
        atoms,
        None if low is None else low[0],
        None if high is None else -high[0],
        low is not None and low[1],
        high is not None and high[1],
        multiple,
        tuple(sorted({_exact(v) for v in excluded if isinstance(v, int | float) and not isinstance(v, bool)})),
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
    if high is not None and low > high:
        return None, Problem(f"minLength {low} is above maxLength {high}", "minLength", pointer)
    names = tuple(sorted({value for value in excluded if isinstance(value, str)}))
    shape = StringShape(low, high, tuple(patterns), tuple(formats), tuple(against), names)
    if string_pattern(shape) is None:
        keyword = "pattern" if patterns else "format" if formats else "not"
        return None, Problem("no string fits the pattern, the format and the length together", keyword, pointer)
    return shape, None


def _refuse_excluded(excluded: list[Any], kind: type, pointer: str) -> None:
    if any(isinstance(value, kind) for value in excluded):
        raise UnsupportedForm(
            "excluding one whole array or object is not supported",
            keyword="not",
            pointer=pointer,
            remedy="say what is allowed instead",
        )


def _refuse_arrays(schema: Schema, arrays: Arrays, *, has_prefix: bool) -> None:
    keyword = None
    if arrays.unique_items and has_prefix:
        keyword = "uniqueItems"
    elif arrays.contains is not None and not (arrays.min_contains == 0 and arrays.max_contains is None):
        keyword = "contains"
    elif arrays.unevaluated_items is not None:
        keyword = "unevaluatedItems"
    if keyword is not None:
        raise UnsupportedForm(
            f"{keyword} cannot be enforced while an array is written",
            keyword=keyword,
            pointer=f"{schema.pointer}/{keyword}",
            remedy="leave it out and check the result, or describe the items one by one in prefixItems",
        )

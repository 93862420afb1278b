"""What a JSON Schema says, as frozen records (drafts 4 to 2020-12).

A `Schema` is what one schema object says: its keywords, checked and typed, whatever their draft. Schemas
below it are `Place`s, read when they are needed (see `reading`). Records compare by identity, and conjunctions
of them (tuples) are the keys of everything that is remembered later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

from fillengine.templates.references import Resource

# The type "number" is two atoms, so that "a number, but no integer" can be said.
ATOMS: Mapping[str, frozenset[str]] = {
    "null": frozenset({"null"}),
    "boolean": frozenset({"boolean"}),
    "integer": frozenset({"integer"}),
    "number": frozenset({"integer", "fraction"}),
    "string": frozenset({"string"}),
    "array": frozenset({"array"}),
    "object": frozenset({"object"}),
}
ALL_ATOMS: frozenset[str] = frozenset().union(*ATOMS.values())
NUMERIC = ATOMS["number"]


class Place(NamedTuple):
    """A schema that stands somewhere: not read yet."""

    raw: Any
    pointer: str
    resource: Resource


Source = Union["Place", "Schema"]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Bounds as the schema writes them (int or float). `not_multiple_of` is the negation of `multipleOf`."""

    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: int | float | None = None
    exclusive_maximum: int | float | None = None
    multiple_of: int | float | None = None
    not_multiple_of: tuple[int | float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Strings:
    """What is excluded never stands in a document: it is how the negation of `pattern` and `format` is written."""

    min_length: int = 0
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    excluded_patterns: tuple[str, ...] = ()
    excluded_formats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Contains:
    """`low` to `high` (None: any number) of the items behind the first `skip` fit `item`.

    A document writes `skip` 0; others come from the negation of `items` behind a prefix.
    """

    item: Source
    low: int = 1
    high: int | None = None
    skip: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Some property has a name that fits `name` and a value that fits `value` (None: any). No document writes it:
    it is the negation of what all properties must fit."""

    name: Source
    value: Source | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """`items` is for the items behind `prefix`, whatever the draft calls it.

    `evaluates`: what `contains` says, in a draft in which it evaluates the items that fit.
    """

    prefix: tuple[Source, ...] = ()
    items: Source | None = None
    min_items: int = 0
    max_items: int | None = None
    unique_items: bool = False
    contains: tuple[Contains, ...] = ()
    unevaluated_items: Source | None = None
    evaluates: Source | None = None


Clause = tuple[frozenset[str], frozenset[str]]
"""Properties of which one is there, or some of which not all are: see `presence`."""


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """`properties` None: the keyword is absent (an object about which nothing is declared).

    Draft 4 to 7's `dependencies` stands under `dependent_required` and `dependent_schemas`.
    `together`: which properties may be there together; no document writes it like this.
    `derived`: made by a rewriting, so that `properties` here declares nothing.
    """

    properties: Mapping[str, Source] | None = None
    pattern_properties: Mapping[str, Source] | None = None
    additional: Source | None = None
    required: tuple[str, ...] = ()
    property_names: Source | None = None
    min_properties: int = 0
    max_properties: int | None = None
    dependent_required: Mapping[str, tuple[str, ...]] | None = None
    dependent_schemas: Mapping[str, Source] | None = None
    unevaluated_properties: Source | None = None
    wanted: tuple[Wanted, ...] = ()
    together: tuple[Clause, ...] = ()
    derived: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Logic:
    """Schemas that apply to the same value. `ref_first`: `$ref`/`allOf` stand before `properties`.

    `dynamic_ref`: `$dynamicRef` or `$recursiveRef`, and what it says.
    `conditional` is set with `if`: `then` and `otherwise` are the branches (None: anything).
    `derived`: made by a rewriting, so that the pointer of its schema is where that began.
    """

    ref: str | None = None
    dynamic_ref: tuple[str, str] | None = None
    all_of: tuple[Source, ...] = ()
    any_of: tuple[Source, ...] = ()
    one_of: tuple[Source, ...] = ()
    negated: Source | None = None
    conditional: Source | None = None
    then: Source | None = None
    otherwise: Source | None = None
    discriminator: str | None = None
    ref_first: bool = False
    derived: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """What one schema object says. A part that is None says nothing.

    types:     atoms (see ATOMS) that are allowed, None: all
    values:    `enum` and `const` together, None: no restriction
    excluded:  values that must not be (the negation of `const` and `enum`; no document writes it)
    opposite:  a schema that must not hold (the negation of what has no other; no document writes it like this)
    fill:      "verbatim" or "free", from `x-fill`
    never:     the schema `false`
    """

    pointer: str
    resource: Resource
    types: frozenset[str] | None = None
    values: tuple[Any, ...] | None = None
    excluded: tuple[Any, ...] = ()
    opposite: Schema | None = None
    numbers: Numbers | None = None
    strings: Strings | None = None
    arrays: Arrays | None = None
    objects: Objects | None = None
    logic: Logic | None = None
    fill: str | None = None
    never: bool = False

    @property
    def is_flat(self) -> bool:
        """No other schema applies to the same value, and no keyword asks which do."""
        objects = self.objects
        return (
            self.logic is None
            and (objects is None or (objects.dependent_required is None and objects.dependent_schemas is None))
            and (self.arrays is None or self.arrays.unevaluated_items is None)
        )

    @property
    def says_values_only(self) -> bool:
        """Its values (and types) are all that it restricts."""
        return (
            self.numbers is None
            and self.strings is None
            and self.arrays is None
            and self.objects is None
            and not self.excluded
            and self.opposite is None
        )

    @property
    def is_true(self) -> bool:
        """Every value satisfies it, as is seen without reading on."""
        return self.logic is None and self.says_nothing

    @property
    def says_nothing(self) -> bool:
        """Nothing but `logic` restricts a value."""
        return (
            self.types is None
            and self.values is None
            and self.numbers is None
            and self.strings is None
            and self.arrays is None
            and self.objects is None
            and self.fill is None
            and not self.excluded
            and self.opposite is None
            and not self.never
        )


Conjunction = tuple[Schema, ...]


class Problem(NamedTuple):
    """Why nothing satisfies a schema: what is wrong, the keyword, and the pointer of the schema that has it."""

    what: str
    keyword: str
    pointer: str


def escape(token: str) -> str:
    """One token of a JSON pointer (RFC 6901, 3)."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def identity(value: Any) -> Any:
    """A hashable key: equal for values that JSON Schema calls equal (1 and 1.0 are, 1 and true are not)."""
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, dict):
        return ("object", frozenset((name, identity(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(identity(item) for item in value))
    return value

"""Objects: the merged keywords of all schemas that apply, name by name and key class by key class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import prod
from typing import TYPE_CHECKING, Any

from fillengine.automata.dfa import Dfa, intersection
from fillengine.errors import UnsupportedForm
from fillengine.templates.keys import few_words, key_classes, lifted_keys
from fillengine.templates.presence import WAYS_LIMIT, Names, can_hold, refusal, settled, ways
from fillengine.templates.reading import keyword_in
from fillengine.templates.scalars import StringShape, can_have_length, string_value
from fillengine.templates.schema import Clause, Conjunction, Objects, Problem, Schema

# The ways in which members and extras share what is wanted are tried one by one: shapes of one object, and bits.
_WAYS_LIMIT = 256
_TRIED_LIMIT = 20_000
_WANTED_LIMIT = 4

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
    `high` characters, have values that fit `value`. Each key has one spelling. `grants`: see ObjectShape."""

    key: Dfa
    low: int
    high: int | None
    value: Conjunction
    grants: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class KeyClass:
    """Undeclared keys (of the automaton `keys`, None: any) whose values fit `value`; `is_open`: written freely."""

    keys: Dfa | None
    value: Conjunction
    is_open: bool


@dataclass(frozen=True, slots=True, eq=False)
class ObjectShape:
    """`members` in the order in which they are written; `low` and `high` bound the number of properties.

    names:      all keys that are told apart from `extras`, also those that are never written
    num_wants:  what is wanted of extras: each of these bits must be in `Extra.grants` of some one that is written
    clauses:    which members may be there together; only where `low` and `high` say nothing
    """

    members: tuple[Member, ...]
    extras: tuple[Extra, ...]
    low: int
    high: int | None
    names: tuple[str, ...]
    num_wants: int = 0
    clauses: tuple[Clause, ...] = ()


class ObjectMerge:
    """One object shape in the making."""

    def __init__(self, shapes: Shapes, parts: Sequence[tuple[Schema, Objects]]) -> None:
        self._shapes, self._parts = shapes, parts
        self._read = shapes.alternatives.reader.read
        self._is_closed = shapes.is_closed
        self._patterns: dict[str, StringShape] = {}
        for schema, objects in parts:
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
        self._together = tuple(clause for _, objects in parts for clause in objects.together)
        self._names.update(dict.fromkeys(sorted({name for some, every in self._together for name in some | every})))
        self._wanted: list[tuple[Schema, Conjunction]] = [
            (self._read(wanted.name), () if wanted.value is None else (self._read(wanted.value),))
            for _, objects in parts
            for wanted in objects.wanted
        ]
        if len(self._wanted) > _WANTED_LIMIT:
            raise UnsupportedForm(
                f"more than {_WANTED_LIMIT} properties are wanted without a name",
                keyword=keyword_in(parts[0][0].pointer),
                pointer=parts[0][0].pointer,
                remedy="say what is allowed instead",
            )
        self._key_rules = tuple(
            self._read(objects.property_names) for _, objects in parts if objects.property_names is not None
        )

    def result(self) -> tuple[tuple[ObjectShape, ...], Problem | None]:
        """The shapes, any of which will do: one for each way to grant what is wanted. None at all: the problem."""
        parts = self._parts
        low = max((objects.min_properties for _, objects in parts), default=0)
        high = None
        for _, objects in parts:
            high = lower(high, objects.max_properties)
        required = {name for _, objects in parts for name in objects.required}
        low = max(low, len(required))
        if high is not None and low > high:
            problem = f"at least {low} properties are required, maxProperties is {high}"
            return (), Problem(problem, "maxProperties", parts[0][0].pointer)
        classes = self._classes()
        extras = self._extras(classes)
        hidden = self._wanted_names(classes)
        members = []
        judge = self._shapes.judge
        for name in self._names:
            if self._key_rules and not judge.admits(name, self._key_rules):
                if name in required:
                    problem = f"property {name!r} is required, but propertyNames forbids its name"
                    return (), Problem(problem, "propertyNames", parts[0][0].pointer)
                continue
            members.append(Member(name, self._value_of(name), name in required))
        shapes = []
        is_bounded = high is not None or low > len(required) or bool(self._wanted)
        for names in self._presences(members, required, is_bounded=is_bounded):
            some = members
            if self._together:
                some = [
                    Member(member.name, member.value, member.name in names.required)
                    for member in members
                    if member.name not in names.absent
                ]
            fewest = max(low, len(names.required))
            for granted in self._ways(some, high):
                shape = self._with(granted, some, extras, classes, hidden)
                if shape is not None:
                    shapes.append(
                        ObjectShape(*shape, fewest, high, tuple(self._names), self._num_open(granted), names.clauses)
                    )
        if not shapes and self._together:
            return (), Problem("no properties can be together as they must", "required", parts[0][0].pointer)
        if not shapes:
            return (), Problem("no property can be what is wanted", "not", parts[0][0].pointer)
        return tuple(shapes), None

    def _presences(self, members: list[Member], required: set[str], *, is_bounded: bool) -> Iterator[Names]:
        """Which members must be there and which must not, and clauses for the others, but where members are counted."""
        if not self._together:
            yield Names(frozenset(required), frozenset(), ())
            return
        names = {member.name for member in members}
        absent = frozenset(self._names.keys() - names)
        absent |= {member.name for member in members if any(schema.never for schema in member.value)}
        found = settled(self._together, frozenset(required), absent)
        pointer = next(schema.pointer for schema, objects in self._parts if objects.together)
        if found is None or found.required & found.absent or not can_hold(found, pointer):
            return
        if not is_bounded:
            yield found
            return
        for number, way in enumerate(ways(found)):
            if number == WAYS_LIMIT:
                raise refusal(f"properties that must be together can be so in more than {WAYS_LIMIT} ways", pointer)
            yield way

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

    def _classes(self) -> list[KeyClass]:
        """The classes of undeclared keys, by the patterns that they match; none where no such key is ever written."""
        if self._wanted:
            may_be_open = True
        elif not self._patterns and (not self._may_be_open() or self._is_false()):
            return []
        else:
            may_be_open = self._may_be_open()
        patterns = tuple((pattern, shape.patterns[0][1]) for pattern, shape in self._patterns.items())
        found = []
        for matching, keys in key_classes(patterns):
            if matching or may_be_open:
                value = self._class_value(matching)
                if not any(schema.never for schema in value):
                    found.append(KeyClass(keys, value, is_open=bool(matching) or self._may_be_open()))
        return found

    def _extras(self, classes: list[KeyClass]) -> tuple[Extra, ...]:
        """The undeclared keys that may be written freely. Few ones are members like others, since they can run out."""
        extras = []
        for one in classes:
            if one.is_open:
                for lifted, low, high in self._allowed_keys(one.keys, self._key_rules):
                    words = few_words(lifted, low, high) if self._patterns or self._key_rules else None
                    if words is None:
                        extras.append(Extra(lifted, low, high, one.value))
                    else:
                        self._names.update(dict.fromkeys(words))
        return tuple(extras)

    def _is_false(self) -> bool:
        return any(self._read(rest).never for rest in self._rests() if rest is not None)

    def _rests(self) -> list[Any]:
        return [
            objects.unevaluated_properties if objects.additional is None else objects.additional
            for _, objects in self._parts
        ]

    def _wanted_names(self, classes: list[KeyClass]) -> frozenset[str]:
        """Names that are wanted and few are members too. Those among them that are written for that reason only."""
        hidden: set[str] = set()
        for some in _subsets(range(len(self._wanted))):
            rules = (*self._key_rules, *(self._wanted[number][0] for number in some))
            for one in classes:
                for lifted, low, high in self._allowed_keys(one.keys, rules):
                    words = few_words(lifted, low, high)
                    if words is not None:
                        hidden.update(word for word in words if not one.is_open and word not in self._names)
                        self._names.update(dict.fromkeys(words))
        return frozenset(hidden)

    def _ways(self, members: list[Member], high: int | None) -> list[tuple[str | None, ...]]:
        """For each thing that is wanted, the member that is to grant it; None: an undeclared one."""
        choices: list[list[str | None]] = []
        for name_rule, _ in self._wanted:
            admits = self._shapes.judge.admits
            choices.append([None, *(member.name for member in members if admits(member.name, (name_rule,)))])
        required = {member.name for member in members if member.is_required}
        ways = []
        for way in islice(product(*choices), _TRIED_LIMIT):
            if high is None or len(required.union(way)) <= high:
                ways.append(way)
        if len(ways) > _WAYS_LIMIT or prod(map(len, choices)) > _TRIED_LIMIT:
            schema = next(schema for schema, objects in self._parts if objects.wanted)
            raise UnsupportedForm(
                f"there are more than {_WAYS_LIMIT} ways to have the properties that are wanted",
                keyword=keyword_in(schema.pointer),
                pointer=schema.pointer,
                remedy="say what is allowed instead",
            )
        return ways

    def _with(
        self,
        granted: tuple[str | None, ...],
        members: list[Member],
        extras: tuple[Extra, ...],
        classes: list[KeyClass],
        hidden: frozenset[str],
    ) -> tuple[tuple[Member, ...], tuple[Extra, ...]] | None:
        """Members and extras where what is wanted is granted in one way; None: it cannot be."""
        if not granted:
            return tuple(members), extras
        chosen = []
        for member in members:
            added = [value for (_, value), name in zip(self._wanted, granted, strict=True) if name == member.name]
            values = (*member.value, *(schema for value in added for schema in value))
            if added:
                chosen.append(Member(member.name, tuple(dict.fromkeys(values)), is_required=True))
            elif member.name not in hidden:
                chosen.append(member)
        others = [number for number, name in enumerate(granted) if name is None]
        found = list(extras)
        for some in _subsets(range(len(others))):
            wanted = [self._wanted[others[bit]] for bit in some]
            rules = (*self._key_rules, *(name for name, _ in wanted))
            for one in classes:
                values = (*one.value, *(schema for _, value in wanted for schema in value))
                for lifted, low, high in self._allowed_keys(one.keys, rules):
                    if few_words(lifted, low, high) is None:
                        grants = sum(1 << bit for bit in some)
                        found.append(Extra(lifted, low, high, tuple(dict.fromkeys(values)), grants))
        missing = (1 << len(others)) - 1
        for extra in found:
            missing &= ~extra.grants
        return None if missing else (tuple(chosen), tuple(found))

    @staticmethod
    def _num_open(granted: tuple[str | None, ...]) -> int:
        return sum(name is None for name in granted)

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

    def _allowed_keys(self, keys: Dfa | None, rules: Conjunction) -> list[tuple[Dfa, int, int | None]]:
        """The parts of a key class that fit `rules`: (JSON automaton, fewest, most characters)."""
        if not rules:
            return [(lifted_keys(keys), 0, None)]
        allowed = []
        for flat in self._shapes.alternatives.of(rules):
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


def least_granting(grants: Sequence[int], wants: int) -> int | None:
    """How many of `grants` it takes at least to have all bits of `wants`; None: they have not."""
    if not wants:
        return 0
    rest = (least_granting(grants, wants & ~some) for some in grants if some & wants)
    return min((1 + number for number in rest if number is not None), default=None)


def _subsets(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All but the empty one, small ones first."""
    for size in range(1, len(numbers) + 1):
        yield from combinations(numbers, size)


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

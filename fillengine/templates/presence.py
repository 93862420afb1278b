"""Schemas that look only at which properties an object has, as clauses.

    {"required": ["a"]}                          a
    {"dependencies": {"a": ["b"]}}               not a, or b
    {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}     a or b

A clause (some, every) says: one of the names `some` is there, or not all of the names `every` are. A rule is the
conjunction of its clauses. Any combination of such schemas is one rule, where alternatives would multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from math import prod

from fillengine.automata import presence as automata
from fillengine.errors import UnsupportedForm
from fillengine.templates.reading import Reader
from fillengine.templates.schema import ALL_ATOMS, ATOMS, Clause, Logic, Objects, Schema, Source

WAYS_LIMIT = 4096
"""Past this many ways to have what must be together an object is refused: they may all be looked through."""

# A rule of more clauses than this is not worth it: alternatives are tried instead.
_CLAUSES_LIMIT = 128
# Schemas within schemas that are looked into. What lies deeper is not taken for a rule; alternatives are tried instead.
_DEPTH_LIMIT = 32
# Names that depend on one another: what they lack is found by recursion.
_NAMES_LIMIT = 256

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """`clauses` are for objects; `elsewhere`: whether values that are no objects satisfy the schema."""

    clauses: frozenset[Clause]
    elsewhere: bool


ALWAYS = Rule(frozenset(), elsewhere=True)
NEVER = Rule(frozenset({(_NOTHING, _NOTHING)}), elsewhere=False)


_Combination = Callable[[Sequence[Rule]], Rule]


class _TooManyClauses(Exception):
    pass


class PresenceRules:
    """The rules of the schemas of one document, each worked out once; None for those that look at more."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[Schema, Rule | None] = {}
        self._depth = 0

    def of(self, source: Source) -> Rule | None:
        schema = self._reader.read(source)
        if schema not in self._known:
            self._known[schema] = None  # what a recursion through itself finds
            if self._depth < _DEPTH_LIMIT:
                self._depth += 1
                with suppress(_TooManyClauses):
                    self._known[schema] = _all(self._parts(schema))
                self._depth -= 1
        return self._known[schema]

    def any_of(self, sources: Sequence[Source]) -> Rule | None:
        return self._combined(sources, _either)

    def one_of(self, sources: Sequence[Source]) -> Rule | None:
        return self._combined(sources, _one)

    def conditional(self, logic: Logic) -> Rule | None:
        """`if`, `then` and `else` of a schema."""
        assert logic.conditional is not None
        parts = (logic.conditional, logic.then, logic.otherwise)
        anything = Schema("", self._reader.root.resource)

        def combined(rules: Sequence[Rule]) -> Rule:
            condition, then, otherwise = rules
            return _both([_either([_opposite(condition), then]), _either([condition, otherwise])])

        return self._combined([anything if source is None else source for source in parts], combined)

    def opposite(self, source: Source) -> Rule | None:
        return self._combined((source,), lambda rules: _opposite(rules[0]))

    def dependency(self, objects: Objects, name: str) -> Rule | None:
        """What the presence of a property entails."""
        with suppress(_TooManyClauses):
            return self._dependency(objects, name)
        return None

    def _dependency(self, objects: Objects, name: str) -> Rule | None:
        needs = [(frozenset({needed}), _NOTHING) for needed in (objects.dependent_required or {}).get(name, ())]
        held: Rule | None = Rule(frozenset(needs), elsewhere=True)
        schemas = objects.dependent_schemas or {}
        if name in schemas:
            other = self.of(schemas[name])
            held = None if other is None or held is None else _both([held, other])
        if held is None:
            return None
        clauses = ((some, every | {name}) for some, every in held.clauses)
        return Rule(_reduced(clauses), elsewhere=True)

    def _combined(self, sources: Sequence[Source], combine: _Combination) -> Rule | None:
        rules = []
        for source in sources:
            rule = self.of(source)
            if rule is None:
                return None
            rules.append(rule)
        with suppress(_TooManyClauses):
            return combine(rules)
        return None

    def _parts(self, schema: Schema) -> Iterator[Rule | None]:
        """The rules that together are that of a schema."""
        if schema.never:
            yield NEVER
            return
        types, logic = schema.types, schema.logic
        if types is not None and types != ALL_ATOMS:
            yield Rule(frozenset(), elsewhere=False) if types == ATOMS["object"] else None
        if (
            schema.values is not None
            or schema.excluded
            or schema.opposite is not None
            or schema.numbers is not None
            or schema.strings is not None
            or schema.arrays is not None
            or schema.fill is not None
        ):
            yield None
        if schema.objects is not None:
            yield from self._objects(schema.objects)
        if logic is None:
            return
        if logic.discriminator is not None:
            yield None
        yield from map(self.of, self._reader.followed(schema))
        yield from map(self.of, logic.all_of)
        if logic.any_of:
            yield self.any_of(logic.any_of)
        if logic.one_of:
            yield self.one_of(logic.one_of)
        if logic.negated is not None:
            yield self.opposite(logic.negated)
        if logic.conditional is not None:
            yield self.conditional(logic)

    def _objects(self, objects: Objects) -> Iterator[Rule | None]:
        says_more = (
            objects.pattern_properties is not None
            or objects.additional is not None
            or objects.property_names is not None
            or objects.min_properties
            or objects.max_properties is not None
            or objects.unevaluated_properties is not None
            or objects.wanted
            or (objects.properties is not None and not objects.derived)  # these describe what may be written
        )
        if says_more:
            yield None
            return
        for source in (objects.properties or {}).values():
            if not self._reader.read(source).never:
                yield None
                return
        clauses = [(frozenset({name}), _NOTHING) for name in objects.required]
        clauses += [(_NOTHING, frozenset({name})) for name in objects.properties or ()]
        yield Rule(_reduced((*clauses, *objects.together)), elsewhere=True)
        for name in dict.fromkeys((*(objects.dependent_required or ()), *(objects.dependent_schemas or ()))):
            yield self.dependency(objects, name)


def _all(rules: Iterator[Rule | None]) -> Rule | None:
    """All of them together; None where one of them is none."""
    found = []
    for rule in rules:
        if rule is None:
            return None
        found.append(rule)
    return _both(found)


def _reduced(clauses: Iterable[Clause]) -> frozenset[Clause]:
    """Without clauses that always hold, and those that follow from another one."""
    found: list[Clause] = []
    for some, every in sorted(set(clauses), key=lambda clause: len(clause[0]) + len(clause[1])):
        if not some & every and not any(a <= some and b <= every for a, b in found):
            found.append((some, every))
            if len(found) > _CLAUSES_LIMIT:
                raise _TooManyClauses
    return frozenset(found)


def _both(rules: Sequence[Rule]) -> Rule:
    clauses = (clause for rule in rules for clause in rule.clauses)
    return Rule(_reduced(clauses), elsewhere=all(rule.elsewhere for rule in rules))


def _either(rules: Sequence[Rule]) -> Rule:
    def joined(a: Rule, b: Rule) -> Rule:
        if len(a.clauses) * len(b.clauses) > _CLAUSES_LIMIT**2:
            raise _TooManyClauses
        clauses = ((some | other, every | all_of) for some, every in a.clauses for other, all_of in b.clauses)
        return Rule(_reduced(clauses), elsewhere=a.elsewhere or b.elsewhere)

    return reduce(joined, rules, NEVER)


def _opposite(rule: Rule) -> Rule:
    """One clause fails: none of `some` is there, and all of `every` are."""
    failing = [
        Rule(
            frozenset(
                {(_NOTHING, frozenset({name})) for name in some} | {(frozenset({name}), _NOTHING) for name in every}
            ),
            elsewhere=False,
        )
        for some, every in rule.clauses
    ]
    return Rule(_either(failing).clauses, elsewhere=not rule.elsewhere)


def _one(rules: Sequence[Rule]) -> Rule:
    """Exactly one of them."""
    pairs = [_either([_opposite(a), _opposite(b)]) for number, a in enumerate(rules) for b in rules[:number]]
    found = _both([_either(rules), *pairs])
    return Rule(found.clauses, elsewhere=sum(rule.elsewhere for rule in rules) == 1)


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of an object's names: those that must be there, those that must not, and clauses for others."""

    required: frozenset[str]
    absent: frozenset[str]
    clauses: tuple[Clause, ...]


def settled(clauses: Iterable[Clause], required: frozenset[str], absent: frozenset[str]) -> Names | None:
    """What follows from clauses about names of which some are known. None: they cannot hold, as is seen at once."""
    left = list(clauses)
    while True:
        before, left, is_settled = left, [], True
        for some, every in before:
            if some & required or every & absent or some & every:
                continue
            some, every = some - absent, every - required
            if not some and not every:
                return None
            if not every and len(some) == 1:
                required, is_settled = required | some, False
            elif not some and len(every) == 1:
                absent, is_settled = absent | every, False
            else:
                left.append((some, every))
        if is_settled:
            return Names(required, absent, tuple(left))


def can_hold(names: Names, pointer: str) -> bool:
    """Whether names can be added to the required ones so that all clauses hold. Raises UnsupportedForm."""
    order = {
        name: index
        for index, name in enumerate(sorted({name for some, every in names.clauses for name in some | every}))
    }
    clauses = in_bits(names.clauses, order)
    for group in automata.connected(clauses):
        ways = prod(max(1, some.bit_count()) for some, _ in group)
        size = reduce(int.__or__, (some | every for some, every in group)).bit_count()
        if ways > WAYS_LIMIT or size > _NAMES_LIMIT:
            raise refusal(f"properties that must be together can be so in more than {WAYS_LIMIT} ways", pointer)
    return automata.Presence(clauses, [1] * len(order)).missing(0) is not None


def in_bits(clauses: Iterable[Clause], order: dict[str, int]) -> tuple[automata.Clause, ...]:
    """The clauses with names as bits."""
    return tuple(
        (sum(1 << order[name] for name in some), sum(1 << order[name] for name in every)) for some, every in clauses
    )


def ways(names: Names) -> Iterator[Names]:
    """Ways without clauses, one of which every object that fits has."""
    work: list[Names | None] = [names]
    while work:
        one = work.pop()
        if one is None:
            continue
        if not one.clauses:
            yield one
            continue
        name = min(min(some | every) for some, every in one.clauses)
        work.append(settled(one.clauses, one.required, one.absent | {name}))
        work.append(settled(one.clauses, one.required | {name}, one.absent))


def refusal(problem: str, pointer: str) -> UnsupportedForm:
    return UnsupportedForm(
        problem, keyword="dependentRequired", pointer=pointer, remedy="use fewer combinations of required properties"
    )

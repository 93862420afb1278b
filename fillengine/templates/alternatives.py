"""Conjunctions of schemas as disjunctions of flat ones.

A *conjunction* is a tuple of schemas that one value must all satisfy. `Alternatives.of` rewrites it into
*flat* conjunctions, any of which the value must satisfy: `$ref` and `allOf` are followed, `anyOf`, `oneOf`,
`if`, `not` and `dependentSchemas` are distributed, but what says only which properties are there is one condition
(`presence`). What is left of each schema are the keywords that look at the value itself. The records are finite in
number, so are their combinations, and recursion through `$ref` comes back to a conjunction that is already known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from math import prod

from fillengine.errors import UnsupportedForm
from fillengine.templates.evaluated import looks_around, settled
from fillengine.templates.negation import Negations
from fillengine.templates.presence import PresenceRules, Rule
from fillengine.templates.reading import Reader, keyword_in
from fillengine.templates.schema import ALL_ATOMS, ATOMS, Conjunction, Objects, Schema, identity

# Past this many flat conjunctions of one value a schema is refused: each of them is compiled.
ALTERNATIVES_LIMIT = 4096
# A branch of a oneOf is kept apart from its rivals by so many alternatives, of so many rivals that take more than
# one; past it, texts are compared.
_TAKEN_APART_LIMIT = 64
_RIVALS_LIMIT = 4
# Likewise where more rivals than this are none because of some property without a name: each may be any property.
_WANTING_LIMIT = 1

# Branches of an anyOf that all may evaluate properties: alternatives are all sets of them.
TOGETHER_LIMIT = 6

# Alternatives above this number are looked through for those that others make needless; each is compared with the
# first few of those that are kept, the shortest.
_ABSORBING = 16
_ABSORBED_BY = 256

TRIES_LIMIT = 8 * ALTERNATIVES_LIMIT
"""Past this many drafts of one value a schema is refused, also where most of them come to nothing."""

Flat = Conjunction
Open = frozenset[Schema]


@dataclass(frozen=True, slots=True)
class _Group:
    """One of `branches` must hold too. `keyword` and `pointer` say where it comes from.

    `is_exclusive`: exactly one of them, not just any. `owners`: see _Draft.
    """

    branches: tuple[Conjunction, ...]
    keyword: str
    pointer: str
    opened: Open
    owners: Open
    is_exclusive: bool = False


class _Draft:
    """A flat conjunction in the making: `flat` in order, `seen` what was followed, `denied` what must not hold,
    `groups` to distribute. `under`: what applies in place below each schema that restricts what is unevaluated (an
    *owner* of these)."""

    __slots__ = ("denied", "flat", "groups", "seen", "under")

    def __init__(self) -> None:
        self.flat: dict[Schema, None] = {}
        self.seen: set[Schema] = set()
        self.denied: set[Schema] = set()
        self.under: dict[Schema, dict[Schema, None]] = {}
        self.groups: list[_Group] = []

    def copy(self, groups: Sequence[_Group]) -> _Draft:
        other = _Draft()
        other.flat, other.seen, other.groups = dict(self.flat), set(self.seen), list(groups)
        other.denied = set(self.denied)
        other.under = {owner: dict(schemas) for owner, schemas in self.under.items()}
        return other

    @property
    def atoms(self) -> frozenset[str]:
        atoms = ALL_ATOMS
        for schema in self.flat:
            if schema.types is not None:
                atoms &= schema.types
        return atoms


class Alternatives:
    """`is_empty` says whether a conjunction provably has no value at all: see `shapes`.

    Such proofs work on *loose* alternatives, in which oneOf is taken for anyOf: what is empty then is empty
    all the more, and a proof never asks for another one.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.negations = Negations(reader)
        self._rules = PresenceRules(reader)
        self.is_negated = False
        """What is worked out is excluded later, so that leaving values out would let them in."""
        self.is_empty: Callable[[Conjunction], bool] = lambda _: False
        self._known: dict[Conjunction, tuple[Flat, ...]] = {}
        self._loose: dict[Conjunction, tuple[Flat, ...]] = {}
        self._known_tags: dict[Conjunction, _Tags] = {}
        self._derived: dict[tuple[Schema, str], Schema] = {}
        self._settled: dict[tuple[Schema, Conjunction], tuple[Schema, Schema]] = {}

    def of(self, conjunction: Conjunction) -> tuple[Flat, ...]:
        """The flat conjunctions, none where a reference or `false` leaves nothing. Raises UnsupportedForm."""
        if len(conjunction) == 1 and conjunction[0].is_flat:
            schema = conjunction[0]
            if schema.never:
                return ()
            return ((),) if schema.says_nothing else (conjunction,)
        return self._expanded(conjunction, self._known, is_loose=False)

    def loose(self, conjunction: Conjunction) -> tuple[Flat, ...]:
        """As `of`, with oneOf taken for anyOf."""
        return self._expanded(conjunction, self._loose, is_loose=True)

    def _expanded(
        self, conjunction: Conjunction, known: dict[Conjunction, tuple[Flat, ...]], *, is_loose: bool
    ) -> tuple[Flat, ...]:
        found = known.get(conjunction)
        if found is None:
            draft = _Draft()
            flats: list[Flat] = []
            if all(self._add(draft, schema, frozenset(), frozenset()) for schema in conjunction):
                flats.extend(self._distribute(draft, is_loose=is_loose))
            found = known[conjunction] = _absorbed(tuple(dict.fromkeys(flats)))
        return found

    def _add(self, draft: _Draft, schema: Schema, opened: Open, owners: Open) -> bool:
        """Add one schema and what it follows. False: nothing satisfies the draft any more."""
        work: list[tuple[Schema, Open, Open, bool]] = [(schema, opened, owners, False)]
        while work:
            schema, opened, owners, is_last = work.pop()
            if is_last:
                draft.flat[schema] = None
                continue
            if schema in opened and self.is_negated:
                raise UnsupportedForm(
                    "what this refers to by way of itself cannot be excluded",
                    keyword="$ref",
                    pointer=schema.pointer,
                    remedy="say what is allowed instead",
                )
            if schema in opened:
                return False  # a reference to itself with nothing between: the least solution is no value
            if owners and self._evaluates_nothing(schema):
                owners = frozenset()
            if schema in draft.seen:
                _refuse_second_way(draft, schema, owners)
                continue
            draft.seen.add(schema)
            if looks_around(schema):
                owners |= {schema}
            for owner in owners:
                draft.under.setdefault(owner, {})[schema] = None
            if schema.never or any(self.reader.are_alike(schema, denied) for denied in draft.denied):
                return False
            logic = schema.logic
            if logic is not None and logic.negated is not None:
                denied = self.reader.read(logic.negated)
                if any(self.reader.are_alike(denied, other) for other in draft.seen):
                    return False
                draft.denied.add(denied)
            if logic is None:
                self._note(draft, schema, opened, owners)
                continue
            inner = opened | {schema}
            followed = self.reader.followed(schema)
            followed.extend(map(self.reader.read, logic.all_of))
            if logic.ref_first:
                if not schema.says_nothing:
                    work.append((schema, opened, owners, True))
                work.extend((part, inner, owners, False) for part in reversed(followed))
            else:
                work.extend((part, inner, owners, False) for part in reversed(followed))
                if not schema.says_nothing:
                    draft.flat[schema] = None
            self._group(draft, schema, inner, owners)
        return True

    def _evaluates_nothing(self, schema: Schema) -> bool:
        return schema in self.negations.parts or (schema.logic is not None and schema.logic.derived)

    def _note(self, draft: _Draft, schema: Schema, opened: Open, owners: Open) -> None:
        if not schema.says_nothing:
            draft.flat[schema] = None
            if schema.objects is not None:
                self._depend(draft, schema, schema.objects, opened, owners)

    def _group(self, draft: _Draft, schema: Schema, opened: Open, owners: Open) -> None:
        logic, read, pointer = schema.logic, self.reader.read, schema.pointer
        assert logic is not None
        if schema.objects is not None:
            self._depend(draft, schema, schema.objects, opened, owners)
        tagged: tuple[Schema, ...] = ()
        rules = self._rules
        if logic.discriminator is not None:
            tagged = (self._needs(schema, "discriminator", (logic.discriminator,)),)
        if logic.any_of and (tagged or not self._by_presence(draft, schema, "anyOf", rules.any_of(logic.any_of))):
            branches = tuple((read(place), *tagged) for place in logic.any_of)
            if owners:  # each that holds evaluates something
                branches = _all_together(schema, branches)
            keyword, place = ("anyOf", f"{pointer}/anyOf") if not logic.derived else (keyword_in(pointer), pointer)
            draft.groups.append(_Group(branches, keyword, place, opened, owners))
        if logic.one_of and (tagged or not self._by_presence(draft, schema, "oneOf", rules.one_of(logic.one_of))):
            branches = tuple((read(place), *tagged) for place in logic.one_of)
            keyword, place = ("oneOf", f"{pointer}/oneOf") if not logic.derived else (keyword_in(pointer), pointer)
            group = _Group(branches, keyword, place, opened, owners, len(branches) > 1)
            draft.groups.append(group)
        if logic.negated is not None and not self._by_presence(draft, schema, "not", rules.opposite(logic.negated)):
            negated = self.negations.of(read(logic.negated))
            keyword, place = ("not", f"{pointer}/not") if not logic.derived else (keyword_in(pointer), pointer)
            draft.groups.append(_Group(tuple((part,) for part in negated), keyword, place, opened, owners))
        if logic.conditional is not None and not self._by_presence(draft, schema, "if", rules.conditional(logic)):
            self._condition(draft, schema, opened, owners)

    def _by_presence(self, draft: _Draft, schema: Schema, why: str, rule: Rule | None) -> bool:
        """Add what a part of a schema says of the presence of properties, where that is all that it says."""
        if rule is None:
            return False
        if rule.elsewhere and not rule.clauses:
            return True
        key = (schema, f"presence by {why}")
        if key not in self._derived:
            objects = Objects(together=tuple(rule.clauses), derived=True)
            types = None if rule.elsewhere else ATOMS["object"]
            self._derived[key] = Schema(schema.pointer, schema.resource, types=types, objects=objects)
        draft.flat[self._derived[key]] = None
        return True

    def _condition(self, draft: _Draft, schema: Schema, opened: Open, owners: Open) -> None:
        """`if`/`then`/`else`: (if and then) or (not if and else)."""
        logic, read = schema.logic, self.reader.read
        assert logic is not None
        assert logic.conditional is not None
        if logic.then is None and logic.otherwise is None and not owners:
            return
        condition = read(logic.conditional)
        negated = self.negations.of(condition)
        then = () if logic.then is None else (read(logic.then),)
        otherwise = () if logic.otherwise is None else (read(logic.otherwise),)
        branches = ((condition, *then), *((part, *otherwise) for part in negated))
        draft.groups.append(_Group(branches, "if", f"{schema.pointer}/if", opened, owners))

    def _depend(self, draft: _Draft, schema: Schema, objects: Objects, opened: Open, owners: Open) -> None:
        """`dependentRequired`, `dependentSchemas`: the property is absent, or the rest holds."""
        needs, schemas = objects.dependent_required or {}, objects.dependent_schemas or {}
        for name in dict.fromkeys((*needs, *schemas)):
            if self._by_presence(draft, schema, f"dependency on {name}", self._rules.dependency(objects, name)):
                continue
            present = [self._needs(schema, f"with {name}", (*needs.get(name, ()), name))]
            if name in schemas:
                present.append(self.reader.read(schemas[name]))
            absent = self.negations.without(schema, name)
            if not needs.get(name) and name not in schemas:
                continue
            branches: tuple[Conjunction, ...] = ((absent,), tuple(present))
            group = _Group(branches, "dependentRequired", schema.pointer, opened, owners)
            draft.groups.append(group)

    def _needs(self, schema: Schema, why: str, names: tuple[str, ...]) -> Schema:
        """An object that has `names`; the same record for the same question."""
        key = (schema, why)
        if key not in self._derived:
            objects = Objects(required=tuple(dict.fromkeys(names)), derived=True)
            self._derived[key] = Schema(schema.pointer, schema.resource, types=ATOMS["object"], objects=objects)
        return self._derived[key]

    def _distribute(self, draft: _Draft, *, is_loose: bool) -> Iterator[Flat]:
        """All choices of one branch from each group, exclusive groups last (their base is known then)."""
        work, num_found, num_tried = [draft], 0, 0
        while work:
            draft = work.pop()
            num_tried += 1
            if not draft.atoms:
                continue
            if not draft.groups:
                num_found += 1
                yield self._finished(draft)
                continue
            index = next((i for i, group in enumerate(draft.groups) if not group.is_exclusive), 0)
            group = draft.groups[index]
            others = draft.groups[:index] + draft.groups[index + 1 :]
            too_many = num_found + len(work) + len(group.branches) > ALTERNATIVES_LIMIT
            if too_many or num_tried > TRIES_LIMIT:
                raise UnsupportedForm(
                    f"the branches combine in more than {ALTERNATIVES_LIMIT} ways",
                    keyword=group.keyword,
                    pointer=group.pointer,
                    remedy="use fewer branches, or fewer anyOf/oneOf beside each other",
                )
            branches = group.branches
            if group.is_exclusive and not is_loose:
                branches = self._exclusive(tuple(draft.flat), group)
            grown = []
            for branch in branches:
                copy = draft.copy(others)
                if all(self._add(copy, schema, group.opened, group.owners) for schema in branch):
                    grown.append(copy)
            work.extend(reversed(grown))

    def _finished(self, draft: _Draft) -> Flat:
        """The flat conjunction; what its schemas say of the unevaluated is said of what nothing in it evaluates."""
        if not draft.under:
            return tuple(draft.flat)
        flat: dict[Schema, None] = {}
        for schema in draft.flat:
            applied = tuple(draft.under.get(schema, ()))
            if not applied:
                flat[schema] = None
                continue
            key = (schema, applied)
            if key not in self._settled:
                self._settled[key] = settled(schema, applied)
            flat.update(dict.fromkeys(part for part in self._settled[key] if not part.says_nothing))
        return tuple(flat)

    def _exclusive(self, base: Flat, group: _Group) -> tuple[Conjunction, ...]:
        """The branches of a oneOf so that no two hold at once: as they are where they are apart anyway."""
        branches = group.branches
        tags = [self._tags(branch) for branch in branches]
        against: list[list[int]] = [[] for _ in branches]
        for i, branch in enumerate(branches):
            for j in range(i):
                if _are_apart(tags[i], tags[j]) or self._is_empty((*base, *branch, *branches[j])):
                    continue
                against[i].append(j)
                against[j].append(i)
        exclusive: list[Conjunction] = []
        for branch, tag, rivals in zip(branches, tags, against, strict=True):
            others = [(branches[rival][0], tags[rival]) for rival in rivals]
            exclusive += self._without(base, branch, tag, others)
        return tuple(exclusive)

    def _without(
        self, base: Flat, branch: Conjunction, tags: _Tags, rivals: list[tuple[Schema, _Tags]]
    ) -> Iterator[Conjunction]:
        """A branch without what fits any of its rivals: conjunctions, one of which every such value fits."""
        parts = [self._parts_beside((*base, *branch), rival) for rival, _ in rivals]
        if not all(parts):
            return  # whatever fits the branch fits this rival
        ways = [len(some) for some in parts if len(some) > 1]
        wanting = sum(any(part.objects is not None and part.objects.wanted for part in some) for some in parts)
        if prod(ways) <= _TAKEN_APART_LIMIT and len(ways) <= _RIVALS_LIMIT and wanting <= _WANTING_LIMIT:
            extra = (self.negations.any_of(rival, some) for (rival, _), some in zip(rivals, parts, strict=True))
            yield (*branch, *extra)
            return
        told = {name: [rival for rival in rivals if not _are_told_apart(tags, rival[1], name)] for name in tags.values}
        name = min(told, key=lambda name: len(told[name]), default=None)
        if name is None or len(told[name]) == len(rivals):
            yield (*branch, *(self.negations.apart(rival) for rival, _ in rivals))
            return
        # Where the property is there, its value tells most rivals apart.
        tags = _Tags(
            tags.atoms, {other: values for other, values in tags.values.items() if other != name}, tags.required
        )
        present, absent = self._needs(branch[0], f"having {name}", (name,)), self.negations.without(branch[0], name)
        yield from self._without(base, (*branch, present), tags, told[name])
        if not self._is_empty((*base, *branch, absent)):
            yield from self._without(base, (*branch, absent), tags, rivals)

    def _parts_beside(self, beside: Conjunction, rival: Schema) -> tuple[Schema, ...]:
        """The opposite of a rival, without what cannot be beside a branch anyway."""
        return tuple(part for part in self.negations.of(rival) if not self._is_empty((*beside, part)))

    def _is_empty(self, conjunction: Conjunction) -> bool:
        try:
            return self.is_empty(conjunction)
        except UnsupportedForm:
            return False

    def _tags(self, branch: Conjunction) -> _Tags:
        """What tells a branch apart at a glance."""
        found = self._known_tags.get(branch)
        if found is None:
            found = self._known_tags[branch] = self._find_tags(branch)
        return found

    def _find_tags(self, branch: Conjunction) -> _Tags:
        try:
            flats = self.loose(branch)
        except UnsupportedForm:
            return _Tags(ALL_ATOMS, {}, frozenset())
        atoms: frozenset[str] = frozenset()
        tags: dict[str, frozenset[object]] | None = None
        needed: frozenset[str] | None = None
        for flat in flats:
            own = ALL_ATOMS
            values: dict[str, frozenset[object]] = {}
            required: set[str] = set()
            for schema in flat:
                own = own if schema.types is None else own & schema.types
                if schema.objects is None:
                    continue
                required.update(schema.objects.required)
                for name, source in (schema.objects.properties or {}).items():
                    raw = getattr(source, "raw", None)
                    if isinstance(raw, dict) and ("const" in raw or "enum" in raw):
                        child = self.reader.read(source)
                        if child.values is not None and len(child.values) <= 64:
                            values[name] = frozenset(map(identity, child.values))
            atoms |= own
            needed = frozenset(required) if needed is None else needed & required
            if tags is None:
                tags = values
            else:
                tags = {name: tag | values[name] for name, tag in tags.items() if name in values}
        return _Tags(atoms, tags or {}, needed or frozenset())


def _all_together(schema: Schema, branches: tuple[Conjunction, ...]) -> tuple[Conjunction, ...]:
    """Any of the branches, and any of them together."""
    if len(branches) > TOGETHER_LIMIT:
        raise UnsupportedForm(
            f"an anyOf of more than {TOGETHER_LIMIT} branches applies beside a keyword about what is unevaluated",
            keyword="anyOf",
            pointer=schema.pointer,
            remedy="use oneOf, or additionalProperties and repeat the property names",
        )
    sizes = range(1, len(branches) + 1)
    return tuple(
        tuple(dict.fromkeys(schema for branch in some for schema in branch))
        for size in sizes
        for some in combinations(branches, size)
    )


def _refuse_second_way(draft: _Draft, schema: Schema, owners: Open) -> None:
    for owner in owners:
        if schema not in draft.under.get(owner, ()):
            raise UnsupportedForm(
                f"{schema.pointer or 'the schema'} applies twice, once under a keyword about what is unevaluated",
                keyword="unevaluatedProperties",
                pointer=owner.pointer,
                remedy="use additionalProperties and repeat the property names",
            )


@dataclass(frozen=True, slots=True)
class _Tags:
    """The atoms of a branch, for some properties the only values that it allows there, and those that it requires."""

    atoms: frozenset[str]
    values: dict[str, frozenset[object]]
    required: frozenset[str]


def _absorbed(flats: tuple[Flat, ...]) -> tuple[Flat, ...]:
    """Without flat conjunctions that only say more than another one about strings and numbers.

    Schemas in different places may say the same: `not` and `allOf` over `anyOf`s repeat the same few patterns.
    """
    if len(flats) <= _ABSORBING:
        return flats
    keys = [frozenset(map(_content, flat)) for flat in flats]
    kept: list[int] = []
    for index in sorted(range(len(flats)), key=lambda index: len(keys[index])):
        if not any(
            keys[least] <= keys[index] and all(isinstance(key, tuple) for key in keys[index] - keys[least])
            for least in kept[:_ABSORBED_BY]
        ):
            kept.append(index)
    return tuple(flats[index] for index in sorted(kept))


def _content(schema: Schema) -> object:
    """What a schema about strings and numbers says, as a tuple; any other schema itself."""
    if schema.objects is not None or schema.arrays is not None or schema.values is not None or schema.excluded:
        return schema
    if schema.opposite is not None or schema.fill is not None or schema.never:
        return schema
    numbers = None if schema.numbers is None else astuple(schema.numbers)
    strings = None if schema.strings is None else astuple(schema.strings)
    return schema.types, numbers, strings


def _are_apart(a: _Tags, b: _Tags) -> bool:
    common = a.atoms & b.atoms
    if not common:
        return True
    if common != ATOMS["object"]:
        return False
    return any(name in a.required | b.required and _are_told_apart(a, b, name) for name in a.values)


def _are_told_apart(a: _Tags, b: _Tags, name: str) -> bool:
    """Whether no object that has the property fits both."""
    return name in b.values and a.values[name].isdisjoint(b.values[name])

"""Everything that a form consists of, explored from its root: conjunctions, their shapes, and which have values.

The outline is what a template is written from, as often as one likes (once for each grounding document).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates.alternatives import Alternatives, Flat
from fillengine.templates.array_shapes import ArrayShape, ArrayWalk
from fillengine.templates.object_shapes import ObjectShape, least_granting
from fillengine.templates.presence import can_hold, settled
from fillengine.templates.reading import Reader, keyword_in
from fillengine.templates.schema import Conjunction, Problem, Schema
from fillengine.templates.shapes import Shape, Shapes

# Values nested deeper than this (recursion apart) are refused: what walks a template has limits too.
DEPTH_LIMIT = 400


class Outline:
    """`root` is the form's conjunction. `alive(c)` are the flat conjunctions of `c` that have a value.

    is_closed:      undeclared properties are not written unless the schema describes them
    is_free_order:  properties come in any order
    """

    def __init__(self, document: Any, *, is_closed: bool, is_free_order: bool = False) -> None:
        self._being_read: set[Schema] = set()
        reader = Reader(document)
        alternatives = Alternatives(reader)
        shapes = Shapes(alternatives, is_closed=is_closed)
        self._start(reader, alternatives, shapes, (reader.root,), is_free_order=is_free_order)
        if not self._alive[self.root]:
            raise self._why_empty()

    def _start(
        self, reader: Reader, alternatives: Alternatives, shapes: Shapes, root: Conjunction, *, is_free_order: bool
    ) -> None:
        self.reader, self._alternatives, self._shapes, self.root = reader, alternatives, shapes, root
        self.is_free_order = is_free_order
        self._alive: dict[Conjunction, tuple[Flat, ...]] = {}
        self._open_world: tuple[Alternatives, Shapes] | None = None
        self._against: dict[Schema, Outline | None] = {}
        self._explore()

    @property
    def has_opposites(self) -> bool:
        """Some value is compared with what it must not be."""
        return bool(self._against)

    @property
    def first_opposite(self) -> str:
        """The pointer of the first schema that a value is compared with."""
        return next(iter(self._against)).pointer

    def against(self, opposite: Schema) -> Outline | None:
        """The outline of a schema that must not hold: all that fits it, in any order. None: nothing does."""
        if opposite in self._against:
            return self._against[opposite]
        if opposite in self._being_read:
            raise UnsupportedForm(
                "a schema is excluded from itself",
                keyword="not",
                pointer=opposite.pointer,
                remedy="say what is allowed instead",
            )
        self._being_read.add(opposite)
        if self._open_world is None:
            alternatives = Alternatives(self.reader)
            alternatives.is_negated = True
            self._open_world = (alternatives, Shapes(alternatives, is_closed=False))
        outline = Outline.__new__(Outline)
        outline._being_read = self._being_read
        outline._start(self.reader, *self._open_world, (opposite,), is_free_order=True)
        self._being_read.remove(opposite)
        self._against[opposite] = outline if outline.alive(outline.root) else None
        return self._against[opposite]

    def alive(self, conjunction: Conjunction) -> tuple[Flat, ...]:
        return self._alive[conjunction]

    def shape(self, flat: Flat) -> Shape:
        return self._shapes.of(flat)

    def has_value(self, conjunction: Conjunction) -> bool:
        return bool(self._alive[conjunction])

    def _explore(self) -> None:
        """Find every conjunction that the root can reach, and of those the ones that have a value.

        The least solution: a value is finite, so a recursion that cannot end has none.
        """
        found: dict[Conjunction, tuple[Flat, ...]] = {}
        order: dict[Flat, tuple[Conjunction, ...]] = {}  # what its values need, in the order of discovery
        work: list[tuple[Conjunction, int]] = [(self.root, 0)]
        for conjunction, depth in work:
            if conjunction in found:
                continue
            if depth > DEPTH_LIMIT:
                raise UnsupportedForm(
                    f"values nest deeper than {DEPTH_LIMIT} levels",
                    keyword="properties",
                    pointer="/".join(conjunction[0].pointer.split("/")[:9]),
                    remedy="make the schema recursive ($ref), or flatter",
                )
            found[conjunction] = flats = self._alternatives.of(conjunction)
            for flat in flats:
                if flat not in order:
                    shape = self._shapes.of(flat)
                    order[flat] = needed(shape)
                    for opposite in shape.opposites:
                        self.against(opposite)
                    work.extend((child, depth + 1) for child, _ in children(shape))
        alive: set[Flat] = set()
        waiting = list(reversed(order))
        while waiting:
            still = []
            for flat in waiting:
                if self._is_alive(self._shapes.of(flat), order[flat], found, alive):
                    alive.add(flat)
                else:
                    still.append(flat)
            if len(still) == len(waiting):
                break
            waiting = still
        if not waiting:
            self._alive = found
        else:
            self._alive = {c: tuple(flat for flat in flats if flat in alive) for c, flats in found.items()}

    def _is_alive(
        self,
        shape: Shape,
        needs: tuple[Conjunction, ...],
        found: dict[Conjunction, tuple[Flat, ...]],
        alive: set[Flat],
    ) -> bool:
        if shape.values is not None:
            return bool(shape.values)
        if shape.atoms - {"array", "object"}:
            return True
        if shape.array is not None and shape.array.low == 0 and not shape.array.counted:
            return True
        if not needs and any(one.low == 0 and not one.num_wants and not one.clauses for one in shape.objects):
            return True

        def lives(conjunction: Conjunction) -> bool:
            return any(flat in alive for flat in found[conjunction])

        if shape.array is not None and shape.array.counted:
            walk = ArrayWalk(shape.array)
            if walk.start in walk.living(lives):
                return True
        elif shape.array is not None and all(map(lives, required_items(shape.array))):
            return True
        return any(_object_lives(one, lives) for one in shape.objects)

    def _why_empty(self) -> UnsatisfiableForm:
        """Descend to the first part that has no value of its own making."""
        conjunction, seen = self.root, set[Conjunction]()
        while True:
            seen.add(conjunction)
            pointer = conjunction[0].pointer
            flats = self._alternatives.of(conjunction)
            problem: Problem | None = None
            deeper: Conjunction | None = None
            for flat in flats:
                shape = self._shapes.of(flat)
                problem = problem or shape.problem
                # Items that are counted are explored in other conjunctions.
                dead = (child for child in needed(shape) if child not in seen and not self._alive.get(child, True))
                deeper = deeper or next(dead, None)
            never = next((schema for schema in conjunction if schema.never), None)
            if never is not None:
                alone = len(conjunction) == 1
                what = "the schema false allows nothing" if alone else f"what {pointer} needs is excluded here"
                problem = Problem(what, keyword_in(never.pointer), never.pointer)
            if problem is None and deeper is not None:
                conjunction = deeper
                continue
            if problem is None:
                endless = any(needed(self._shapes.of(flat)) for flat in flats) or any(
                    schema.logic is not None and schema.logic.ref is not None for schema in conjunction
                )
                what = "the recursion never ends" if endless else "no value is allowed here"
                problem = Problem(what, "$ref" if endless else _combining(conjunction), pointer)
            what, keyword, pointer = problem
            return UnsatisfiableForm(what, keyword=keyword, pointer=pointer, remedy="loosen one of the constraints")


def _combining(conjunction: Conjunction) -> str:
    """The first keyword that combines schemas, of some that together allow nothing."""
    for schema in conjunction:
        logic = schema.logic
        if logic is not None:
            if logic.negated is not None:
                return "not"
            if logic.one_of:
                return "oneOf"
            return "anyOf" if logic.any_of else "if" if logic.conditional is not None else "allOf"
    return keyword_in(conjunction[0].pointer)


def _object_lives(shape: ObjectShape, lives: Any) -> bool:
    if not all(lives(member.value) for member in shape.members if member.is_required):
        return False
    if shape.clauses:
        required = frozenset(member.name for member in shape.members if member.is_required)
        dead = frozenset(member.name for member in shape.members if not lives(member.value))
        names = settled(shape.clauses, required, dead)
        if names is None or not can_hold(names, ""):
            return False
    living = [extra for extra in shape.extras if lives(extra.value)]
    fewest = least_granting([extra.grants for extra in living], (1 << shape.num_wants) - 1)
    num_required = sum(member.is_required for member in shape.members)
    if fewest is None or (shape.high is not None and num_required + fewest > shape.high):
        return False
    if living:
        return True
    return sum(1 for member in shape.members if lives(member.value)) >= shape.low


def required_items(shape: ArrayShape) -> tuple[Conjunction, ...]:
    if shape.low > len(shape.prefix) + shape.head_length:
        return (*shape.prefix, shape.rest)
    return shape.prefix[: shape.low]


def needed(shape: Shape) -> tuple[Conjunction, ...]:
    """What must have values for an array or an object of this shape to have one."""
    found: tuple[Conjunction, ...] = ()
    if shape.array is not None:
        found += required_items(shape.array)
    for one in shape.objects:
        found += tuple(member.value for member in one.members if member.is_required)
    return found


def children(shape: Shape) -> Iterator[tuple[Conjunction, str]]:
    """The conjunctions one level down, and the last token of their labels."""
    if shape.array is not None and shape.array.counted:
        walk = ArrayWalk(shape.array)
        for state in walk.states():
            for item, _ in walk.steps(state):
                yield item, "*"
    elif shape.array is not None:
        for number, item in enumerate(shape.array.prefix):
            yield item, str(number)
        if shape.array.high is None or shape.array.high > len(shape.array.prefix) + shape.array.head_length:
            yield shape.array.rest, "*"
    for one in shape.objects:
        for member in one.members:
            yield member.value, member.name
        for extra in one.extras:
            yield extra.value, "*"

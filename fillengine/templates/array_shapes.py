"""Arrays: the merged keywords of all schemas that apply, item by item, and how items are counted.

An array in which items of a kind are counted is a walk: its states are how many items are written and how many of
each kind, as far as that matters, and each step writes one item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from fillengine.errors import UnsupportedForm
from fillengine.templates.object_shapes import lower
from fillengine.templates.schema import Arrays, Conjunction, Problem, Schema, identity

if TYPE_CHECKING:
    from fillengine.templates.alternatives import Flat
    from fillengine.templates.shapes import Shapes

# A counted array of more states than this is refused: each is a node of its own.
WALK_LIMIT = 4096

# Distinct values of a prefix are told one by one up to this number.
_HEADS_LIMIT = 256

State = tuple[int, tuple[int, ...]]  # (items written, items of each kind)


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """`low` to `high` (None: any number) of the items behind the first `skip` fit `item`; `other`: they do not."""

    item: Schema
    other: Schema
    low: int
    high: int | None
    skip: int


@dataclass(frozen=True, slots=True, eq=False)
class ArrayShape:
    """`prefix`: the first items one by one; `rest`: those behind; `high` None: any number.

    `is_unique`: no two items are the same. `counted`: kinds of items that are counted. `heads`: where there is a
    prefix beside `is_unique`, the distinct values that its items may have, in its place: those of `head_length` items
    go on with `rest`.
    """

    prefix: tuple[Conjunction, ...]
    rest: Conjunction
    low: int
    high: int | None
    is_unique: bool = False
    counted: tuple[Counted, ...] = ()
    heads: tuple[tuple[Any, ...], ...] = ()
    head_length: int = 0

    def item(self, number: int) -> Conjunction:
        return self.prefix[number] if number < len(self.prefix) else self.rest


class ArrayWalk:
    """The ways through an array whose items are counted."""

    def __init__(self, shape: ArrayShape) -> None:
        self._shape = shape
        skips = (counted.skip for counted in shape.counted)
        self._cap = max(len(shape.prefix), shape.low, *skips) if shape.high is None else shape.high
        self.start: State = (0, (0,) * len(shape.counted))

    def steps(self, state: State) -> Iterator[tuple[Conjunction, State]]:
        """What one more item may be, and the state behind it."""
        written, counts = state
        shape = self._shape
        if shape.high is not None and written >= shape.high:
            return
        options: list[list[tuple[Conjunction, int]]] = []
        for counted, count in zip(shape.counted, counts, strict=True):
            if written < counted.skip:
                options.append([((), count)])
            elif counted.high is not None:
                fits = [((counted.item,), count + 1)] if count < counted.high else []
                options.append([*fits, ((counted.other,), count)])
            elif count < counted.low:  # an item that fits need not be one of those that are counted
                options.append([((counted.item,), count + 1), ((), count)])
            else:
                options.append([((), count)])
        following = min(written + 1, self._cap)
        base = shape.item(written)
        for choice in product(*options):
            added = [schema for schemas, _ in choice for schema in schemas]
            yield tuple(dict.fromkeys((*base, *added))), (following, tuple(count for _, count in choice))

    def is_complete(self, state: State) -> bool:
        written, counts = state
        kinds = zip(self._shape.counted, counts, strict=True)
        return written >= self._shape.low and all(count >= counted.low for counted, count in kinds)

    def states(self) -> dict[State, None]:
        """All of them, in the order of discovery."""
        found: dict[State, None] = {self.start: None}
        work = [self.start]
        while work and len(found) <= WALK_LIMIT:
            for _, after in self.steps(work.pop()):
                if after not in found:
                    found[after] = None
                    work.append(after)
        return found

    def living(self, lives: Callable[[Conjunction], bool]) -> set[State]:
        """The states from which the array can be completed, where `lives` tells which items have a value."""
        alive: set[State] = set()
        for state in sorted(self.states(), reverse=True):  # a step never goes down
            steps = self.steps(state)
            if self.is_complete(state) or any(after in alive and lives(item) for item, after in steps):
                alive.add(state)
        return alive


class ArrayMerge:
    """One array shape in the making."""

    def __init__(self, shapes: Shapes, flat: Flat) -> None:
        self._shapes, self._flat = shapes, flat
        self._read = shapes.alternatives.reader.read
        self._parts = [(schema, schema.arrays) for schema in flat if schema.arrays is not None]

    def result(self) -> tuple[ArrayShape | None, Problem | None]:
        parts = [arrays for _, arrays in self._parts]
        low = max((arrays.min_items for arrays in parts), default=0)
        high = None
        for arrays in parts:
            high = lower(high, arrays.max_items)
        is_unique = any(arrays.unique_items for arrays in parts) and (high is None or high > 1)
        self._refuse(is_unique=is_unique)
        has_prefix = any(arrays.prefix for arrays in parts)
        if is_unique and not has_prefix and (distinct := self._num_distinct(parts)) is not None:
            high = distinct if high is None else min(high, distinct)
            is_unique = high > 1
        if high is not None and low > high:
            return None, Problem(f"minItems {low} is above maxItems {high}", "minItems", self._flat[0].pointer)
        length = max((len(arrays.prefix) for arrays in parts), default=0)
        if high is not None:
            length = min(length, high)
        prefix = []
        for number in range(length):
            sources = (a.prefix[number] if number < len(a.prefix) else a.items for a in parts)
            prefix.append(tuple(self._read(source) for source in sources if source is not None))
        rest = tuple(self._read(arrays.items) for arrays in parts if arrays.items is not None)
        if is_unique and prefix:
            return self._headed(prefix, rest, low, high)
        counted = () if is_unique else self._counted(high)
        shape = ArrayShape(tuple(prefix), rest, low, high, is_unique, counted)
        if counted and len(ArrayWalk(shape).states()) > WALK_LIMIT:
            raise UnsupportedForm(
                f"contains beside these bounds takes more than {WALK_LIMIT} states",
                keyword="contains",
                pointer=next(schema.pointer for schema, arrays in self._parts if arrays.contains),
                remedy="use smaller bounds",
            )
        return shape, None

    def _headed(
        self, prefix: list[Conjunction], rest: Conjunction, low: int, high: int | None
    ) -> tuple[ArrayShape | None, Problem | None]:
        """Distinct items behind a prefix whose items have few values each: its distinct values are told one by one."""
        values = [self._shapes.values_of(item) for item in prefix]
        told = [own for own in values if own is not None and not any(isinstance(one, dict | list) for one in own)]
        pointer = next(schema.pointer for schema, arrays in self._parts if arrays.unique_items)
        if len(told) < len(values) or prod(map(len, told)) > _HEADS_LIMIT:
            raise _refusal("uniqueItems", pointer)
        others = self._shapes.values_of(rest) if rest else None
        most = None if others is None else set(map(identity, others))
        heads = []
        for length in range(len(prefix) + 1):
            for head in product(*told[:length]):
                used = set(map(identity, head))
                room = 0 if length < len(prefix) else None if most is None else len(most - used)
                if len(used) == length and (room is None or length + room >= low):
                    heads.append(head)
        if not heads:
            return None, Problem("there are not enough distinct items", "uniqueItems", pointer)
        heads_only = ArrayShape((), rest, low, high, is_unique=True, heads=tuple(heads), head_length=len(prefix))
        return heads_only, None

    def _counted(self, high: int | None) -> tuple[Counted, ...]:
        no = self._shapes.alternatives.negations.no
        found = []
        for _, arrays in self._parts:
            for contains in arrays.contains:
                most = contains.high
                if most is not None and high is not None and most >= high:
                    most = None
                if contains.low or most is not None:
                    item = self._read(contains.item)
                    found.append(Counted(item, no(item), contains.low, most, contains.skip))
        return tuple(found)

    def _num_distinct(self, parts: Sequence[Arrays]) -> int | None:
        """How many values there are for the items of a uniqueItems array, where they are told one by one."""
        rest = tuple(self._read(arrays.items) for arrays in parts if arrays.items is not None)
        values = self._shapes.values_of(rest) if rest else None
        return None if values is None else len(values)

    def _refuse(self, *, is_unique: bool) -> None:
        for schema, arrays in self._parts:
            if is_unique and any(contains.low != 1 or contains.high is not None for contains in arrays.contains):
                raise _refusal("contains", schema.pointer)


def _refusal(keyword: str, pointer: str) -> UnsupportedForm:
    return UnsupportedForm(
        f"{keyword} cannot be enforced here while an array is written",
        keyword=keyword,
        pointer=pointer,
        remedy="leave it out and check the result, or list the values of the items (enum) in prefixItems",
    )

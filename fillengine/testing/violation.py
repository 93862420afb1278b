"""Values that just do not fit a schema: one minimal violation each, labelled with the keyword and its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jsonschema.validators
from hypothesis import reject
from hypothesis import strategies as st

from fillengine.errors import UnsatisfiableForm
from fillengine.templates import compile
from fillengine.testing.instance import texts

Path = tuple[str | int, ...]

# One of each type, the simplest first.
OF_OTHER_TYPES: tuple[Any, ...] = (None, False, 0, 0.5, "", [], {})
NEW_NAME = "unexpected"


@dataclass(frozen=True)
class Violation:
    """A value with one thing wrong.

    keyword         that the value violates; `pointer` leads to it in the schema
    instance_path   JSON pointer to the part of the value that is wrong
    message         what jsonschema says of it
    """

    value: Any
    keyword: str
    pointer: str
    instance_path: str
    message: str


def invalid_instances(schema: Any) -> st.SearchStrategy[Violation]:
    """A strategy of values that violate `schema` (a JSON Schema, a pydantic model or type) in one place only.

    A valid instance is drawn and changed by one step: a value of another type, a number one step outside of its
    bound, a string one character too long, a key too few or too many, ... Kept are values of which jsonschema
    reports exactly one error. Raises UnsatisfiableForm where the schema has no instance, and at the first draw where
    it has nothing but instances.
    """
    form = compile(schema, additional="schema")
    if form.schema is None or form.schema is True or form.schema == {}:
        raise UnsatisfiableForm(
            "every value fits this schema", keyword="", remedy="name a schema that forbids something"
        )
    judge = _judge_of(form.schema)
    hints = _Hints(form.schema)

    @st.composite
    def violations(draw: st.DrawFn) -> Violation:
        value = json.loads(draw(texts(form)))
        parts = list(_parts(value, ()))
        path, part = draw(st.sampled_from(parts))
        found = _violations(value, path, part, judge, hints)
        if not found:
            reject()
        labels = sorted({(each.keyword, each.pointer) for each in found})
        label = draw(st.sampled_from(labels))
        return draw(st.sampled_from([each for each in found if (each.keyword, each.pointer) == label]))

    return violations()


def _judge_of(schema: Any) -> Any:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


class _Hints:
    """Numbers and lengths that stand in a schema: what is just outside of a bound lies beside one of them."""

    def __init__(self, schema: Any) -> None:
        self.numbers: set[int | float] = set()
        self.counts: set[int] = set()
        self._read(schema)

    def _read(self, part: Any) -> None:
        if isinstance(part, dict):
            for name, value in part.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    is_count = name.startswith(("min", "max")) and name not in ("minimum", "maximum")
                    if is_count and isinstance(value, int):
                        self.counts.add(value)
                    else:
                        self.numbers.add(value)
                self._read(value)
        elif isinstance(part, list):
            for value in part:
                self._read(value)


def _violations(value: Any, path: Path, part: Any, judge: Any, hints: _Hints) -> list[Violation]:
    """What a change of one part violates: of each keyword at each place the first change, which is the nearest."""
    found: dict[tuple[str, str, str], Violation] = {}
    for other in [*_steps(part, hints), *OF_OTHER_TYPES]:
        changed = _replaced(value, path, other)
        errors = []
        for error in judge.iter_errors(changed):
            errors.append(error)
            if len(errors) == 2:
                break
        if len(errors) != 1:
            continue
        pointer = _pointer(errors[0].absolute_schema_path)
        place = _pointer(errors[0].absolute_path)
        key = (str(errors[0].validator), pointer, place)
        if key not in found:
            found[key] = Violation(changed, key[0], pointer, place, errors[0].message)
    return list(found.values())


def _pointer(path: Any) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _parts(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:4]):
            yield from _parts(inner, (*path, number))


def _replaced(value: Any, path: Path, other: Any) -> Any:
    if not path:
        return other
    changed = copy.deepcopy(value)
    part = changed
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = copy.deepcopy(other)
    return changed


def _steps(part: Any, hints: _Hints) -> Iterator[Any]:
    """Values of the same type that are one step away."""
    if isinstance(part, bool) or part is None:
        yield part is False
    elif isinstance(part, str):
        yield from _other_texts(part, hints)
    elif isinstance(part, int | float):
        yield from _other_numbers(part, hints)
    elif isinstance(part, list):
        yield from _other_lists(part, hints)
    else:
        yield from _other_objects(part, hints)


def _other_texts(text: str, hints: _Hints) -> Iterator[str]:
    filler = text[-1:] or "a"
    for count in sorted({0, *(bound + step for bound in hints.counts for step in (-1, 1))}):
        if 0 <= count <= 10_000:
            yield text[:count] if count <= len(text) else text + filler * (count - len(text))
    yield from (text + "x", "x" + text, text.swapcase(), text + "\n", "?" * len(text), text[:-1])


def _other_numbers(number: int | float, hints: _Hints) -> Iterator[int | float]:
    near = sorted(hints.numbers, key=lambda hint: abs(hint - number))
    for hint in near:
        yield hint
        for step in (1, 0.5, 0.001):
            exact = Decimal(repr(step))
            yield from (_number(Decimal(repr(hint)) - exact), _number(Decimal(repr(hint)) + exact))
    yield from (number + 1, -number - 1, _number(Decimal(repr(number)) + Decimal("0.5")))


def _number(exact: Decimal) -> int | float:
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def _other_lists(items: list[Any], hints: _Hints) -> Iterator[list[Any]]:
    if items:
        yield [*items, items[-1]]
        yield items[:-1]
    for count in sorted(hints.counts):
        for length in (count - 1, count + 1):
            if 0 <= length <= len(items):
                yield items[:length]
            elif items and length <= 1_000:
                yield items + [items[-1]] * (length - len(items))
    yield from ([*items, other] for other in OF_OTHER_TYPES)


def _other_objects(members: dict[str, Any], hints: _Hints) -> Iterator[dict[str, Any]]:
    for name in members:
        yield {other: value for other, value in members.items() if other != name}
    for other in OF_OTHER_TYPES:
        yield {**members, NEW_NAME: other}
    names = list(members)
    for count in sorted(hints.counts):
        if 0 < count <= len(names):
            yield {name: members[name] for name in names[: count - 1]}
        elif count <= 100:
            more = {f"{NEW_NAME} {number}": None for number in range(count + 1 - len(names))}
            yield {**members, **more}

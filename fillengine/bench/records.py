"""Records with known answers: what a contender is measured on.

A file of JSON Lines; each line an object with `id`, `kind`, `schema`, `document` and `truth` (the right answer).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fillengine.errors import DocumentError
from fillengine.templates import compile as compile_form


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    kind: str
    schema: dict[str, Any]
    document: str
    truth: dict[str, Any]


def read_records(path: Path, *, per_kind: int | None = None) -> list[Record]:
    """The records of a file kind by kind, at most `per_kind` of each, spread evenly. Raises DocumentError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [Record(**{name: json.loads(line)[name] for name in Record.__slots__}) for line in lines if line]
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}; give a file of records") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DocumentError(f"{path}: not a file of records ({error!r}); see `fillengine/bench/records.py`") from None
    chosen = []
    for kind in dict.fromkeys(record.kind for record in records):
        of_kind = [record for record in records if record.kind == kind]
        count = len(of_kind) if per_kind is None else min(per_kind, len(of_kind))
        chosen += [of_kind[index * len(of_kind) // count] for index in range(count)]
    if not chosen:
        raise DocumentError(f"{path}: no records in it; each line must be an object with {', '.join(Record.__slots__)}")
    return chosen


def mispaired(records: Sequence[Record]) -> list[Record]:
    """The records, each with the document of one of another kind: nothing in it answers the form.

    Raises DocumentError where all are of one kind.
    """
    found = []
    for index, record in enumerate(records):
        others = (records[(index + step) % len(records)] for step in range(1, len(records)))
        other = next((other for other in others if other.kind != record.kind), None)
        if other is None:
            raise DocumentError(f"all records are of kind {record.kind}; mispairing needs a second kind")
        found.append(replace(record, document=other.document))
    return found


def for_warming_up(records: Sequence[Record], count: int) -> list[tuple[int, Record]]:
    """Records to run before anything is measured, with their places: from all parts of `records`.

    Their documents are changed, so that no prefix cache will know those that are measured.
    """
    step = max(1, len(records) // count)
    chosen = list(enumerate(records))[::step][:count]
    return [(place, replace(record, document=f"(for warming up)\n\n{record.document}")) for place, record in chosen]


def is_valid(record: Record, text: str) -> bool:
    """Whether a text is JSON that fits the record's schema, formats included."""
    try:
        compile_form(record.schema).validate(text)
    except Exception:
        return False
    return True


def value_of(text: str) -> Any:
    """The value of a text; None where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def right_fields(truth: dict[str, Any], value: Any) -> int:
    """How many fields of `truth` are given exactly."""
    if not isinstance(value, dict):
        return 0
    return sum(1 for name, right in truth.items() if name in value and value[name] == right)


def field_accuracy(pairs: Iterable[tuple[Record, Any]]) -> float:
    """The share of fields that are right."""
    right = total = 0
    for record, value in pairs:
        right += right_fields(record.truth, value)
        total += len(record.truth)
    return right / total if total else 0.0

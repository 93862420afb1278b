"""Records with known answers: what a contender is measured on.

A file of JSON Lines; each line an object with `id`, `kind`, `schema`, `document` and `truth` (the right answer).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fillengine.errors import DocumentError


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    kind: str
    schema: dict[str, Any]
    document: str
    truth: dict[str, Any]


def read_records(path: Path, *, per_kind: int | None = None) -> list[Record]:
    """The records of a file, at most `per_kind` of each kind, spread evenly. Raises DocumentError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [Record(**{name: json.loads(line)[name] for name in Record.__slots__}) for line in lines if line]
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}; give a file of records") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DocumentError(f"{path}: not a file of records ({error!r}); see `fillengine/bench/records.py`") from None
    if per_kind is None:
        return records
    chosen = []
    for kind in dict.fromkeys(record.kind for record in records):
        of_kind = [record for record in records if record.kind == kind]
        count = min(per_kind, len(of_kind))
        chosen += [of_kind[index * len(of_kind) // count] for index in range(count)]
    return chosen


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

"""Contenders side by side over the same records: validity, accuracy, forward passes and time.

The contenders take turns record by record (A B C, A B C, …), so that what else the machine does falls on all of
them; times are compared as ratios of the same record's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fillengine.bench.contenders import Answer, Contender, is_valid, value_of
from fillengine.bench.records import Record, field_accuracy


@dataclass
class Outcome:
    """The answers of one contender, record by record."""

    name: str
    answers: list[Answer] = field(default_factory=list)


def run(
    contenders: Sequence[Contender],
    records: Sequence[Record],
    *,
    chunk: int = 1,
    report: Callable[[int], None] = lambda done: None,
) -> list[Outcome]:
    """Let the contenders take turns, `chunk` records at a time. `report` is told the records that are done."""
    outcomes = [Outcome(contender.name) for contender in contenders]
    done = 0
    for kind in dict.fromkeys(record.kind for record in records):
        of_kind = [record for record in records if record.kind == kind]
        for start in range(0, len(of_kind), chunk):
            part = of_kind[start : start + chunk]
            for contender, outcome in zip(contenders, outcomes, strict=True):
                outcome.answers += contender.answer(part)
            done += len(part)
            report(done)
    return outcomes


def in_turn(records: Sequence[Record]) -> list[Record]:
    """The order in which `run` takes the records: kind by kind."""
    kinds = dict.fromkeys(record.kind for record in records)
    return [record for kind in kinds for record in records if record.kind == kind]


def summary(records: Sequence[Record], outcome: Outcome, first: Outcome) -> dict[str, Any]:
    """The figures of one contender; ratios are against `first`."""
    answers = outcome.answers
    tokens = sum(len(answer.token_ids) for answer in answers)
    forwards = sum(answer.forwards for answer in answers)
    pairs = list(zip(records, answers, strict=True))
    ratios = [
        other.decode_seconds / answer.decode_seconds
        for answer, other in zip(answers, first.answers, strict=True)
        if answer.decode_seconds > 0
    ]
    by_kind = {
        kind: round(
            field_accuracy((record, value_of(answer.text)) for record, answer in pairs if record.kind == kind), 4
        )
        for kind in dict.fromkeys(record.kind for record in records)
    }
    proposed = sum(answer.proposed for answer in answers)
    return {
        "name": outcome.name,
        "records": len(answers),
        "valid": sum(is_valid(record, answer.text) for record, answer in pairs),
        "cut": sum(answer.is_cut for answer in answers),
        "same_tokens_as_first": sum(
            answer.token_ids == other.token_ids for answer, other in zip(answers, first.answers, strict=True)
        ),
        "accuracy": by_kind,
        "accuracy_mean_of_kinds": round(statistics.mean(by_kind.values()), 4),
        "tokens": tokens,
        "forwards": forwards,
        "forwards_per_token": round(forwards / max(tokens, 1), 4),
        "asserted": sum(answer.asserted for answer in answers),
        "proposed": proposed,
        "accepted_share": round(sum(answer.accepted for answer in answers) / proposed, 4) if proposed else None,
        "decode_seconds": round(sum(answer.decode_seconds for answer in answers), 2),
        "prefill_seconds": round(sum(answer.prefill_seconds for answer in answers), 2),
        "decode_speedup_total": round(
            sum(answer.decode_seconds for answer in first.answers)
            / max(sum(answer.decode_seconds for answer in answers), 1e-9),
            3,
        ),
        "decode_speedup_median": round(statistics.median(ratios), 3) if ratios else None,
        "decode_speedup_quartiles": [round(q, 3) for q in statistics.quantiles(ratios, n=4)]
        if len(ratios) > 1
        else None,
    }


def rows(records: Sequence[Record], outcome: Outcome) -> list[dict[str, Any]]:
    """One row a record, for the JSON file."""
    return [
        {"id": record.id, "contender": outcome.name, **asdict(answer)}
        for record, answer in zip(records, outcome.answers, strict=True)
    ]

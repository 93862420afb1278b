"""The figures of a measurement, from its turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from fillengine.bench.contenders import Answer, Contender, Ours, Setting
from fillengine.bench.divergence import as_row, explain, first_difference
from fillengine.bench.records import Record, field_accuracy, is_valid, value_of
from fillengine.bench.turns import TurnLog, TurnRow
from fillengine.generation.rounds import STAGES


def figures(
    setting: str, contender: str, records: Sequence[Record], log: TurnLog, *, has_truth: bool
) -> dict[str, Any]:
    """Of one contender in one setting (their names), over the turns that it has had. Times in seconds."""
    turns = log.of(setting, contender)
    answers = [answer for turn in turns for answer in turn.answers]
    pairs = list(zip(_records_of(turns, records), answers, strict=True))
    tokens = sum(turn.num_tokens for turn in turns)
    forwards = sum(answer.forwards for answer in answers)
    proposed = sum(answer.proposed for answer in answers)
    seconds = sum(turn.seconds for turn in turns)
    prefill = sum(turn.prefill_seconds for turn in turns)
    decode = sum(turn.decode_seconds for turn in turns)
    by_kind = {
        kind: round(
            field_accuracy((record, value_of(answer.text)) for record, answer in pairs if record.kind == kind), 4
        )
        for kind in dict.fromkeys(record.kind for record, _ in pairs)
    }
    return {
        "setting": setting,
        "contender": contender,
        "records": len(answers),
        "turns": len(turns),
        "valid": sum(is_valid(record, answer.text) for record, answer in pairs),
        "cut": sum(answer.is_cut for answer in answers),
        "accuracy": by_kind if has_truth else None,
        "accuracy_mean_of_kinds": round(statistics.mean(by_kind.values()), 4) if has_truth and by_kind else None,
        "tokens": tokens,
        "forwards": forwards,
        "forwards_per_token": round(forwards / max(tokens, 1), 4),
        "asserted": sum(answer.asserted for answer in answers),
        "proposed": proposed,
        "accepted_share": round(sum(answer.accepted for answer in answers) / proposed, 4) if proposed else None,
        "seconds": round(seconds, 3),
        "prefill_seconds": round(prefill, 3),
        "decode_seconds": round(decode, 3),
        "other_seconds": round(seconds - prefill - decode, 3),
        "prefill_share": round(prefill / seconds, 4) if seconds else None,
        "documents_per_second": round(len(answers) / seconds, 4) if seconds else None,
        "decode_tokens_per_second": round(tokens / decode, 2) if decode else None,
        "passes": sum(turn.passes for turn in turns),
        "rounds": sum(turn.rounds for turn in turns),
        "round_milliseconds": _round_milliseconds(turns),
        "new_shapes": sum(len(turn.new_shapes) for turn in turns),
        "new_shapes_in_second_half": [shape for turn in turns[len(turns) // 2 :] for shape in turn.new_shapes],
        "against": {
            other: against(turns, log.of(setting, other)) for other in log.contenders(setting) if other != contender
        },
    }


def _round_milliseconds(turns: Sequence[TurnRow]) -> dict[str, float] | None:
    """What a round takes, by stage; None for contenders that have none."""
    rounds = sum(turn.rounds for turn in turns)
    if not rounds:
        return None
    seconds = {stage: sum(turn.stage_seconds.get(stage, 0.0) for turn in turns) for stage in STAGES}
    return {stage: round(1000 * seconds[stage] / rounds, 3) for stage in STAGES}


def against(turns: Sequence[TurnRow], others: Sequence[TurnRow]) -> dict[str, Any]:
    """How many times as fast as another contender: of all turns together, and of each pair of turns.

    documents   whole turns, prefill and all: the same documents, whatever the lengths of the answers
    decoding    seconds of decoding for the same documents
    tokens      tokens for each second of decoding: fair where one writes longer answers than the other
    """
    by_first = {turn.first: turn for turn in others}
    pairs = [(turn, by_first[turn.first]) for turn in turns if turn.first in by_first]
    return {
        "documents": _ratio(pairs, lambda turn: turn.seconds),
        "decoding": _ratio(pairs, lambda turn: turn.decode_seconds),
        "tokens": _ratio(pairs, lambda turn: turn.decode_seconds, lambda turn: turn.num_tokens),
    }


def _ratio(
    pairs: Sequence[tuple[TurnRow, TurnRow]],
    seconds: Callable[[TurnRow], float],
    work: Callable[[TurnRow], float] = lambda turn: 1.0,
) -> dict[str, Any] | None:
    """total, and median and quartiles of the pairs; None without any."""
    usable = [(one, other) for one, other in pairs if seconds(one) > 0 and seconds(other) > 0 and work(other) > 0]
    if not usable:
        return None
    ratios = [seconds(other) / seconds(one) * work(one) / work(other) for one, other in usable]

    def rate(place: int) -> float:
        return sum(work(pair[place]) for pair in usable) / sum(seconds(pair[place]) for pair in usable)

    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 3
    return {
        "total": round(rate(0) / rate(1), 3),
        "median": round(quartiles[1], 3),
        "quartiles": [round(quartiles[0], 3), round(quartiles[2], 3)],
        "pairs": len(ratios),
    }


class SameTokens:
    """Holds the answers of each family at a temperature against those of the first contender that gave any."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._first: dict[tuple[str, float], tuple[str, dict[str, tuple[int, Answer]]]] = {}

    def compare(self, setting: Setting, contender: Contender, log: TurnLog) -> dict[str, Any] | None:
        """reference: with whom; same, different: counts of records; divergences: one row for each that differs.

        None for a peer above temperature 0: its noise depends on the batch.
        """
        if setting.temperature > 0 and not isinstance(contender, Ours):
            return None
        found: dict[str, tuple[int, Answer]] = {}
        for turn in log.of(setting.name, contender.name):
            for place, (name, answer) in enumerate(zip(turn.ids, turn.answers, strict=True)):
                found[name] = (turn.first + place, answer)
        name = f"{contender.name} ({setting.name})"
        reference, answers = self._first.setdefault((contender.family, setting.temperature), (name, found))
        rows = []
        compared = found.keys() & answers.keys()
        for record_id, (index, answer) in found.items():
            if record_id not in answers:
                continue
            before = answers[record_id][1].token_ids
            position = first_difference(before, answer.token_ids)
            if position is None:
                continue
            record = self._records[index]
            divergence = (
                explain(contender, index, record, before, answer.token_ids) if isinstance(contender, Ours) else None
            )
            rows.append(as_row(name, record, divergence, position))
        return {
            "reference": reference,
            "same": len(compared) - len(rows),
            "different": len(rows),
            "divergences": rows,
        }


def _records_of(turns: Sequence[TurnRow], records: Sequence[Record]) -> list[Record]:
    by_id = {record.id: record for record in records}
    return [by_id[record_id] for turn in turns for record_id in turn.ids]

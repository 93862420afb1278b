"""Contenders side by side over the same records.

They take turns (A B C, B C A, C A B, …) over the same few records, so that what else the machine does falls on all
of them, and none is always the first to see a document. Times are compared as ratios within one turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fillengine.bench.contenders import Contender, Setting
from fillengine.bench.passes import PassLog, Shape
from fillengine.bench.records import Record, for_warming_up
from fillengine.bench.turns import TurnLog, TurnRow

Report = Callable[[str, str, int], None]


def run(
    setting: Setting,
    contenders: Sequence[Contender],
    records: Sequence[Record],
    *,
    log: TurnLog,
    passes: PassLog,
    takes: Callable[[int], bool] = lambda first: True,
    num_warm_up: int = 1,
    report: Report = lambda setting, contender, done: None,
) -> None:
    """Let the contenders take turns until each has answered all records; turns that `log` has are left out.

    takes: whether the turns over the records from this place on are made here; see `part`
    num_warm_up: turns of each contender that count for nothing, over records that are changed for it: the first
    passes of a shape set things up, and costs are measured at first use.
    report: told the setting, who is next, and how many turns are done.
    """
    seen: dict[str, set[Shape]] = {contender.name: set() for contender in contenders}
    starts = range(0, len(records), setting.num_records)
    done = 0
    is_warm = False
    for number, start in enumerate(starts):
        if not takes(start):
            continue
        part = list(enumerate(records))[start : start + setting.num_records]
        turn = number % len(contenders)
        for contender in [*contenders[turn:], *contenders[:turn]]:
            if not log.has(setting.name, contender.name, start):
                if not is_warm:
                    _warm_up(setting, contenders, records, num_warm_up, passes, seen, report)
                    is_warm = True
                report(setting.name, contender.name, done)
                log.add(_turn(setting, contender, part, passes, seen[contender.name]))
            done += 1


def _turn(
    setting: Setting, contender: Contender, part: list[tuple[int, Record]], passes: PassLog, seen: set[Shape]
) -> TurnRow:
    passes.begin(seen)
    begun = time.perf_counter()
    turn = contender.run(part)
    seconds = time.perf_counter() - begun
    return TurnRow(
        setting=setting.name,
        contender=contender.name,
        first=part[0][0],
        ids=[record.id for _, record in part],
        seconds=seconds,
        prefill_seconds=turn.prefill_seconds,
        decode_seconds=turn.decode_seconds,
        passes=passes.num_passes,
        new_shapes=[(shape.rows, shape.tokens, shape.width) for shape in passes.new],
        answers=turn.answers,
        rounds=turn.rounds,
        stage_seconds=turn.stage_seconds,
    )


def _warm_up(
    setting: Setting,
    contenders: Sequence[Contender],
    records: Sequence[Record],
    num_warm_up: int,
    passes: PassLog,
    seen: dict[str, set[Shape]],
    report: Report,
) -> None:
    chosen = for_warming_up(records, setting.batch_size)
    for _ in range(num_warm_up):
        for contender in contenders:
            report(setting.name, f"{contender.name} (warming up)", 0)
            passes.begin(seen[contender.name])
            contender.run(chosen)

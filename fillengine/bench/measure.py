"""A measurement from its options to its figures: models, settings, contenders, turns, comparisons."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fillengine.bench.contenders import Contender, Ours, Setting
from fillengine.bench.figures import SameTokens, figures
from fillengine.bench.generate import Report, run
from fillengine.bench.guides import Guides, peer
from fillengine.bench.machine import machine
from fillengine.bench.memory import measure_memory
from fillengine.bench.models import Choice, describe, load, num_logits
from fillengine.bench.part import WHOLE, Part
from fillengine.bench.passes import watch, watch_traced
from fillengine.bench.peers import InBatches, TokenByToken
from fillengine.bench.records import Record, mispaired, read_records
from fillengine.bench.script import Script, ScriptedEngine, script_of, writable
from fillengine.bench.turns import TurnLog
from fillengine.errors import DocumentError, FillError
from fillengine.extraction.engine import Engine
from fillengine.extraction.settings import DEFAULT_GROUNDING, Fill, Grounding
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer
from fillengine.generation.models import LoadedModel

WAYS: tuple[Fill, ...] = ("off", "assert", "auto")
GROUNDINGS: tuple[Grounding, ...] = ("verbatim", "free")
# Records of a turn for each row of a batch: enough that rows leave and join.
RECORDS_PER_ROW = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. The fields are those of `fillengine bench generate`.

    command        whose measurement it is, for the page
    writes_truth   see `script`; records whose true answers do not fit their grounded forms are left out
    """

    data: Path
    choice: Choice
    ways: tuple[Fill, ...] = WAYS
    groundings: tuple[Grounding, ...] = (DEFAULT_GROUNDING,)
    peers: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = (1,)
    temperatures: tuple[float, ...] = (0.0,)
    per_kind: int | None = None
    records_per_turn: int | None = None
    max_tokens: int = 768
    seed: int = 0
    is_mispaired: bool = False
    writes_truth: bool = False
    num_warm_up: int = 1
    command: str = "generate"

    def __post_init__(self) -> None:
        for named, known, what in ((self.ways, WAYS, "way"), (self.groundings, GROUNDINGS, "grounding")):
            for name in named:
                if name not in known:
                    raise FillError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if not self.ways and not self.peers:
            raise FillError("there is nobody to measure; name a way of filling or a peer")
        if any(batch_size < 1 for batch_size in self.batch_sizes) or not self.batch_sizes:
            raise FillError(f"batch sizes are {self.batch_sizes}; each must be 1 or more")

    @property
    def settings(self) -> list[Setting]:
        return [
            Setting(batch_size, temperature, self.max_tokens, self.seed, self._records_of_turn(batch_size))
            for temperature in self.temperatures
            for batch_size in self.batch_sizes
        ]

    def _records_of_turn(self, batch_size: int) -> int:
        if self.records_per_turn is not None:
            return self.records_per_turn
        return 1 if batch_size == 1 else RECORDS_PER_ROW * batch_size

    @property
    def header(self) -> dict[str, Any]:
        """What two runs must have in common to be one measurement."""
        fields = json.loads(json.dumps(asdict(self), default=str))
        return {name: value for name, value in fields.items() if name not in ("data", "command")} | {
            "data": self.data.name
        }

    def records(self) -> list[Record]:
        """Raises DocumentError where there are none."""
        records = read_records(self.data, per_kind=self.per_kind)
        return mispaired(records) if self.is_mispaired else records

    def chosen(self, records: list[Record], tokenizer: Tokenizer) -> list[Record]:
        """Those of them that are measured. Raises DocumentError where none can be written."""
        if not self.writes_truth:
            return records
        found = writable(records, self.groundings, tokenizer)
        if not found:
            raise DocumentError(f"{self.data}: no true answer fits its form, grounded in its document")
        return found


def measure(
    plan: Plan,
    *,
    rows: Path | None = None,
    resume: bool = False,
    part: Part = WHOLE,
    report: Report = lambda setting, contender, done: None,
    interrupted: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Everything that there is to say, for JSON. `is_whole` is False where KeyboardInterrupt ended it early.

    part: the records that are measured here; see `merge`
    rows: a file that holds the turns while they are made; with `resume` those that it has are not made again.
    interrupted: called then, before the figures of what is there are made.
    """
    records = plan.records()
    with _log(rows, plan.header, resume=resume) as log:
        loaded = load(plan.choice)
        records = plan.chosen(records, read_tokenizer(loaded.tokenizer))
        content: dict[str, Any] = {
            "measurement": {"command": plan.command, **plan.header},
            "part": str(part),
            "machine": machine(),
            "model": describe(loaded),
            "records": len(records),
            "figures": [],
            "is_whole": True,
        }
        bench = _Bench(plan, loaded, script_of(records, read_tokenizer(loaded.tokenizer)))
        same = SameTokens(records)
        largest = max(setting.num_records for setting in plan.settings)
        for setting in plan.settings:
            contenders = bench.contenders(setting)
            try:
                run(
                    setting,
                    contenders,
                    records,
                    log=log,
                    passes=bench.passes,
                    takes=partial(part.takes, unit=largest),
                    num_warm_up=plan.num_warm_up,
                    report=report,
                )
            except KeyboardInterrupt:
                content["is_whole"] = False
                interrupted()
            for contender in contenders:
                if log.of(setting.name, contender.name):
                    found = figures(setting.name, contender.name, records, log, has_truth=not plan.is_mispaired)
                    content["figures"].append(found | {"same_tokens": same.compare(setting, contender, log)})
            if not content["is_whole"]:
                break
    return content


def measure_memories(
    plan: Plan, *, report: Callable[[str, int], None] = lambda setting, number: None
) -> dict[str, Any]:
    """What the contenders of each setting take, one after the other. See `memory`."""
    records = plan.records()
    loaded = load(plan.choice)
    tokenizer = read_tokenizer(loaded.tokenizer)
    records = plan.chosen(records, tokenizer)
    bench = _Bench(plan, loaded, script_of(records, tokenizer))
    facts = describe(loaded)
    rows = [
        row
        for setting in plan.settings
        for row in measure_memory(setting, bench.makers(setting), records, weights=facts["bytes"], report=report)
    ]
    return {
        "measurement": {"command": plan.command, **plan.header},
        "machine": machine(),
        "model": facts,
        "figures": rows,
    }


class _Bench:
    """The contenders of one loaded model."""

    def __init__(self, plan: Plan, loaded: LoadedModel, script: Script) -> None:
        self._plan = plan
        self._loaded = loaded
        self._script = script if plan.writes_truth else None
        self._engine = Engine(loaded)
        # As `Engine.load` does; the peers in this process gain by it too.
        self._engine.settle()
        self._guides: dict[str, Guides] = {}
        self.passes = watch(loaded.model)

    def contenders(self, setting: Setting) -> list[Contender]:
        """New ones, with empty caches."""
        return [make() for make in self.makers(setting)]

    def makers(self, setting: Setting) -> list[Callable[[], Contender]]:
        """What makes them, one by one."""
        plan, loaded = self._plan, self._loaded
        found: list[Callable[[], Contender]] = [
            partial(lambda fill, grounding: Ours(self._new_engine(), fill, grounding, setting), fill, grounding)
            for grounding in plan.groundings
            for fill in plan.ways
        ]
        for name in plan.peers:
            if name not in self._guides:
                self._guides[name] = peer(name, loaded, num_logits(loaded.model))
            kind = TokenByToken if setting.batch_size == 1 else InBatches
            found.append(partial(kind, loaded, self._engine.encode, self._guides[name], setting, script=self._script))
        return found

    def _new_engine(self) -> Engine:
        engine = Engine(self._loaded) if self._script is None else ScriptedEngine(self._loaded, self._script)
        watch_traced(engine.trunk, self.passes)
        return engine


@contextlib.contextmanager
def _log(rows: Path | None, header: dict[str, Any], *, resume: bool) -> Iterator[TurnLog]:
    log = TurnLog(header) if rows is None else TurnLog.open(rows, header, resume=resume)
    try:
        yield log
    finally:
        log.close()

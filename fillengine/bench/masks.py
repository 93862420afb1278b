"""Masks over real schemas: which schemas an engine honours, and what its masks cost.

The data are those of JSONSchemaBench's MaskBench: JSON Lines (gzip or not) with `name`, `schema` and `tests`, each
test an instance with `data` and `valid`. An instance is written as `json.dumps` does and fed token by token through
the masks. The engines take turns schema by schema.
"""

from __future__ import annotations

import gzip
import json
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn

from fillengine.bench.mask_engines import MaskEngine, Refused
from fillengine.errors import DocumentError

# right       all valid instances are accepted to the end, and no invalid one
# too narrow  a valid instance is not; too wide: an invalid one is
# refused     the engine says that it cannot honour the schema; a time-out or a crash says nothing
Verdict = Literal["right", "refused", "too narrow", "too wide", "time-out", "crash"]
VERDICTS: tuple[Verdict, ...] = ("right", "refused", "too narrow", "too wide", "time-out", "crash")

WARM_UP = {"type": "object", "properties": {"warm": {"type": "string"}}, "required": ["warm"]}
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    schema: Any
    tests: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one engine over one schema. Times in microseconds that its thread had the processor.

    first   from the schema to the first mask; None where there was none
    masks   of each mask after it, with the step that follows
    """

    name: str
    engine: str
    verdict: Verdict
    detail: str = ""
    first: float | None = None
    masks: list[float] = field(default_factory=list)


def read_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Raises DocumentError."""
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    cases: list[Case] = []
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if limit is not None and len(cases) >= limit:
                    break
                row = json.loads(line)
                cases.append(Case(row["name"], row["schema"], row.get("tests", [])))
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror or error}; give JSONSchemaBench's mask data") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DocumentError(f"{path}: no data of MaskBench ({error!r}); each line needs name, schema, tests") from None
    if not cases:
        raise DocumentError(f"{path}: no schemas in it")
    return cases


def judge_all(
    engines: Sequence[MaskEngine],
    cases: Sequence[Case],
    encode: Callable[[str], list[int]],
    *,
    max_seconds: float,
    report: Callable[[int], None] = lambda done: None,
) -> Iterator[Judgement]:
    """The judgements, schema by schema; the engine that begins changes from one to the next."""
    for engine in engines:
        judge(engine, Case("", WARM_UP, [{"data": {"warm": "up"}, "valid": True}]), encode, max_seconds=max_seconds)
    for number, case in enumerate(cases):
        report(number)
        turn = number % len(engines)
        for engine in [*engines[turn:], *engines[:turn]]:
            yield judge(engine, case, encode, max_seconds=max_seconds)


def judge(engine: MaskEngine, case: Case, encode: Callable[[str], list[int]], *, max_seconds: float) -> Judgement:
    masks: list[float] = []
    first: float | None = None
    try:
        with time_limit(max_seconds):
            begun = time.thread_time()
            start = engine.compile(case.schema)
            start().mask()
            first = _since(begun)
            for number, test in enumerate(case.tests):
                is_accepted = _accepts(start(), encode(json.dumps(test["data"], ensure_ascii=False)), masks)
                if is_accepted != test["valid"]:
                    verdict: Verdict = "too narrow" if test["valid"] else "too wide"
                    return Judgement(case.name, engine.name, verdict, f"test {number}", first, masks)
    except Refused as error:
        return Judgement(case.name, engine.name, "refused", str(error)[:200])
    except TooSlow:
        return Judgement(case.name, engine.name, "time-out", f"more than {max_seconds:g} seconds", first, masks)
    except Exception as error:  # an engine's own failure is a result here
        return Judgement(case.name, engine.name, "crash", f"{type(error).__name__}: {error}"[:200], first, masks)
    return Judgement(case.name, engine.name, "right", "", first, masks)


def _accepts(walk: Any, token_ids: Sequence[int], masks: list[float]) -> bool:
    for token_id in token_ids:
        begun = time.thread_time()
        walk.mask()
        is_allowed = walk.advance(token_id)
        masks.append(_since(begun))
        if not is_allowed:
            return False
    return bool(walk.is_complete)


def _since(begun: float) -> float:
    return (time.thread_time() - begun) * 1e6


def figures(judgements: Sequence[Judgement], engines: Sequence[str]) -> list[dict[str, Any]]:
    """One for each engine; ratios to the first are over the schemas that both get right."""
    by_engine = {name: {found.name: found for found in judgements if found.engine == name} for name in engines}
    rows = []
    for name, found in by_engine.items():
        counts = Counter(one.verdict for one in found.values())
        rows.append(
            {
                "engine": name,
                "schemas": len(found),
                "verdicts": {verdict: counts[verdict] for verdict in VERDICTS},
                "first_mask_us": percentiles([one.first for one in found.values() if one.first is not None]),
                "mask_us": percentiles([time for one in found.values() for time in one.masks]),
                "times_of_first": _ratios(found, by_engine[engines[0]]),
                "not_right": [
                    {"name": one.name, "verdict": one.verdict, "detail": one.detail}
                    for one in found.values()
                    if one.verdict != "right"
                ],
            }
        )
    return rows


def _ratios(found: dict[str, Judgement], first: dict[str, Judgement]) -> dict[str, Any]:
    """How many times the time of the first engine, schema by schema: median and quartiles, and of all together."""
    both = [
        (one, first[name])
        for name, one in found.items()
        if name in first and one.verdict == first[name].verdict == "right"
    ]
    return {
        "schemas": len(both),
        "first_mask": _spread([(one.first or 0.0, other.first or 0.0) for one, other in both]),
        "masks": _spread([(sum(one.masks), sum(other.masks)) for one, other in both if one.masks and other.masks]),
    }


def _spread(pairs: Sequence[tuple[float, float]]) -> dict[str, Any] | None:
    if not pairs:
        return None
    ratios = [one / other for one, other in pairs]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    total = sum(one for one, _ in pairs) / sum(other for _, other in pairs)
    return {"total": round(total, 3), "median": round(median, 3), "quartiles": [round(low, 3), round(high, 3)]}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """count, mean, percentiles and the largest."""
    if not values:
        return {"count": 0}
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    found = {f"p{percent}": round(cuts[percent - 1], 1) for percent in PERCENTILES}
    return {"count": len(values), "mean": round(statistics.fmean(values), 1), **found, "max": round(max(values), 1)}


class TooSlow(Exception):
    """The time was over."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooSlow in the block. In the main thread only, and not inside of foreign code."""

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

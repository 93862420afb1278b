"""Schemas that are hard to compile, made in code, and the time from each to its first mask.

Each is made anew for each repetition, with other names, so that no cache of an earlier one helps.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fillengine.bench.mask_engines import MaskEngine, Refused
from fillengine.bench.masks import TooSlow, time_limit

# Tokens of the instance that are fed through the masks.
MAX_STEPS = 200


@dataclass(frozen=True, slots=True)
class HardSchema:
    """make: from a number, which makes it differ from all others, to a schema and a valid instance of it."""

    name: str
    make: Callable[[int], tuple[dict[str, Any], Any]]


def _enum(salt: int) -> tuple[dict[str, Any], Any]:
    values = [f"v{salt}-{number * 7919 % 10_000:04}" for number in range(10_000)]
    return {"type": "object", "properties": {"v": {"enum": values}}, "required": ["v"]}, {"v": values[4_321]}


def _max_length(salt: int) -> tuple[dict[str, Any], Any]:
    length = 100_000 + salt
    return {"type": "object", "properties": {"v": {"type": "string", "maxLength": length}}, "required": ["v"]}, {
        "v": "some words " * 60
    }


def _optional(salt: int) -> tuple[dict[str, Any], Any]:
    names = [f"p{salt}_{number}" for number in range(300)]
    properties = {name: {"type": "integer"} if number % 2 else {"type": "string"} for number, name in enumerate(names)}
    value = {name: number if number % 2 else "x" for number, name in enumerate(names) if number % 3 == 0}
    return {"type": "object", "properties": properties, "additionalProperties": False}, value


def _nesting(salt: int) -> tuple[dict[str, Any], Any]:
    schema: dict[str, Any] = {"type": "integer"}
    value: Any = 1
    for depth in range(200):
        name = f"d{salt}_{depth}"
        schema = {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
        value = {name: value}
    return schema, value


def _min_items(salt: int) -> tuple[dict[str, Any], Any]:
    item = {"type": "integer", "minimum": 0, "maximum": 999 + salt}
    return {"type": "array", "items": item, "minItems": 1_000}, list(range(1_000))


def _alternatives(salt: int) -> tuple[dict[str, Any], Any]:
    kinds = [
        {
            "type": "object",
            "properties": {"kind": {"const": f"k{salt}_{number}"}, f"size_{number}": {"type": "number"}},
            "required": ["kind", f"size_{number}"],
            "additionalProperties": False,
        }
        for number in range(100)
    ]
    return {"anyOf": kinds}, {"kind": f"k{salt}_77", "size_77": 1.5}


HARD_SCHEMAS = (
    HardSchema("enum of 10,000 values", _enum),
    HardSchema("maxLength 100,000", _max_length),
    HardSchema("300 optional properties", _optional),
    HardSchema("nesting of 200 objects", _nesting),
    HardSchema("minItems 1,000", _min_items),
    HardSchema("anyOf 100 objects", _alternatives),
)


def measure(
    engines: Sequence[MaskEngine],
    encode: Callable[[str], list[int]],
    *,
    repeat: int,
    max_seconds: float,
    report: Callable[[str], None] = lambda name: None,
) -> list[dict[str, Any]]:
    """For each schema and engine: milliseconds to the first mask, and of the slowest mask on the way behind it.

    Time is what the thread had of the processor. The engines take turns. problem: why there are no figures, or None.
    """
    rows = []
    for number, hard in enumerate(HARD_SCHEMAS):
        firsts: dict[str, list[float]] = {engine.name: [] for engine in engines}
        slowest: dict[str, list[float]] = {engine.name: [] for engine in engines}
        problems: dict[str, str] = {}
        for repetition in range(repeat):
            schema, value = hard.make(1 + number * 1_000 + repetition)
            turn = repetition % len(engines)
            for engine in [*engines[turn:], *engines[:turn]]:
                if engine.name in problems:
                    continue
                report(f"{hard.name}: {engine.name}")
                try:
                    first, worst = _walk(engine, schema, encode(json.dumps(value)), max_seconds)
                except Refused as error:
                    problems[engine.name] = f"refused: {error}"[:200]
                except TooSlow:
                    problems[engine.name] = f"more than {max_seconds:g} seconds"
                except Exception as error:  # an engine's own failure is a result here
                    problems[engine.name] = f"{type(error).__name__}: {error}"[:200]
                else:
                    firsts[engine.name].append(first)
                    slowest[engine.name].append(worst)
        for engine in engines:
            rows.append(
                {
                    "schema": hard.name,
                    "engine": engine.name,
                    "first_mask_ms": spread(firsts[engine.name]),
                    "slowest_mask_ms": spread(slowest[engine.name]),
                    "problem": problems.get(engine.name),
                }
            )
    return rows


def _walk(engine: MaskEngine, schema: Any, token_ids: Sequence[int], max_seconds: float) -> tuple[float, float]:
    with time_limit(max_seconds):
        begun = time.thread_time()
        walk = engine.compile(schema)()
        walk.mask()
        first = time.thread_time() - begun
        worst = 0.0
        for token_id in token_ids[:MAX_STEPS]:
            begun = time.thread_time()
            walk.mask()
            if not walk.advance(token_id):
                raise ValueError("a valid instance is not accepted")
            worst = max(worst, time.thread_time() - begun)
    return first * 1e3, worst * 1e3


def spread(values: Sequence[float]) -> dict[str, Any] | None:
    """median, and the least and the largest; None without any."""
    if not values:
        return None
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "largest": round(max(values), 3),
    }

"""`instances()` beside hypothesis-jsonschema, over schemas that both support:

    python -m fillengine.testing.comparison SCHEMAS.jsonl.gz --step 20

For each schema both draw 100 values from the same seed (the schema's number): how many are valid under jsonschema with
formats, how many a second of the processor, and how many are distinct. Prints a table in Markdown. The peer wants an
older hypothesis than ours may be (0.23.1 fails with 6.170): `pip install hypothesis==6.115.6` beside it.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import jsonschema.validators
import typer
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fillengine.testing.instance import instances

NUM_DRAWS = 100
MAX_SECONDS = 20.0
"""Of the processor, for one schema and one library. What does not get there is not supported."""


class TooSlow(Exception):
    """The draws of one schema took too long."""


@dataclass(frozen=True)
class Draws:
    """What a strategy gave for one schema."""

    num_drawn: int
    num_valid: int
    num_distinct: int
    seconds: float


def draws(strategy: st.SearchStrategy[Any], schema: Any, number: int) -> Draws:
    """Draw `NUM_DRAWS` values (fewer where there are fewer) from the seed `number`. Raises what the strategy raises."""
    values: list[Any] = []
    begun = time.process_time()

    @seed(number)
    @settings(
        max_examples=NUM_DRAWS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        if time.process_time() - begun > MAX_SECONDS:
            raise TooSlow
        values.append(value)

    collect()
    seconds = time.process_time() - begun
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    judge = kind(schema, format_checker=kind.FORMAT_CHECKER)
    num_valid = sum(judge.is_valid(value) for value in values)
    return Draws(len(values), num_valid, len({json.dumps(value, sort_keys=True) for value in values}), seconds)


def compared(schema: Any, number: int) -> tuple[Draws, Draws] | str:
    """The draws of both libraries; which of them does not support the schema."""
    from hypothesis_jsonschema import from_schema

    found = []
    for name, strategy_of in (("instances", lambda one: instances(one, additional="schema")), ("peer", from_schema)):
        try:
            found.append(draws(strategy_of(schema), schema, number))
        except Exception:  # whatever it raises: it does not support this schema
            return name
    return found[0], found[1]


def _schemas(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["schema"]


def main(
    schemas: Annotated[Path, typer.Argument(help="JSON Lines, gzipped; `schema` of each line.")],
    step: Annotated[int, typer.Option(help="Every how many-th schema.")] = 40,
    offset: Annotated[int, typer.Option(help="The first of them.")] = 0,
) -> None:
    """Compare over a sample of schemas."""
    warnings.simplefilter("ignore")
    pairs: list[tuple[Draws, Draws]] = []
    unsupported = {"instances": 0, "peer": 0}
    for number, schema in enumerate(_schemas(schemas)):
        if number % step != offset:
            continue
        found = compared(schema, number)
        if isinstance(found, str):
            unsupported[found] += 1
        else:
            pairs.append(found)
    lines = [
        f"{len(pairs)} schemas that both support within {MAX_SECONDS:g} s; {unsupported['instances']} more that "
        f"`instances` does not, and {unsupported['peer']} that hypothesis-jsonschema does not. hypothesis "
        f"{version('hypothesis')}, hypothesis-jsonschema {version('hypothesis-jsonschema')}.",
        "",
        "| | `instances` | hypothesis-jsonschema |",
        "|---|---|---|",
    ]
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    rows = {
        "values drawn": [f"{sum(one.num_drawn for one in side)}" for side in sides],
        "valid": [f"{sum(one.num_valid for one in side) / sum(one.num_drawn for one in side):.2%}" for side in sides],
        "values a second (median)": [f"{median(one.num_drawn / one.seconds for one in side):.0f}" for side in sides],
        "values a second (all together)": [
            f"{sum(one.num_drawn for one in side) / sum(one.seconds for one in side):.0f}" for side in sides
        ],
        "distinct of 100 (median)": [
            f"{median(100 * one.num_distinct / one.num_drawn for one in side):.0f}" for side in sides
        ],
    }
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    typer.run(main)

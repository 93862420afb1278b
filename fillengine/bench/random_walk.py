"""Generation under a random model: uniform noise over what a session allows, for every schema of a file.

    python -m fillengine.bench.random_walk SCHEMAS.jsonl.gz MODEL_FOLDER --jobs 16 --seeds 1 --output rows.jsonl

Each text must end within the budget, parse, and validate under jsonschema with formats. No schema holds up the
others: what is not done in its seconds is ended and counted as too slow. A line a text goes to --output as soon as
it is known; the same command again goes on with what is missing. Prints the totals as JSON; the exit code is 1 where
anything is wrong.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fillengine.bench.limited import Unfinished, run_limited
from fillengine.bench.random_text import Limits, Outcome, Walk, walk
from fillengine.fill.guard import DEFAULT_GUARD

Key = tuple[str, int]
"""The name of a schema, and a seed."""


def read_schemas(path: Path) -> dict[str, Any]:
    """The schemas of a file of JSON Lines by name, in its order."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["name"]: row["schema"] for row in rows}


def take_up(path: Path) -> list[dict[str, Any]]:
    """The rows of an earlier run. A line that was torn off is cut from the file."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    return [json.loads(line) for line in content[:whole].splitlines()]


@dataclass(frozen=True, slots=True)
class RandomTexts:
    """The work of a process: one text for each name and seed. It depends on nothing else."""

    schemas: dict[str, Any]
    tokenizer: str
    limits: Limits

    def __call__(self, key: Key, report: Callable[[str], None]) -> Walk:
        name, seed = key
        try:
            return walk(self.schemas[name], self.tokenizer, Random(f"{seed} {name}"), self.limits, report)
        except Exception as error:  # an error that nobody expects is a fault of this text, not of the run
            return Walk(Outcome.FAILED, detail=f"{type(error).__name__}: {error}")


def row_of(key: Key, found: Walk | Unfinished) -> dict[str, Any]:
    name, seed = key
    if isinstance(found, Unfinished):
        outcome = Outcome.FAILED if found.seconds is None else Outcome.TOO_SLOW
        found = Walk(outcome, seconds=found.seconds or 0.0, detail=f"{found.problem}; {found.stage}")
    return {"name": name, "seed": seed, **found.row()}


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by outcome, tokens and processor seconds of all rows, and the rows that are wrong."""
    return {
        "texts": len(rows),
        "seeds": sorted({row["seed"] for row in rows}),
        "counts": dict(Counter(row["outcome"] for row in rows).most_common()),
        "tokens": sum(row["tokens"] for row in rows),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "seconds_of_the_slowest": max((row["seconds"] for row in rows), default=0.0),
        "wrong": [row for row in rows if not Outcome(row["outcome"]).is_fine],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", type=Path, help="JSON Lines, gzipped, each with name and schema")
    parser.add_argument("tokenizer", help="a model folder")
    parser.add_argument("--output", type=Path, required=True, help="JSON Lines; what is there is not done again")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seeds", type=int, default=1, help="texts of each schema, seeds 0, 1, ...")
    parser.add_argument("--budget", type=int, default=2_000, help="tokens of a text")
    parser.add_argument("--slack", type=int, help="tokens above the shortest text, in place of --budget")
    parser.add_argument("--guard", action="store_true", help="close runaway values, as generation does")
    parser.add_argument("--seconds", type=float, default=120.0, help="processor time of a text")
    parser.add_argument("--step", type=int, default=1, help="every how many-th schema")
    parser.add_argument("--name", action="append", help="only this schema (repeatable)")
    args = parser.parse_args()

    schemas = read_schemas(args.schemas)
    wanted = [(name, seed) for seed in range(args.seeds) for name in args.name or list(schemas)[:: args.step]]
    rows = {(row["name"], row["seed"]): row for row in take_up(args.output)}
    limits = Limits(args.budget, args.slack, DEFAULT_GUARD if args.guard else None)
    texts = RandomTexts({name: schemas[name] for name, _ in wanted}, args.tokenizer, limits)
    missing = [key for key in wanted if key not in rows]
    with args.output.open("ab", buffering=0) as output:
        for key, found in run_limited(texts, missing, jobs=args.jobs, seconds=args.seconds):
            rows[key] = row_of(key, found)
            output.write(json.dumps(rows[key], ensure_ascii=False).encode() + b"\n")
    summary = totals([rows[key] for key in wanted])
    sys.stdout.write(json.dumps(summary, ensure_ascii=False, indent=1) + "\n")
    return 1 if summary["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Generation under a random model: uniform logits over what a session allows, for every schema of a file.

    python -m fillengine.bench.random_walk TOKENIZER_FOLDER SCHEMAS.jsonl.gz --seed 0 --budget 2000 --step 1

Each text that ends must parse and validate under jsonschema with formats; none may end in a dead end, and all
must close within the budget. Prints one JSON object: counts, and the first failures by name.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fillengine.errors import BudgetTooSmall, FillError, UnsatisfiableForm, UnsupportedForm
from fillengine.fill.constraint import Constraint
from fillengine.templates import Form, compile


class TooSlow(Exception):
    """A schema took more than its seconds."""


def schemas(path: Path) -> Iterator[tuple[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["name"], row["schema"]


def walk(form: Form, tokenizer: Any, random: Random, budget: int) -> str:
    """What became of one text: "valid", or what was wrong with it."""
    try:
        session = Constraint(form, tokenizer).session(max_tokens=budget)
    except BudgetTooSmall:
        return "budget too small"
    except UnsatisfiableForm:
        return "unsatisfiable"
    while not session.is_finished:
        allowed = np.flatnonzero(session.allowed())
        if not len(allowed):
            return "dead end"
        session.advance(int(allowed[random.randrange(len(allowed))]))
    if not session.is_complete:
        return "not closed"
    text = session.data.decode("utf-8", errors="strict")
    try:
        form.validate(text)
    except RecursionError:
        return "valid"
    except Exception as error:
        return f"invalid: {type(error).__name__}: {str(error).splitlines()[0][:100]} in {text[:100]}"
    return "valid"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("schemas", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=2_000)
    parser.add_argument("--step", type=int, default=1, help="every how many-th schema")
    parser.add_argument("--offset", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=int, default=60, help="for one schema")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    def alarm(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, alarm)
    counts: Counter[str] = Counter()
    failures: list[tuple[str, str]] = []
    for number, (name, schema) in enumerate(schemas(args.schemas)):
        if number % args.step != args.offset:
            continue
        signal.alarm(args.seconds)
        try:
            form = compile(schema, additional="schema")
            outcome = walk(form, args.tokenizer, Random(f"{args.seed} {name}"), args.budget)
        except UnsatisfiableForm:
            outcome = "unsatisfiable"
        except UnsupportedForm:
            outcome = "refused"
        except TooSlow:
            outcome = "too slow"
        except (FillError, AssertionError) as error:
            outcome = f"failed: {type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        counts[outcome.split(":")[0]] += 1
        if outcome not in ("valid", "refused", "unsatisfiable"):
            failures.append((name, outcome))
    sys.stdout.write(json.dumps({"seed": args.seed, "counts": counts, "failures": failures[:40]}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

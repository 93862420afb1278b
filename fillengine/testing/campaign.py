"""The laws over many triples of schema, vocabulary and model, by hand and over night:

    python -m fillengine.testing.campaign --triples 20000 --jobs 16 --output rows.jsonl

One line a triple. What is in the file already is not done again, so a campaign can be stopped and taken up.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from fillengine.automata.machine import Machine
from fillengine.errors import AutomatonTooLarge, FormError, UnsatisfiableForm, VocabularyError
from fillengine.fill.constraint import Constraint
from fillengine.templates import compile
from fillengine.testing.hostile_schema import hostile_schemas
from fillengine.testing.laws import LawViolation, check_walk
from fillengine.testing.models import RandomModel
from fillengine.testing.rows import Accounts, check_rows
from fillengine.testing.schema import Witnessed, witnessed_schemas
from fillengine.testing.tokenizer import ToyTokenizer
from fillengine.testing.vocabulary import vocabularies

BLOCK = 25
"""Triples that are drawn from one seed. Hypothesis begins each block with the simplest triple."""

MAX_TOKENS = 400
"""A form whose shortest text takes more is only compiled: writing it is slow and shows nothing new."""

# What a triple can come to. The last three are faults.
HELD, REFUSED, NO_TEXT, LONG = "held", "refused", "no text", "long"
VIOLATION, LOST, FAILED = "violation", "lost", "failed"
FAULTS = (VIOLATION, LOST, FAILED)


@dataclass(frozen=True)
class Triple:
    """What became of one triple. `block` and `index` find it again, `detail` says why it is what it is."""

    block: int
    index: int
    outcome: str
    detail: str
    is_hostile: bool
    schema: Any
    vocabulary: int
    rows: int
    tokens: int
    seconds: float


class TooSlow(Exception):
    """A triple took more than its seconds."""


_hostile = hostile_schemas().map(lambda schema: (schema, True))
_usual = witnessed_schemas().map(lambda pair: (pair, False))
TRIPLES = st.tuples(st.one_of(_usual, _usual, _usual, _hostile), vocabularies())


def triples(block: int, *, seconds: int = 120, num: int = BLOCK) -> Iterator[Triple]:
    """The triples of a block, in order. `seconds`: what one may take (0: any time)."""
    drawn: list[tuple[tuple[Any, bool], ToyTokenizer]] = []

    @seeded(block)
    @settings(
        max_examples=num,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(TRIPLES)
    def collect(triple: tuple[tuple[Any, bool], ToyTokenizer]) -> None:
        drawn.append(triple)

    collect()
    for index, ((found, is_hostile), tokenizer) in enumerate(drawn[:num]):
        accounts = Accounts()
        begun = time.perf_counter()
        outcome, detail = _limited(
            seconds,
            lambda: _outcome(found, tokenizer, Random(f"{block} {index}"), accounts, is_hostile=is_hostile),  # noqa: B023 (called at once)
        )
        yield Triple(
            block,
            index,
            outcome,
            detail,
            is_hostile,
            found if is_hostile else found.schema,
            tokenizer.vocabulary.size,
            accounts.rows,
            accounts.tokens,
            round(time.perf_counter() - begun, 3),
        )


def _outcome(
    found: Any, tokenizer: ToyTokenizer, random: Random, accounts: Accounts, *, is_hostile: bool
) -> tuple[str, str]:
    schema = found if is_hostile else found.schema
    try:
        form = compile(schema, style=random.choice(("spaced", "compact", "indented")))
        if not is_hostile and (lost := _lost(found)):
            return LOST, lost
    except UnsatisfiableForm as error:
        return NO_TEXT, str(error)
    except (FormError, AutomatonTooLarge) as error:
        return REFUSED, str(error)
    engine = RandomModel(tokenizer, seed=random.randrange(2**16)).engine()
    try:
        constraint = Constraint(form, engine.tokenizer)
    except (UnsatisfiableForm, VocabularyError) as error:
        return NO_TEXT, str(error)
    except AutomatonTooLarge as error:
        return REFUSED, str(error)
    if constraint.fewest_tokens > MAX_TOKENS:
        return LONG, f"{constraint.fewest_tokens} tokens at least"
    try:
        for _ in range(2):
            check_walk(form, constraint, random, accounts.judgement)
        check_rows(engine, form, constraint, random, accounts)
    except LawViolation as violation:
        return VIOLATION, str(violation)
    return HELD, ""


def _lost(found: Witnessed) -> str:
    """Why the value that a schema was drawn for cannot be written, if so."""
    try:
        machine = Machine(compile(found.schema, additional="schema").template)
    except UnsatisfiableForm as error:
        return f"{found.value!r} fits, and the form is said to have no text: {error}"
    except (FormError, AutomatonTooLarge):
        return ""
    text = json.dumps(found.value, ensure_ascii=False)
    return "" if machine.accepts(text.encode()) else f"{text} fits, and cannot be written"


def _limited(seconds: int, work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """What `work` gives; a fault where it raises or takes too long."""

    def alarm(*_: object) -> None:
        raise TooSlow(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, alarm) if seconds else None
    signal.alarm(seconds)
    try:
        return work()
    except Exception as error:  # whatever it is, it is a fault of this triple
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "" if place is None else f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})"
        return FAILED, f"{type(error).__name__}: {error}{where}"
    finally:
        signal.alarm(0)
        if before is not None:
            signal.signal(signal.SIGALRM, before)


def _block(block: int, seconds: int) -> list[dict[str, Any]]:
    warnings.simplefilter("ignore")
    return [asdict(triple) for triple in triples(block, seconds=seconds)]


def _done(output: Path) -> tuple[set[int], Counter[str]]:
    """The blocks of which every triple is in the file, and what became of these."""
    places: dict[int, list[str]] = {}
    if output.exists():
        written = output.read_bytes()
        whole_lines = written[: written.rfind(b"\n") + 1]
        if whole_lines != written:
            # The torn end of a campaign that was killed.
            output.write_bytes(whole_lines)
        for line in whole_lines.splitlines():
            row = json.loads(line)
            places.setdefault(row["block"], []).append(row["outcome"])
    whole = {block for block, outcomes in places.items() if len(outcomes) >= BLOCK}
    return whole, Counter(outcome for block in whole for outcome in places[block])


def main(
    output: Annotated[Path, typer.Option(help="One JSON line a triple; what is in it is not done again.")],
    triples: Annotated[int, typer.Option(help="How many.")] = 20_000,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(help="The first block; another one gives other triples.")] = 0,
    seconds: Annotated[int, typer.Option(help="What one triple may take.")] = 120,
) -> None:
    """Hold the engine to its laws over many triples. Fails where one is violated."""
    whole, counts = _done(output)
    wanted = [block for block in range(seed, seed + -(-triples // BLOCK)) if block not in whole]
    with (
        output.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
    ):
        for done in as_completed([pool.submit(_block, block, seconds) for block in wanted]):
            rows = done.result()
            file.write("".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            counts.update(row["outcome"] for row in rows)
            for row in rows:
                if row["outcome"] in FAULTS:
                    sys.stdout.write(
                        f"block {row['block']}, triple {row['index']}: {row['outcome']}: {row['detail']}\n"
                    )
            sys.stdout.write(f"{counts.total()} triples: {dict(counts)}\n")
            sys.stdout.flush()
    if any(counts[fault] for fault in FAULTS):
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)

"""The laws over many triples of schema, vocabulary and model, by hand and over night:

    python -m fillengine.testing.campaign --triples 20000 --jobs 16 --output rows.jsonl

One line a triple, as soon as it is done. Blocks that are in the file already are not done again, so a campaign can be
stopped and taken up. Times are those of the processor, so that a busy machine makes no faults.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
from fillengine.automata.state import State
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
    """A triple took more than its seconds of the processor."""


_hostile = hostile_schemas().map(lambda schema: (schema, True))
_usual = witnessed_schemas().map(lambda pair: (pair, False))
TRIPLES = st.tuples(st.one_of(_usual, _usual, _usual, _hostile), vocabularies())


def triples(block: int, *, seconds: int = 120, num: int = BLOCK) -> Iterator[Triple]:
    """The triples of a block, in order. `seconds`: what one may take of the processor (0: any time)."""
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
        begun = time.process_time()
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
            round(time.process_time() - begun, 3),
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
    text = _text(found.value)
    if machine.accepts(text.encode()):
        return ""
    # What is compared with other items has one order of members only.
    if "uniqueItems" in json.dumps(found.schema) and any(
        state.is_accepting for state in _written(machine, found.value)
    ):
        return ""
    return f"{text} fits, and cannot be written"


def _written(machine: Machine, value: Any) -> set[State]:
    """Where a value leads from the start, its members in any order."""

    def write(states: Iterable[State], text: str) -> set[State]:
        found = (machine.advance(state, text.encode()) for state in states)
        return {state for state in found if state is not None}

    def walk(states: set[State], value: Any) -> set[State]:
        if isinstance(value, list):
            states = write(states, "[")
            for number, item in enumerate(value):
                states = walk(write(states, ", ") if number else states, item)
            return write(states, "]")
        if isinstance(value, dict):
            ways = {(state, frozenset(value)) for state in write(states, "{")}
            for number in range(len(value)):
                ways = {
                    (after, left - {key})
                    for state, left in ways
                    for key in left
                    for after in walk(write([state], f"{', ' * (number > 0)}{_text(key)}: "), value[key])
                }
            return write({state for state, _ in ways}, "}")
        return write(states, _text(value))

    return walk({machine.start}, value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _limited(seconds: int, work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """What `work` gives; a fault where it raises or takes too much of the processor."""

    def alarm(*_: object) -> None:
        raise TooSlow(f"took more than {seconds} s of the processor")

    before = signal.signal(signal.SIGPROF, alarm) if seconds else None
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work()
    except Exception as error:  # whatever it is, it is a fault of this triple
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "" if place is None else f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})"
        return FAILED, f"{type(error).__name__}: {error}{where}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if before is not None:
            signal.signal(signal.SIGPROF, before)


def _block(block: int, seconds: int, output: Path) -> list[dict[str, Any]]:
    """Append a block to the file, a line at a time: what was done is there whatever becomes of the process."""
    warnings.simplefilter("ignore")
    rows = []
    for triple in triples(block, seconds=seconds):
        rows.append(asdict(triple))
        with output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    return rows


def _done(output: Path) -> tuple[set[int], Counter[str]]:
    """The blocks of which every triple is in the file, and what became of these. What a block left undone is cut."""
    places: dict[int, dict[int, bytes]] = {}
    written = output.read_bytes() if output.exists() else b""
    # The last line may be torn where a campaign was killed.
    for line in written[: written.rfind(b"\n") + 1].splitlines(keepends=True):
        row = json.loads(line)
        places.setdefault(row["block"], {})[row["index"]] = line
    whole = {block: lines for block, lines in places.items() if len(lines) == BLOCK}
    kept = b"".join(line for lines in whole.values() for line in lines.values())
    if kept != written:
        replacement = output.with_name(output.name + ".part")
        replacement.write_bytes(kept)
        replacement.replace(output)
    return set(whole), Counter(json.loads(line)["outcome"] for line in kept.splitlines())


def main(
    output: Annotated[Path, typer.Option(help="One JSON line a triple; what is in it is not done again.")],
    triples: Annotated[int, typer.Option(help="How many.")] = 20_000,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(help="The first block; another one gives other triples.")] = 0,
    seconds: Annotated[int, typer.Option(help="What one triple may take of the processor.")] = 120,
) -> None:
    """Hold the engine to its laws over many triples. Fails where one is violated."""
    whole, counts = _done(output)
    wanted = [block for block in range(seed, seed + -(-triples // BLOCK)) if block not in whole]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_block, block, seconds, output) for block in wanted]):
            rows = done.result()
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

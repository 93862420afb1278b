"""A soak: waves of rows through a service, with cancellations, failures and time limits, for as long as wanted.

    python -m fillengine.bench.soak --minutes 20

Each wave hands in 500 rows from several threads to a tiny model with random weights; drafts are what a row will write,
or nearly so. Then no row may be lost, every finished row must have the tokens that it has alone with spans off, the
accounts must be exact, and memory level.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fillengine.generation.engine import Engine, Request
from fillengine.generation.models import LoadedModel
from fillengine.generation.result import Result, RunStats
from fillengine.generation.sampling import Sampling
from fillengine.generation.service import Service, Ticket
from fillengine.templates import compile

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)

SUBMITTERS = 8
# Waves that memory may grow in: caches of masks, of forms and of the allocator fill up.
WARM_WAVES = 4
# What memory may grow by from then on, as a share.
MAX_GROWTH = 0.05

SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "kind": {"enum": ["on", "off"]}}},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 1, "maxItems": 4},
    {
        "type": "object",
        "properties": {"shipped": {"type": "boolean"}, "carrier": {"enum": ["post", "rail", None]}},
        "required": ["shipped", "carrier"],
    },
    {"type": "string", "pattern": "^[a-c]{3,20}$"},
)
FATES = ("finish", "cancel", "fail in a source", "fail in a listener", "out of time", "no budget")
WEIGHTS = (60, 15, 8, 7, 5, 5)
# A text may be whole before it is cancelled, or in the round in which its time runs out.
MAY_FINISH = ("finish", "cancel", "out of time")


class Broken:
    """A source that fails, in the thread that writes."""

    name = "broken"
    odds: dict[str, float] = {}  # noqa: RUF012 (read only)

    def propose(self, _cursor: Any) -> Iterable[Any]:
        raise RuntimeError("this source is broken")


@dataclass
class Row:
    """One row of a wave, and what is to become of it."""

    number: int
    fate: str
    request: Request
    ticket: Ticket | None = None


def tiny_engine(**options: Any) -> Engine:
    """A llama of two layers with random weights over the 256 bytes and an end token."""
    from mlx_lm.models.llama import Model, ModelArgs
    from mlx_lm.tokenizer_utils import TokenizerWrapper
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|end|>"])
    tokenizer = TokenizerWrapper(PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>"))
    mx.random.seed(5)
    model = Model(
        ModelArgs(
            model_type="llama",
            hidden_size=32,
            num_hidden_layers=2,
            intermediate_size=48,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=257,
            tie_word_embeddings=True,
        )
    )
    model.update(_louder(model.parameters()))
    mx.eval(model.parameters())
    return Engine(LoadedModel(model, tokenizer, "tiny", None, 2048, frozenset()), **options)


def _louder(parameters: Any) -> Any:
    """Weights large enough that the likeliest tokens are no near-ties."""
    from mlx.utils import tree_map

    return tree_map(lambda value: value * 4 if value.ndim > 1 else value, parameters)


def rows_of(engine: Engine, num_rows: int, rng: random.Random) -> list[Row]:
    """Rows with random prompts (some beginning alike), forms, settings and fates."""
    forms = [compile(schema) for schema in SCHEMAS]
    common = [rng.randrange(256) for _ in range(200)]
    rows = []
    for number in range(num_rows):
        prompt = common[: rng.choice([0, 40, 200])] + [rng.randrange(256) for _ in range(rng.randrange(1, 60))]
        request = Request(
            prompt,
            rng.choice(forms),
            Sampling(rng.choice([0.0, 0.7, 1.3]), top_p=rng.choice([1.0, 0.9])),
            seed=rng.randrange(4),
            row_id=number,
            max_tokens=120,
            fill=rng.choice(["off", "assert", "auto", "auto"]),
        )
        rows.append(Row(number, rng.choices(FATES, WEIGHTS)[0], request))
    return rows


def _expectation(text: str, rng: random.Random) -> str | None:
    """What a row may be told to expect where it will write `text`: that, something close to it, or nothing."""
    at = rng.randrange(len(text))
    return rng.choice((text, text[:at] + "x" + text[at + 1 :], text[:at] + text[at + 1 :], None))


def complain(piece: str) -> None:
    raise RuntimeError(f"nobody wants to hear {piece!r}")


def run_wave(service: Service, rows: list[Row], rng: random.Random) -> Counter[str]:
    """Hand in all rows from several threads, cancel some, and wait for all."""

    def submit(row: Row) -> None:
        request = row.request
        if row.fate == "fail in a source":
            request = replace(request, fill="auto", sources=[Broken()])
        elif row.fate == "fail in a listener":
            request = replace(request, on_text=complain)
        elif row.fate == "out of time":
            request = replace(request, time_limit=1e-4)
        elif row.fate == "no budget":
            request = replace(request, max_tokens=1)
        row.ticket = service.submit(request)

    with ThreadPoolExecutor(SUBMITTERS) as threads:
        list(threads.map(submit, rows))
    doomed = [row for row in rows if row.fate == "cancel"]
    rng.shuffle(doomed)
    for row in doomed:
        time.sleep(rng.random() * 0.02)
        assert row.ticket is not None
        row.ticket.cancel()
    ends: Counter[str] = Counter()
    for row in rows:
        assert row.ticket is not None
        try:
            row.ticket.result(300)
            ends["finished"] += 1
        except TimeoutError:
            ends["lost"] += 1
        except Exception as error:
            ends[getattr(error, "reason", "failed")] += 1
    return ends


def faults_of(rows: list[Row], expected: dict[int, list[int]], before: RunStats, after: RunStats) -> list[str]:
    """What is wrong with a wave: rows with other tokens or another end than theirs, accounts that do not add up."""
    faults = []
    results = []
    for row in rows:
        assert row.ticket is not None
        outcome = row.ticket._job.outcome
        if isinstance(outcome, Result):
            results.append(outcome)
            if outcome.token_ids != expected[row.number]:
                faults.append(f"row {row.number} has other tokens than alone")
            if row.fate not in MAY_FINISH:
                faults.append(f"row {row.number} finished, and should: {row.fate}")
        elif row.fate == "finish":
            faults.append(f"row {row.number} should finish: {outcome}")
        elif outcome is None:
            faults.append(f"row {row.number} is lost")
    stats = [row.ticket._job.stats for row in rows if row.ticket is not None and row.ticket._job.stats is not None]
    for name in ("forwards", "projected", "asserted", "sampled", "thrown_away", "rollbacks", "prompt_tokens"):
        counted = getattr(after, name) - getattr(before, name)
        wanted = sum(getattr(one, name) for one in stats)
        if counted != wanted:
            faults.append(f"{name}: the service counted {counted}, its rows {wanted}")
    if after.rows - before.rows != len(rows):
        faults.append(f"{after.rows - before.rows} rows were counted of {len(rows)}")
    if after.finished - before.finished != len(results):
        faults.append(f"{after.finished - before.finished} finished rows were counted of {len(results)}")
    return faults


def soak(
    *,
    minutes: float = 20.0,
    num_rows: int = 500,
    max_rows: int = 8,
    seed: int = 0,
    planner_processes: int = 0,
    report: Any = None,
) -> dict[str, Any]:
    """Waves until the time is over. Returns figures; `faults` must be empty and `growth` at most `MAX_GROWTH`."""
    rng = random.Random(seed)
    engine = tiny_engine(planner_processes=planner_processes)
    engine.memory_limit = 7 * engine._footprint.bytes_of(600)
    rows = rows_of(engine, num_rows, rng)
    alone = engine.run([replace(row.request, fill="off") for row in rows], batch_size=1)
    expected = {}
    for index, outcome in alone:
        if isinstance(outcome, Result):
            expected[index] = outcome.token_ids
            rows[index].request = replace(rows[index].request, prediction=_expectation(outcome.text, rng))
    waves: list[dict[str, Any]] = []
    faults: list[str] = []
    begun = time.monotonic()
    with Service(engine, max_rows=max_rows) as service:
        while time.monotonic() - begun < minutes * 60 or len(waves) <= WARM_WAVES:
            for row in rows:
                row.fate = rng.choices(FATES, WEIGHTS)[0]
            before = replace(service.stats)
            ends = run_wave(service, rows, rng)
            faults += faults_of(rows, expected, before, service.stats)
            waves.append(
                {
                    "seconds": time.monotonic() - begun,
                    "ends": dict(ends),
                    "active_bytes": mx.get_active_memory(),
                    "cache_bytes": mx.get_cache_memory(),
                    "resident_bytes": _resident_bytes(),
                    "open": service.num_open,
                }
            )
            if report is not None:
                report(waves[-1])
        # `asdict` would count the pairs of a Counter.
        stats = {field.name: getattr(service.stats, field.name) for field in fields(RunStats)}
    steady = [wave["resident_bytes"] for wave in waves[WARM_WAVES:]]
    half = max(1, len(steady) // 2)
    growth = (sum(steady[-half:]) / half) / (sum(steady[:half]) / half) - 1
    return {"waves": waves, "faults": faults, "growth": growth, "stats": stats}


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        # The most that it ever was: in bytes on macOS, where there is no /proc.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(
    minutes: Annotated[float, typer.Option(help="How long.")] = 20.0,
    rows: Annotated[int, typer.Option(help="Rows of a wave.")] = 500,
    max_rows: Annotated[int, typer.Option(help="Rows that are written at once.")] = 8,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    planner_processes: Annotated[int, typer.Option(help="Processes that plan the rows.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write all figures there, as JSON.")] = None,
) -> None:
    """Waves of rows with cancellations and failures; fails where a row is lost, a count is off or memory grows."""

    def report(wave: dict[str, Any]) -> None:
        megabytes = {name: round(wave[name] / 1e6, 1) for name in ("active_bytes", "cache_bytes", "resident_bytes")}
        sys.stdout.write(f"{wave['seconds']:7.1f} s  {wave['ends']}  MB: {megabytes}\n")
        sys.stdout.flush()

    options = {"max_rows": max_rows, "seed": seed, "planner_processes": planner_processes}
    found = soak(minutes=minutes, num_rows=rows, report=report, **options)
    if output is not None:
        output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    num_rows = len(found["waves"]) * rows
    sys.stdout.write(f"{num_rows} rows, {len(found['faults'])} faults, memory grew by {found['growth']:.1%}\n")
    sys.stdout.write("".join(f"  {fault}\n" for fault in found["faults"][:20]))
    if found["faults"] or found["growth"] > MAX_GROWTH:
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)

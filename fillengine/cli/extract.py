"""`fillengine extract`: documents in, JSON Lines out."""

from __future__ import annotations

import os
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fillengine.cli.exits import INTERRUPTED, SOME_FAILED, TERMINATED
from fillengine.cli.forms import ChoiceOption, GrammarOption, RegexOption, load_form
from fillengine.cli.inputs import gather
from fillengine.cli.interruption import Terminated, terminable
from fillengine.cli.render import run_progress, say, show_totals, waiting
from fillengine.errors import FillError
from fillengine.extraction.settings import DEFAULT_GROUNDING, Settings

if TYPE_CHECKING:
    from fillengine.cli.explained import Explained
    from fillengine.cli.inputs import Inputs
    from fillengine.cli.sink import Sink
    from fillengine.extraction.totals import Totals
    from fillengine.templates import Form


class FillMode(str, Enum):
    AUTO = "auto"
    ASSERT = "assert"
    OFF = "off"


class GroundingMode(str, Enum):
    VERBATIM = "verbatim"
    FREE = "free"


DEFAULT_GROUNDING_MODE = GroundingMode(DEFAULT_GROUNDING)


def extract(
    *,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            "-s",
            metavar="FILE|MODULE:NAME",
            help="A JSON Schema file, or a form in Python: a model, a Template.",
        ),
    ] = None,
    regex: RegexOption = None,
    choice: ChoiceOption = None,
    grammar: GrammarOption = None,
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DOCUMENT",
            show_default=False,
            help="Text files in UTF-8, or JSON Lines files with --field; - or nothing is standard input.",
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Documents are JSON Lines: one a row, its text in this field."),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", metavar="NAME|FOLDER", help="A known name, a folder, or a hub name."),
    ] = "smollm2",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write rows to this file, not to standard output."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Keep the rows that --output holds and go on behind them."),
    ] = False,
    fill: Annotated[
        FillMode,
        typer.Option(
            help="auto: insert forced text and check likely text in the same pass; assert: forced text only; "
            "off: neither. The answers are the same."
        ),
    ] = FillMode.AUTO,
    grounding: Annotated[
        GroundingMode,
        typer.Option(help="verbatim: strings must stand in the document; free: only where the schema says so."),
    ] = DEFAULT_GROUNDING_MODE,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="what the model's context leaves, at most 1024",
            help="Most tokens of an answer, which is whole in any case.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Documents that run together.")] = 1,
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the model should know beside the schema.")
    ] = None,
    temperature: Annotated[
        float, typer.Option(min=0.0, metavar="X", help="0 takes the likeliest token each time.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers, above temperature 0.")] = 0,
    explain: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write an HTML page that shows where each token of the answers came from."),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics on standard error.")] = False,
) -> None:
    """Write one value for each document, as JSON Lines, in order.

    The form is given by one of --schema, --regex, --choice and --grammar. A row is {"document": NAME, "value": {...}},
    or {"document": NAME, "error": TEXT} where a document among several could not be served. NAME is the file as
    given, or FILE:LINE with --field.
    """
    from fillengine.cli.explained import Explained
    from fillengine.cli.sink import FileSink, StreamSink
    from fillengine.extraction.totals import Totals

    form = load_form(schema, regex, choice, grammar, named="--schema")
    inputs = gather(documents or [], field)
    if resume and output is None:
        raise FillError("--resume needs --output FILE, the file to go on with")
    settings = Settings(
        instructions=instructions,
        fill=fill.value,
        grounding=grounding.value,
        batch_size=batch_size,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        logprobs=None if explain is None else 0,
    )
    sink = StreamSink() if output is None else FileSink.open(output, resume=resume)
    totals = Totals()
    explained = None if explain is None else Explained(explain)
    try:
        with terminable():
            _run(model, inputs, form, settings, sink, totals, explained)
    except KeyboardInterrupt as stop:
        sink.close()
        say(sink.farewell("terminated" if isinstance(stop, Terminated) else "interrupted", inputs.num_documents))
        raise typer.Exit(TERMINATED if isinstance(stop, Terminated) else INTERRUPTED) from None
    finally:
        sink.close()
        if explained is not None:
            explained.save()
        if stats:
            show_totals(totals)
    failure = totals.first_failure
    if failure is not None:
        say(
            f"{totals.num_failed} of {totals.num_documents} documents failed, their rows say why; "
            f"the first is {failure.document}: {failure.problem}"
        )
        raise typer.Exit(SOME_FAILED)


def load_engine(model: str) -> Any:
    """The engine of a model. MLX is imported here, after everything that could be wrong before."""
    # Standard error is ours: transformers would warn of a long document before we refuse it in one line.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from fillengine.extraction.engine import load

    return load(model)


def _run(
    model: str,
    inputs: Inputs,
    form: Form,
    settings: Settings,
    sink: Sink,
    totals: Totals,
    explained: Explained | None,
) -> None:
    from fillengine.extraction.extract import ExtractionError, extract_rows

    sources = sink.without_done(inputs.sources())
    with waiting(f"loading {model}"):
        engine = load_engine(model)
    num_done = sink.num_rows
    started = time.monotonic()
    with run_progress(inputs.num_documents, num_done) as progress:
        progress.show(totals)
        for row in extract_rows(engine, sources, form, settings, first_index=num_done):
            if isinstance(row.outcome, ExtractionError) and inputs.is_single:
                raise FillError(f"{row.document}: {row.outcome.problem}")
            if sink.is_terminal:
                progress.hide()
            sink.write(row)
            totals.add(row.outcome)
            if explained is not None:
                explained.add(row)
            totals.elapsed_seconds = time.monotonic() - started
            progress.show(totals)

"""What commands show on standard error: messages, progress of a run, its statistics."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from fillengine.extraction.totals import Totals


def say(message: str) -> None:
    """One line on standard error, whatever the message holds."""
    line = re.sub(r"\s*[\r\n]+\s*", " ", message)
    typer.echo(f"fillengine: {line}", err=True)


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """A spinner with a message while the block runs; nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield


class RunProgress:
    """Shows nothing: standard error is no terminal."""

    def hide(self) -> None:
        """Take the display away, so that a row can be printed on the same terminal."""

    def show(self, totals: Totals) -> None:
        """Bring it up to date (and back)."""


class RunBar(RunProgress):
    """Documents done of all, documents a second, time left, forward passes for each token so far."""

    def __init__(self, bar: Progress, task: TaskID, num_done: int) -> None:
        self._bar, self._task, self._num_done = bar, task, num_done
        self._started = time.monotonic()

    def hide(self) -> None:
        self._bar.stop()

    def show(self, totals: Totals) -> None:
        notes = []
        if totals.num_documents:
            rate = totals.num_documents / max(time.monotonic() - self._started, 1e-6)
            notes.append(f"{rate:.2f} documents/s")
        if totals.forwards_per_token is not None:
            notes.append(f"{totals.forwards_per_token:.2f} passes/token")
        if totals.num_failed:
            notes.append(f"{totals.num_failed} failed")
        self._bar.update(
            self._task, completed=self._num_done + totals.num_documents, notes=", ".join(notes), refresh=True
        )
        self._bar.start()


@contextmanager
def run_progress(num_documents: int | None, num_done: int) -> Iterator[RunProgress]:
    """The progress of a run while the block runs, gone afterwards.

    `num_documents` None: not known. `num_done`: rows that a former run left.
    """
    if not sys.stderr.isatty():
        yield RunProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        MofNCompleteColumn(),
        BarColumn(bar_width=24),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.fields[notes]}"),
    )
    # Standard output is for rows: rich must not lead it to the terminal.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=num_documents, completed=num_done, notes="")
        yield RunBar(bar, task, num_done)


def show_totals(totals: Totals) -> None:
    """The statistics of a run as a short table on standard error."""
    ratio = totals.forwards_per_token
    share = f" ({totals.accepted / totals.proposed:.0%} of {totals.proposed} proposed)" if totals.proposed else ""
    rate = ""
    if totals.elapsed_seconds:
        rate = (
            f" ({totals.emitted / totals.elapsed_seconds:.1f} tokens/s, "
            f"{totals.num_documents / totals.elapsed_seconds:.2f} documents/s)"
        )
    overlap = totals.prefill_seconds + totals.decode_seconds > totals.elapsed_seconds
    summed = ", summed over documents that overlap" if overlap else ""
    lines = [
        (
            "documents",
            f"{totals.num_documents}" + (f" ({totals.num_failed} failed)" if totals.num_failed else ""),
        ),
        ("tokens emitted", f"{totals.emitted}"),
        ("  asserted", f"{totals.asserted}"),
        ("  accepted", f"{totals.accepted}{share}"),
        ("  sampled", f"{totals.sampled}"),
        ("forward passes", f"{totals.forwards}" + (f" ({ratio:.2f} a token)" if ratio is not None else "")),
        ("prompt tokens", f"{totals.prompt_tokens} ({totals.reused_prompt_tokens} reused)"),
        ("elapsed", f"{totals.elapsed_seconds:.2f} s{rate}"),
        ("  prompts", f"{totals.prefill_seconds:.2f} s"),
        ("  decoding", f"{totals.decode_seconds:.2f} s{summed}"),
    ]
    if totals.num_closed:
        lines.append(("runaway values", f"{totals.num_closed} closed"))
    for name, value in lines:
        typer.echo(f"{name:<16}{value}", err=True)

"""Where rows go: a file that a later run can take up again, or standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import typer

from fillengine.cli.exits import NOBODY_READS
from fillengine.extraction.documents import Source
from fillengine.extraction.extract import Row
from fillengine.extraction.run import Output, encode_row, open_output, resume_output, without_done, write_line


class Sink(Protocol):
    """`num_rows`: whole rows so far, those of a former run included."""

    is_terminal: bool

    @property
    def num_rows(self) -> int: ...
    def without_done(self, sources: Iterable[Source]) -> Iterator[Source]: ...
    def write(self, row: Row) -> None: ...
    def close(self) -> None: ...
    def farewell(self, reason: str, num_documents: int | None) -> str: ...


class FileSink:
    is_terminal = False

    def __init__(self, output: Output) -> None:
        self._output = output

    @classmethod
    def open(cls, path: Path, *, resume: bool) -> FileSink:
        return cls(resume_output(path) if resume else open_output(path))

    @property
    def num_rows(self) -> int:
        return len(self._output.done)

    def without_done(self, sources: Iterable[Source]) -> Iterator[Source]:
        return without_done(sources, self._output)

    def write(self, row: Row) -> None:
        self._output.write(row)

    def close(self) -> None:
        self._output.close()

    def farewell(self, reason: str, num_documents: int | None) -> str:
        """What is safe after an interruption, and how to go on."""
        of_all = "" if num_documents is None else f" of {num_documents}"
        return (
            f"{reason}: {self.num_rows}{of_all} rows are safe in {self._output.path}; "
            "the same command with --resume goes on from there"
        )


class StreamSink:
    """Standard output."""

    def __init__(self) -> None:
        self._stream = sys.stdout.buffer
        self.num_rows = 0
        self.is_terminal = sys.stdout.isatty()

    def without_done(self, sources: Iterable[Source]) -> Iterator[Source]:
        return iter(sources)

    def write(self, row: Row) -> None:
        try:
            write_line(self._stream, encode_row(row))
        except BrokenPipeError:
            # Nobody reads any more (`| head`). Python would complain again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(NOBODY_READS) from None
        self.num_rows += 1

    def close(self) -> None:
        pass

    def farewell(self, reason: str, num_documents: int | None) -> str:
        of_all = "" if num_documents is None else f" of {num_documents}"
        return f"{reason}: {self.num_rows}{of_all} rows were written; with --output FILE a run can be resumed"

"""JSON Lines runs: one row a document, in order, each flushed as it is finished, resumable.

    {"document": "notes/a.txt", "value": {"from": "Weber", "items": 3}}
    {"document": "notes/b.txt", "error": "the document is empty; there is nothing to extract from"}

The value is the text that was generated, character by character, so that a number keeps its spelling. Where the form
is no JSON (a regular expression, a template of text), it is the value of the text, as JSON.
A run that was interrupted leaves whole rows, at worst with a torn last line; `take_up` cuts that.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol

from fillengine.errors import FillError
from fillengine.extraction.documents import Source
from fillengine.extraction.extract import ExtractionError, Row


class ByteSink(Protocol):
    """A binary stream: an unbuffered file, or standard output's buffer."""

    def write(self, data: bytes, /) -> int | None: ...
    def flush(self) -> None: ...


@dataclass(slots=True)
class Output:
    """A file that rows are appended to. `done`: the documents of the rows it already holds, in order."""

    path: Path
    stream: FileIO
    done: list[str]
    num_safe_bytes: int

    def write(self, row: Row) -> None:
        """Append one row and flush it. FillError when the disk will not have it."""
        line = encode_row(row)
        try:
            write_line(self.stream, line)
        except OSError as error:
            raise FillError(
                f"{self.path}: cannot be written ({error.strerror or error}); "
                f"{len(self.done)} rows are whole, make room and go on with --resume"
            ) from None
        self.num_safe_bytes += len(line)
        self.done.append(row.document)

    def close(self) -> None:
        """Close, and cut what an interrupted write may have left behind the last whole row."""
        if self.stream.closed:
            return
        if _is_regular(self.stream) and os.fstat(self.stream.fileno()).st_size > self.num_safe_bytes:
            self.stream.truncate(self.num_safe_bytes)
        self.stream.close()


def encode_row(row: Row) -> bytes:
    """One line of UTF-8, its line end included."""
    name = json.dumps(row.document, ensure_ascii=False)
    if isinstance(row.outcome, ExtractionError):
        body = f'"error": {json.dumps(row.outcome.problem, ensure_ascii=False)}'
    else:
        body = f'"value": {row.outcome.text if row.json is None else row.json}'
    # A file name that is not UTF-8 holds lone surrogates; they are written as JSON escapes.
    return f'{{"document": {name}, {body}}}\n'.encode("utf-8", "backslashreplace")


def write_line(sink: ByteSink, line: bytes) -> None:
    """The whole line and a flush: an unbuffered file may take less than it is given."""
    while line:
        num_written = sink.write(line)
        line = b"" if num_written is None else line[num_written:]
    sink.flush()


def open_output(path: Path) -> Output:
    """A new output. Raises FillError where one with rows exists already: hours of work may be in it."""
    if path.is_file() and path.stat().st_size:
        raise FillError(f"{path}: exists and is not empty; go on with it by --resume, or remove it to start again")
    return Output(path, _opened(path), [], 0)


def resume_output(path: Path) -> Output:
    """An output to go on with: its whole rows are kept, a torn last line is cut. A new one where none exists.

    Raises FillError for a file that holds other things than rows.
    """
    if not path.exists():
        return open_output(path)
    if not path.is_file():
        raise FillError(f"{path}: is no regular file, so there is nothing to go on with; leave out --resume")
    done: list[str] = []
    num_bytes = 0
    try:
        rows = path.open("rb")
    except OSError as error:
        raise FillError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from None
    with rows:
        for number, line in enumerate(rows, start=1):
            if not line.endswith(b"\n"):
                break
            done.append(_document_of(line, f"{path}:{number}"))
            num_bytes += len(line)
    stream = _opened(path)
    stream.truncate(num_bytes)
    return Output(path, stream, done, num_bytes)


def without_done(sources: Iterable[Source], output: Output) -> Iterator[Source]:
    """The documents behind those that `output` has rows of.

    Raises FillError at once where those rows are of other documents than these.
    """
    rest = iter(sources)
    for number, (name, source) in enumerate(
        itertools.zip_longest(output.done, itertools.islice(rest, len(output.done))), 1
    ):
        found = None if source is None else source.name
        if found != name:
            expected = "no document is left" if found is None else f"document {number} is {found}"
            raise FillError(
                f"{output.path}:{number}: this row is of {name}, but {expected}; "
                "resume with the documents of the first run in the same order, or write to another file"
            )
    return rest


def _opened(path: Path) -> FileIO:
    try:
        # "a": a row always goes to the end. Unbuffered: nothing is left to write when the process is stopped.
        stream: FileIO = path.open("ab", buffering=0)
    except FileNotFoundError:
        raise FillError(f"{path}: the folder {path.parent} does not exist; make it first") from None
    except OSError as error:
        raise FillError(f"{path}: cannot be written ({error.strerror or error}); choose another file") from None
    return stream


def _document_of(line: bytes, place: str) -> str:
    try:
        row = json.loads(line)
        name = row["document"]
        if isinstance(name, str) and ("value" in row or "error" in row):
            return name
    except (ValueError, KeyError, TypeError):
        pass
    raise FillError(f"{place}: no row of an extraction; write to another file")


def _is_regular(stream: FileIO) -> bool:
    return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)

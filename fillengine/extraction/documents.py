"""Documents: texts with a name, read from files, from standard input or from JSON Lines.

A name says where the text came from, so that a row of output can be traced back:

    notes/a.txt          a text file, as it was named
    -                    standard input, read as one text
    orders.jsonl:12      line 12 (the first is 1) of a JSON Lines file
    -:12                 line 12 of JSON Lines on standard input

Reading never stops a run: a document that cannot be read becomes a `BadDocument`, which carries the error
in its place.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fillengine.errors import DocumentError

STANDARD_INPUT = "-"
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class BadDocument:
    """A document that could not be read, in its place among the others."""

    name: str
    error: DocumentError


Source = Document | BadDocument


def decode(data: bytes, name: str) -> str:
    """UTF-8 to text, without a byte order mark, line ends as "\\n". Raises DocumentError with the offset."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DocumentError(f"{name}: not UTF-8 but UTF-16 (byte order mark at byte 0); convert it to UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # "utf-8-sig" counts from behind the mark.
        offset = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        raise DocumentError(
            f"{name}: not UTF-8 (byte 0x{data[offset]:02x} at offset {offset}); convert it to UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def checked(name: str, text: str) -> Document:
    """The document, or DocumentError where there is nothing to read in it, or nothing that can be read."""
    if not text.strip():
        raise DocumentError(f"{name}: the document is empty; there is nothing to extract from")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"{name}: half a surrogate pair at character {error.start}; write the whole character"
        ) from None
    return Document(name, text)


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The bytes behind a name ("-" is standard input, which stays open). Raises DocumentError."""
    if name == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except FileNotFoundError:
        raise DocumentError(f"{name}: no such file; check the path") from None
    except IsADirectoryError:
        example = f"{name.rstrip('/')}/*.txt"
        raise DocumentError(f"{name}: is a folder; name the files in it, for example {example}") from None
    except OSError as error:
        raise DocumentError(f"{name}: cannot be read ({error.strerror or error}); check its permissions") from None


def read_text(name: str) -> Document:
    """One whole file as one document. Raises DocumentError."""
    with opened(name) as stream:
        return checked(name, decode(stream.read(), name))


def read_texts(names: Iterable[str]) -> Iterator[Source]:
    """Each file as one document, in order. A file is read when its turn comes."""
    for name in names:
        try:
            yield read_text(name)
        except DocumentError as error:
            yield BadDocument(name, error)


def read_rows(name: str, field: str) -> Iterator[Source]:
    """The field of each line of a JSON Lines file, in order; lines of white space are skipped.

    Lines are read one at a time, so a pipe that is still being written to is served as it comes.
    Raises DocumentError when the file cannot be opened; a bad line becomes a BadDocument.
    """
    with opened(name) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield _row(line, f"{name}:{number}", field)


def _row(line: bytes, name: str, field: str) -> Source:
    try:
        fields = _fields(line, name)
        wanted = json.dumps(field, ensure_ascii=False)
        if field not in fields:
            there = ", ".join(json.dumps(key, ensure_ascii=False) for key in fields) or "none"
            raise DocumentError(f"{name}: no field {wanted} in this row; it has: {there}")
        text = fields[field]
        if not isinstance(text, str):
            raise DocumentError(f"{name}: the field {wanted} is {_kind(text)}; name a field that holds text")
        return checked(name, text)
    except DocumentError as error:
        return BadDocument(name, error)


def _fields(line: bytes, name: str) -> dict[str, object]:
    try:
        row = json.loads(decode(line, name).rstrip("\n"))
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{name}: not JSON: {error.msg} at column {error.colno}; each line must be one JSON object"
        ) from None
    except RecursionError:
        raise DocumentError(f"{name}: JSON nested too deeply; each line must be one JSON object") from None
    if not isinstance(row, dict):
        raise DocumentError(f"{name}: {_kind(row)}, not an object; each line must be one JSON object")
    return row


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")


def _is_pipe(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def count_rows(names: Sequence[str], field: str) -> int | None:
    """How many rows there are in JSON Lines files; None where that cannot be known before the run.

    A field that no row has is a slip on the command line, not a fault of every row: that raises DocumentError
    with what the first row has. So do files without any row. Only regular files are looked at: a pipe can be
    read once.
    """
    num_rows = 0
    first_fault: DocumentError | None = None
    has_field = False
    for name in names:
        if name == STANDARD_INPUT or _is_pipe(Path(name)):
            return None
        with opened(name) as stream:
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                num_rows += 1
                if has_field:
                    continue
                source = _row(line, f"{name}:{number}", field)
                if isinstance(source, BadDocument):
                    first_fault = first_fault or source.error
                else:
                    has_field = True
    if num_rows == 0:
        raise DocumentError(f"{', '.join(names)}: no rows; there is nothing to extract from")
    if not has_field and first_fault is not None:
        raise first_fault
    return num_rows


def looks_like_json_lines(name: str) -> bool:
    return name.lower().endswith(JSON_LINES_SUFFIXES)


def first_fields(name: str) -> list[str]:
    """The fields of the first row, for a message; empty where they cannot be told."""
    try:
        with opened(name) as stream:
            return list(_fields(stream.readline(), name))
    except DocumentError:
        return []

"""What contenders did, turn by turn, on disk: an interrupted measurement goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from fillengine.bench.contenders import Answer
from fillengine.errors import DocumentError


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One contender's turn.

    setting          the name of the setting; first: the place of its first record among all
    seconds          the whole turn; prefill_seconds, decode_seconds: see `contenders.Turn`
    passes           forward passes of the model, prompts included
    new_shapes       the shapes (rows, tokens, width) of those passes over several tokens a row that this contender
                     had not had before; see `passes`
    rounds, stage_seconds   see `contenders.Turn`
    """

    setting: str
    contender: str
    first: int
    ids: list[str]
    seconds: float
    prefill_seconds: float
    decode_seconds: float
    passes: int
    new_shapes: list[tuple[int, int, int]]
    answers: list[Answer]
    rounds: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return sum(len(answer.token_ids) for answer in self.answers)


class TurnLog:
    """The turns of a measurement. With a file each is written as soon as it is done.

    header: what must be equal for two runs to be one measurement.
    """

    def __init__(self, header: dict[str, Any], rows: Sequence[TurnRow] = (), path: Path | None = None) -> None:
        self.header = header
        self.rows = list(rows)
        self._path = path
        self._file: BinaryIO | None = None

    @classmethod
    def open(cls, path: Path, header: dict[str, Any], *, resume: bool) -> TurnLog:
        """Begin a file (with the first turn), or with `resume` go on with it.

        Raises DocumentError where it is another measurement's.
        """
        if not path.exists():
            if not path.parent.is_dir():
                raise DocumentError(f"{path}: there is no folder {path.parent}; make it, or name another file")
            return cls(header, (), path)
        if not resume:
            raise DocumentError(f"{path} is there already; go on with --resume, or remove it")
        rows, length = _read(path, header)
        with path.open("r+b") as file:
            file.truncate(length)
        return cls(header, rows, path)

    def has(self, setting: str, contender: str, first: int) -> bool:
        return any((row.setting, row.contender, row.first) == (setting, contender, first) for row in self.rows)

    def add(self, row: TurnRow) -> None:
        self.rows.append(row)
        if self._path is None:
            return
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
            if self._file.tell() == 0:
                self._file.write(_line(self.header))
        self._file.write(_line(asdict(row)))

    def of(self, setting: str, contender: str) -> list[TurnRow]:
        """In the order of the records."""
        found = [row for row in self.rows if (row.setting, row.contender) == (setting, contender)]
        return sorted(found, key=lambda row: row.first)

    def contenders(self, setting: str) -> list[str]:
        """In the order in which they first had a turn."""
        return list(dict.fromkeys(row.contender for row in self.rows if row.setting == setting))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _read(path: Path, header: dict[str, Any]) -> tuple[list[TurnRow], int]:
    """The whole rows of a file, and its length up to their end: an interruption may have torn the last line."""
    lines = list(_whole_lines(path.read_bytes()))
    try:
        held = json.loads(lines[0])
        rows = [_row(json.loads(line)) for line in lines[1:]]
    except (IndexError, ValueError, TypeError, KeyError) as error:
        raise DocumentError(f"{path} holds no turns ({error!r}); remove it, or name another file") from None
    different = sorted(name for name in held.keys() | header.keys() if held.get(name) != header.get(name))
    if different:
        name = different[0]
        raise DocumentError(
            f"{path} is of another measurement: its {name} is {held.get(name)!r}, and here it is "
            f"{header.get(name)!r}; name another file"
        )
    return rows, sum(map(len, lines))


def _whole_lines(content: bytes) -> Iterator[bytes]:
    return (line for line in content.splitlines(keepends=True) if line.endswith(b"\n"))


def _row(fields: dict[str, Any]) -> TurnRow:
    answers = [Answer(**answer) for answer in fields["answers"]]
    return TurnRow(**{**fields, "new_shapes": [tuple(shape) for shape in fields["new_shapes"]], "answers": answers})

"""The documents that a command is given."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fillengine.errors import FillError

if TYPE_CHECKING:
    from fillengine.extraction.documents import Source


@dataclass(frozen=True, slots=True)
class Inputs:
    """`num_documents` is None where it cannot be known before the run."""

    names: tuple[str, ...]
    field: str | None
    num_documents: int | None

    @property
    def is_single(self) -> bool:
        """One text: its fault is the command's fault. In a run over several it is one row's."""
        return self.field is None and len(self.names) == 1

    def sources(self) -> Iterator[Source]:
        from fillengine.extraction.documents import read_rows, read_texts

        if self.field is None:
            yield from read_texts(self.names)
            return
        for name in self.names:
            yield from read_rows(name, self.field)


def gather(names: Sequence[str], field: str | None) -> Inputs:
    """What the documents on a command line are. Raises FillError for what can be seen before the run."""
    from fillengine.extraction.documents import (
        STANDARD_INPUT,
        count_rows,
        first_fields,
        looks_like_json_lines,
        read_text,
    )

    if not names and sys.stdin.isatty():
        raise FillError("no document; name text files, or pipe one in")
    names = tuple(names) or (STANDARD_INPUT,)
    if names.count(STANDARD_INPUT) > 1:
        raise FillError("standard input (-) is named twice, but can be read once; name it once")
    if field is not None:
        return Inputs(names, field, count_rows(names, field))
    for name in names:
        if looks_like_json_lines(name):
            fields = ", ".join(json.dumps(key, ensure_ascii=False) for key in first_fields(name))
            has = f" (the first row has: {fields})" if fields else ""
            raise FillError(f"{name}: is JSON Lines; name the field that holds the text with --field{has}")
    if len(names) == 1 and names[0] != STANDARD_INPUT:
        read_text(names[0])  # before a model is loaded
    return Inputs(names, field, len(names))

"""The page of `--explain`: where each token of a run's answers came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fillengine.errors import FillError
from fillengine.extraction.extract import ExtractionError, Row

if TYPE_CHECKING:
    from fillengine.generation.explanation import Explanation

MAX_EXPLAINED = 100
"""Answers on one page. A browser is slow beyond some thousand tokens each."""


class Explained:
    """Collects answers and writes the page at the end of the run.

    Raises FillError at once where the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[tuple[str, Explanation]] = []
        self._num_left_out = 0
        try:
            path.open("ab").close()
        except OSError as error:
            raise FillError(f"{path}: cannot be written ({error.strerror or error}); choose another file") from None

    def add(self, row: Row) -> None:
        if isinstance(row.outcome, ExtractionError):
            return
        if len(self._found) < MAX_EXPLAINED:
            self._found.append((row.document, row.outcome.explain()))
        else:
            self._num_left_out += 1

    def save(self) -> None:
        from fillengine.generation.explanation import save_page

        more = f" (the first {MAX_EXPLAINED}; {self._num_left_out} more are left out)" if self._num_left_out else ""
        save_page(self._path, self._found, title=f"How the answers came about{more}")

"""The progress of a run: only on a terminal, and gone before a row is printed on it."""

from __future__ import annotations

import io
import sys

from fake_engine import FakeResult

from fillengine.cli.render import run_progress, say, waiting
from fillengine.errors import DocumentError
from fillengine.extraction.extract import ExtractionError
from fillengine.extraction.totals import Totals


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch) -> Terminal:
    """Standard error as a terminal. Not a fixture: pytest puts its own stream in place for each phase."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def totals(num_good: int, num_bad: int = 0) -> Totals:
    found = Totals()
    for _ in range(num_good):
        found.add(FakeResult("{}"))
    for _ in range(num_bad):
        found.add(ExtractionError("b.txt", DocumentError("bad")))
    return found


def test_progress_shows_documents_rate_and_passes(monkeypatch):
    stream = terminal(monkeypatch)
    with run_progress(5, num_done=1) as progress:
        progress.show(totals(1, num_bad=1))
    shown = stream.getvalue()
    for part in ("3/5", "documents/s", "0.43 passes/token", "1 failed"):
        assert part in shown


def test_nothing_is_shown_of_documents_that_are_not_done_yet(monkeypatch):
    stream = terminal(monkeypatch)
    with run_progress(None, num_done=0) as progress:
        progress.show(totals(0))
    assert "documents/s" not in stream.getvalue()


def test_progress_can_be_hidden_and_comes_back(monkeypatch):
    stream = terminal(monkeypatch)
    with run_progress(2, num_done=0) as progress:
        progress.show(totals(1))
        progress.hide()
        hidden = stream.getvalue()
        assert hidden.endswith("\x1b[2K")
        progress.show(totals(2))
        assert "2/2" in stream.getvalue()[len(hidden) :]


def test_nothing_is_written_where_standard_error_is_no_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with waiting("loading"), run_progress(2, num_done=0) as progress:
        progress.show(totals(1))
        progress.hide()
    assert stream.getvalue() == ""


def test_a_message_is_always_one_line(capsys):
    say("one\n  two\r\nthree")
    assert capsys.readouterr().err == "fillengine: one two three\n"

"""Work in processes of its own, each piece with its own limit of processor time.

The limit is the system's (a timer whose signal nobody catches), so that a piece that hangs in compiled code is ended
as surely as one that loops in Python, and a machine that is busy with other things makes nothing late.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A piece that came to nothing: its time was over, or its process ended.

    stage    what it had reported last
    seconds  processor time, where that was what ended it
    """

    problem: str
    stage: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class _Stage:
    text: str


class _Process(Generic[Task, Found]):
    """A process that does one piece after the other."""

    def __init__(self, work: Callable[[Task, Report], Found], seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, other, seconds), daemon=True)
        self._process.start()
        other.close()
        self._seconds = seconds
        self._stage = ""

    def begin(self, task: Task) -> None:
        self.task = task
        self._stage = ""
        self.connection.send(task)

    def receive(self) -> Found | Unfinished | None:
        """What came of the task, None where it only reports."""
        try:
            message = self.connection.recv()
        except EOFError:
            code = self.end()
            if code == -signal.SIGPROF:
                return Unfinished(f"not done in {self._seconds:g} seconds", self._stage, self._seconds)
            return Unfinished(f"its process ended with code {code}", self._stage, None)
        if isinstance(message, _Stage):
            self._stage = message.text
            return None
        found: Found = message
        return found

    def end(self) -> int | None:
        """Let the process end; its exit code."""
        self.connection.close()
        self._process.join()
        return self._process.exitcode


def run_limited(
    work: Callable[[Task, Report], Found], tasks: Sequence[Task], *, jobs: int, seconds: float
) -> Iterator[tuple[Task, Found | Unfinished]]:
    """Each task with what `work(task, report)` gives for it, in the order in which they are done.

    `work` is pickled once for each process. `report` says how far it is, for what is not done in `seconds`.
    """
    left = iter(tasks)
    processes: list[_Process[Task, Found]] = []

    def begin(process: _Process[Task, Found] | None) -> None:
        """The next task, in this process or in a new one."""
        for task in left:
            if process is None:
                process = _Process(work, seconds)
                processes.append(process)
            process.begin(task)
            return
        if process is not None:
            processes.remove(process)
            process.end()

    for _ in range(jobs):
        begin(None)
    while processes:
        ready = wait([process.connection for process in processes])
        for process in [process for process in processes if process.connection in ready]:
            found = process.receive()
            if found is None:
                continue
            yield process.task, found
            if isinstance(found, Unfinished):
                processes.remove(process)
                begin(None)
            else:
                begin(process)


def _serve(work: Callable[[Any, Report], Any], connection: Connection, seconds: float) -> None:
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)
        found = work(task, lambda text: connection.send(_Stage(text)))
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        connection.send(found)

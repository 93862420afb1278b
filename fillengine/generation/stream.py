"""One text in pieces as they come.

stream = engine.stream("…", form)
for piece in stream:
    stream.partial          the value so far
stream.result               the whole
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from fillengine.errors import FillError
from fillengine.generation.job import Job
from fillengine.generation.progress import Progress
from fillengine.generation.result import Result
from fillengine.generation.scheduler import Scheduler


class Stream(Progress, Iterator[str]):
    """Iterating runs the engine, which is for nothing else meanwhile. Raises what went wrong (FillError)."""

    def __init__(self, scheduler: Scheduler, job: Job) -> None:
        super().__init__(job.request.form)
        self._scheduler, self._job = scheduler, job
        self._pieces: deque[str] = deque()
        job.on_raw = both(self._pieces.append, job.on_raw)
        scheduler.submit(job)

    def __next__(self) -> str:
        while not self._pieces:
            if isinstance(self._job.outcome, FillError):
                raise self._job.outcome
            if self._job.outcome is not None:
                raise StopIteration
            self._scheduler.step()
        return self._take(self._pieces.popleft())

    @property
    def result(self) -> Result:
        """The whole text: the rest of it is written first. Raises what went wrong (FillError)."""
        for _ in self:
            pass
        assert isinstance(self._job.outcome, Result)
        return self._job.outcome


def both(first: Callable[[str], object], second: Callable[[str], object] | None) -> Callable[[str], object]:
    """A listener for both."""
    if second is None:
        return first

    def call(piece: str) -> None:
        first(piece)
        second(piece)

    return call

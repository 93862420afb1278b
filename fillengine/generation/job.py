"""A request on its way from being handed in to its outcome."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fillengine.errors import FillError, Stopped
from fillengine.generation.progress import shown
from fillengine.generation.request import Request
from fillengine.generation.result import Result, Stats
from fillengine.generation.rounds import BatchRow

if TYPE_CHECKING:
    from fillengine.fill import Planner, Report


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("surrogateescape")


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way. Times are of `time.perf_counter`, and None before they have come.

    is_cancelled    may be set at any time, by any thread: the job ends with the next turn
    deadline        ends it likewise
    on_raw          gets each new piece of the text, control tokens marked (`Result.raw`)
    """

    request: Request
    row_id: int
    submitted: float
    deadline: float | None = None
    on_raw: Callable[[str], object] | None = None
    is_cancelled: bool = False
    planner: Planner | None = None
    row: BatchRow | None = None
    num_reused: int = 0
    begun: float | None = None
    joined: float | None = None
    outcome: Result | FillError | None = None
    stats: Stats | None = None
    _num_told: int = 0
    _decoder: codecs.IncrementalDecoder = field(default_factory=_decoder)

    @classmethod
    def of(cls, request: Request, row_id: int, *, deadline: float | None = None) -> Job:
        """A job that is handed in now. `deadline`: one besides the request's own."""
        now = time.perf_counter()
        deadlines = [deadline, None if request.time_limit is None else now + request.time_limit]
        own_id = row_id if request.row_id is None else request.row_id
        first = min((each for each in deadlines if each is not None), default=None)
        return cls(request, own_id, now, first, as_raw_listener(request.on_text))

    @property
    def max_tokens(self) -> int:
        """The budget of the text."""
        return 0 if self.planner is None else self.planner.max_tokens

    def tell(self) -> None:
        """Hand over the text that is new."""
        if self.on_raw is None or self.planner is None:
            return
        data = self.planner.data
        piece = self._decoder.decode(data[self._num_told :])
        self._num_told = len(data)
        if piece:
            self.on_raw(piece)


def as_raw_listener(on_text: Callable[[str], object] | None) -> Callable[[str], object] | None:
    """A listener of raw pieces that hands them on as they are shown."""
    return None if on_text is None else lambda raw: on_text(shown(raw))


def told(job: Job) -> Exception | None:
    """Hand over new text; what the listener raised, if anything."""
    try:
        job.tell()
    except Exception as error:  # whatever it is, it ends this job only
        return error
    return None


def stopped_error(job: Job) -> Stopped:
    """Why a job that was cancelled, or is out of time, has no whole text."""
    report = None if job.planner is None else job.planner.report()
    text, num_tokens = ("", 0) if report is None else (report.text, len(report.token_ids))
    if job.is_cancelled:
        return Stopped(f"cancelled after {num_tokens} tokens", reason="cancelled", text=text)
    limit = job.request.time_limit
    own = "" if limit is None else f" (its own limit is {limit:g} s)"
    return Stopped(
        f"out of time after {num_tokens} tokens{own}; allow more time, or ask for less at once",
        reason="time",
        text=text,
    )


def stats_of(job: Job, row: BatchRow, report: Report) -> Stats:
    """The accounts of a job whose row leaves the batch now."""
    now = time.perf_counter()
    begun = now if job.begun is None else job.begun
    joined = now if job.joined is None else job.joined
    return Stats(
        forwards=row.num_forwards,
        projected=row.num_projected,
        asserted=report.stats.asserted,
        proposed=sum(report.stats.proposed.values()),
        accepted=sum(report.stats.accepted.values()),
        sampled=report.stats.sampled,
        thrown_away=row.num_thrown_away,
        rollbacks=row.num_rollbacks,
        rollback_seconds=row.rollback_seconds,
        replayed=row.num_replayed,
        dropped=row.num_dropped,
        prompt_tokens=len(job.request.prompt),
        reused_prompt_tokens=job.num_reused,
        waiting_seconds=begun - job.submitted,
        prefill_seconds=joined - begun,
        decode_seconds=now - joined,
        proposed_by=dict(report.stats.proposed),
        accepted_by=dict(report.stats.accepted),
        closed=report.closed,
    )


def as_fill_error(error: Exception) -> FillError:
    """What the outside gets to see of a failure."""
    if isinstance(error, FillError):
        return error
    wrapped = FillError(f"writing this text failed: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped

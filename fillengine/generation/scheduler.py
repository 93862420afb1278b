"""Who is written when: requests wait, have their prompts read, are written together, and leave.

    submit -> waiting -> admitted (a place and memory are there) -> prompt read in chunks -> rounds -> done

One turn (`step`) reads some tokens of prompts and runs one round of the batch, so that a long prompt does not
hold up those who are being written.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fillengine.errors import FillError, ModelError, Stopped
from fillengine.generation.choices import Chooser
from fillengine.generation.job import Job, as_fill_error, stats_of, stopped_error, told
from fillengine.generation.memory import Footprint
from fillengine.generation.prompts import PromptReader, Reading
from fillengine.generation.request import Request
from fillengine.generation.result import Result, RunStats, Trace
from fillengine.generation.rounds import Batch, BatchRow

if TYPE_CHECKING:
    from fillengine.fill import Planner

# Slots that a pass may write behind the longest row's tokens: rejected drafts, and padding for the others.
MAX_PADDING = 64


class Scheduler:
    """Not for several threads at once.

    plan            sets up a request's planner; what it raises ends that request only
    tokens          what each token id writes
    max_rows        texts that are on their way at once; the others wait
    round_tokens    tokens of prompts that are read between two rounds
    memory_limit    bytes that the caches may take: batch, prompts being read, and kept prefixes (these give way)
    """

    def __init__(
        self,
        *,
        plan: Callable[[Request], Planner],
        chooser: Chooser,
        reader: PromptReader,
        footprint: Footprint,
        tokens: Sequence[bytes | None],
        max_rows: int,
        round_tokens: int,
        memory_limit: int,
    ) -> None:
        if max_rows < 1:
            raise FillError(f"max_rows is {max_rows}; it must be 1 or more")
        if round_tokens < 1:
            raise FillError(f"round_tokens is {round_tokens}; it must be 1 or more")
        self.max_rows = max_rows
        self.round_tokens = round_tokens
        self.memory_limit = memory_limit
        self.stats = RunStats()
        self._plan = plan
        self._reader = reader
        self._footprint = footprint
        self._tokens = tokens
        self._batch = Batch(chooser, reader.pattern.empty_like(1), prefixes=reader.prefixes)
        self.stats.stage_seconds = self._batch.stage_seconds
        self._waiting: deque[Job] = deque()
        self._admitted: list[Job] = []
        self._reading: tuple[Reading, list[Job]] | None = None
        self._writing: dict[BatchRow, Job] = {}
        self._done: list[Job] = []

    @property
    def num_active(self) -> int:
        """Texts that have a place: their prompt is read or is about to be, or they are being written."""
        return len(self._admitted) + len(self._writing) + (len(self._reading[1]) if self._reading else 0)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self.num_active or self._done)

    def submit(self, job: Job) -> None:
        self._waiting.append(job)

    def step(self) -> list[Job]:
        """One turn. Returns the jobs that are done; each has its outcome."""
        self._stop()
        self._admit()
        self._read()
        self._write()
        if self.num_active:
            self._reader.prefixes.make_room(self.memory_limit - self._needed(self._active()))
        done, self._done = self._done, []
        return done

    def fail_all(self, error: Exception) -> list[Job]:
        """End all jobs with an error. For when a turn has failed as a whole."""
        for job in [*self._waiting, *self._active()]:
            if job.outcome is None:
                self._close(job, error)
        self._waiting.clear()
        self._admitted.clear()
        self._reading = None
        self._writing.clear()
        self._batch.reset()
        done, self._done = self._done, []
        return done

    def _active(self) -> list[Job]:
        return [*self._admitted, *(self._reading[1] if self._reading else ()), *self._writing.values()]

    # Stopping.

    def _stop(self) -> None:
        now = time.perf_counter()
        stopped = [
            job
            for job in [*self._waiting, *self._active()]
            if job.is_cancelled or (job.deadline is not None and now >= job.deadline)
        ]
        if not stopped:
            return
        gone = set(stopped)
        self._waiting = deque(job for job in self._waiting if job not in gone)
        self._admitted = [job for job in self._admitted if job not in gone]
        if self._reading is not None:
            reading, jobs = self._reading
            for number, job in enumerate(jobs):
                if job in gone:
                    reading.give_up(number)
            if gone.issuperset(jobs):
                self._reading = None
        for row, job in list(self._writing.items()):
            if job in gone:
                self._batch.remove(row)
                del self._writing[row]
        for job in stopped:
            if job.outcome is None:
                self._close(job, stopped_error(job))

    # Waiting and reading.

    def _admit(self) -> None:
        while self._waiting and self.num_active < self.max_rows:
            job = self._waiting[0]
            try:
                if job.planner is None:
                    job.planner = self._plan(job.request)
                    self._refuse_what_can_never_fit(job)
            except Exception as error:  # whatever it is, it ends this job only
                self._waiting.popleft()
                self._close(job, error)
                continue
            if not self._has_room_for(job):
                return
            self._waiting.popleft()
            self._admitted.append(job)

    def _has_room_for(self, job: Job) -> bool:
        """Whether the job fits beside the others, however long they all get. Kept prefixes are dropped for it."""
        if not self._writing:
            self._batch.shrink()
        needed = max(self._needed([job, *self._active()]), self._batch.cache.nbytes)
        if needed > self.memory_limit and self.num_active:
            return False
        self._reader.prefixes.make_room(self.memory_limit - needed)
        return True

    def _needed(self, jobs: Iterable[Job]) -> int:
        """Bytes of a batch of these jobs, and of the longest prompt that must be read for it."""
        jobs = list(jobs)
        longest = max(len(job.request.prompt) + job.max_tokens for job in jobs) + MAX_PADDING
        prompts = [len(job.request.prompt) for job in jobs if job.row is None]
        return self._footprint.bytes_of(longest, len(jobs)) + self._footprint.bytes_of(max(prompts, default=0))

    def _refuse_what_can_never_fit(self, job: Job) -> None:
        needed = self._needed([job])
        if needed <= self.memory_limit:
            return
        num_prompt = len(job.request.prompt)
        raise FillError(
            f"the prompt has {num_prompt} tokens and max_tokens is {job.max_tokens}: that may take "
            f"{needed / 1e6:.1f} MB of keys and values, and {self.memory_limit / 1e6:.1f} MB are allowed; "
            "shorten the prompt, lower max_tokens or raise memory_limit"
        )

    def _read(self) -> None:
        """Read prompts, `round_tokens` at most."""
        budget = self.round_tokens
        begun = time.perf_counter()
        num_passes = self._reader.num_passes
        while budget > 0 and (self._reading or self._admitted):
            jobs: list[Job] = []
            try:
                if self._reading is None:
                    self._reading = self._next_reading()
                reading, jobs = self._reading
                if not reading.is_done:
                    num_read = reading.read(min(budget, self._reader.pattern.layout.shapes.max_length))
                    budget -= num_read
                    self.stats.read_tokens += num_read
                if reading.is_done:
                    self._reading = None
                    self._join(reading, jobs)
            except Exception as error:  # whatever it is, it ends those whose prompts are read together
                jobs = jobs or self._admitted[:1]
                self._reading = None
                self._admitted = [job for job in self._admitted if job not in jobs]
                for job in jobs:
                    if job.outcome is None:
                        self._close(job, error)
        self.stats.read_passes += self._reader.num_passes - num_passes
        self.stats.read_seconds += time.perf_counter() - begun

    def _next_reading(self) -> tuple[Reading, list[Job]]:
        reading, places = self._reader.start([job.request.prompt for job in self._admitted])
        jobs = [self._admitted[place] for place in places]
        self._admitted = [job for job in self._admitted if job not in jobs]
        now = time.perf_counter()
        for job, num_reused in zip(jobs, reading.num_reused, strict=True):
            job.begun = now
            job.num_reused = num_reused
        return reading, jobs

    def _join(self, reading: Reading, jobs: list[Job]) -> None:
        joining = []
        now = time.perf_counter()
        for number, job in enumerate(jobs):
            if job.outcome is not None:
                continue
            request = job.request
            assert job.planner is not None
            job.joined = now
            job.row = BatchRow(
                planner=job.planner,
                sampling=request.sampling,
                seed=request.seed,
                row_id=job.row_id,
                pending=[request.prompt[-1]],
                held=list(reading.heads[number]),
                watched=request.logprobs,
            )
            joining.append((job.row, reading.cache, number))
        if joining:
            self._batch.join_rows(joining)
            self._writing.update((job.row, job) for job in jobs if job.row is not None and job.outcome is None)

    # Writing.

    def _write(self) -> None:
        if not self._writing:
            return
        if not self._admitted and self._reading is None:
            self._batch.shrink()
        begun = time.perf_counter()
        before = self._batch.num_passes, self._batch.num_positions
        try:
            left = self._batch.run_round()
        except Exception as error:  # of the device or the model: nobody knows what the cache holds
            writing, self._writing = self._writing, {}
            self._batch.reset()
            for job in writing.values():
                self._close(job, error)
            return
        self.stats.rounds += 1
        self.stats.passes += self._batch.num_passes - before[0]
        self.stats.positions += self._batch.num_positions - before[1]
        self.stats.round_seconds += time.perf_counter() - begun
        for row in left:
            job = self._writing.pop(row)
            fault = row.error or told(job)
            if isinstance(row.error, ModelError):
                self._reader.prefixes.discard(job.request.prompt[:-1])
            self._close(job, fault)
        for row, job in list(self._writing.items()):
            fault = told(job)
            if fault is not None:
                self._batch.remove(row)
                del self._writing[row]
                self._close(job, fault)
        if not self._writing:
            self._batch.reset()

    def _close(self, job: Job, error: Exception | None) -> None:
        """The job is done; without an error its row has written a whole text."""
        stats, row = self.stats, job.row
        report = None if row is None else row.planner.report()
        if row is not None and report is not None:
            job.stats = stats_of(job, row, report)
            stats.add(job.stats)
        stats.rows += 1
        if error is not None:
            job.outcome = as_fill_error(error)
            if isinstance(error, Stopped):
                stats.stopped += 1
            else:
                stats.failed += 1
        else:
            assert row is not None
            assert report is not None
            assert job.stats is not None
            stats.finished += 1
            job.outcome = Result(
                text=report.text,
                token_ids=report.token_ids,
                finish_reason=report.finish_reason,
                stats=job.stats,
                form=job.request.form,
                raw=report.raw,
                trace=Trace(report.trace, self._tokens),
                logprobs=None if row.watched is None else row.logprobs,
            )
        # A ticket may be kept for long; these hold caches and texts.
        job.planner = job.row = None
        self._done.append(job)

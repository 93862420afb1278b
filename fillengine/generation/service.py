"""A service: requests from any thread or from asyncio, written together by one thread.

with Service(engine, max_rows=8) as service:
    ticket = service.submit(engine.request("…", form))
    for piece in ticket:            # the text as it comes
        …
    result = ticket.result()        # or what went wrong, raised

    stream = service.stream(request)
    async for piece in stream:
        stream.partial              # the value so far; a ticket has it too
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import TYPE_CHECKING

import mlx.core as mx

from fillengine.errors import FillError
from fillengine.generation.job import Job
from fillengine.generation.progress import Progress
from fillengine.generation.request import Request
from fillengine.generation.result import Result, RunStats
from fillengine.generation.stream import both

if TYPE_CHECKING:
    from fillengine.generation.engine import Engine

# Tokens of prompts that are read between two rounds: a reader's text stands still that long.
ROUND_TOKENS = 512


class Ticket(Progress):
    """A request that was handed in. All methods may be called by any thread; one thread iterates."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.request.form)
        self._job = job
        self._future: Future[Result] = Future()
        # So that nobody but `cancel` can end it.
        self._future.set_running_or_notify_cancel()
        self._pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the whole text. Raises what went wrong (FillError), or TimeoutError after `timeout` seconds."""
        try:
            return self._future.result(timeout)
        except FutureTimeout as error:  # a class of its own before Python 3.11
            raise TimeoutError(f"the text was not done within {timeout} seconds") from error

    def cancel(self) -> None:
        """End the text with the next round. `result` then raises `Stopped`, unless the text was done before."""
        self._job.is_cancelled = True

    def __iter__(self) -> Iterator[str]:
        """The text in pieces as they come, each once. Raises at its end what went wrong."""
        while (piece := self._pieces.get()) is not None:
            yield self._take(piece)
        self._pieces.put(None)  # for whoever iterates again
        self.result()


class AsyncStream(Progress, AsyncIterator[str]):
    """The text in pieces, for the asyncio loop that iterates. It is handed in with the first step."""

    def __init__(self, service: Service, request: Request) -> None:
        super().__init__(request.form)
        self._ticket: Ticket | None = None
        self._service = service
        self._job = Job.of(request, 0)
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def __anext__(self) -> str:
        if self._ticket is None:
            self._ticket = self._handed_in()
        try:
            piece = await self._pieces.get()
        except asyncio.CancelledError:
            self._ticket.cancel()
            raise
        if piece is None:
            self._pieces.put_nowait(None)  # for whoever iterates again
            self._ticket.result()
            raise StopAsyncIteration
        return self._take(piece)

    async def aclose(self) -> None:
        """End the text, if it is not whole."""
        if self._ticket is not None:
            self._ticket.cancel()

    def __del__(self) -> None:
        if self._ticket is not None:
            self._ticket.cancel()

    def _handed_in(self) -> Ticket:
        loop = asyncio.get_running_loop()
        pieces = self._pieces

        def hand_over(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def end(_: Future[Result]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
                hand_over(None)

        ticket = Ticket(self._job)
        self._job.on_raw = both(hand_over, self._job.on_raw)
        ticket._future.add_done_callback(end)
        self._service._hand_in(ticket)
        return ticket


class Service:
    """One thread that owns an engine, and whoever hands requests to it. The engine is then for nothing else.

    max_rows        texts that are written at once; others wait
    max_waiting     requests that may wait; one more is refused (None: any number)
    round_tokens    tokens of prompts that are read between two rounds
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_rows: int = 8,
        max_waiting: int | None = None,
        round_tokens: int = ROUND_TOKENS,
    ) -> None:
        self._scheduler = engine.scheduler(max_rows=max_rows, round_tokens=round_tokens)
        self._max_waiting = max_waiting
        # Guards what follows, and wakes the thread.
        self._changed = threading.Condition()
        self._inbox: list[Ticket] = []
        self._num_open = 0
        self._num_submitted = 0
        self._is_closed = False
        self._is_cancelling = False
        self._device = mx.default_device()
        mx.synchronize()  # what this thread has begun, the other could not finish
        self._thread = threading.Thread(target=self._serve, name="fillengine", daemon=True)
        self._thread.start()
        # An interpreter that ends in the middle of a pass is aborted.
        atexit.register(self.close, cancel=True)

    @property
    def stats(self) -> RunStats:
        """The accounts of all that was written so far. They change while the service runs."""
        return self._scheduler.stats

    @property
    def num_open(self) -> int:
        """Requests that are not done."""
        return self._num_open

    def submit(self, request: Request) -> Ticket:
        """Hand in a request. Its row id, where it has none, is its number among those handed in.

        `request.on_text` is called by the service's thread: it must be short.
        Raises FillError where the service is closed or too many requests wait.
        """
        job = Job.of(request, 0)
        ticket = Ticket(job)
        job.on_raw = both(ticket._pieces.put, job.on_raw)
        self._hand_in(ticket)
        return ticket

    async def generate(self, request: Request) -> Result:
        """The whole text. Raises what went wrong; where the task is cancelled, so is the text."""
        ticket = Ticket(Job.of(request, 0))
        self._hand_in(ticket)
        try:
            return await asyncio.wrap_future(ticket._future)
        finally:
            ticket.cancel()

    def stream(self, request: Request) -> AsyncStream:
        """The text in pieces. Raises at its end what went wrong; where it is left early, the text is cancelled."""
        return AsyncStream(self, request)

    def close(self, *, cancel: bool = False) -> None:
        """Take no more requests, finish (or `cancel`) those that are open, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._is_cancelling |= cancel
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
            atexit.unregister(self.close)

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(cancel=error is not None)

    def _hand_in(self, ticket: Ticket) -> None:
        with self._changed:
            if self._is_closed:
                raise FillError("the service is closed; start another one")
            most = self._max_waiting
            if most is not None and self._num_open >= self._scheduler.max_rows + most:
                raise FillError(
                    f"{self._num_open} requests are open, and max_rows and max_waiting allow "
                    f"{self._scheduler.max_rows + most}; try again later, or raise max_waiting"
                )
            job = ticket._job
            if job.request.row_id is None:
                job.row_id = self._num_submitted
            self._num_submitted += 1
            self._num_open += 1
            self._inbox.append(ticket)
            self._changed.notify_all()

    def _serve(self) -> None:
        try:
            mx.set_default_device(self._device)
            self._work()
        finally:
            # MLX gives each thread streams of its own (0.31.2 on). Those that outlive their thread can abort the
            # process at its end: "terminate called without an active exception", seen on a CPU with 0.32.4.
            clear_streams = getattr(mx, "clear_streams", None)
            if clear_streams is not None:
                clear_streams()

    def _work(self) -> None:
        scheduler = self._scheduler
        tickets: dict[Job, Ticket] = {}
        while True:
            with self._changed:
                while not (self._inbox or tickets or self._is_closed):
                    self._changed.wait()
                arrived, self._inbox = self._inbox, []
                if self._is_closed and not arrived and not tickets:
                    return
            for ticket in arrived:
                tickets[ticket._job] = ticket
                scheduler.submit(ticket._job)
            if self._is_cancelling:
                for ticket in tickets.values():
                    ticket.cancel()
            try:
                done = scheduler.step()
            except Exception as error:  # a fault of ours: it must not leave anybody waiting for ever
                done = scheduler.fail_all(error)
            for job in done:
                with self._changed:
                    self._num_open -= 1
                _settle(tickets.pop(job))


def _settle(ticket: Ticket) -> None:
    outcome = ticket._job.outcome
    assert outcome is not None
    if isinstance(outcome, Result):
        ticket._future.set_result(outcome)
    else:
        ticket._future.set_exception(outcome)
    ticket._pieces.put(None)

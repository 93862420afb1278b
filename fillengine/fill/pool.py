"""Planner processes: where many rows share fast passes, planning them one after the other takes longer than a pass.

    pool = PlannerPool(tokenizer, num_workers=4)
    row = pool.row(template, ...)           a `Planner`, as `Row` is one
    planned = row.plan(pending)             waits for its process; so does the mask of a place
    row.commit(planned, choices)            does not wait: the process goes on to the next round

The same code plans the same rounds there (`worker`). A process that dies takes its rows with it and no others.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fillengine.automata.mask import Mask
from fillengine.errors import FillError
from fillengine.fill.economics import CostCurve
from fillengine.fill.guard import Guard
from fillengine.fill.messages import Answer, Ask, Begin, Choices, Failed, Finished, Forget, Made, Planned
from fillengine.fill.row import Commit, Fill, Report, Round, RowStats
from fillengine.fill.tokenizer import Tokenizer

MAX_FORMS = 16
"""Forms that are kept pickled."""

MAX_MASKS = 2_048
"""Masks that are remembered, so that equal ones of several rows are one (6 KiB each of 49,152 tokens)."""

PIPE_BYTES = 2**20


class _KnownMasks:
    """Masks by their bits: what holds on to masks by identity sees each once, whichever rows have it."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Mask] = OrderedDict()

    def of(self, bits: bytes) -> Mask:
        mask = self._known.get(bits)
        if mask is None:
            array = np.frombuffer(bits, np.uint32)
            mask = self._known[bits] = Mask(array, None, len(array))
            if len(self._known) > MAX_MASKS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(bits)
        return mask


class _Process:
    """One planner process, and its rows by number."""

    def __init__(self, tokenizer: bytes, masks: _KnownMasks) -> None:
        self.masks = masks
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        # What lies in the current folder is not looked at first, and each process is one core's.
        own = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, **own}
        command = [sys.executable, "-m", "fillengine.fill.worker"]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._sending = Connection(os.dup(self._popen.stdin.fileno()), readable=False)
        self._receiving = Connection(os.dup(self._popen.stdout.fileno()), writable=False)
        _widen(self._sending, self._receiving)
        self._popen.stdin.close()
        self._popen.stdout.close()
        self.rows: weakref.WeakValueDictionary[int, PooledRow] = weakref.WeakValueDictionary()
        # Numbers of rows that nobody holds any more.
        self.left: deque[int] = deque()
        self._tokenizer: bytes | None = tokenizer
        self._closer = weakref.finalize(self, _hang_up, self._sending, self._receiving, self._popen)

    @property
    def is_alive(self) -> bool:
        return self._closer.alive and self._popen.poll() is None

    def send(self, message: Begin | Choices | Ask) -> None:
        try:
            if self._tokenizer is not None:
                self._sending.send_bytes(self._tokenizer)
                self._tokenizer = None
            if self.left:
                self._sending.send(Forget([self.left.popleft() for _ in range(len(self.left))]))
            self._sending.send(message)
        except OSError:
            raise self._fault() from None
        except BaseException:
            # Interrupted, so half a message may be on its way.
            self.close()
            raise

    def receive(self) -> None:
        """Wait for one answer, and give it to its row."""
        try:
            answer: Answer = self._receiving.recv()
        except (EOFError, OSError):
            raise self._fault() from None
        except BaseException:
            self.close()
            raise
        row = self.rows.get(answer.row)
        if row is not None:
            row.hear(answer)

    def close(self) -> None:
        self._closer()

    def _fault(self) -> FillError:
        self.close()
        return FillError(
            f"a planner process ended unexpectedly (exit status {self._popen.returncode}); what it wrote to stderr "
            "says why, and planner_processes=0 does without"
        )


def _widen(*pipes: Connection) -> None:
    """Let a template or the masks of a round go through without waiting for the reader, where the system allows it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl  # not on every system

        for pipe in pipes:
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _hang_up(sending: Connection, receiving: Connection, popen: subprocess.Popen[bytes]) -> None:
    for connection in (sending, receiving):
        with contextlib.suppress(OSError):
            connection.close()
    try:
        popen.wait(timeout=2)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()


class PlannerPool:
    """Planner processes of one tokenizer. They start with the first row, and end with the pool."""

    def __init__(self, tokenizer: Tokenizer, num_workers: int) -> None:
        """Raises FillError where there is to be none; PicklingError and the like where the tokenizer cannot be sent."""
        if num_workers < 1:
            raise FillError(f"num_workers is {num_workers}; it must be 1 or more")
        self.num_workers = num_workers
        self._tokenizer = pickle.dumps(tokenizer, pickle.HIGHEST_PROTOCOL)
        self._num_words = tokenizer.vocabulary.num_words
        self._processes: list[_Process] = []
        self._masks = _KnownMasks()
        self._forms: OrderedDict[int, tuple[Any, bytes]] = OrderedDict()
        self._num_rows = 0

    def row(
        self,
        form: Any,
        *,
        max_tokens: int,
        guard: Guard | None,
        fill: Fill,
        curve: CostCurve,
        pending: Sequence[int],
        source_text: str | None = None,
        prediction: str | None = None,
        schema: Any = None,
    ) -> PooledRow:
        """A new row, which is planned from now on. What is wrong with it is raised by its first `plan`.

        form: a Template, or what carries one as `template`, and may say how another process writes it (`recipe`).
        pending: the last token of its prompt. Others: see `Row`, `Constraint.session` and `usual_sources`.
        """
        self._num_rows += 1
        process = self._next_process()
        begin = Begin(
            self._num_rows, self._pickled(form), max_tokens, guard, fill, source_text, prediction, schema, curve,
            list(pending),
        )  # fmt: skip
        process.send(begin)
        return PooledRow(process, begin, self._num_words)

    def close(self) -> None:
        """End the processes. Rows that are being written fail."""
        for process in self._processes:
            process.close()
        self._processes.clear()

    def _next_process(self) -> _Process:
        """The one with the fewest rows. One that has died is replaced."""
        self._processes = [process for process in self._processes if process.is_alive]
        while len(self._processes) < self.num_workers:
            self._processes.append(_Process(self._tokenizer, self._masks))
        return min(self._processes, key=lambda process: len(process.rows))

    def _pickled(self, form: Any) -> bytes:
        held = self._forms.get(id(form))
        if held is None:
            held = self._forms[id(form)] = (form, _pickled(form))
            if len(self._forms) > MAX_FORMS:
                self._forms.popitem(last=False)
        return held[1]


def _pickled(form: Any) -> bytes:
    # A recipe may hold functions that cannot be sent.
    with contextlib.suppress(pickle.PicklingError, TypeError, AttributeError):
        return pickle.dumps(getattr(form, "recipe", form), pickle.HIGHEST_PROTOCOL)
    return pickle.dumps(form.template, pickle.HIGHEST_PROTOCOL)


class PooledRow:
    """A row that a process plans. See `Planner`."""

    def __init__(self, process: _Process, begin: Begin, num_words: int) -> None:
        self.max_tokens = begin.max_tokens
        self.num_words = num_words
        self._number = begin.row
        self._process = process
        self._data = bytearray()
        self._masks: dict[int, Mask] = {}
        self._round: Round | None = None
        self._made: list[Mask] | None = None
        self._report: Report | None = None
        self._told: Report | None = None
        self._error: Exception | None = None
        process.rows[self._number] = self
        weakref.finalize(self, process.left.append, self._number).atexit = False

    @property
    def is_finished(self) -> bool:
        self._wait_for_round()
        return self._report is not None

    @property
    def token_ids(self) -> list[int]:
        return self.report().token_ids

    @property
    def data(self) -> bytes:
        self._wait_for_round()
        return bytes(self._data) if self._report is None else self._report.raw.encode("utf-8", "surrogateescape")

    def plan(self, pending: Sequence[int]) -> Round | None:
        """As `Row.plan`. The tokens of `pending` are those that the process knows from the last round."""
        self._wait_for_round()
        if self._error is not None:
            raise self._error
        return self._round

    def commit(self, planned: Round, choices: Sequence[int]) -> Commit:
        """As `Row.commit`, but that the choice behind the draft may be pending where the text has ended with it."""
        self._round = self._made = None
        self._send(Choices(self._number, list(choices)))
        num_accepted = planned.num_accepted(choices)
        return Commit(planned.num_known + num_accepted, list(choices[num_accepted : num_accepted + 1]))

    def report(self) -> Report:
        """What the row has come to."""
        self._wait_for_round()
        if self._report is None and self._error is None:
            self._told = None
            self._send(Ask(self._number))
            while self._told is None and self._error is None:
                self._receive()
        found = self._report or self._told
        return Report("", "", [], "stop", (), RowStats(), ()) if found is None else found

    def hear(self, answer: Answer) -> None:
        """Take an answer that the process has given to this row."""
        if isinstance(answer, Planned):
            places = []
            num_open = 0
            for single in answer.singles:
                places.append(PooledPlace(self, num_open, single))
                num_open += single is None
            self._round, self._made = replace(answer.round, places=places), None
            self._data += answer.data
        elif isinstance(answer, Made):
            self._made = [self._mask(*mask) for mask in answer.masks]
        elif isinstance(answer, Finished):
            self._report = answer.report
        elif isinstance(answer, Failed):
            self._error, self._told = answer.error, answer.report
        else:
            self._told = answer.report

    def made(self, number: int) -> Mask:
        """The mask of an open place of the round. Raises what went wrong with it."""
        while self._made is None and self._error is None:
            self._receive()
        if self._made is None:
            assert self._error is not None
            raise self._error
        return self._made[number]

    def _mask(self, single: int | None, number: int, bits: bytes | None) -> Mask:
        if single is not None:
            return Mask(None, single, self.num_words)
        if bits is not None:
            self._masks[number] = self._process.masks.of(bits)
        return self._masks[number]

    def _wait_for_round(self) -> None:
        while self._round is None and self._report is None and self._error is None:
            self._receive()

    def _send(self, message: Choices | Ask) -> None:
        try:
            self._process.send(message)
        except FillError as error:
            self._error = error

    def _receive(self) -> None:
        try:
            self._process.receive()
        except FillError as error:
            self._error = error


@dataclass(frozen=True, slots=True)
class PooledPlace:
    """A place of a row's round. `number` counts those whose mask comes later."""

    row: PooledRow
    number: int
    single: int | None

    @property
    def mask(self) -> Mask:
        """Waits for it. Raises what went wrong with it."""
        if self.single is not None:
            return Mask(None, self.single, self.row.num_words)
        return self.row.made(self.number)

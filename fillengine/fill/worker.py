"""A planner process: plans the rounds of some rows, and makes their masks, while the engine does something else.

    python -m fillengine.fill.worker         speaks `messages` on its standard input and output; `pool` starts it

What is on the way to a forward pass comes first: all rounds that can be planned are, before a mask is made.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from fillengine.automata.mask import Mask
from fillengine.errors import FillError
from fillengine.fill.constraint import Constraint
from fillengine.fill.messages import Answer, Ask, Begin, Choices, Failed, Finished, Forget, Made, Planned, Told
from fillengine.fill.row import Mark, Round, Row
from fillengine.fill.sources import usual_sources
from fillengine.fill.tokenizer import Tokenizer

MAX_CONSTRAINTS = 16
"""Templates of which a process remembers what it made of them."""

SWITCH_SECONDS = 0.0002
"""How soon the thread that listens gets its turn, beside one that computes."""


@dataclass(slots=True)
class _Held:
    """A row, the round that was sent, how far the row was before it, and by identity the masks with their numbers."""

    row: Row
    round: Round
    mark: Mark
    sent: dict[int, tuple[Mask, int]] = field(default_factory=dict)


class Worker:
    """The rows of one process. `answers` and `next_masks` are to be called in turn; nothing here waits."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._constraints: OrderedDict[bytes, Constraint] = OrderedDict()
        self._rows: dict[int, _Held] = {}
        self._without_masks: deque[tuple[int, Round]] = deque()

    @property
    def has_masks_to_make(self) -> bool:
        return bool(self._without_masks)

    def answers(self, message: Begin | Choices | Ask | Forget) -> Iterator[Answer]:
        """What is to be said at once."""
        if isinstance(message, Forget):
            for number in message.rows:
                self._rows.pop(number, None)
            return
        number = message.row
        try:
            if isinstance(message, Begin):
                yield self._planned(number, self._begun(message), message.pending)
            elif number in self._rows:
                held = self._rows[number]
                if isinstance(message, Ask):
                    yield Told(number, held.row.report(held.mark))
                else:
                    commit = held.row.commit(_cut(held.round, len(message.choices)), message.choices)
                    yield self._planned(number, held.row, commit.pending)
        except Exception as error:  # whatever it is, it ends this row only
            yield self._failed(number, error)

    def next_masks(self) -> Iterator[Answer]:
        """The masks of the round that has waited longest for them, where it is still wanted."""
        number, planned = self._without_masks.popleft()
        held = self._rows.get(number)
        if held is None or held.round is not planned:
            return
        try:
            masks = [_sent(held, place.mask) for place in planned.places if place.single is None]
        except Exception as error:  # whatever it is, it ends this row only
            yield self._failed(number, error)
            return
        yield Made(number, masks)

    def _begun(self, begin: Begin) -> Row:
        constraint = self._constraints.get(begin.template)
        if constraint is None:
            recipe = pickle.loads(begin.template)
            constraint = Constraint(recipe() if callable(recipe) else recipe, self._tokenizer)
            self._constraints[begin.template] = constraint
            if len(self._constraints) > MAX_CONSTRAINTS:
                self._constraints.popitem(last=False)
        self._constraints.move_to_end(begin.template)
        session = constraint.session(max_tokens=begin.max_tokens, guard=begin.guard)
        if begin.fill != "auto":
            return Row(session, fill=begin.fill)
        sources = usual_sources(source_text=begin.source_text, prediction=begin.prediction, schema=begin.schema)
        return Row(session, sources=sources, curve=begin.curve)

    def _planned(self, number: int, row: Row, pending: list[int]) -> Answer:
        mark = row.mark()
        planned = None if row.is_finished else row.plan(pending)
        if planned is None:
            self._rows.pop(number, None)
            return Finished(number, row.report())
        held = self._rows.get(number)
        num_told = 0 if held is None else held.mark.num_bytes
        if held is None:
            self._rows[number] = _Held(row, planned, mark)
        else:
            held.round, held.mark = planned, mark
        data = row.data[num_told : mark.num_bytes]
        singles = [place.single for place in planned.places]
        if None in singles:
            self._without_masks.append((number, planned))
        return Planned(number, replace(planned, places=()), singles, data)

    def _failed(self, number: int, error: Exception) -> Failed:
        held = self._rows.pop(number, None)
        return Failed(number, portable(error), None if held is None else held.row.report())


def _cut(planned: Round, num_places: int) -> Round:
    return planned if num_places == len(planned.places) else planned.cut(num_places - 1)


def _sent(held: _Held, mask: Mask) -> tuple[int | None, int, bytes | None]:
    if mask.single is not None:
        return (mask.single, -1, None)
    known = held.sent.get(id(mask))
    if known is not None:
        return (None, known[1], None)
    number = len(held.sent)
    held.sent[id(mask)] = (mask, number)
    return (None, number, mask.bits.tobytes())


def portable(error: Exception) -> Exception:
    """The error as another process can read it."""
    with contextlib.suppress(Exception):
        pickle.loads(pickle.dumps(error))
        return error
    text = str(error)
    return FillError(text if isinstance(error, FillError) else f"{type(error).__name__}: {text}")


def serve(receiving: Connection, sending: Connection) -> None:
    """Answer until the other side hangs up. The first message is the tokenizer."""
    try:
        worker = Worker(receiving.recv())
        messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Heard by a thread of its own: were both sides to write and none to read, they would wait for ever.
        threading.Thread(target=_listen, args=(receiving, messages), daemon=True).start()
        while True:
            try:
                message = messages.get(block=not worker.has_masks_to_make)
            except queue.Empty:
                answers = worker.next_masks()
            else:
                if message is None:
                    return
                answers = worker.answers(message)
            for answer in answers:
                sending.send(answer)
    except (EOFError, BrokenPipeError):
        return


def _listen(receiving: Connection, messages: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            messages.put(receiving.recv())
    except (EOFError, OSError):
        pass
    finally:
        # Also where a message cannot be read: who waits for an answer must see the process end.
        messages.put(None)


def main() -> None:
    # Who started this process ends it, by hanging up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What there is to warn of was said where the form was compiled.
    warnings.simplefilter("ignore")
    sys.setswitchinterval(SWITCH_SECONDS)
    receiving = Connection(os.dup(0), writable=False)
    sending = Connection(os.dup(1), readable=False)
    # Whatever else is printed must not get in between.
    os.dup2(2, 1)
    serve(receiving, sending)


if __name__ == "__main__":
    main()

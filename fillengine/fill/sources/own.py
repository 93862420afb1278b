"""Own output: what is written goes on like something that was written before.

    written   [{"name": "eth0", "kind": "link", "up": true}, {"name": "eth1", "kind": "
    guess     link", "up": true}

An array of like objects has the same values at the same place, the same optional keys, and one value often stands
in several fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fillengine.fill.sources.cursor import Cursor, Hole, Value
from fillengine.fill.sources.guess import INSIDE, Guess, Part

MAX_VALUES = 256
"""Values that are looked back at."""

MAX_SHAPE = 120
"""Bytes between two values that are copied."""

_FEWEST = 2


class OwnOutput:
    """Copies of the row's own text."""

    name = "own"
    odds = {"same": 0.3, "again": 0.5, "shape": 0.6, INSIDE: 0.9}  # noqa: RUF012 (read only)

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        values = cursor.values[-MAX_VALUES:]
        if not values:
            return
        begun = False
        for hole in cursor.holes:
            written = bytes(cursor.data[hole.start :])
            begun = begun or bool(written)
            yield from self._value(hole, written, values)
        if not begun:
            yield from self._shape(cursor, values)

    def _value(self, hole: Hole, written: bytes, values: list[Value]) -> Iterator[Guess]:
        """The last value of the same hole, or once some of it is written, of any hole."""
        size = len(written)
        is_begun = size - written.startswith(b'"') >= _FEWEST
        for value in reversed(values):
            is_same = value.label == hole.label
            if (is_same or is_begun) and len(value.text) > size and value.text.startswith(written):
                if value.start == hole.start:
                    continue
                yield Guess(self, (Part(value.text[size:], "again" if is_begun else "same"),))
                return

    def _shape(self, cursor: Cursor, values: list[Value]) -> Iterator[Guess]:
        """What stood between the last value's hole and the next one when they were last written."""
        last = values[-1]
        written = bytes(cursor.data[last.end :])
        for index in range(len(values) - 2, -1, -1):
            if values[index].label != last.label:
                continue
            between = bytes(cursor.data[values[index].end : max(values[index + 1].start, values[index].end)])
            if len(written) < len(between) <= MAX_SHAPE and between.startswith(written):
                yield Guess(self, (Part(between[len(written) :], "shape"),))
            return

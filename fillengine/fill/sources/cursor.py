"""The cursor: a place in the text, byte by byte, with the values that are being written there.

    {"name": "Ada", "born": 18|            values: name "Ada" is done; born is open since byte 24, b"18" is written

Sources look at texts through it. Unlike a session it knows no tokens, so it may stand inside one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fillengine.automata.leaf import Leaf
from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Literal
from fillengine.automata.state import Frame, Spot, State

_QUOTE, _BACKSLASH, _BRACE, _COLON, _COMMA = b'"\\{:,'


class _Outline(NamedTuple):
    """Where in a JSON text a byte stands: the keys around it ("*" for an array, None where a key comes next).

    `opened` is the offset behind the quote that opened the string in which it stands, `key` the last whole string.
    """

    path: tuple[str | None, ...] = ()
    opened: int | None = None
    is_escaped: bool = False
    key: tuple[int, int] = (0, 0)


class Value(NamedTuple):
    """A value that is written: its hole's label, its bytes (quotes included) and their end in the text."""

    label: str
    text: bytes
    end: int

    @property
    def start(self) -> int:
        return self.end - len(self.text)


class Hole(NamedTuple):
    """A value that may be open at the cursor: `leaf` is in the state `q`, its first byte is at `start`."""

    label: str
    leaf: Leaf
    q: Any
    start: int


class Cursor:
    """A place in the text of one machine."""

    __slots__ = ("_open", "_outline", "data", "machine", "num_fixed", "state", "values")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.state: State = machine.start
        self.data = bytearray()
        self.num_fixed: int | None = None
        self.values: list[Value] = []
        self._outline = _Outline()
        self._open: dict[tuple[Spot, Frame | None], tuple[int, str]] = {}
        self._follow()

    def copy(self) -> Cursor:
        """A cursor that looks ahead from this one, which is unchanged."""
        other = Cursor.__new__(Cursor)
        other.num_fixed = self.num_written
        other.machine = self.machine
        other.state = self.state
        other.data = self.data.copy()
        other.values = self.values.copy()
        other._open = self._open
        other._outline = self._outline
        return other

    def advance(self, data: bytes) -> int:
        """Write `data` as far as the form allows it; the number of bytes that were written."""
        step = self.machine.step
        for num_written, byte in enumerate(data):
            following = step(self.state, byte)
            if following is None:
                return num_written
            self.state = following
            self.data.append(byte)
            if self._outline.opened is None or byte in b'\\"' or self._outline.is_escaped:
                self._outline = self._outlined(byte)
            self._follow()
        return len(data)

    @property
    def holes(self) -> list[Hole]:
        """The values that may be written at this place: some are open, others have not begun."""
        return [
            Hole(self._open[spot, frame][1], spot.leaf, q, self._open[spot, frame][0])
            for spot, q, frame in self.state.configurations
            if not isinstance(spot.node, Literal)
        ]

    @property
    def num_written(self) -> int:
        """Bytes that are written for good; what stands behind them is only looked at."""
        return len(self.data) if self.num_fixed is None else self.num_fixed

    def _outlined(self, byte: int) -> _Outline:
        before = self._outline
        path, opened, is_escaped, key = before
        here = len(self.data)
        if opened is not None:
            if is_escaped or byte == _BACKSLASH:
                return before._replace(is_escaped=not is_escaped)
            return before._replace(opened=None, key=(opened, here - 1))
        if byte == _QUOTE:
            return before._replace(opened=here)
        if byte in b"{[":
            return before._replace(path=(*path, None if byte == _BRACE else "*"))
        if byte in b"}]":
            return before._replace(path=path[:-1])
        if byte == _COLON and path:
            return before._replace(path=(*path[:-1], self.data[key[0] : key[1]].decode(errors="replace")))
        if byte == _COMMA and path and path[-1] != "*":
            return before._replace(path=(*path[:-1], None))
        return before

    def _label(self, label: str) -> str:
        """The place in the JSON value, where the text is JSON. `label` is the node's own: a template uses one node
        for all holes that are alike, so it may be that of another."""
        path = self._outline.path
        if not path or path[-1] is None or self.data[0] not in b"{[":
            return label
        return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)

    def _follow(self) -> None:
        before = self._open
        configurations = self.state.configurations
        if len(configurations) == len(before) == 1:
            # As after most bytes.
            spot, _q, frame = configurations[0]
            if (spot, frame) in before:
                return
        here = len(self.data)
        now: dict[tuple[Spot, Frame | None], tuple[int, str]] = {}
        for spot, _q, frame in configurations:
            if not isinstance(spot.node, Literal):
                key = (spot, frame)
                now[key] = before.get(key) or (here, self._label(spot.node.label))
        if now != before:
            self._open = now
            for key, (start, label) in before.items():
                if key not in now and start < here - 1:
                    self._close(label, start, here)

    def _close(self, label: str, start: int, end: int) -> None:
        text = bytes(self.data[start:end])
        if not text.startswith(b'"'):
            # The end of a number is seen by the byte behind it.
            text = text[:-1]
            end -= 1
        elif not text.endswith(b'"'):
            return
        value = Value(label, text, end)
        if not self.values or self.values[-1] != value:
            self.values.append(value)

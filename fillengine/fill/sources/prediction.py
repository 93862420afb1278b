"""Prediction: a text that the caller expects, as when a known text is edited.

    expected   {"host": "a.example", "port": 80, "tls": false}
    written    {"host": "b.example", "po
    guess      rt": 80, "tls": false}

What is written is aligned with the expected text byte by byte. Behind a difference the two are aligned again where
the last few bytes that were written stand in the expected text, next to the place where they parted.
"""

from __future__ import annotations

from collections.abc import Iterable

from fillengine.fill.sources.cursor import Cursor
from fillengine.fill.sources.guess import INSIDE, Guess, Part

ANCHOR_BYTES = 6
"""Bytes that must agree before texts that parted count as aligned again. Fewer align by chance."""

MAX_GUESS = 128

_BACK = 16


class Prediction:
    """The expected text. Aligned with one row's text, so it belongs to that row."""

    name = "prediction"
    odds = {"expected": 0.9, "again": 0.8, INSIDE: 0.97}  # noqa: RUF012 (read only)

    def __init__(self, text: str) -> None:
        self._expected = text.encode("utf-8", "surrogatepass")
        self._aligned = _Alignment(0, 0, is_lost=False)

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        fixed = self._aligned = self._aligned.followed(self._expected, bytes(cursor.data[: cursor.num_written]))
        here = fixed.followed(self._expected, bytes(cursor.data))
        following = self._expected[here.place : here.place + MAX_GUESS]
        if here.is_lost or not following:
            return []
        kind = "expected" if here.place == len(cursor.data) else "again"
        return [Guess(self, (Part(following, kind),))]


class _Alignment:
    """The first `num_seen` bytes of the text are aligned with the place `place` of the expected text.

    Where it is lost, they are the last place at which the two agreed, and a place in the text not yet looked at.
    """

    __slots__ = ("is_lost", "num_seen", "place")

    def __init__(self, num_seen: int, place: int, *, is_lost: bool) -> None:
        self.num_seen = num_seen
        self.place = place
        self.is_lost = is_lost

    def followed(self, expected: bytes, data: bytes) -> _Alignment:
        """The alignment of all of `data`, which begins with the bytes seen so far."""
        seen, place, is_lost = self.num_seen, self.place, self.is_lost
        while seen < len(data):
            if not is_lost:
                common = _common(data, seen, expected, place)
                seen += common
                place += common
                if seen == len(data):
                    break
                is_lost = True
            # An anchor may begin at the first byte that differs, not before.
            end = seen + ANCHOR_BYTES
            if end > len(data):
                break
            at = expected.find(data[seen:end], max(0, place - _BACK))
            if at < 0:
                seen += 1
            else:
                seen, place, is_lost = end, at + ANCHOR_BYTES, False
        return _Alignment(seen, place, is_lost=is_lost)


def _common(data: bytes, start: int, expected: bytes, place: int) -> int:
    """How many bytes of data[start:] and expected[place:] agree."""
    most = min(len(data) - start, len(expected) - place)
    done = 0
    while done < most:
        step = min(64, most - done)
        if data[start + done : start + done + step] == expected[place + done : place + done + step]:
            done += step
            continue
        while data[start + done] == expected[place + done]:
            done += 1
        break
    return done

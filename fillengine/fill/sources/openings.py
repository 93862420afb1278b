"""Openings: where in the source text a value may stand of which nothing is written yet.

What the form allows at the place decides first (a mail address, a date, one of five words, a number); among what
fits, and for a string that may be anything, these count: the key's own words close by, and the passage that stands
behind the value that was used last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from fillengine.automata.leaf import Leaf
from fillengine.fill.sources.cursor import Cursor
from fillengine.fill.sources.passages import Passages
from fillengine.templates.grounding import grounded_dates

MAX_STARTS = 4_096
"""Places of the source that are tried for what fits a hole. Some 0.5 us each for most holes, once for each hole."""

SELECTIVE_PLACES = 0.1
SELECTIVE_BYTES = 0.4
"""A hole that more than this share of the places begins, or of the text fits, says nothing about its value's place."""

MAX_FIT = 128
"""Bytes of a text that fits. A hole that takes more of a text takes any text."""

_ENOUGH = 256
_NEAR = 48
_QUOTE, _SLASH = b'"/'
_WORD_BYTES = frozenset(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum() or byte == 0x5F)
_WORD = re.compile(rb"[\w\x80-\xff]")
_GROUPED = re.compile(rb"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])")
_ASSIGNED = re.compile(rb"[\"'`*_\])]*\s*(?:[:=]+|->)\s*[\"'`*_#(\[]*")
_SEPARATED = re.compile(rb"[\"'`*_\])]*\s+(?:(?:is|as|at|by|for|of|the)\s+)*[\"'`*_#(\[]*")
_NUMBER_GOES_ON = re.compile(rb"[\w\x80-\xff]|[.,:+~-][\w\x80-\xff]")
_IN_NUMBERS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.,:+~-/")
_BETWEEN = re.compile(rb"[^\w\x80-\xff]+")
_STEM = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[^\W\d_a-zA-Z]+")


class Opening(NamedTuple):
    """A place at which a value may begin. `text` is the whole value where it is known."""

    start: int
    text: bytes | None
    kind: str


class Fit(NamedTuple):
    """A text that a hole allows, and where it stands."""

    start: int
    end: int
    text: bytes


class Openings:
    """The openings of one source text."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages
        self._lowered = passages.text.lower()
        self._fits: dict[tuple[Leaf, Any], list[Fit] | None] = {}
        self._mentions: dict[str, list[tuple[int, int, int]]] = {}
        self._places: dict[tuple[bytes, bytes], tuple[int, int] | None] = {}

    def of(self, cursor: Cursor, label: str, leaf: Leaf, q: Any, *, is_string: bool) -> list[Opening]:
        """`leaf` in state `q` stands before the first byte of the value, behind the opening quote of a string."""
        fits = self.fits(leaf, q, is_string=is_string)
        if fits is not None:
            return self._fitting(cursor, label, fits)
        found = []
        if (key := self._behind_key(cursor, label)) is not None:
            found.append(key)
        if not cursor.values:
            found.append(Opening(self._skipped(0), None, "top"))
        elif (last := self._place(cursor, len(cursor.values) - 1)) is not None:
            at = self._skipped(last[1])
            between = self._passages.text[last[1] : at]
            is_far = b"\n" in between or b". " in between
            found.append(Opening(at, None, "next line" if is_far else "next"))
        return [opening for opening in found if opening.start < len(self._passages.text)]

    def nearest(self, cursor: Cursor, label: str, places: list[int]) -> int:
        """The place that the value is likely to be taken from."""
        if len(places) == 1:
            return places[0]
        last = self.last_place(cursor)[1] if cursor.values else 0
        mentions = self._mentioned(label)
        text = self._passages.text

        def rank(place: int) -> tuple[float, float]:
            score = 1.0 if place == 0 or not _WORD.match(text, place - 1) else 0.0
            score += 0.5 * (text[place - 1 : place] not in b"/.-_@" or place == 0)
            score += max((num for start, end, num in mentions if end <= place <= end + _NEAR), default=0)
            return (score, -abs(place - last))

        return max(places, key=rank)

    def last_place(self, cursor: Cursor) -> tuple[int, int]:
        """Where the last written value that stands in the source stands: beginning and end; (0, 0) for nowhere."""
        for index in range(len(cursor.values) - 1, max(-1, len(cursor.values) - 5), -1):
            place = self._place(cursor, index)
            if place is not None:
                return place
        return (0, 0)

    def _place(self, cursor: Cursor, index: int) -> tuple[int, int] | None:
        """Where a written value stands: behind the value before it, if it stands there."""
        text = cursor.values[index].text
        before = cursor.values[index - 1].text if index else b""
        key = (before, text)
        if key not in self._places:
            earlier = self._located(before, 0) if before else None
            self._places[key] = self._located(text, earlier[1] if earlier else 0)
        return self._places[key]

    def fits(self, leaf: Leaf, q: Any, *, is_string: bool) -> list[Fit] | None:
        """What of the source the hole allows, in order; None where that is nearly everything."""
        key = (leaf, q)
        if key not in self._fits:
            self._fits[key] = self._find_fits(leaf, q, is_string=is_string)
        return self._fits[key]

    def _find_fits(self, leaf: Leaf, q: Any, *, is_string: bool) -> list[Fit] | None:
        passages = self._passages
        starts = passages.starts[:MAX_STARTS]
        max_fits = max(8, SELECTIVE_PLACES * len(starts))
        max_bytes = max(64, SELECTIVE_BYTES * len(passages.text))
        firsts = set(leaf.next_bytes(q))
        if is_string:
            firsts |= {byte ^ 0x20 for byte in firsts if 0x61 <= byte <= 0x7A}
        found: list[Fit] = []
        end = num_bytes = 0
        for start in starts:
            if start < end or passages.text[start] not in firsts:
                continue
            fit = self._fit(leaf, q, start, is_string=is_string)
            if fit is not None:
                found.append(fit)
                end = fit.end
                num_bytes += end - start
                if (
                    len(found) > max_fits
                    or num_bytes > max_bytes
                    or end - start >= MAX_FIT
                    or (end > _ENOUGH and num_bytes > end // 2)
                ):
                    return None
        if is_string:
            found += self._dates(leaf, q)
        return found

    def _fit(self, leaf: Leaf, q: Any, start: int, *, is_string: bool) -> Fit | None:
        """The longest passage from `start` to the end of a word that the hole allows."""
        text = self._passages.text
        step = leaf.step
        if not is_string:
            if start and text[start - 1] in _IN_NUMBERS:
                return None
            if (match := _GROUPED.match(text, start)) is not None:
                digits = match[0].replace(b",", b"")
                return Fit(start, match.end(), digits) if _accepts(leaf, q, digits, is_string=False) else None
        end = None
        size = len(text)
        for at in range(start, min(start + MAX_FIT, size)):
            byte = text[at]
            after = step(q, byte)
            if after is None and is_string and 0x41 <= byte <= 0x5A:
                after = step(q, byte | 0x20)
            if after is None:
                break
            q = after
            if byte != _SLASH and (byte not in _WORD_BYTES or (at + 1 < size and text[at + 1] in _WORD_BYTES)):
                continue
            closed = step(q, _QUOTE) if is_string else q
            if closed is not None and leaf.is_accepting(closed):
                end = at + 1
        else:
            if start + MAX_FIT <= size:
                # It takes all that it is given.
                end = start + MAX_FIT
        if end is None or (not is_string and _NUMBER_GOES_ON.match(text, end)):
            return None
        return Fit(start, end, text[start:end])

    def _dates(self, leaf: Leaf, q: Any) -> Iterator[Fit]:
        for spelled in _iso_dates(self._passages.text):
            if _accepts(leaf, q, spelled, is_string=True):
                yield Fit(0, 0, spelled)

    def _fitting(self, cursor: Cursor, label: str, fits: list[Fit]) -> list[Opening]:
        texts = {fit.text for fit in fits}
        if not texts:
            return []
        last = self.last_place(cursor)[1] if cursor.values else 0
        mentions = self._mentioned(label)

        def rank(fit: Fit) -> tuple[float, bool, int]:
            near = 0.0
            for start, end, num in mentions:
                gap = max(fit.start - end, start - fit.end, 0)
                if gap < _NEAR:
                    near = max(near, num - gap / _NEAR)
            return (near, fit.start >= last, -abs(fit.start - last))

        best = max(fits, key=rank)
        kind = "only" if len(texts) == 1 else "best" if rank(best)[0] else "first"
        return [Opening(best.start, best.text, kind)]

    def _behind_key(self, cursor: Cursor, label: str) -> Opening | None:
        text = self._passages.text
        best: tuple[tuple[int, bool, int], Opening] | None = None
        for _start, end, num in self._mentioned(label):
            match = _ASSIGNED.match(text, end)
            is_assigned = match is not None
            if match is None:
                match = _SEPARATED.match(text, end)
            if match is None or match.end() >= len(text) or b"\n" in match[0]:
                continue
            rank = (num, is_assigned, -end)
            if best is None or rank > best[0]:
                best = (rank, Opening(match.end(), None, "key" if is_assigned else "near key"))
        return None if best is None else best[1]

    def _mentioned(self, label: str) -> list[tuple[int, int, int]]:
        """Where the words of a hole's key stand: (beginning, end, how many of its words are together there)."""
        found = self._mentions.get(label)
        if found is None:
            found = self._mentions[label] = self._find_mentions(label)
        return found

    def _find_mentions(self, label: str) -> list[tuple[int, int, int]]:
        stems = _stems(label)
        if not stems:
            return []
        pattern = re.compile(
            rb"(?<![\w\x80-\xff@./-])(?:"
            + b"|".join(re.escape(stem) for stem in stems)
            + rb")[a-z\x80-\xff]*(?![@./]\w)"
        )
        found: list[tuple[int, int, int]] = []
        for match in pattern.finditer(self._lowered):
            if found and match.start() - found[-1][1] <= 2:
                start, _end, num = found.pop()
                found.append((start, match.end(), num + 1))
            else:
                found.append((match.start(), match.end(), 1))
        return found

    def _skipped(self, at: int) -> int:
        match = _BETWEEN.match(self._passages.text, at)
        return match.end() if match is not None else at

    def _located(self, text: bytes, behind: int) -> tuple[int, int] | None:
        value = unescaped(text[1:-1]) if text.startswith(b'"') else text
        if not value:
            return None
        places = self._passages.beginning_with(value)
        if not places:
            return None
        place = next((place for place in places if place >= behind), places[0])
        return (place, place + len(value))


def unescaped(text: bytes) -> bytes | None:
    """The value of a JSON string without its quotes; None where it ends inside an escape."""
    if b"\\" not in text:
        return text
    try:
        value: str = json.loads(b'"' + text + b'"')
    except ValueError:
        return None
    return value.encode("utf-8", "surrogatepass")


def _accepts(leaf: Leaf, q: Any, text: bytes, *, is_string: bool) -> bool:
    for byte in text + b'"' if is_string else text:
        q = leaf.step(q, byte)
        if q is None:
            return False
    return leaf.is_accepting(q)


@lru_cache(maxsize=16)
def _iso_dates(text: bytes) -> list[bytes]:
    return [day.isoformat().encode() for day in grounded_dates(text.decode(errors="replace"))]


@lru_cache(maxsize=1_024)
def _stems(label: str) -> tuple[bytes, ...]:
    """The words of the last key of a label, without their endings."""
    keys = [key for key in label.split("/") if key not in ("", "*") and not key.isdigit()]
    if not keys:
        return ()
    words = [word.lower() for word in _STEM.findall(keys[-1].replace("~1", "/").replace("~0", "~"))]
    return tuple(
        dict.fromkeys(word[: max(4, len(word) - 3)].encode() for word in words if len(word) >= 3 and word != "the")
    )

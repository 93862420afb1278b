"""Echo: the value being written goes on like a passage of the source text.

    source    ... taken care of by Anouk Drummel (anouk@example.org) ...
    written   {"maintainer": "An
    guess     ouk Drummel", "

Matched on bytes, since ` Anouk` in prose and `Anouk` behind a quote are different tokens. In a JSON string the
guess is escaped as the form writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fillengine.automata.leaf import Leaf
from fillengine.fill.sources.cursor import Cursor, Hole
from fillengine.fill.sources.guess import INSIDE, Guess, Part
from fillengine.fill.sources.openings import Opening, Openings, unescaped
from fillengine.fill.sources.passages import Passages

_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_LISTED = re.compile(rb"[\"'`*)\]]*\s*[,;/|]\s*[\w\x80-\xff\"'`*#(\[]")
_QUOTE = 0x22
_SHORT, _LONG = 3, 6

_ODDS = {
    INSIDE: 0.97,
    # A value of which one or two bytes, three to five, or more are written; all places that begin like this agree
    # on what follows, or they do not.
    "one": 0.85, "one split": 0.75, "few": 0.93, "few split": 0.75, "more": 0.95, "more split": 0.75,
    # Behind a word: it goes on, or the value ends.
    "word": 0.95, "glue": 0.95, "in pair": 0.7, "prose mark": 0.85, "prose": 0.93, "stop": 0.7, "name": 0.85,
    "capital": 0.65, "close pair": 0.9, "close line": 0.9, "close point": 0.85, "close mark": 0.82, "close code": 0.7,
    "close lower": 0.55, "close name": 0.4, "close sentence": 0.85, "close only": 0.9, "close fit": 0.93,
    # Before the first byte.
    "only": 0.9, "best": 0.75, "first": 0.35, "key": 0.5, "near key": 0.4, "next": 0.5, "next line": 0.2, "top": 0.5,
    "open": 0.85, "none": 0.35, "item": 0.8, "last item": 0.65, "no item": 0.7,
}  # fmt: skip


class Echo:
    """Passages of `text`, which is what the model was given to read."""

    name = "echo"
    odds = _ODDS

    def __init__(self, text: str) -> None:
        self._passages = Passages(text)
        self._openings = Openings(self._passages)

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        holes = cursor.holes
        if not holes:
            guess = self._between(cursor)
            return [] if guess is None else [guess]
        found: list[Guess] = []
        for hole in holes:
            written = bytes(cursor.data[hole.start :])
            if not written:
                found += self._beginning(cursor, hole)
            elif written == b'"':
                found += self._opened(cursor, hole, hole.q, is_string=True)
            else:
                found += self._going_on(cursor, hole, written)
        return found

    def _beginning(self, cursor: Cursor, hole: Hole) -> Iterator[Guess]:
        """Nothing of the value is written, and the form leaves open whether it comes."""
        behind_quote = hole.leaf.step(hole.q, _QUOTE)
        if behind_quote is None:
            found = list(self._opened(cursor, hole, hole.q, is_string=False))
        else:
            found = list(self._opened(cursor, hole, behind_quote, is_string=True))
            found = [Guess(self, (Part(b'"', "open"), *guess.parts)) for guess in found]
        yield from found
        following = cursor.state.next_bytes()
        if not found and b"n" in following:
            yield Guess(self, (Part(b"null", "none"),))
        if not found and b"]" in following:
            yield Guess(self, (Part(b"]", "no item"),))

    def _opened(self, cursor: Cursor, hole: Hole, q: Any, *, is_string: bool) -> Iterator[Guess]:
        for opening in self._openings.of(cursor, hole.label, hole.leaf, q, is_string=is_string):
            first, *others = self._parts_of(opening)
            parts = [Part(first.text, opening.kind), *others]
            yield self._guess(cursor, hole, q, parts, is_string=is_string)

    def _parts_of(self, opening: Opening) -> list[Part]:
        if opening.text is not None:
            return [Part(opening.text, ""), Part(b"", "close fit")]
        return list(self._passages.parts(opening.start, opening.start)) or [Part(b"", "")]

    def _going_on(self, cursor: Cursor, hole: Hole, written: bytes) -> Iterator[Guess]:
        is_string = written.startswith(b'"')
        value = unescaped(written[1:]) if is_string else written
        if not value:
            return
        places = self._passages.beginning_with(value)
        if not places:
            return
        text = self._passages.text
        size = len(value)
        start = self._openings.nearest(cursor, hole.label, places)
        ahead = text[start + size : start + size + 3]
        agreed = sum(text.startswith(ahead, place + size) for place in places)
        kind = "one" if size < _SHORT else "few" if size < _LONG else "more"
        if agreed < len(places):
            kind += " split"
        parts = list(self._passages.parts(start, start + size))
        if parts and parts[0].kind in ("word", "glue"):
            parts[0] = Part(parts[0].text, kind)
        yield self._guess(cursor, hole, hole.q, parts, is_string=is_string)

    def _guess(self, cursor: Cursor, hole: Hole, q: Any, parts: Sequence[Part], *, is_string: bool) -> Guess:
        """The parts as the hole takes them: escaped, cut where it allows no more, closed where it ends."""
        leaf = hole.leaf
        taken: list[Part] = []
        kind = ""
        for part in parts:
            if part.kind.startswith("close"):
                kind = part.kind
                break
            text = _escaped(part.text) if is_string else part.text
            num_written = 0
            for byte in text:
                after = leaf.step(q, byte)
                if after is None:
                    break
                q = after
                num_written += 1
            if num_written:
                taken.append(Part(text[:num_written], part.kind))
            if num_written < len(text):
                kind = "close only"
                break
        if kind and is_string:
            closed = leaf.step(q, _QUOTE)
            if closed is not None and leaf.is_accepting(closed):
                taken.append(Part(b'"', kind))
        elif kind and taken and leaf.is_accepting(q):
            taken += self._delimiter(cursor, leaf, q, b"".join(part.text for part in taken), kind)
        return Guess(self, tuple(taken))

    def _delimiter(self, cursor: Cursor, leaf: Leaf, q: Any, text: bytes, kind: str) -> list[Part]:
        """What stands behind a value without quotes, where that can be only one thing."""
        state = cursor.machine.advance(cursor.state, text)
        if state is None:
            return []
        outside = set(state.next_bytes()) - set(leaf.next_bytes(q))
        return [Part(bytes(outside), kind)] if len(outside) == 1 else []

    def _between(self, cursor: Cursor) -> Guess | None:
        """Behind an item of an array: another one, or the end."""
        following = cursor.state.next_bytes()
        if b"," not in following or b"]" not in following or not cursor.values:
            return None
        _start, end = self._openings.last_place(cursor)
        if _LISTED.match(self._passages.text, end):
            return Guess(self, (Part(b",", "item"),))
        return Guess(self, (Part(b"]", "last item"),))


def _escaped(text: bytes) -> bytes:
    if _ESCAPED.search(text) is None:
        return text
    return json.dumps(text.decode(errors="replace"), ensure_ascii=False)[1:-1].encode()

"""Passages of a source text: where a value may stand in it, and how far it may go.

A passage begins at the start of a word or at a mark (`>=3.10`), as values do. Whether it goes on behind a word is
a guess: a line's end, a closing bracket or a comma ends most values, a sentence goes on to its full stop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from fillengine.fill.sources.guess import Part

MAX_OCCURRENCES = 32
"""Places that are looked at for one beginning of a value. A beginning that stands more often says little."""

MAX_PASSAGE = 160
"""Bytes of one guess: more than a forward pass checks."""

_PREFIX = 3
_UNIT = re.compile(rb"[\w\x80-\xff]+|[^\s\w]")
_WORD = re.compile(rb"[\w\x80-\xff]")
_GLUED = re.compile(rb"[\w\x80-\xff/]+|[^\s\w;|()\[\]{}<>\"`*](?=[^\s\"'`)>\]])|[<>](?=[=0-9])")
_SPACED_MARK = re.compile(rb"\s*[,;|()\[\]{}<>\"`]|[:*]|\s+[-\xe2=|#*@]")
_SENTENCE_END = re.compile(rb"[.!?](?=\s|$)")
_NEXT_WORD = re.compile(rb"[ \t]+[\w\x80-\xff.@+/~-]*[\w\x80-\xff]")
_NEXT_MARK = re.compile(rb"\s*\S")
_CODE = re.compile(rb"[0-9@/_=+~]")
_CLOSERS = {b"(": b")", b"[": b"]", b"{": b"}", b"<": b">", b'"': b'"', b"`": b"`", b"*": b"*", b"'": b"'"}
_PROSE_WORDS = 4


class Passages:
    """An index of a text by the first bytes of its words. Built when it is first asked."""

    def __init__(self, text: str) -> None:
        self.text = text.encode("utf-8", "surrogatepass")

    @cached_property
    def starts(self) -> list[int]:
        """The offsets at which a value may begin, ascending."""
        return [match.start() for match in _UNIT.finditer(self.text)]

    @cached_property
    def _by_prefix(self) -> dict[bytes, list[int]]:
        index: dict[bytes, list[int]] = {}
        text = self.text
        for start in self.starts:
            for length in range(1, _PREFIX + 1):
                index.setdefault(text[start : start + length], []).append(start)
        return index

    def beginning_with(self, written: bytes) -> list[int]:
        """The first places at which a passage begins with `written`, which is not empty."""
        found: list[int] = []
        for start in self._by_prefix.get(written[:_PREFIX], ()):
            if self.text.startswith(written, start):
                found.append(start)
                if len(found) == MAX_OCCURRENCES:
                    break
        return found

    def parts(self, start: int, at: int) -> Iterator[Part]:
        """The passage from `start` on, behind `at`, as far as it is likely to go.

        The last part is empty, with a kind that begins with "close", where the value seems to end there.
        """
        text = self.text
        before = text[start - 1 : start]
        closer = _CLOSERS.get(before)
        if closer is not None and text.find(closer, start, start + MAX_PASSAGE) < 0:
            closer = None
        num_words = len(text[start:at].split())
        end = at
        limit = at + MAX_PASSAGE
        while end < limit:
            glued = end
            while (match := _GLUED.match(text, glued)) is not None and not (
                closer is not None and text.startswith(closer, glued)
            ):
                glued = match.end()
            if glued > end:
                kind = "word" if num_words == 0 else "glue"
                yield Part(text[end:glued], kind)
                end = glued
            num_words = len(text[start:end].split())
            kind = self._stop(start, end, num_words, closer)
            if kind.startswith("stop"):
                yield Part(text[end : end + 1], kind)
                yield Part(b"", "close sentence")
                return
            if kind.startswith("close"):
                yield Part(b"", kind)
                return
            following = _NEXT_WORD.match(text, end)
            if following is None:
                following = _NEXT_MARK.match(text, end)
                if following is None:
                    return
            yield Part(text[end : following.end()], kind)
            end = following.end()

    def _stop(self, start: int, end: int, num_words: int, closer: bytes | None) -> str:
        """What is likely at `end`, behind a word: a kind of closing, or of going on."""
        text = self.text
        if closer is not None:
            return "close pair" if text.startswith(closer, end) else "in pair"
        rest = text[end : end + 2]
        if not rest or rest[:1] in b"\r\n":
            return "close line"
        is_prose = num_words >= _PROSE_WORDS
        if _SENTENCE_END.match(text, end):
            return "stop" if is_prose else "close point"
        if _SPACED_MARK.match(text, end):
            return "prose mark" if is_prose else "close mark"
        if is_prose:
            return "prose"
        value = text[start:end]
        following = _NEXT_WORD.match(text, end)
        if following is None:
            return "close mark"
        goes_up = following[0].lstrip()[:1].isupper()
        if num_words == 1:
            if _CODE.search(value):
                return "close code"
            if value[:1].isupper():
                return "name" if goes_up else "capital"
            return "close lower"
        words = value.split()
        if all(word[:1].isupper() for word in words):
            return "name" if goes_up else "close name"
        return "prose"

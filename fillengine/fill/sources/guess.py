"""What a source says: bytes that are likely to come next, cut where its confidence changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fillengine.fill.sources.cursor import Cursor

INSIDE = "inside"
"""The kind of a token that begins and ends within one part: the part's doubt is behind it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a guess. `kind` names the doubt that its beginning carries; acceptance is counted by kind."""

    text: bytes
    kind: str


@dataclass(frozen=True, slots=True)
class Guess:
    """Bytes that may follow the cursor, in parts, from one source."""

    source: Source
    parts: tuple[Part, ...]

    @property
    def text(self) -> bytes:
        return b"".join(part.text for part in self.parts)


class Source(Protocol):
    """Proposes text. It need not know what is allowed: what the form does not allow ends the guess.

    odds    how often a token of each kind is accepted where nothing is known of this row yet; `INSIDE` among them
    """

    @property
    def name(self) -> str: ...

    @property
    def odds(self) -> Mapping[str, float]: ...

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        """Alternatives, at most a few; none where it has nothing to say. The cursor is unchanged."""

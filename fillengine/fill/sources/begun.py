"""Begun: what ends a text without quotes, or begins something else than text, once its beginning is written.

    written   <parameter=city>⏎Oslo⏎</
    guess     parameter>⏎

Such a text may go on with the same characters, so nothing is determined; mostly it does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from fillengine.automata.leaf import LiteralLeaf
from fillengine.fill.sources.cursor import Cursor
from fillengine.fill.sources.guess import INSIDE, Guess, Part

_FEWEST = 2
"""Bytes after which a beginning is taken for more than chance."""


class Begun:
    """The rest of the one literal of which the text may have written the beginning."""

    name = "begun"
    odds = {"first": 0.4, "begun": 0.85, INSIDE: 0.95}  # noqa: RUF012 (read only)

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        begun = [
            (spot.leaf.text, q)
            for spot, q, _frame in cursor.state.configurations
            if isinstance(spot.leaf, LiteralLeaf) and q > 0
        ]
        if len(begun) != 1:
            return []
        text, written = begun[0]
        return [Guess(self, (Part(text[written:], "begun" if written >= _FEWEST else "first"),))]

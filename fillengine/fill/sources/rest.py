"""The unstable rest: text that the form determines, whose last token what follows could join."""

from __future__ import annotations

from collections.abc import Iterable

from fillengine.fill.sources.cursor import Cursor
from fillengine.fill.sources.guess import INSIDE, Guess, Part

REST = "rest"


class UnstableRest:
    """The forced bytes: ` "` before a string, and all of the scaffold behind a value that another source ends."""

    name = REST
    odds = {REST: 0.8, INSIDE: 0.9}  # noqa: RUF012 (read only)

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        forced, _end = cursor.machine.forced(cursor.state)
        return [Guess(self, (Part(forced, REST),))] if forced else []

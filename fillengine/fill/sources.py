"""Sources of verify spans: tokens that are likely, offered to the model for checking.

A source proposes tokens that may follow the session's text. It need not know what is allowed: what the session
does not allow ends the draft. Sources are asked in order of precedence, and the first that answers is taken.
"""

from __future__ import annotations

from typing import Protocol

from fillengine.fill.session import Session


class Source(Protocol):
    name: str

    def propose(self, session: Session) -> list[int]:
        """Tokens that are likely to come next; empty where it has nothing to say. `session` is unchanged."""


class UnstableRest:
    """The end of a forced span, which a token of what follows could join: ` "` before a string, mostly."""

    name = "rest"

    def propose(self, session: Session) -> list[int]:
        return session.likely()

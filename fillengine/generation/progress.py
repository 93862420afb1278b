"""What a reader of a text on its way has seen of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fillengine.templates import Form
    from fillengine.templates.completion import Partial


class Progress:
    """The text so far, as far as its reader has taken it, and its value."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._raw: list[str] = []
        self._num_fed = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return shown("".join(self._raw))

    @property
    def partial(self) -> Any:
        """The value so far, valid at any time: the shortest text completes it (see `templates.completion`)."""
        return self._fed().value

    @property
    def finished(self) -> tuple[str, ...]:
        """JSON pointers to those values in `partial` that will not change any more."""
        return self._fed().finished

    def _take(self, raw: str) -> str:
        """Note a new piece; returns it as it is shown."""
        self._raw.append(raw)
        return shown(raw)

    def _fed(self) -> Partial:
        partial = self._partial
        new = "".join(self._raw[self._num_fed :])
        self._num_fed = len(self._raw)
        if new:
            partial.feed(new)
        return partial

    @cached_property
    def _partial(self) -> Partial:
        # Its machine is its own: the engine's belongs to another thread.
        from fillengine.templates.completion import Partial

        return Partial(self._form)


def shown(raw: str) -> str:
    """A text, or a piece of one, without the marks of control tokens."""
    return raw.replace("\udcff", "")

"""A text on its way as a valid value: what is written, closed by the shortest text that completes it.

partial = Partial(form)       # {"name": string, "born": integer}, both required
partial.feed('{"name": "Ad')
partial.value         {"name": "Ad", "born": 0}
partial.finished      ()
partial.feed('a", ')
partial.finished      ("/name",)
"""

from __future__ import annotations

from typing import Any

from fillengine.automata.machine import Machine
from fillengine.automata.state import State
from fillengine.templates.form import Form


class Partial:
    """`feed` takes the text as it comes, as the form reads it: with control tokens marked."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._machine = Machine(form.template)
        self._state: State = self._machine.start
        self._whole: str | None = None
        self.raw = ""

    def feed(self, raw: str) -> None:
        """Raises ValueError for a text that leaves the form."""
        state = self._machine.advance(self._state, raw.encode("utf-8", "surrogateescape"))
        if state is None:
            raise ValueError(f"no text of the form goes on with {raw!r}")
        self._state = state
        self._whole = None
        self.raw += raw

    @property
    def completed(self) -> str:
        """The text so far and the shortest one that completes it."""
        if self._whole is None:
            self._whole = self.raw + shortest(self._machine, self._state).decode("utf-8", "surrogateescape")
        return self._whole

    @property
    def value(self) -> Any:
        """The value so far: valid, with the shortest values where the text has none yet.

        Raises pydantic.ValidationError where a model refuses these for reasons that no schema says.
        """
        return self._form.parse(self.completed)

    @property
    def finished(self) -> tuple[str, ...]:
        """JSON pointers to the values without parts that will not change any more."""
        num_written = len(self.raw)
        is_whole = self._state.is_final
        return tuple(
            place.pointer
            for place in self._form.places(self.completed)
            if place.end < num_written
            or (place.end == num_written and (is_whole or _is_closed(self.raw[place.begin : place.end])))
        )


def shortest(machine: Machine, state: State) -> bytes:
    """The fewest bytes that complete the text from `state`, of several the first."""
    written = bytearray()
    while not state.is_accepting:
        forced, behind = machine.forced(state)
        if forced:
            written += forced
            state = behind
            continue
        cost = machine.cost(state)
        for byte in state.next_bytes():
            following = machine.step(state, byte)
            if following is not None and machine.cost(following) < cost:
                break
        assert following is not None
        written.append(byte)
        state = following
    return bytes(written)


def _is_closed(text: str) -> bool:
    """Whether a JSON value says itself that it ends here: a number does not."""
    return len(text) > 1 and text[0] + text[-1] in ('""', "[]", "{}")

"""What an engine and its planner processes say to each other: a row's rounds there, its choices back.

    engine     Begin(row, …)                       Choices(row, [5, 17])                  …
    process                  Planned, Made                               Planned, Made    … Finished(row, report)

A process answers `Begin` and each `Choices` of a row with one of `Planned`, `Finished` and `Failed`; once it has
nothing more urgent to do, `Made` follows `Planned` where masks are wanted (`Failed` if they cannot be made).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fillengine.fill.economics import CostCurve
from fillengine.fill.guard import Guard
from fillengine.fill.row import Fill, Report, Round


class Begin(NamedTuple):
    """A new row.

    template  a Template or a function that gives it, pickled; rows with equal bytes share what is made of it
    pending   the last token of the prompt; the others are what `Row` and `usual_sources` take
    """

    row: int
    template: bytes
    max_tokens: int
    guard: Guard | None
    fill: Fill
    source_text: str | None
    prediction: str | None
    schema: Any
    curve: CostCurve
    pending: list[int]


class Choices(NamedTuple):
    """What was chosen at the places of the row's round, or at its first ones: then the draft was cut there."""

    row: int
    choices: list[int]


class Ask(NamedTuple):
    """A report is wanted of what was written before the round that is planned: `Told` answers."""

    row: int


class Forget(NamedTuple):
    """Nobody wants these rows any more. There is no answer."""

    rows: list[int]


class Planned(NamedTuple):
    """The row's next round, without its places: of each only the token that the form determines there, if any.

    data   what the text has grown by since the last one was planned: what that asserted, and what was chosen
    """

    row: int
    round: Round
    singles: list[int | None]
    data: bytes


class Made(NamedTuple):
    """The masks of the places that are open, in their order: (the only token or None, number, bits).

    A mask without an only token has a number of its own in its row, and its bits (bytes of uint32) come with it the
    first time.
    """

    row: int
    masks: list[tuple[int | None, int, bytes | None]]


class Finished(NamedTuple):
    """The row's text has ended, by what was chosen or by what the form determines behind it."""

    row: int
    report: Report


class Failed(NamedTuple):
    """`report`: what the row had come to, where it had begun."""

    row: int
    error: Exception
    report: Report | None


class Told(NamedTuple):
    row: int
    report: Report


Answer = Planned | Made | Finished | Failed | Told

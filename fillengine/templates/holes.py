"""Strings and numbers as nodes, free or held to a document.

With a ground, a hole is narrowed to what stands in the document: the string is a passage of it, a date one of
its dates, a number one of its numbers, always within the schema's own constraints. Where nothing in the
document fits, the hole stays as the schema has it.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Literal

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.dfa import Dfa
from fillengine.automata.nodes import Node
from fillengine.errors import AutomatonTooLarge
from fillengine.templates import grounding
from fillengine.templates.scalars import (
    NumberShape,
    StringShape,
    can_have_length,
    lift,
    number_dfa,
    string_pattern,
    string_value,
)
from fillengine.templates.shapes import Shape
from fillengine.templates.string_forms import compiled, quoted

Fill = Literal["free", "verbatim"]


class Ground:
    """One document. `default` is for the holes whose schema has no `x-fill`."""

    def __init__(self, source: str, default: Fill) -> None:
        self.source, self.default = source, default

    @cached_property
    def text(self) -> Dfa:
        return grounding.grounded_text(self.source)

    @cached_property
    def lifted(self) -> Dfa:
        return lift(self.text)

    @cached_property
    def numbers(self) -> list[Decimal]:
        return grounding.grounded_numbers(self.source)

    @cached_property
    def dates(self) -> list[date]:
        return grounding.grounded_dates(self.source)


class Holes:
    """Writes holes; those that say the same share their automaton.

    rules: what the nodes that were written so far call by name
    """

    def __init__(self, ground: Ground | None) -> None:
        self.rules: dict[str, Node] = {}
        self._ground = ground
        self._narrowed: dict[StringShape, Dfa | None] = {}

    def string(self, strings: StringShape, shape: Shape, label: str) -> Node:
        ground = self._ground_for(shape)
        if strings.text_form is not None:
            form = compiled(strings.text_form)
            template = form.template if ground is None else form.held(ground)
            return quoted(template, label, self.rules)
        if ground is not None:
            found = self._dates(strings, ground, label) or self._passage(strings, ground, label)
            if found is not None:
                return found
        return self.key(strings, label)

    def key(self, strings: StringShape, label: str) -> Node:
        """A string that is never held to the document."""
        pattern = string_pattern(strings)
        assert pattern is not None
        return nodes.Pattern(pattern, strings.low, strings.high, label)

    def number(self, numbers: NumberShape, shape: Shape, label: str) -> Node:
        ground = self._ground_for(shape)
        if ground is not None:
            words = {_number_text(value, numbers).encode() for value in ground.numbers if numbers.admits(value)}
            if words:
                return nodes.Words(tuple(sorted(words)), label)
        dfa = number_dfa(numbers)
        assert dfa is not None
        return nodes.Pattern(dfa, label=label)

    def _ground_for(self, shape: Shape) -> Ground | None:
        ground = self._ground
        if ground is None or (shape.fill or ground.default) != "verbatim":
            return None
        return ground

    def _dates(self, strings: StringShape, ground: Ground, label: str) -> Node | None:
        if not any(name == "date" for name, _ in strings.formats):
            return None
        words = {f'"{day.isoformat()}"'.encode() for day in ground.dates if strings.admits(day.isoformat())}
        return nodes.Words(tuple(sorted(words)), label) if words else None

    def _passage(self, strings: StringShape, ground: Ground, label: str) -> Node | None:
        if strings not in self._narrowed:
            self._narrowed[strings] = _narrowed(strings, ground)
        dfa = self._narrowed[strings]
        # No passage is empty, so that at least one character is no condition.
        low = 0 if strings.low <= 1 else strings.low
        return None if dfa is None else nodes.Pattern(dfa, low, strings.high, label)


def _narrowed(strings: StringShape, ground: Ground) -> Dfa | None:
    """The passages of the document that fit; None: none does."""
    value = string_value(strings)
    try:
        lifted = ground.lifted if value is None else lift(automata.intersection(ground.text, value))
    except AutomatonTooLarge:
        return None
    if not lifted.start or not can_have_length(lifted, strings.low, strings.high):
        return None
    return lifted


def _number_text(value: Decimal, numbers: NumberShape) -> str:
    return str(int(value)) if value == value.to_integral_value() else format(value, "f")

"""`Many`: a form several times over, as the rows of a table or the points of a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fillengine.automata.nodes import Literal, Node, Repeat, Template
from fillengine.errors import InvalidForm
from fillengine.templates.form import Form
from fillengine.templates.nesting import nested
from fillengine.templates.parts import Part, path
from fillengine.templates.text_form import Compile, TextForm, in_words


@dataclass(frozen=True, slots=True)
class Many(TextForm):
    """`item` from `at_least` to `at_most` times (None: no upper bound), `separator` between two.

    Many(Template("- {what}", what=str), at_most=5)       lines of a list; the value is a list of dicts

    Raises InvalidForm for bounds that make no sense, and, compiled, for an item that may be empty.
    """

    item: Any
    at_least: int = 1
    at_most: int | None = None
    separator: str = "\n"

    def __post_init__(self) -> None:
        if self.at_least < 0 or (self.at_most is not None and self.at_most < max(self.at_least, 1)):
            raise InvalidForm(
                f"Many from {self.at_least} to {self.at_most} times makes no sense",
                remedy="0 <= at_least <= at_most, and at_most is 1 or more",
            )

    @property
    def description(self) -> str:
        most = "" if self.at_most is None else f", at most {self.at_most} times"
        return f"one or several times{most}: {in_words(self.item)}"

    def form(self, compiled: Compile) -> Form:
        item = compiled(self.item)
        part = Part.of(item)
        if part.matcher.machine.start.is_accepting:
            raise InvalidForm(
                "the item of a Many may be empty, so that nobody could count it",
                remedy="make it one character at least, or repeat inside the item",
            )

        def assemble(template: Template) -> Template:
            rules: dict[str, Node] = {}
            separator = Literal(self.separator.encode()) if self.separator else None
            node = nested(template, "/*", rules)
            return Template(Repeat(node, self.at_least, self.at_most, separator), rules)

        return Form(
            assemble(item.template),
            source=self,
            read=lambda text: [item.read(piece) for piece in self._split(text, part)],
            hold=lambda ground: assemble(item.held(ground)),
            is_open=item.is_open,
        )

    def _split(self, text: str, part: Part) -> list[str]:
        data, separator = text.encode(), self.separator.encode()

        def following(place: tuple[int, int]) -> Iterable[tuple[int, int]]:
            count, offset = place
            if self.at_most is not None and count == self.at_most:
                return []
            begin = offset
            if count:
                if not data.startswith(separator, offset):
                    return []
                begin += len(separator)
            return ((count + 1, end) for end in part.ends(data, begin))

        def is_end(place: tuple[int, int]) -> bool:
            return place[0] >= self.at_least and place[1] == len(data)

        way = path((0, 0), following, is_end)
        if not way:
            raise ValueError(f"the text {text!r} is no row of items")
        pieces = []
        for (count, start), (_, end) in pairwise(way):
            pieces.append(data[start + (len(separator) if count else 0) : end].decode())
        return pieces

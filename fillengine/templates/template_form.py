"""`Template`: fixed text with named holes.

letter = Template("Dear {name},\n\nyour order of {quantity} {item} left on {day}.\n",
                  name=str, quantity=int, item=Choice(["chairs", "tables"]), day=date)

compile(letter).parse("Dear Ann,\n\nyour order of 2 chairs left on 2024-02-29.\n")
                    {"name": "Ann", "quantity": 2, "item": "chairs", "day": date(2024, 2, 29)}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fillengine.automata import nodes
from fillengine.automata.nodes import Node
from fillengine.errors import InvalidForm
from fillengine.templates.form import Form
from fillengine.templates.nesting import nested
from fillengine.templates.parts import Part, path
from fillengine.templates.schema import escape
from fillengine.templates.style import Piece, sequence
from fillengine.templates.text_form import Compile, TextForm, in_words

_PIECE = re.compile(r"(?P<text>(?:[^{}]|\{\{|\}\})+)|\{(?P<hole>[^{}]*)\}|(?P<brace>[{}])")


@dataclass(frozen=True, slots=True)
class Hole:
    name: str


class Template(TextForm):
    """Text with holes: `{name}` is a hole, `{{` and `}}` are braces, as in `str.format`.

    holes: the form of each hole. What is a str, a date or a Literal of texts is written without quotes there; see
    `templates/inline.py`. The value is a dict: the name of each hole and its own value. Where a text can be read in
    several ways, a hole of type `str` ends as soon as it can, and any other one takes as much as it can.

    Raises InvalidForm with line and column: holes without a form, forms without a hole, a hole that stands twice.
    """

    def __init__(self, text: str, /, **holes: Any) -> None:
        self.text = text
        self.pieces = _pieces(text)
        self.holes = holes
        names = [piece.name for piece in self.pieces if isinstance(piece, Hole)]
        for name in holes:
            if name not in names:
                raise InvalidForm(
                    f"the template has no hole {{{name}}}", remedy=f"write {{{name}}} into it, or leave {name}= out"
                )
        missing = [name for name in names if name not in holes]
        if missing:
            raise InvalidForm(
                f"{_place(text, text.index('{' + missing[0] + '}'))}: nothing says what the hole {{{missing[0]}}} is",
                remedy=f"add {missing[0]}=str, or another form; braces of the text itself are written {{{{ and }}}}",
            )

    def __repr__(self) -> str:
        holes = "".join(f", {name}={form!r}" for name, form in self.holes.items())
        return f"Template({self.text!r}{holes})"

    @property
    def description(self) -> str:
        words = ((name, in_words(form)) for name, form in self.holes.items())
        holes = "".join(f"\n- {name}: {said}" for name, said in words if said)
        return f"this text, filled in:\n{self.text}{holes}"

    def form(self, compiled: Compile) -> Form:
        forms = {name: compiled(form) for name, form in self.holes.items()}

        def assemble(template_of: Callable[[Form], nodes.Template]) -> nodes.Template:
            rules: dict[str, Node] = {}
            pieces: list[Piece] = []
            for piece in self.pieces:
                if isinstance(piece, Hole):
                    pieces.append(nested(template_of(forms[piece.name]), f"/{escape(piece.name)}", rules))
                else:
                    pieces.append(piece.encode())
            return nodes.Template(sequence(pieces), rules)

        last = self.pieces[-1] if self.pieces else ""
        return Form(
            assemble(lambda form: form.template),
            source=self,
            read=_Reader(self.pieces, forms),
            hold=lambda ground: assemble(lambda form: form.held(ground)),
            is_open=isinstance(last, Hole) and forms[last.name].is_open,
        )


class _Reader:
    """The values of the holes of a text."""

    def __init__(self, pieces: list[str | Hole], forms: dict[str, Form]) -> None:
        self._pieces = pieces
        self._parts = {name: Part.of(form) for name, form in forms.items()}

    def __call__(self, text: str) -> dict[str, Any]:
        data, pieces = text.encode(), self._pieces

        def following(place: tuple[int, int]) -> Iterable[tuple[int, int]]:
            index, offset = place
            if index == len(pieces):
                return []
            piece = pieces[index]
            if isinstance(piece, Hole):
                return ((index + 1, end) for end in self._parts[piece.name].ends(data, offset))
            fixed = piece.encode()
            return [(index + 1, offset + len(fixed))] if data.startswith(fixed, offset) else []

        way = path((0, 0), following, lambda place: place == (len(pieces), len(data)))
        if not way:
            raise ValueError(f"the text {text!r} does not fit the template")
        values = {}
        for piece, (_, start), (_, end) in zip(pieces, way, way[1:], strict=False):
            if isinstance(piece, Hole):
                values[piece.name] = self._parts[piece.name].form.read(data[start:end].decode())
        return values


def _pieces(text: str) -> list[str | Hole]:
    pieces: list[str | Hole] = []
    for match in _PIECE.finditer(text):
        where = _place(text, match.start())
        name = match["hole"]
        if match["brace"]:
            raise InvalidForm(
                f"{where}: a single {match['brace']}", remedy=f"write {match['brace'] * 2} for the sign itself"
            )
        if name is None:
            pieces.append(match["text"].replace("{{", "{").replace("}}", "}"))
        elif not name.isidentifier():
            raise InvalidForm(
                f"{where}: {{{name}}} is no hole", remedy="a hole is a name in braces, with nothing else in them"
            )
        elif Hole(name) in pieces:
            raise InvalidForm(
                f"{where}: the hole {{{name}}} stands there a second time",
                remedy="give it a name of its own: what is written into one hole cannot be demanded of another",
            )
        else:
            pieces.append(Hole(name))
    return pieces


def _place(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f"template, line {line}, column {offset - (text.rfind(chr(10), 0, offset) + 1) + 1}"

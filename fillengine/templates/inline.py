"""Forms in the middle of a text: a type whose JSON is a string is written there without quotes.

    "Dear {name}," with name=str            Dear Ann,          not   Dear "Ann",
    "on {day}" with day=datetime.date       on 2024-02-29
    "{size}" with size=Literal["S", "M"]    M
    "{n}" with n=int, list[int], …          as in JSON

Any text of one line, but not the empty one, is a `str` that nothing else is said of. A union is one of its members:
what is no string is tried first when its value is read.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Union, get_args, get_origin

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.dfa import Dfa
from fillengine.automata.nodes import Node, Template
from fillengine.errors import AutomatonTooLarge
from fillengine.templates.choice_form import Choice
from fillengine.templates.form import Form
from fillengine.templates.holes import Ground
from fillengine.templates.pydantic_form import is_python_type
from fillengine.templates.regex import fullmatch
from fillengine.templates.scalars import StringShape, string_value
from fillengine.templates.shapes import Shape
from fillengine.templates.style import choice
from fillengine.templates.text_form import Compile


def inline(form: Any, *, compile: Compile) -> Form:
    """`form` as it is written in the middle of a text. Raises FormError."""
    if get_origin(form) in (Union, types.UnionType):
        members = sorted(get_args(form), key=lambda member: inline(member, compile=compile).is_open)
        return replace(Choice(members).form(lambda member: inline(member, compile=compile)), source=form)
    compiled = compile(form)
    return _bare(compiled) if is_python_type(form) else compiled


def _bare(form: Form) -> Form:
    """A JSON form without the quotes of its strings, where it is strings or constants only."""
    if form.outline is None:
        return form
    outline = form.outline
    shapes = [outline.shape(flat) for flat in outline.alive(outline.root) if flat]
    if len(shapes) != len(outline.alive(outline.root)):
        return form
    if all(shape.values is not None for shape in shapes):
        return _constants(form, [value for shape in shapes for value in shape.values or ()])
    if any(shape.strings is None or shape.atoms != {"string"} or shape.opposites for shape in shapes):
        return form
    texts = [_Text(shape, shape.strings) for shape in shapes if shape.strings is not None]

    def template(ground: Ground | None) -> Template:
        return Template(choice(text.node(ground) for text in texts))

    return replace(
        form,
        template=template(None),
        read=lambda text: form.read(json.dumps(text, ensure_ascii=False)),
        hold=template,
        is_open=any(text.is_free for text in texts),
    )


def _constants(form: Form, values: list[Any]) -> Form:
    """Texts stand for themselves, anything else as in JSON."""
    spelled = {value if isinstance(value, str) else json.dumps(value): json.dumps(value) for value in values}
    words = tuple(sorted(text.encode() for text in spelled))
    return replace(form, template=Template(nodes.Words(words)), read=_table(spelled, form.read), hold=None)


def _table(spelled: dict[str, str], read: Callable[[str], Any]) -> Callable[[str], Any]:
    def look_up(text: str) -> Any:
        if text not in spelled:
            raise ValueError(f"the text {text!r} is none of {', '.join(spelled)}")
        return read(spelled[text])

    return look_up


@dataclass(frozen=True, slots=True)
class _Text:
    """A string without quotes."""

    shape: Shape
    strings: StringShape

    @property
    def is_free(self) -> bool:
        return string_value(self.strings) is None

    def node(self, ground: Ground | None) -> Node:
        dfa = _language(self.strings)
        if ground is None or (self.shape.fill or ground.default) != "verbatim":
            return nodes.Pattern(dfa)
        if any(name == "date" for name, _ in self.strings.formats):
            days = {day.isoformat() for day in ground.dates if self.strings.admits(day.isoformat())}
            if days:
                return nodes.Words(tuple(sorted(day.encode() for day in days)))
        try:
            passages = automata.intersection(ground.text, dfa)
        except AutomatonTooLarge:
            return nodes.Pattern(dfa)
        return nodes.Pattern(dfa if passages.is_empty else passages)


def _language(strings: StringShape) -> Dfa:
    value = string_value(strings)
    low, high = strings.low, strings.high
    if value is None:
        return _line(max(low, 1), high)
    if low or high is not None:
        return automata.intersection(value, fullmatch(rf"[\s\S]{{{low},{'' if high is None else high}}}"))
    return value


@lru_cache(maxsize=256)
def _line(low: int, high: int | None) -> Dfa:
    """One line: no control characters, and no space around it."""
    line = fullmatch(r"[^\s\p{Cc}]([^\r\n\p{Cc}\p{Zl}\p{Zp}]*[^\s\p{Cc}])?")
    if low > 1 or high is not None:
        line = automata.intersection(line, fullmatch(rf"[\s\S]{{{low},{'' if high is None else high}}}"))
    return line

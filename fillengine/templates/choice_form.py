"""`Choice`: one of several texts, values or forms."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fillengine.automata import nodes
from fillengine.automata.nodes import Node, Template
from fillengine.errors import InvalidForm
from fillengine.templates.form import Form
from fillengine.templates.nesting import nested
from fillengine.templates.style import choice
from fillengine.templates.text_form import Compile, Matcher, TextForm, in_words


class Choice(TextForm):
    """One of `options`:

    Choice(["yes", "no"])                           the value is the text
    Choice([1, 2.5, True, None])                    written as in JSON; the value is the option
    Choice(Color)                                   the members of an Enum, written by their values
    Choice({"yes": True, "no": False})              texts and what they stand for
    Choice(["none", Regex("[0-9]+ kg"), Order])     forms among them: the value is that of the first that fits

    Raises InvalidForm for no options, and where one text stands for two values.
    """

    def __init__(self, options: Iterable[Any] | Mapping[str, Any]) -> None:
        if isinstance(options, str | bytes) or not isinstance(options, Iterable):
            raise InvalidForm(
                f"the options of a Choice are a list, these are {options!r}", remedy='write Choice(["yes", "no"])'
            )
        self.values: dict[str, Any] = {}
        self.forms: list[Any] = []
        if isinstance(options, Mapping):
            for text, value in options.items():
                if not isinstance(text, str):
                    raise InvalidForm(f"the key {text!r} of a Choice is no text", remedy="write it as a str")
                self._add(text, value)
        else:
            for option in options:
                text = _text(option)
                if text is None:
                    self.forms.append(option)
                else:
                    self._add(text, option)
        if not self.values and not self.forms:
            raise InvalidForm("a Choice without options fits no text", remedy="name one option at least")

    def __repr__(self) -> str:
        options: list[Any] = [*self.values.values(), *self.forms]
        return f"Choice({options!r})" if list(self.values) == list(self.values.values()) else f"Choice({self.values!r})"

    @property
    def description(self) -> str:
        return f"one of: {', '.join(filter(None, (*self.values, *map(in_words, self.forms))))}"

    def _add(self, text: str, value: Any) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidForm(f"the option {text!r} is no text: it holds half of a surrogate pair") from None
        if text in self.values and self.values[text] != value:
            raise InvalidForm(
                f"the options {self.values[text]!r} and {value!r} are both written {text!r}",
                remedy="give each a text of its own, as in Choice({text: value})",
            )
        self.values.setdefault(text, value)

    def keywords(self) -> dict[str, Any]:
        if self.forms:
            return super().keywords()
        return {"enum": list(self.values)}

    def form(self, compiled: Compile) -> Form:
        forms = [compiled(option) for option in self.forms]
        words = tuple(sorted(text.encode() for text in self.values))

        def assemble(templates: Iterable[Template]) -> Template:
            rules: dict[str, Node] = {}
            options: list[Node] = [nodes.Words(words)] if words else []
            for number, template in enumerate(templates):
                # The value of a choice is that of its option: labels stay as they are.
                options.append(nested(template, "", rules, name=f"option {number}"))
            return Template(choice(options), rules)

        return Form(
            assemble(form.template for form in forms),
            source=self,
            read=self._reader(forms),
            hold=lambda ground: assemble(form.held(ground) for form in forms),
        )

    def _reader(self, forms: list[Form]) -> Callable[[str], Any]:
        matchers = [Matcher(form.template) for form in forms]

        def read(text: str) -> Any:
            if text in self.values:
                return self.values[text]
            for form, matcher in zip(forms, matchers, strict=True):
                if matcher.accepts(text):
                    return form.read(text)
            raise ValueError(f"the text {text!r} is none of the options")

        return read


def _text(option: Any) -> str | None:
    """How an option is written; None for a form."""
    if isinstance(option, enum.Enum):
        return _text(option.value)
    if isinstance(option, str):
        return option
    if option is None or isinstance(option, bool | int | float):
        return json.dumps(option)
    return None

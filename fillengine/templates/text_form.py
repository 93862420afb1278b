"""Forms that are declared by objects: texts that need not be JSON.

    Regex, Choice, Grammar, Template, Many

A text form is made into a `Form` by `compile`, and others may stand inside it. Inside `Annotated[str, …]` of a
pydantic model it says what the string is.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Template
from fillengine.errors import UnsupportedForm
from fillengine.templates.string_forms import compiled, declare

if TYPE_CHECKING:
    from fillengine.templates.form import Form

Compile = Callable[[Any], "Form"]


class TextForm(ABC):
    """A form that is declared by an object."""

    @abstractmethod
    def form(self, compiled: Compile) -> Form:
        """This form, compiled. `compiled` makes the forms inside it, as they are written in a text.

        Raises FormError.
        """

    @property
    @abstractmethod
    def description(self) -> str:
        """What a text of this form is, in words for a prompt: "one of: yes, no"."""

    def keywords(self) -> dict[str, Any]:
        """What JSON Schema says of a string that is a text of this form."""
        return {"format": declare(self)}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """`Annotated[str, Regex(...)]`: a str that is a text of this form."""
        if source is not str:
            raise UnsupportedForm(
                f"{self!r} says what a text is, not what a field of type {getattr(source, '__name__', source)} is",
                keyword="Annotated",
                remedy="annotate str with it",
            )
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, text: str) -> str:
        compiled(declare(self)).read(text)
        return text

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = dict(handler(core))
        said = self.keywords()
        if schema.keys() & said.keys():
            return {**schema, "allOf": [*schema.get("allOf", ()), said]}
        return {**schema, **said}


_IN_WORDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    datetime.date: "a date as YYYY-MM-DD",
}


def in_words(form: Any) -> str:
    """What a form inside a text form is, in words for a prompt; "" where its name says nothing."""
    return form.description if isinstance(form, TextForm) else _IN_WORDS.get(form, "")


class Matcher:
    """Says where a template's texts can end in a given text, and what is wrong with one that is not one of them."""

    def __init__(self, template: Template) -> None:
        self._template = template

    @cached_property
    def machine(self) -> Machine:
        return Machine(self._template)

    def ends(self, data: bytes, start: int) -> list[int]:
        """The offsets at which a text of the template that begins at `start` can end, the nearest first."""
        found: list[int] = []
        state = self.machine.start
        for offset in range(start, len(data) + 1):
            if state.is_accepting:
                found.append(offset)
            if offset == len(data):
                break
            following = self.machine.step(state, data[offset])
            if following is None:
                break
            state = following
        return found

    def accepts(self, text: str) -> bool:
        return self.machine.accepts(text.encode())

    def check(self, text: str, what: str) -> None:
        """Raises ValueError for a text that is none of the template's; `what` names what it was to be."""
        state = self.machine.start
        data = text.encode()
        for offset, byte in enumerate(data):
            following = self.machine.step(state, byte)
            if following is None:
                shown = data[max(0, offset - 20) : offset + 20].decode("utf-8", "replace")
                raise ValueError(f"the text is no {what}: it leaves it at byte {offset}, in {shown!r}")
            state = following
        if not state.is_accepting:
            raise ValueError(f"the text is no {what}: it ends too soon, at byte {len(data)}")

"""A compiled form: the template, and the way back from text to value."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from fillengine.automata.nodes import Template
from fillengine.templates.holes import Fill, Ground
from fillengine.templates.json_places import Place, json_places
from fillengine.templates.outline import Outline


def _json_places(text: str) -> list[Place]:
    """Where the values of a JSON text stand; of one that is no JSON, the whole."""
    try:
        return json_places(text)[0]
    except ValueError:
        return [Place("", 0, len(text))]


@dataclass(frozen=True, eq=False)
class Form:
    """What `compile` gives.

    template:  what may be written
    schema:    the JSON Schema, None for a form that is not one
    source:    the pydantic model, Python type or text form that the form was, None otherwise
    outline:   what the JSON Schema says, None for a form that is not one
    read:      the value of a text
    hold:      the template held to a document, None for a form that no document narrows
    is_open:   where the text ends is seen from what follows only: it is read as short as can be
    places:    where values stand in a text
    prompt:    the text of the prompt for messages, where the form has a say in it (its tools); None otherwise
    thoughts:  what was thought before the value, in a text; None for a form that leaves no room for it
    """

    template: Template
    schema: dict[str, Any] | bool | None = None
    source: Any = None
    outline: Outline | None = field(default=None, repr=False)
    read: Callable[[str], Any] = field(default=json.loads, repr=False)
    hold: Callable[[Ground], Template] | None = field(default=None, repr=False)
    is_open: bool = field(default=False, repr=False)
    places: Callable[[str], list[Place]] = field(default=_json_places, repr=False)
    prompt: Callable[[Sequence[Mapping[str, Any]]], str] | None = field(default=None, repr=False)
    thoughts: Callable[[str], str] | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        """The schema's title, or the name of the class, or ""."""
        title = self.schema.get("title") if isinstance(self.schema, dict) else None
        if isinstance(title, str):
            return title
        return self.source.__name__ if inspect.isclass(self.source) else ""

    def ground(self, source: str, default: Fill = "verbatim") -> Form:
        """This form held to a document: strings are passages of it, dates and numbers are among its own.

        `default` is for the fields that do not say themselves (`x-fill`, `Annotated[str, Verbatim]`): with
        "free" only those that ask for it are held. A field into which nothing from the document fits stays
        free. The schema is not read again, and the template is written when it is first asked for.
        """
        return self if self.hold is None else _Grounded(self, self.hold, Ground(source, default))

    @property
    def recipe(self) -> Template | Callable[[], Template]:
        """The template, or what writes it: less to send to another process, which has the work then."""
        return self.template

    def held(self, ground: Ground) -> Template:
        """The template held to a document."""
        return self.template if self.hold is None else self.hold(ground)

    def parse(self, text: str) -> Any:
        """The value of a text: an object of the form's type if it was one, what a text form says, else plain JSON.

        Raises ValueError: json.JSONDecodeError, pydantic.ValidationError, or of a text form.
        """
        return self.read(text)

    def validate(self, text: str) -> None:
        """Check a text against the schema, formats included. Raises json.JSONDecodeError for a text that is
        no JSON, jsonschema.ValidationError for a value that does not fit, pydantic.ValidationError for one
        that the form's type refuses, ValueError for one that is no text of a text form, RecursionError for one
        that is nested too deeply to be judged."""
        if self._judge is not None:
            self._judge(json.loads(text))
        self.read(text)

    @cached_property
    def _judge(self) -> Any:
        if self.schema is None or self.outline is None:
            return None
        from fillengine.templates.validator import judge  # seconds, and only for what is judged

        return judge(self.schema, self.outline.reader.dialect)


class _Grounded(Form):
    """A form held to a document."""

    def __init__(self, form: Form, hold: Callable[[Ground], Template], ground: Ground) -> None:
        own = {name: value for name, value in vars(form).items() if name not in ("template", "_judge")}
        self.__dict__.update(own, _write=partial(hold, ground))

    @cached_property
    def template(self) -> Template:
        return self.recipe()

    @property
    def recipe(self) -> Callable[[], Template]:
        write: Callable[[], Template] = self.__dict__["_write"]
        return write

"""A compiled form: the template, and the way back from text to value."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jsonschema

from fillengine.automata.nodes import Template
from fillengine.templates.holes import Fill, Ground
from fillengine.templates.json_schema import write
from fillengine.templates.outline import Outline
from fillengine.templates.style import Style

_VALIDATORS: dict[int, Any] = {
    4: jsonschema.Draft4Validator,
    6: jsonschema.Draft6Validator,
    7: jsonschema.Draft7Validator,
    2019: jsonschema.Draft201909Validator,
    2020: jsonschema.Draft202012Validator,
}


@dataclass(frozen=True, eq=False)
class Form:
    """What `compile` gives.

    template:  what may be written
    schema:    the JSON Schema, None for a form that is not one
    source:    the pydantic model or Python type that the form was, None otherwise
    """

    template: Template
    schema: dict[str, Any] | bool | None = None
    source: Any = None
    style: Style = "spaced"
    outline: Outline | None = field(default=None, repr=False)
    read: Callable[[str], Any] = field(default=json.loads, repr=False)

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
        free. The schema is not read again.
        """
        if self.outline is None:
            return self
        return replace(self, template=write(self.outline, self.style, Ground(source, default)))

    def parse(self, text: str) -> Any:
        """The value of a text: an object of the form's type if it was one, else plain JSON.

        Raises json.JSONDecodeError or pydantic.ValidationError.
        """
        return self.read(text)

    def validate(self, text: str) -> None:
        """Check a text against the schema, formats included. Raises json.JSONDecodeError for a text that is
        no JSON, jsonschema.ValidationError for a value that does not fit, pydantic.ValidationError for one
        that the form's type refuses."""
        if self._validator is not None:
            self._validator.validate(json.loads(text))
        self.read(text)

    @cached_property
    def _validator(self) -> Any:
        if self.schema is None or self.outline is None:
            return None
        return _VALIDATORS[self.outline.reader.dialect](self.schema, format_checker=jsonschema.FormatChecker())

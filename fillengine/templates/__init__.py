"""Forms as templates: `compile` is the one way in."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from fillengine.automata import nodes
from fillengine.automata.machine import Machine
from fillengine.errors import InvalidForm, UnsatisfiableForm, UnsupportedForm
from fillengine.templates.choice_form import Choice
from fillengine.templates.form import Form
from fillengine.templates.grammar_form import Grammar
from fillengine.templates.holes import Fill
from fillengine.templates.inline import inline
from fillengine.templates.json_schema import write
from fillengine.templates.many_form import Many
from fillengine.templates.outline import Outline
from fillengine.templates.pydantic_form import Verbatim, is_python_type, schema_of
from fillengine.templates.regex_form import Regex
from fillengine.templates.scalars import FormWarning
from fillengine.templates.style import STYLES, Style
from fillengine.templates.template_form import Template
from fillengine.templates.text_form import TextForm
from fillengine.templates.thinking import Thinking
from fillengine.templates.tools import Call, ToolAnswer, Tools

__all__ = [
    "Call", "Choice", "Form", "FormWarning", "Grammar", "Many", "Regex", "Template", "TextForm", "Thinking",
    "ToolAnswer", "Tools", "Verbatim", "compile",
]  # fmt: skip

Order = Literal["declared", "any"]
Additional = Literal["closed", "schema"]


def compile(
    form: Any,
    *,
    style: Style = "spaced",
    order: Order = "declared",
    additional: Additional = "closed",
    grounding: str | None = None,
    ground: Fill = "free",
) -> Form:
    """Compile a form: a JSON Schema (dict, bool or JSON text), a pydantic model or any type that pydantic knows,
    or a text form (Regex, Choice, Grammar, Template, Many).

    style       "spaced" (as json.dumps), "compact", "indented" (as indent=2) or "any" (free white space)
    order       "declared": properties in the order of the schema; "any": in any order
    additional  "closed": undeclared properties are not written unless the schema describes them;
                "schema": as JSON Schema says: an object without additionalProperties is open, and every valid
                value can be written, so that properties come in any order
    grounding   the text of a document; fields marked `x-fill: verbatim` (or all but those marked "free", with
                ground="verbatim") are held to what stands in it

    A Form comes back as it is, only held to the document if there is one.

    Raises InvalidForm (not a form), UnsupportedForm (cannot be honoured exactly) or UnsatisfiableForm (no text
    fits), each with a JSON pointer.
    """
    _check("style", style, STYLES)
    _check("order", order, ("declared", "any"))
    _check("additional", additional, ("closed", "schema"))
    _check("ground", ground, ("free", "verbatim"))
    is_free_order = order == "any" or additional == "schema"
    if isinstance(form, Form):
        compiled = form
    elif isinstance(form, TextForm):
        inner = partial(compile, style=style, order=order, additional=additional)
        compiled = form.form(partial(inline, compile=inner))
    elif is_python_type(form):
        schema, adapter = schema_of(form)
        compiled = replace(
            _from_schema(schema, style, additional, is_free_order=is_free_order),
            source=form,
            read=adapter.validate_json,
        )
    else:
        compiled = _from_schema(_json(form), style, additional, is_free_order=is_free_order)
    if grounding is None:
        return compiled
    grounded = compiled.ground(grounding, ground)
    _ = grounded.template  # what is wrong with it is raised here
    return grounded


def _from_schema(schema: Any, style: Style, additional: Additional, *, is_free_order: bool) -> Form:
    try:
        outline = Outline(schema, is_closed=additional == "closed", is_free_order=is_free_order)
        template = write(outline, style)
        if outline.has_opposites:
            _check_satisfiable(template, outline)
        return Form(template, schema, outline=outline, hold=partial(write, outline, style))
    except RecursionError as error:
        pointer = "/allOf" if isinstance(schema, dict) and "allOf" in schema else ""
        raise UnsupportedForm(
            "the schema nests too deeply", keyword="allOf", pointer=pointer, remedy="make it flatter"
        ) from error


def _check_satisfiable(template: nodes.Template, outline: Outline) -> None:
    """What is compared text by text is searched for a value; where none is found, none can be promised."""
    try:
        Machine(template)
    except UnsatisfiableForm as error:
        raise UnsupportedForm(
            "no value was found that fits this and not what is excluded",
            keyword="not",
            pointer=outline.first_opposite,
            remedy="say what is allowed instead",
        ) from error


def _json(form: Any) -> Any:
    if isinstance(form, bytes | bytearray):
        form = form.decode()
    if isinstance(form, dict | bool):
        return form
    if not isinstance(form, str):
        raise InvalidForm(
            f"a form is a JSON Schema, JSON text, a type or a text form, this is {type(form).__name__}",
            remedy="pass a dict, a str, a pydantic model, Regex, Choice, Grammar, Template or Many",
        )
    try:
        return json.loads(form)
    except ValueError as error:
        raise InvalidForm(f"the form is no JSON: {error}", remedy="pass the text of a JSON Schema") from error


def _check(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{option} must be one of {', '.join(map(repr, allowed))}, not {value!r}")

"""The form that a command is given: a JSON Schema file, a Python object named `module:Name`, or a text form."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fillengine.errors import DocumentError, FillError, FormError, InvalidForm

if TYPE_CHECKING:
    from fillengine.templates import Form

_PYTHON_NAME = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_][\w.]*)")

RegexOption = Annotated[
    str | None,
    typer.Option("--regex", metavar="PATTERN", help="A text that this pattern (ECMA-262) matches as a whole."),
]
ChoiceOption = Annotated[
    list[str] | None, typer.Option("--choice", metavar="TEXT", help="One of several texts; give it once for each.")
]
GrammarOption = Annotated[
    str | None,
    typer.Option("--grammar", metavar="FILE|NAME", help="A grammar in GBNF, or a name from `fillengine grammars`."),
]


def load_form(
    schema: str | None, regex: str | None, choice: list[str] | None, grammar: str | None, *, named: str, **options: Any
) -> Form:
    """Compile the one form that a command was given. `options` are those of `fillengine.compile`.

    named: how the command calls a schema, for its errors

    Raises FillError; its message begins with what was given.
    """
    given = [spec for spec in (schema, regex, grammar, *([", ".join(choice)] if choice else [])) if spec is not None]
    if len(given) != 1:
        which = "several forms are" if given else "no form is"
        raise FillError(f"{which} given; give one of {named}, --regex, --choice and --grammar")
    from fillengine.templates import Choice, Regex, compile

    try:
        if regex is not None:
            return compile(Regex(regex), **options)
        if grammar is not None:
            return compile(_grammar(grammar), **options)
        if schema is not None:
            return compile(read_form(schema), **options)
        return compile(Choice(choice or ()), **options)
    except FormError as error:
        message = str(error)
        raise FillError(message if message.startswith(given[0]) else f"{given[0]}: {message}") from error


def _grammar(spec: str) -> Any:
    from fillengine.templates import Grammar
    from fillengine.templates.library import shipped

    if spec in shipped() and not Path(spec).exists():
        return Grammar.named(spec)
    if not Path(spec).exists():
        raise InvalidForm(f"{spec}: there is no such file, and no grammar of this name; see `fillengine grammars`")
    return Grammar(Path(spec))


def read_form(spec: str) -> Any:
    """The JSON value or the Python object behind `spec`. Raises InvalidForm."""
    python = _PYTHON_NAME.fullmatch(spec)
    if python and not Path(spec).exists():
        return _python_object(spec, python["module"], python["name"])
    return _json_file(spec)


def _json_file(name: str) -> Any:
    from fillengine.extraction.documents import read_text

    if Path(name).is_dir():
        raise InvalidForm(f"{name}: is a folder; name a JSON Schema file")
    try:
        text = read_text(name).text
    except DocumentError as error:
        problem = str(error).replace("the document is empty; there is nothing to extract from", "the file is empty")
        remedy = "" if Path(name).exists() else ", or name a Python object as module:Name"
        raise InvalidForm(f"{problem}{remedy}") from None
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidForm(
            f"{name}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}; correct the file"
        ) from None
    except RecursionError:
        raise InvalidForm(f"{name}: JSON nested too deeply to be read; make it flatter, with $ref") from None
    if not isinstance(schema, (dict, bool)):
        raise InvalidForm(f"{name}: no JSON Schema; a schema is a JSON object (or true, for any JSON)")
    return schema


def _python_object(spec: str, module: str, name: str) -> Any:
    # As `python -m` does: a module beside the documents is found from a console script too.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InvalidForm(
                f"{spec}: there is no module {error.name}; run in the folder that holds it, or set PYTHONPATH"
            ) from None
        raise InvalidForm(f"{spec}: importing {module} failed: {error}; install it") from error
    except (Exception, SystemExit) as error:  # the module is the user's: it may raise anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}"
        raise InvalidForm(f"{spec}: importing {module} failed: {what} ({place.filename}:{place.lineno})") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidForm(f"{spec}: {module} has no {name}; {_models_in(found)}")
        found = getattr(found, part)
    return found


def _models_in(module: Any) -> str:
    from pydantic import BaseModel

    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseModel) and value is not BaseModel
    ]
    return f"its models: {', '.join(names)}" if names else "it holds no pydantic model"

"""The form that a command is given: a JSON Schema file, or a Python object named `module:Name`."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fillengine.errors import DocumentError, FillError, FormError, InvalidForm

if TYPE_CHECKING:
    from fillengine.templates import Form

_PYTHON_NAME = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_][\w.]*)")


def load_form(spec: str, **options: Any) -> Form:
    """Compile the form that `spec` names. `options` are those of `fillengine.compile`.

    Raises FillError; its message begins with `spec`.
    """
    form = read_form(spec)
    from fillengine.templates import compile

    try:
        return compile(form, **options)
    except FormError as error:
        raise FillError(f"{spec}: {error}") from error


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

"""Judging a JSON value by its schema, with jsonschema and its format checkers.

A module of its own, since it is needed for texts that are written and not for forms: importing the checkers takes
more than a second, and half of all objects that Python's garbage collector then looks through are theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
from jsonschema.exceptions import FormatError, ValidationError

from fillengine.errors import UnsupportedForm
from fillengine.templates.scalars import StringShape
from fillengine.templates.string_forms import compiled, is_string_form


def _pattern(validator: Any, pattern: str, instance: object, _schema: Any) -> Iterator[ValidationError]:
    """`pattern` as ECMA-262 has it, which JSON Schema asks for. jsonschema asks Python, where `$` also stands before a
    last newline and `\\s` takes more characters."""
    if not validator.is_type(instance, "string"):
        return
    assert isinstance(instance, str)
    try:
        fits = StringShape(patterns=((pattern, ""),)).admits(instance)
    except UnsupportedForm:
        fits = re.search(pattern, instance) is not None
    if not fits:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_VALIDATORS: dict[int, Any] = {
    draft: jsonschema.validators.extend(validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]
    for draft, validator in {
        4: jsonschema.Draft4Validator,
        6: jsonschema.Draft6Validator,
        7: jsonschema.Draft7Validator,
        2019: jsonschema.Draft201909Validator,
        2020: jsonschema.Draft202012Validator,
    }.items()
}


def judge(schema: Any, dialect: int) -> Callable[[Any], None]:
    """What judges values by a schema in a draft (4 to 2020), formats included. It raises jsonschema.ValidationError,
    or RecursionError for a value that is nested too deeply to be judged."""
    validator = _VALIDATORS[dialect](schema, format_checker=_Formats(dialect))

    def validate(value: Any) -> None:
        try:
            validator.validate(value)
        except BaseException as error:
            # The maps of jsonschema's references are written in Rust, where the end of Python's stack is a panic.
            if type(error).__name__ == "PanicException":
                raise RecursionError("the value is nested too deeply to be judged") from error
            raise

    return validate


class _Formats(jsonschema.FormatChecker):
    """The formats of a dialect, those of the newest where it has none of the name, and text forms in strings.

    Not the checkers that jsonschema registers for all drafts alike: their `time` is draft 3's, without an offset.
    """

    def __init__(self, dialect: int) -> None:
        super().__init__(())
        newest, own = jsonschema.Draft202012Validator, _VALIDATORS[dialect]
        self.checkers = {**newest.FORMAT_CHECKER.checkers, **own.FORMAT_CHECKER.checkers}

    def check(self, instance: object, format: str) -> None:
        super().check(instance, format)
        if isinstance(instance, str) and is_string_form(format):
            try:
                compiled(format).read(instance)
            except ValueError as error:
                raise FormatError(str(error), cause=error) from error

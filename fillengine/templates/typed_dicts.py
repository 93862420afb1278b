"""`typing.TypedDict` for pydantic, which reads only the one of typing_extensions before Python 3.12."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any

import typing_extensions


def readable(form: Any) -> Any:
    """The type with its TypedDicts as pydantic reads them.

    Those in the fields of classes of other kinds, and those that hold themselves, are left to pydantic: it says
    what to write instead.
    """
    return form if sys.version_info >= (3, 12) else _readable(form, ())


def _readable(form: Any, around: tuple[Any, ...]) -> Any:
    if typing.is_typeddict(form) and type(form).__module__ == "typing" and form not in around:
        try:
            hints = typing.get_type_hints(form, include_extras=True)
        except NameError:
            return form
        fields = {}
        for key, hint in hints.items():
            needed = typing_extensions.Required if key in form.__required_keys__ else typing_extensions.NotRequired
            fields[key] = needed[_readable(hint, (*around, form))]
        return typing_extensions.TypedDict(form.__name__, fields)  # type: ignore[operator]
    arguments = typing.get_args(form)
    changed = tuple(_readable(argument, around) for argument in arguments)
    if changed == arguments:
        return form
    if typing.get_origin(form) is types.UnionType:
        return typing.Union[changed]  # noqa: UP007 (made at run time)
    if hasattr(form, "copy_with"):
        return form.copy_with(changed[:1] if typing.get_origin(form) is typing.Annotated else changed)
    return typing.get_origin(form)[changed]

"""Python types as forms, through pydantic: models, dataclasses, `list[int]`, `Literal["a", "b"]`, ..."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NewType, get_origin

import pydantic
from pydantic import GetJsonSchemaHandler, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import CoreSchema

from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.typed_dicts import readable


class Verbatim:
    """`Annotated[str, Verbatim]`: this field is a passage of the document, word for word.

    On a list it holds for the items. It acts where a form is compiled or filled with a document.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = dict(handler(core))
        schema["x-fill"] = "verbatim"
        if isinstance(schema.get("items"), dict):
            schema["items"] = {**schema["items"], "x-fill": "verbatim"}
        return schema


def is_python_type(form: Any) -> bool:
    """A class, or anything of `typing` that stands for types."""
    return isinstance(form, type | NewType) or get_origin(form) is not None or form is Any or hasattr(form, "__value__")


def schema_of(form: Any) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    """(JSON Schema, adapter) of a type. Raises UnsupportedForm or InvalidForm."""
    try:
        return _schema_of(form)
    except TypeError:  # not hashable, as Annotated with a list in it
        return _schema_of.__wrapped__(form)


@lru_cache(maxsize=256)
def _schema_of(form: Any) -> tuple[dict[str, Any], TypeAdapter[Any]]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable(form))
        return adapter.json_schema(mode="validation"), adapter
    except PydanticInvalidForJsonSchema as error:
        raise UnsupportedForm(
            f"pydantic has no JSON Schema for {_name(form)}: {error.message}",
            keyword="type",
            remedy="give the field WithJsonSchema, or another type",
        ) from error
    except (PydanticSchemaGenerationError, PydanticUserError, pydantic.errors.PydanticUndefinedAnnotation) as error:
        raise InvalidForm(
            f"pydantic cannot read {_name(form)}: {str(error).partition(chr(10))[0]}",
            remedy="use a pydantic model, or a type that pydantic knows",
        ) from error


def _name(form: Any) -> str:
    return getattr(form, "__name__", repr(form))

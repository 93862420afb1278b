"""One tool: its name, what it is for, and the JSON Schema of its arguments.

{"type": "function", "function": {"name": …, "description": …, "parameters": {…}}}      as chat servers take it
class Weather(BaseModel): …         a pydantic model; its docstring is the description
def weather(city: str, days: int = 1) -> str: …     a function with type hints
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic

from fillengine.errors import InvalidForm
from fillengine.templates.pydantic_form import schema_of

_EXAMPLES: dict[str, Any] = {
    "string": "Oslo",
    "integer": 7,
    "number": 2.5,
    "boolean": True,
    "null": None,
    "array": ["Oslo", 7],
    "object": {"name": "Oslo"},
}


@dataclass(frozen=True, eq=False)
class Tool:
    """parameters    the JSON Schema of the arguments, an object's
    read             the arguments as what the tool takes: an object of the model, a dict of a function's arguments
    """

    name: str
    description: str
    parameters: dict[str, Any]
    read: Callable[[dict[str, Any]], Any] = field(default=lambda arguments: arguments, repr=False)

    @classmethod
    def of(cls, source: Any, place: str) -> Tool:
        """Raises InvalidForm where it is no tool; `place` is a JSON pointer to it."""
        if isinstance(source, cls):
            return source
        if isinstance(source, Mapping):
            return cls._of_dict(source, place)
        if inspect.isclass(source) and issubclass(source, pydantic.BaseModel):
            return cls(source.__name__, _described(source), schema_of(source)[0], source.model_validate)
        if inspect.isroutine(source):
            return cls._of_function(source, place)
        raise InvalidForm(
            f"a tool is a dict, a pydantic model or a function, this is {type(source).__name__}", pointer=place
        )

    @classmethod
    def _of_dict(cls, source: Mapping[str, Any], place: str) -> Tool:
        if "function" in source:
            source, place = source["function"], f"{place}/function"
        name = source.get("name") if isinstance(source, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidForm("the tool has no name", pointer=place, remedy='give {"name": …, "parameters": {…}}')
        parameters = source.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(parameters, Mapping):
            raise InvalidForm("parameters is no JSON Schema", pointer=f"{place}/parameters")
        if parameters.get("type", "object") != "object":
            raise InvalidForm(
                "the arguments of a tool are an object",
                pointer=f"{place}/parameters/type",
                remedy='make the schema one of "type": "object"',
            )
        return cls(name, str(source.get("description", "")), {"type": "object", **parameters})

    @classmethod
    def _of_function(cls, function: Callable[..., Any], place: str) -> Tool:
        name = getattr(function, "__name__", "")
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except NameError as error:
            raise InvalidForm(f"a type hint of {name} is not known: {error}", pointer=place) from error
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise InvalidForm(
                    f"{name} takes {parameter}, which has no name in a call",
                    pointer=place,
                    remedy="give it parameters with names",
                )
            if parameter.name not in hints:
                raise InvalidForm(
                    f"the parameter {parameter.name} of {name} has no type hint", pointer=place, remedy="add one"
                )
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        model = pydantic.create_model(name, **fields)

        def read(arguments: dict[str, Any]) -> dict[str, Any]:
            given = model.model_validate(arguments)
            return {name: getattr(given, name) for name in fields}

        return cls(name, _described(function), schema_of(model)[0], read)

    @property
    def spec(self) -> dict[str, Any]:
        """As chat templates take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @property
    def example(self) -> dict[str, Any]:
        """Arguments by the types of their schemas. They need not be valid: a template does not look."""
        properties = self.parameters.get("properties") or {}
        return {name: _example(schema) for name, schema in properties.items()}


def _example(schema: Any) -> Any:
    kind: Any = schema.get("type") if isinstance(schema, Mapping) else None
    return _EXAMPLES.get(kind[0] if isinstance(kind, list) and kind else str(kind), "Oslo")


def _described(source: Any) -> str:
    """The first paragraph of the docstring."""
    return inspect.cleandoc(source.__doc__ or "").split("\n\n")[0].replace("\n", " ")

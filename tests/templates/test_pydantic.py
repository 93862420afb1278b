"""Python types as forms."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, Optional, Union

import pydantic
import pytest
from json_schema_tools import accepts
from pydantic import BaseModel, Field

from fillengine.automata.machine import Machine
from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates import Verbatim, compile


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    pet: Literal["cat"] = "cat"
    meows: int = 0


class Dog(BaseModel):
    pet: Literal["dog"] = "dog"
    barks: float = 0


class Owner(BaseModel):
    """One of everything."""

    name: Annotated[str, Field(min_length=1)]
    born: datetime.date
    color: Color
    id: uuid.UUID
    price: decimal.Decimal
    pet: Annotated[Union[Cat, Dog], Field(discriminator="pet")]  # noqa: UP007 (models are read at run time)
    size: tuple[int, str]
    notes: Optional[str] = None  # noqa: UP045
    scores: dict[str, int] = {}
    level: Literal["a", 1, None] = None
    anything: Any = None


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


VALUE = {
    "name": "Ada",
    "born": "1815-12-10",
    "color": "red",
    "id": "123e4567-e89b-12d3-a456-426614174000",
    "price": 1.5,
    "pet": {"pet": "cat", "meows": 3},
    "size": [1, "m"],
    "notes": None,
    "scores": {"x": 1},
    "level": 1,
    "anything": [{}],
}


def test_a_model_allows_what_it_validates_and_gives_it_back() -> None:
    form = compile(Owner)
    text = json.dumps(VALUE)
    assert Machine(form.template).accepts(text.encode())
    owner = form.parse(text)
    assert isinstance(owner, Owner)
    assert owner.pet == Cat(meows=3)
    assert owner.born == datetime.date(1815, 12, 10)
    assert (form.title, form.source) == ("Owner", Owner)
    form.validate(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("born", "1815-13-10"),
        ("color", "green"),
        ("id", "x"),
        ("pet", {"meows": 3}),
        ("pet", {"pet": "cat", "barks": 1}),
        ("size", [1, "m", 2]),
        ("scores", {"x": "y"}),
        ("level", 2),
    ],
)
def test_a_model_does_not_allow_what_it_would_refuse(field: str, value: Any) -> None:
    assert not accepts(Owner, {**VALUE, field: value})


def test_a_model_may_contain_itself() -> None:
    form = compile(Tree)
    text = '{"value": 1, "children": [{"value": 2, "children": []}]}'
    assert Machine(form.template).accepts(text.encode())
    assert form.parse(text).children[0].value == 2
    assert form.title == "Tree"


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (int, 3, "3"),
        (list[int], [1], ["1"]),
        (dict[str, float], {"a": 1.5}, {"a": None}),
        (Literal["a", "b"], "a", "c"),
        (Optional[bool], None, 1),  # noqa: UP045
        (tuple[int, ...], [1, 2, 3], {}),
        (Annotated[int, Field(gt=2, multiple_of=3)], 3, 4),
        (datetime.timedelta, "PT1H", "1h"),
        (NewType("Count", int), 3, "3"),
    ],
)
def test_any_type_that_pydantic_knows_is_a_form(form: Any, good: Any, bad: Any) -> None:
    assert accepts(form, good)
    assert not accepts(form, bad)
    compile(form).parse(json.dumps(good))


def test_a_value_that_only_the_model_refuses_fails_validation() -> None:
    class Even(BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd")
            return n

    form = compile(Even)
    form.validate('{"n": 2}')
    with pytest.raises(pydantic.ValidationError, match="odd"):
        form.validate('{"n": 3}')


def test_a_type_without_a_schema_is_refused() -> None:
    class Handler(BaseModel):
        call: Callable[[int], int]

    with pytest.raises(UnsupportedForm, match="no JSON Schema for Handler"):
        compile(Handler)
    with pytest.raises(InvalidForm, match="pydantic cannot read"):
        compile(type("Plain", (), {}))


def test_verbatim_marks_a_field_and_the_items_of_a_list() -> None:
    class Note(BaseModel):
        who: Annotated[str, Verbatim]
        words: Annotated[list[str], Verbatim]
        free: str

    schema = compile(Note).schema
    assert isinstance(schema, dict)
    properties = schema["properties"]
    assert properties["who"]["x-fill"] == "verbatim"
    assert properties["words"]["items"]["x-fill"] == "verbatim"
    assert "x-fill" not in properties["free"]
    form = compile(Note, grounding="Ada met Charles.")
    machine = Machine(form.template)
    assert machine.accepts(b'{"who": "Ada", "words": ["Charles"], "free": "Bob"}')
    assert not machine.accepts(b'{"who": "Bob", "words": [], "free": ""}')
    assert not machine.accepts(b'{"who": "Ada", "words": ["Bob"], "free": ""}')


Tree.model_rebuild()

"""One of each kind of form, alone and inside others."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from pydantic import BaseModel

import fillengine as fe


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    count: int = 1


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Point(TypedDict, total=False):
    x: int
    unit: Literal["mm", "cm"]


class Query(BaseModel):
    sql: Annotated[str, fe.Grammar.named("sql-select")]
    tags: list[Annotated[str, fe.Template("#{tag}", tag=fe.Regex("[a-z]+"))]]
    mood: Annotated[str, fe.Choice(["good", "bad"])]


@dataclasses.dataclass
class Leg:
    start: str
    days: list[int]


LETTER = fe.Template(
    "Dear {name},\n\nyour order of {count} {thing} left on {day}.\n",
    name=str,
    count=int,
    thing=fe.Choice(["chairs", "tables"]),
    day=datetime.date,
)

# A form, a text of it and its value, and texts beside it.
CASES: dict[str, tuple[Any, str, Any, list[str]]] = {
    "regex": (fe.Regex(r"[A-Z]{2}-\d{4}"), "AB-1234", "AB-1234", ["", "AB-123", "xAB-1234", "AB-12345"]),
    "choice of texts": (fe.Choice(["yes", "no", "not sure"]), "no", "no", ["", "maybe", "n"]),
    "choice of values": (fe.Choice([1, 2.5, True, None]), "true", True, ["True", "3", '"1"']),
    "choice of an enum": (fe.Choice(Colour), "red", Colour.RED, ["RED", '"red"']),
    "choice by texts": (fe.Choice({"yes": True, "no": False}), "no", False, ["False"]),
    "choice of forms": (
        fe.Choice(["none", fe.Regex(r"\d+ kg"), Item]),
        '{"name": "x", "count": 3}',
        Item(name="x", count=3),
        ["kg", "{}", "any"],
    ),
    "grammar": (fe.Grammar('root ::= "(" root ")" | [a-z]+'), "((ab))", "((ab))", ["", "((ab)", "AB"]),
    "shipped grammar": (fe.Grammar.named("semver"), "1.2.3-rc.1", "1.2.3-rc.1", ["1.2", "v1.2.3"]),
    "grammar with forms": (
        fe.Grammar('root ::= "Order: " (item "\\n")+ due?', item=Item, due=datetime.date),
        'Order: {"name": "x", "count": 1}\n{"name": "y", "count": 2}\n2024-01-02',
        'Order: {"name": "x", "count": 1}\n{"name": "y", "count": 2}\n2024-01-02',
        ["Order: 2024-01-02", 'Order: {"name": "x"}', 'Order: {"name": "x"}\n"2024-01-02"'],
    ),
    "template": (
        LETTER,
        "Dear Ann Lee,\n\nyour order of 2 chairs left on 2024-02-29.\n",
        {"name": "Ann Lee", "count": 2, "thing": "chairs", "day": datetime.date(2024, 2, 29)},
        [
            "Dear ,\n\nyour order of 2 chairs left on 2024-02-29.\n",
            "Dear Ann,\n\nyour order of 2 stools left on 2024-02-29.\n",
            "Dear Ann,\n\nyour order of 2 chairs left on 2023-02-29.\n",
            'Dear "Ann",\n\nyour order of two chairs left on 2024-02-29.\n',
        ],
    ),
    "template with JSON": (
        fe.Template("{{{kind}}} {item} {sizes} {ok}", kind=Colour, item=Item, sizes=list[int], ok=bool),
        '{blue} {"name": "x", "count": 3} [1, 2] true',
        {"kind": Colour.BLUE, "item": Item(name="x", count=3), "sizes": [1, 2], "ok": True},
        ['{blue} {"name": "x", "count": 3} [1, 2] True', 'blue {"name": "x", "count": 3} [1, 2] true'],
    ),
    "template in a template": (
        fe.Template("{first}; {second}", first=LETTER, second=fe.Template("<{mark}>", mark=fe.Grammar.named("semver"))),
        "Dear A,\n\nyour order of 1 tables left on 2024-01-01.\n; <1.0.0>",
        {
            "first": {"name": "A", "count": 1, "thing": "tables", "day": datetime.date(2024, 1, 1)},
            "second": {"mark": "1.0.0"},
        },
        ["; <1.0.0>", "Dear A,\n\nyour order of 1 tables left on 2024-01-01.\n; <1.0>"],
    ),
    "rows of a table": (
        fe.Template(
            "| Part | Quantity |\n|---|---|\n{rows}\n",
            rows=fe.Many(fe.Template("| {part} | {quantity} |", part=fe.Regex("[^|\n]+"), quantity=int), 1, 3),
        ),
        "| Part | Quantity |\n|---|---|\n| Nut | 12 |\n| Bolt M6 | 7 |\n",
        {"rows": [{"part": "Nut", "quantity": 12}, {"part": "Bolt M6", "quantity": 7}]},
        ["| Part | Quantity |\n|---|---|\n\n", "| Part | Quantity |\n|---|---|\n" + "| a | 1 |\n" * 4],
    ),
    "many in one line": (fe.Many(fe.Regex("[a-z]+"), 0, separator=", "), "a, bc, d", ["a", "bc", "d"], ["a,b", "a, "]),
    "many without a separator": (fe.Many(Colour, 2, separator=""), "redblue", [Colour.RED, Colour.BLUE], ["red"]),
    "union in a template": (
        fe.Template("{value}!", value=Union[int, str, None]),  # noqa: UP007 (both spellings are read)
        "null!",
        {"value": None},
        ["!"],
    ),
    "compiled form in a template": (
        fe.Template("{item}!", item=fe.compile(Item, style="compact")),
        '{"name":"x","count":3}!',
        {"item": Item(name="x", count=3)},
        ['{"name": "x", "count": 3}!'],
    ),
    "recursion twice": (
        fe.Template("{one} {two}", one=Tree, two=Tree),
        '{"value": 1} {"value": 2, "children": [{"value": 3}]}',
        {"one": Tree(value=1), "two": Tree(value=2, children=[Tree(value=3)])},
        ['{"value": 1} {"value": 2, "children": [{}]}'],
    ),
    "forms in strings": (
        Query,
        '{"sql": "SELECT \\"a\\" FROM t WHERE b IN (SELECT 1 FROM c)", "tags": ["#x"], "mood": "bad"}',
        Query(sql='SELECT "a" FROM t WHERE b IN (SELECT 1 FROM c)', tags=["#x"], mood="bad"),
        ['{"sql": "DROP", "tags": [], "mood": "bad"}', '{"sql": "SELECT * FROM t", "tags": ["x"], "mood": "bad"}'],
    ),
    "int": (int, "-12", -12, ["1.5", '"1"']),
    "literal": (Literal["a", 1], "1", 1, ["2", "a"]),
    "list of models": (list[Item], '[{"name": "x"}]', [Item(name="x")], ["{}", '[{"count": 1}]']),
    "typed dict": (Point, '{"x": 1, "unit": "mm"}', {"x": 1, "unit": "mm"}, ['{"x": "1"}', '{"unit": "m"}']),
    "list of typed dicts": (list[Optional[Point]], '[{"x": 1}, null]', [{"x": 1}, None], ["[1]"]),  # noqa: UP045
    "dataclass": (Leg, '{"start": "Oslo", "days": [1]}', Leg("Oslo", [1]), ['{"start": "Oslo"}']),
    "union": (int | list[Item], '[{"name": "x"}]', [Item(name="x")], ["1.5"]),
}

Tree.model_rebuild()

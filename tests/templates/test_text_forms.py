"""Regex, Choice, Grammar, Template and Many, and each of them inside another."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_schema_tools import accepts as accepts_json
from pydantic import Field
from text_forms import CASES, LETTER, Colour, Item
from text_walks import machine_of, random_text

import fillengine as fe
from fillengine.automata.nodes import Pattern, Repeat, Words


def accepts(form: Any, text: str) -> bool:
    return machine_of(form).accepts(text.encode())


@pytest.mark.parametrize("name", CASES)
def test_a_form_takes_its_texts_and_gives_their_value(name: str) -> None:
    form, text, value, wrong = CASES[name]
    compiled = fe.compile(form)
    assert accepts(compiled, text)
    compiled.validate(text)
    assert compiled.parse(text) == value
    assert type(compiled.parse(text)) is type(value)
    assert compiled.source is form
    for other in wrong:
        assert not accepts(compiled, other), other
        if compiled.schema is None:  # pydantic reads "1" as an int, too
            with pytest.raises(ValueError):  # noqa: PT011 (of several kinds, and all of them are this)
                compiled.parse(other)


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_form_writes_has_a_value(name: str, seed: int) -> None:
    form = fe.compile(CASES[name][0])
    form.validate(random_text(machine_of(form), seed))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
@example(seed=0)
def test_the_values_of_a_template_fill_it_again(seed: int) -> None:
    form = fe.compile(LETTER)
    text = random_text(machine_of(form), seed)
    assert LETTER.text.format(**form.parse(text)) == text


def test_a_text_hole_ends_as_soon_as_it_can_and_others_take_what_they_can() -> None:
    form = fe.compile(fe.Template("{name}, {rest}", name=str, rest=str))
    assert form.parse("a, b, c") == {"name": "a", "rest": "b, c"}
    form = fe.compile(fe.Template("{count}{unit}", count=int, unit=fe.Regex("[0-9a-z]+")))
    assert form.parse("12cm") == {"count": 12, "unit": "cm"}
    assert form.parse("123") == {"count": 12, "unit": "3"}


def test_a_str_in_a_text_is_a_line_without_space_around_it() -> None:
    form = fe.Template("<{x}>", x=str)
    assert [accepts(form, f"<{x}>") for x in ("a", "a b", "é", "", " a", "a ", "a\nb", "a\tb")] == [True] * 3 + [
        False
    ] * 5
    form = fe.Template("<{x}>", x=Annotated[str, Field(min_length=2, max_length=3)])
    assert [accepts(form, f"<{x}>") for x in ("a", "ab", "abc", "abcd")] == [False, True, True, False]
    form = fe.Template("<{x}>", x=Annotated[str, Field(pattern="^[a-z]+$", max_length=3)])
    assert [accepts(form, f"<{x}>") for x in ("abc", "abcd", "aB")] == [True, False, False]


def test_a_long_list_is_read_without_recursion() -> None:
    form = fe.compile(fe.Many(fe.Template("- {what}", what=str)))
    assert form.parse("\n".join(f"- point {n}" for n in range(3000)))[-1] == {"what": "point 2999"}


def test_holes_say_where_they_are() -> None:
    form = fe.compile(
        fe.Template(
            "{a/b}".replace("a/b", "list"), list=fe.Many(fe.Template("{x} {y}", x=fe.Regex("a+"), y=list[Colour]))
        )
    )
    labels = {node.label for node in _nodes(form.template.root) if isinstance(node, Pattern | Repeat | Words)}
    assert labels == {"/list", "/list/*/x", "/list/*/y", "/list/*/y/*"}


def _nodes(node: Any) -> list[Any]:
    inner = [*getattr(node, "items", ()), *getattr(node, "options", ())]
    inner += [node.item] if isinstance(node, Repeat) else []
    return [node, *(found for child in inner for found in _nodes(child))]


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: fe.Regex(3), fe.InvalidForm, "a pattern is a str, this is int"),
    (lambda: fe.compile(fe.Regex("(a")), fe.InvalidForm, "column 3: a group is not closed"),
    (lambda: fe.compile(fe.Regex("(?=b)a")), fe.UnsatisfiableForm, "no text matches"),
    (lambda: fe.Choice([]), fe.InvalidForm, "without options"),
    (lambda: fe.Choice("yes"), fe.InvalidForm, "the options of a Choice are a list"),
    (lambda: fe.Choice(["1", 1]), fe.InvalidForm, "both written '1'"),
    (lambda: fe.Choice({1: "a"}), fe.InvalidForm, "the key 1 of a Choice is no text"),
    (lambda: fe.compile(fe.Choice(["a", object()])), fe.InvalidForm, "a form is a JSON Schema"),
    (lambda: fe.Grammar("no-such.gbnf"), fe.InvalidForm, "no-such.gbnf: cannot be read as a grammar file: No such"),
    (lambda: fe.Grammar("csv"), fe.InvalidForm, r"Grammar.named\('csv'\) is shipped"),
    (lambda: fe.Grammar.named("cvs"), fe.InvalidForm, "no grammar 'cvs' is shipped; there are: arithmetic, "),
    (lambda: fe.Grammar("root ::= a"), fe.InvalidForm, "the grammar, line 1, column 10: rule a is not defined"),
    (lambda: fe.Grammar('root ::= "a"', x=int), fe.InvalidForm, "the form x is never used"),
    (lambda: fe.Grammar('root ::= x\nx ::= "a"', x=int), fe.InvalidForm, "column 1: rule x is defined here and"),
    (lambda: fe.compile(fe.Grammar("root ::= x+", x=fe.Regex("a*"))), fe.InvalidForm, "the form x may be empty"),
    (lambda: fe.Grammar("root ::= <think>"), fe.UnsupportedForm, "line 1, column 10: <think> names a token"),
    (lambda: fe.Template("a {x"), fe.InvalidForm, "line 1, column 3: a single {; write {{"),
    (lambda: fe.Template("a\n b }"), fe.InvalidForm, "line 2, column 4: a single }; write }}"),
    (lambda: fe.Template("{x} {x}", x=int), fe.InvalidForm, "column 5: the hole {x} stands there a second time"),
    (lambda: fe.Template("\n{x}"), fe.InvalidForm, "line 2, column 1: nothing says what the hole {x} is; add x=str"),
    (lambda: fe.Template("a", x=int), fe.InvalidForm, "the template has no hole {x}"),
    (lambda: fe.Template("{x!r} {}", x=int), fe.InvalidForm, "{x!r} is no hole"),
    (lambda: fe.compile(fe.Template("{x}", x="red")), fe.InvalidForm, "the form is no JSON"),
    (lambda: fe.Many(int, 3, 2), fe.InvalidForm, "Many from 3 to 2 times"),
    (lambda: fe.compile(fe.Many(fe.Regex("a*"))), fe.InvalidForm, "the item of a Many may be empty"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "says"), WRONG, ids=[says for _, _, says in WRONG])
def test_a_wrong_form_says_what_and_where(make: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_a_grammar_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.gbnf"
    file.write_text("# Words.\nroot ::= word\n", encoding="utf-8")
    with pytest.raises(fe.InvalidForm, match=r"words\.gbnf, line 2, column 10: rule word is not defined"):
        fe.Grammar(file)
    file.write_text("# Words.\nroot ::= [a-z]+\n", encoding="utf-8")
    assert accepts(fe.Grammar(file), "abc")
    assert accepts(fe.Grammar(str(file)), "abc")


# --- Held to a document ------------------------------------------------------------------------------------------


def test_a_regex_is_held_to_what_stands_in_the_document() -> None:
    form = fe.compile(fe.Regex("[A-Z][a-z]+"), grounding="Ada met Charles.", ground="verbatim")
    assert [accepts(form, name) for name in ("Ada", "Charles", "Bob")] == [True, True, False]
    form = fe.compile(fe.Regex("[0-9]+"), grounding="Ada met Charles.", ground="verbatim")
    assert accepts(form, "42")


def test_the_holes_of_a_template_are_held_to_the_document() -> None:
    form = fe.Template("{name}, {day}, {size}, {item}", name=str, day=datetime.date, size=fe.Choice(["S"]), item=Item)
    held = fe.compile(form, grounding="Ada left on 3 May 2021, with a Box.", ground="verbatim")
    item = json.dumps({"name": "Box", "count": 3})
    assert accepts(held, f"Ada, 2021-05-03, S, {item}")
    assert not accepts(held, f"Bob, 2021-05-03, S, {item}")
    assert not accepts(held, f"Ada, 2021-05-04, S, {item}")
    assert not accepts(held, "Ada, 2021-05-03, S, " + json.dumps({"name": "Bag", "count": 3}))
    assert held.parse(f"Ada, 2021-05-03, S, {item}")["name"] == "Ada"
    marked = fe.Template("{name} {other}", name=Annotated[str, fe.Verbatim], other=str)
    assert accepts(fe.compile(marked, grounding="Ada"), "Ada Bob")
    assert not accepts(fe.compile(marked, grounding="Ada"), "Bob Ada")


def test_json_schemas_stay_json_inside_a_template() -> None:
    assert accepts(fe.Template("{x}", x={"type": "string"}), '"a"')
    assert not accepts(fe.Template("{x}", x={"type": "string"}), "a")
    assert accepts_json(Item, {"name": "x", "count": 1})

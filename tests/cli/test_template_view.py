"""`fillengine inspect`: what is shown of a template is what the template says."""

from __future__ import annotations

import pytest
from rich.console import Console

from fillengine import compile
from fillengine.automata.dfa import free_string, from_regex
from fillengine.automata.nodes import Choice, Except, Literal, Pattern, Repeat, Rule, Sequence, Template, Words
from fillengine.cli.template_view import view, visible
from fillengine.templates.containers import Part, object_node
from fillengine.templates.style import layout

STRING = Pattern(free_string())
NUMBER = Pattern(from_regex("[0-9]+"))


def shown(root, rules=None) -> list[str]:
    """The lines of all trees, without their guides."""
    console = Console(width=120, color_system=None)
    trees, _ = view(Template(root, rules or {}))
    with console.capture() as capture:
        for tree in trees:
            console.print(tree)
    return [line.strip("│├└─ ") for line in capture.get().splitlines()]


def part(name: str, hole, *, is_required: bool = False) -> Part:
    return Part((f'"{name}": '.encode(), hole), is_required)


def test_asserted_text_and_the_hole_behind_it_share_a_line():
    node = Sequence((Literal(b'{"a": '), STRING, Literal(b', "b": '), NUMBER, Literal(b"}")))
    assert shown(node) == ["form", '{"a": ⟨string⟩', ', "b": ⟨[0-9]+⟩', "}"]


def test_small_choices_stay_in_the_line():
    node = Sequence((Literal(b"x"), Choice((Literal(b"null"), STRING))))
    assert shown(node) == ["form", "x( null | ⟨string⟩ )"]


def test_large_choices_become_branches():
    one = Sequence((Literal(b"["), STRING, Literal(b"]")))
    assert shown(Choice((one, NUMBER))) == ["form", "one of", "1", "[⟨string⟩", "]", "⟨[0-9]+⟩"]


def test_long_enums_are_cut_with_their_number():
    node = Words(tuple(f'"{n}"'.encode() for n in range(10, 60)))
    assert shown(node) == ["form", '⟨"10" | "11" | "12" | "13" | "14" | "15" | … 50 in all⟩']


def test_repeats_say_how_often_and_what_stands_between():
    node = Sequence((Literal(b"["), Repeat(STRING, 0, 5, Literal(b", ")), Literal(b"]")))
    assert shown(node) == ["form", "[", "at most 5 times, ', ' between", "⟨string⟩", "]"]


def test_recursion_is_shown_by_name_and_ends():
    tree = Sequence((Literal(b"("), Repeat(Rule("tree"), 0, None), Literal(b")")))
    assert shown(Rule("tree"), {"tree": tree}) == [
        "form tree",
        "(",
        "any number of times",
        "↻ tree",
        ")",
    ]


def test_optional_properties_are_shown_one_by_one():
    parts = [part(name, Pattern(free_string())) for name in "abc"]
    node = object_node(parts, None, 0, None, layout("spaced", 0))
    assert shown(node) == [
        "form",
        "{",
        "optional",
        '"a": ⟨string⟩',
        "optional",
        ', "b": ⟨string⟩',
        "optional",
        ', "c": ⟨string⟩',
        "}",
    ]


def test_optional_between_required_properties():
    parts = [
        part("a", Pattern(free_string()), is_required=True),
        part("b", Pattern(free_string())),
        part("c", Pattern(free_string()), is_required=True),
    ]
    node = object_node(parts, None, 0, None, layout("spaced", 0))
    assert shown(node) == ["form", '{"a": ⟨string⟩', "optional", ', "b": ⟨string⟩', ', "c": ⟨string⟩', "}"]


@pytest.mark.parametrize("style", ["spaced", "compact", "indented", "any"])
@pytest.mark.parametrize("required", [(), (0,), (39,), (0, 20), tuple(range(0, 40, 2))])
def test_many_optional_properties_take_lines_in_proportion(style, required):
    parts = [part(f"p{n}", Pattern(free_string()), is_required=n in required) for n in range(40)]
    assert len(shown(object_node(parts, None, 0, None, layout(style, 0)))) < 400


def test_parts_that_are_used_twice_are_shown_once():
    address = Sequence((Literal(b'{"street": '), STRING, Literal(b', "town": '), Pattern(free_string()), Literal(b"}")))
    node = Sequence((Literal(b'{"from": '), address, Literal(b', "to": '), address, Literal(b"}")))
    assert shown(node) == [
        "form",
        '{"from": ↻ part 1',
        ', "to": ↻ part 1',
        "}",
        "part 1",
        '{"street": ⟨string⟩',
        ', "town": ⟨string⟩',
        "}",
    ]


def test_counts_are_of_what_is_shown():
    node = Sequence((Literal(b'{"a": '), STRING, Literal(b', "b": '), Words((b"1", b"2")), Literal(b"}")))
    _, counts = view(Template(node))
    assert counts.literals == [b'{"a": ', b', "b": ', b"}"]
    assert (counts.num_holes, counts.num_choices, counts.num_repeats) == (1, 1, 0)


def test_control_characters_are_made_visible():
    assert visible(b'{\n  "a"\t') == '{\\n  "a"\\t'
    assert visible("é".encode()) == "é"


def test_members_in_any_order_are_listed_with_what_they_need():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "null"}},
        "required": ["a"],
        "additionalProperties": {"type": "string"},
        "minProperties": 2,
    }
    lines = shown(compile(schema, additional="schema").template.root)
    assert any("in any order, at least 2 members" in line for line in lines)
    assert any("required" in line for line in lines)
    assert any("(each once)" in line for line in lines)


def test_a_value_with_exclusions_is_one_hole():
    assert "⟨what the schema leaves after what it excludes⟩" in shown(Except(STRING, (NUMBER,), {}))[1]

"""GBNF grammars, against a small backtracking matcher and the machine."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Choice, Node, Pattern, Repeat, Rule, Sequence, Template
from fillengine.errors import FillError, InvalidForm, UnsatisfiableForm, UnsupportedForm
from fillengine.templates.expression import Call, Chars, Concat, Either, Text, Tree
from fillengine.templates.expression import Repeat as Times
from fillengine.templates.gbnf import Grammar, nodes, parse, regular


def ends(grammar: Grammar, tree: Tree, text: str, start: int) -> set[int]:
    """Where a match of `tree` from `start` can end."""
    match tree:
        case Text(word):
            return {start + len(word)} if text.startswith(word, start) else set()
        case Chars(ranges):
            inside = start < len(text) and any(low <= ord(text[start]) <= high for low, high in ranges)
            return {start + 1} if inside else set()
        case Concat(items):
            places = {start}
            for item in items:
                places = {end for place in places for end in ends(grammar, item, text, place)}
            return places
        case Either(options):
            return {end for option in options for end in ends(grammar, option, text, start)}
        case Times(item, low, high):
            found: set[int] = {start} if low == 0 else set()
            places = {start}
            for count in range(1, (low + len(text) + 1 if high is None else high) + 1):
                places = {end for place in places for end in ends(grammar, item, text, place)}
                if not places:
                    break
                if count >= low:
                    found |= places
            return found
        case Call(name):
            return ends(grammar, grammar.rules[name].body, text, start)
    raise AssertionError(tree)


def fits(grammar: Grammar, text: str) -> bool:
    return len(text) in ends(grammar, grammar.rules["root"].body, text, 0)


def accepts(template: Template, text: str) -> bool:
    machine = Machine(template)
    state = machine.advance(machine.start, text.encode())
    return state is not None and state.is_accepting


def repeats(template: Template) -> list[Repeat]:
    found: list[Repeat] = []
    todo: list[Node] = [template.root, *template.rules.values()]
    for node in todo:
        if isinstance(node, Repeat):
            found.append(node)
            todo.append(node.item)
        elif isinstance(node, Sequence):
            todo += node.items
        elif isinstance(node, Choice):
            todo += node.options
    return found


_ATOMS = st.sampled_from(['"a"', '"b"', '""', "[ab]", "[^a]", '"é"', "[à-ÿ]", "."])


def _bodies(atoms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        atoms,
        lambda parts: st.one_of(
            st.tuples(parts, parts).map(" ".join),
            st.tuples(parts, parts).map(lambda pair: f"({pair[0]} | {pair[1]})"),
            st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}"])).map(
                lambda pair: f"({pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=5,
    )


FLAT = _bodies(_ATOMS).map(lambda body: f"root ::= {body}")
_INNER = st.just('"(" x ")"')
DEEP = st.tuples(_bodies(_ATOMS | _INNER | st.just('"(" x? ")"')), _bodies(_ATOMS | _INNER)).map(
    lambda pair: f'root ::= {pair[0]} x\nx ::= {pair[1]} | "()"'
)
TEXTS = st.lists(st.text(alphabet="ab()é", max_size=6), min_size=1, max_size=20)


@settings(deadline=None, max_examples=150)
@given(FLAT, TEXTS)
@example('root ::= "a" ( "" | "b" "c"? )*', ["", "a", "abcb", "abbc", "abcc"])
def test_the_automaton_accepts_what_the_grammar_derives(source: str, texts: list[str]) -> None:
    grammar = parse(source, source="test")
    automaton = regular(grammar)
    for text in texts:
        assert automaton.matches(text.encode()) == fits(grammar, text), (source, text)


@settings(deadline=None, max_examples=150)
@given(DEEP | FLAT, TEXTS)
@example('root ::= x x\nx ::= ("(" x ")" | "a")* | "()"', ["", "a(a)", "((", "()a()"])
def test_the_template_accepts_what_the_grammar_derives(source: str, texts: list[str]) -> None:
    try:
        grammar = parse(source, source="test")
    except InvalidForm:
        assume(False)
    template = nodes(grammar)
    for text in texts:
        assert accepts(template, text) == fits(grammar, text), (source, text)


@settings(deadline=None, max_examples=60)
@given(DEEP)
@example('root ::= x*\nx ::= y y | "(" x ")"\ny ::= ("a" x)? ')
def test_a_repetition_in_a_template_has_no_empty_item(source: str) -> None:
    try:
        template = nodes(parse(source, source="test"))
    except InvalidForm:
        assume(False)
    for repeat in repeats(template):
        assert not accepts(Template(repeat.item, template.rules), "")


def test_a_small_grammar_without_recursion_is_one_pattern() -> None:
    template = nodes(parse('root ::= "[" item ("," item)* "]"\nitem ::= [0-9]+', source="test"))
    assert isinstance(template.root, Pattern)
    assert not template.rules


def test_recursion_becomes_rules() -> None:
    template = nodes(parse('root ::= "(" root ")" | [a-z]+', source="test"))
    assert isinstance(template.root, Rule)
    assert [accepts(template, text) for text in ("abc", "((a))", "((a)", "()")] == [True, True, False, False]


def test_escapes_stand_for_their_characters() -> None:
    automaton = regular(parse(r'root ::= "\n\r\t\x41\u00e9\U0001F432\\\"\[\]" [\]\-\\^\x30-\x39]', source="test"))
    for last in "]-\\^5":
        assert automaton.matches(f'\n\r\tAé🐲\\"[]{last}'.encode())
    assert not automaton.matches('\n\r\tAé🐲\\"[]x'.encode())


def test_rules_may_go_over_several_lines_with_comments() -> None:
    source = '# head\nroot ::=\n  "a" | # first\n  "b" {2}\n  | other\n\nother ::= ( "c"\n  "d" )'
    automaton = regular(parse(source, source="test"))
    assert [automaton.matches(word) for word in (b"a", b"bb", b"cd", b"b")] == [True, True, True, False]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("root ::= a", "line 1, column 10: rule a is not defined"),
        ('root ::= "a"\nb ::= "c"', "line 2, column 1: rule b is never used"),
        ('root ::= "a"\nroot ::= "c"', "line 2, column 1: rule root is defined in line 1 already"),
        ('root ::= "a" root | a\na ::= "x"? root', "left recursion root -> a -> root"),
        ('root ::= "b" | root "a"', "line 1, column 16: left recursion root -> root"),
        ('root ::= "b" | x "a"\nx ::= y\ny ::= ("c" | root) "d"', "line 3, column 14: left recursion root -> x -> y"),
        ('root ::= e e root "a" | "b"\ne ::= ""', "line 1, column 14: left recursion root -> root"),
        ('root ::= (e | "c"*){2,} root | "b"\ne ::= [ ]?', "line 1, column 25: left recursion root -> root"),
        ('x ::= "a"', "no rule named root"),
        ('root ::= ("a"', "unexpected end"),
        ('root ::= "a" )', "line 1, column 14: unexpected ')'"),
        ('root ::= "\\q"', "line 1, column 11: unknown escape \\q"),
        ("root ::= [z-a]", "line 1, column 11: range z-a out of order"),
        ('root ::= "a"{3,2}', "line 1, column 13: repetition {3,2} out of order"),
    ],
)
def test_a_wrong_grammar_says_what_and_where(source: str, says: str) -> None:
    with pytest.raises(InvalidForm) as caught:
        parse(source, source="test.gbnf")
    assert str(caught.value).startswith("test.gbnf, line ")
    assert says in str(caught.value)


def test_recursion_is_no_regular_language() -> None:
    with pytest.raises(UnsupportedForm, match="line 1, column 14: recursion root -> root"):
        regular(parse('root ::= "(" root ")" | "a"', source="test"))


def test_a_grammar_without_any_finite_text_is_unsatisfiable() -> None:
    with pytest.raises(UnsatisfiableForm):
        nodes(parse('root ::= "a" root', source="test"))


def test_options_without_a_finite_text_are_left_out() -> None:
    template = nodes(parse('root ::= "a" | "b" x\nx ::= "c" x', source="test"))
    machine = Machine(template)
    assert accepts(template, "a")
    assert machine.advance(machine.start, b"b") is None


def test_a_huge_repetition_is_refused_by_name_in_no_time() -> None:
    start = time.process_time()
    with pytest.raises(UnsupportedForm, match=r"repetition \{2000000000,2147483647\}"):
        parse('root ::= "a"{2000000000,2147483647}', source="test")
    assert time.process_time() - start < 1


def test_a_large_repetition_is_counted_by_the_machine_and_refused_for_tables() -> None:
    grammar = parse("root ::= [a-z]{2,1000000}", source="test")
    template = nodes(grammar)
    assert isinstance(template.root, Repeat)
    assert [accepts(template, text) for text in ("a", "ab", "a" * 50)] == [False, True, True]
    with pytest.raises(UnsupportedForm, match=r"repetition \{2,1000000\} in rule root"):
        regular(grammar)


def test_a_grammar_that_doubles_is_refused_in_no_time() -> None:
    rules = "\n".join(f"a{i} ::= a{i + 1} a{i + 1}" for i in range(40))
    start = time.process_time()
    with pytest.raises(FillError):
        regular(parse(f'root ::= a0\n{rules}\na40 ::= "x"', source="test"))
    assert time.process_time() - start < 2


def test_the_field_cases_hold(shared: Path) -> None:
    lines = (shared / "data/field-cases/cases.jsonl").read_text("utf-8").splitlines()
    cases = [case for case in map(json.loads, lines) if case["kind"] == "grammar"]
    assert cases
    for case in cases:
        grammar = parse(case["input"]["gbnf"], source=case["id"])
        template = nodes(grammar)
        assert all(accepts(template, text) for text in case["accept"]), case["id"]
        assert not any(accepts(template, text) for text in case["reject"]), case["id"]

"""Failures that users of constrained decoding have reported, each reduced to a small case (see its README).

The cases of kind `schema`, `regex`, `grammar` and `performance`, and those of `tokenizer`, `runtime` and `api`
that need no model; `tests/generation/test_runtime_cases.py` has those that do.
"""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from field_cases import case, of_kind

from fillengine.automata.machine import Machine
from fillengine.automata.mask import Masks
from fillengine.automata.nodes import Pattern, Template
from fillengine.automata.vocabulary import Vocabulary
from fillengine.errors import BudgetTooSmall, UnsatisfiableForm, UnsupportedForm
from fillengine.fill import Constraint, Session
from fillengine.fill.tokenizer import Tokenizer
from fillengine.templates import compile, gbnf, regex
from fillengine.templates.gbnf_syntax import parse


def machine(schema: Any, **options: Any) -> Machine:
    return Machine(compile(schema, style="compact", additional="schema", **options).template)


def check(automaton: Machine, accept: Iterable[str], reject: Iterable[str]) -> None:
    assert [text for text in accept if not automaton.accepts(text.encode())] == [], "to be accepted"
    assert [text for text in reject if automaton.accepts(text.encode("utf-8", "surrogatepass"))] == [], "to be rejected"


@pytest.mark.parametrize("name", of_kind("schema"))
def test_a_schema_of_the_field_allows_and_forbids_what_it_should(name: str) -> None:
    row = case(name)
    schema, accept, reject = row["input"]["schema"], row["accept"], row["reject"]
    if not accept:
        with pytest.raises(UnsatisfiableForm):
            compile(schema, additional="schema")
        return
    check(machine(schema), accept, reject)
    check(Machine(compile(schema, style="compact").template), (), reject)
    spaced = Machine(compile(schema, additional="schema").template)
    plain = [json.dumps(json.loads(text), ensure_ascii=False) for text in accept]
    check(spaced, plain, ())


def test_the_order_of_definitions_is_of_no_account() -> None:
    row = case("fc-009")
    schema = copy.deepcopy(row["input"]["schema"])
    for names in (("A", "C", "E"), ("E", "A", "C"), ("E", "C", "A")):
        schema["$defs"] = {name: row["input"]["schema"]["$defs"][name] for name in names}
        check(machine(schema), row["accept"], row["reject"])


@pytest.mark.parametrize("name", of_kind("regex"))
def test_a_regular_expression_of_the_field_matches_what_it_should(name: str) -> None:
    row = case(name)
    compiled = {"search": regex.search, "fullmatch": regex.fullmatch}[row["input"]["mode"]](row["input"]["regex"])
    check(Machine(Template(Pattern(compiled))), row["accept"], row["reject"])


def test_every_cut_of_a_character_into_tokens_can_be_walked() -> None:
    row = case("fc-021")
    pieces: list[bytes | None] = [bytes.fromhex(piece) for piece in row["input"]["toy_vocab_hex"]]
    vocabulary = Vocabulary([*pieces, None], eos_ids=[len(pieces)])
    expression = Machine(Template(Pattern(regex.fullmatch(row["input"]["regex"]))), vocabulary)
    masks = Masks(expression, Tokenizer(vocabulary, None).leaf_masks)
    for text in ("😨", "😀"):
        for ids in cuts(text.encode(), pieces):
            state = expression.start
            for token_id in ids:
                assert masks.of(state).unpacked(vocabulary.size)[token_id]
                after = expression.advance(state, pieces[token_id] or b"")
                assert after is not None
                state = after
            assert masks.of(state).unpacked(vocabulary.size)[len(pieces)], "the end is allowed behind a character"


def cuts(text: bytes, pieces: list[bytes | None]) -> list[list[int]]:
    if not text:
        return [[]]
    return [
        [token_id, *rest]
        for token_id, piece in enumerate(pieces)
        if piece and text.startswith(piece)
        for rest in cuts(text[len(piece) :], pieces)
    ]


@pytest.mark.parametrize("name", of_kind("grammar"))
def test_a_grammar_of_the_field_matches_what_it_should(name: str) -> None:
    row = case(name)
    check(Machine(gbnf.nodes(parse(row["input"]["gbnf"], source=name))), row["accept"], row["reject"])


def scripted(session: Session, preferred: Iterable[int], limit: int = 20) -> str:
    """What is written where, of the allowed tokens, the earliest in `preferred` is chosen each time."""
    order = list(preferred)
    for _ in range(limit):
        if session.is_finished:
            return session.text
        allowed = session.allowed()
        session.advance(next(token_id for token_id in order if allowed[token_id]))
    raise AssertionError("it does not come to an end")


def toy(pieces: list[str], eos_ids: list[int], special: Iterable[int] = ()) -> Tokenizer:
    control = {*eos_ids, *special}
    tokens = [None if number in control else piece.encode() for number, piece in enumerate(pieces)]
    return Tokenizer(Vocabulary(tokens, eos_ids=eos_ids), None)


def test_tokens_without_text_are_never_allowed() -> None:
    given = case("fc-025")["input"]
    tokenizer = toy(given["toy_vocab"], given["eos_ids"])
    session = Constraint(compile(given["schema"]), tokenizer).session()
    assert scripted(session, [0, 4, *range(6)]) == '"xy"'


def test_control_tokens_are_no_text() -> None:
    given = case("fc-026")["input"]
    tokenizer = toy(given["toy_vocab"], given["eos_ids"], given["special_ids"])
    session = Constraint(compile(given["schema"]), tokenizer).session()
    session.advance(0)
    session.advance(1)
    assert scripted(session, [2, 3, 0, 4, 1]) == '"hi"'


def test_every_declared_end_is_allowed_where_the_text_is_whole_and_nowhere_else() -> None:
    given = case("fc-027")["input"]
    ends = sorted({given["config_eos"], *given["generation_config_eos"], given["tokenizer_eos"]})
    tokenizer = toy([*"0123456789", "<10>", "<11>", "<12>"], ends)
    template = Template(Pattern(regex.fullmatch(given["regex"])))
    session = Constraint(template, tokenizer).session()
    assert not session.allowed()[ends].any()
    session.advance(7)
    assert session.allowed()[ends].all()
    assert scripted(session, [11, 12, 10]) == "7"


def test_the_blank_of_a_first_piece_is_a_byte_like_any_other() -> None:
    given = case("fc-028")["input"]
    pieces = [piece.replace(given["space_marker"], " ") for piece in given["toy_vocab"]]
    tokenizer = toy(pieces, [10])
    for style, expected in (("compact", '{"a":1}'), ("spaced", '{"a": 1}')):
        constraint = Constraint(compile(given["schema"], style=style), tokenizer)  # type: ignore[arg-type]
        session = constraint.session()
        assert np.flatnonzero(session.allowed()).tolist() == [1], "no blank before the text"
        text = scripted(session, range(11))
        assert text == expected
        assert constraint.accepts(text)


def test_a_text_that_is_out_of_tokens_is_whole_or_was_refused() -> None:
    given = case("fc-029")["input"]
    pieces = ['{"s', '": ', '"}', "a", '"', "<eos>", "}"]
    tokenizer = toy(pieces, [5])
    form = compile(given["schema"])
    constraint = Constraint(form, tokenizer)
    text = scripted(constraint.session(max_tokens=given["max_tokens"]), [3, 0, 1, 4, 2, 6])
    form.validate(text)
    with pytest.raises(BudgetTooSmall):
        constraint.session(max_tokens=2)


@pytest.mark.parametrize("number", range(1, 4))
def test_a_keyword_is_enforced_or_refused_and_never_passed_over(number: int) -> None:
    schema = case("fc-039")["input"]["calls"][number]["schema"]
    wrong = {"if": {"a": 1}, "contains": ["x"], "uniqueItems": [1, 1]}
    right: dict[str, Any] = {"if": {"a": 1, "b": 2}, "contains": ["x", 1], "uniqueItems": [1, 2]}
    refusal = None
    try:
        automaton = Machine(compile(schema, additional="schema").template)
    except UnsupportedForm as error:
        refusal = error
    if refusal is not None:
        assert refusal.pointer == f"/{refusal.keyword}"
        return
    keyword = next(key for key in wrong if key in schema)
    assert not automaton.accepts(json.dumps(wrong[keyword]).encode())
    assert automaton.accepts(json.dumps(right[keyword]).encode())


@pytest.mark.parametrize("name", [name for name in of_kind("performance") if name not in ("fc-036",)])
def test_a_large_schema_of_the_field_allows_and_forbids_what_it_should(name: str) -> None:
    row = case(name)
    tracemalloc.start()
    automaton = machine(row["input"]["schema"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000, "bytes"
    check(automaton, row["accept"], [text for text in row["reject"] if text[:1] in "{[,"])


def test_a_repetition_of_thousands_of_millions_is_counted_or_refused() -> None:
    given = case("fc-036")["input"]
    with pytest.raises(UnsupportedForm, match="2000000000"):
        gbnf.nodes(parse(given["gbnf"], source="fc-036"))
    tracemalloc.start()
    machine(given["also_schema"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000, "bytes"

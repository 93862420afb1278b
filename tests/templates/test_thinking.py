"""A section for thinking stands before the form, and is closed in time."""

from __future__ import annotations

from typing import Any

import pytest
from chat_templates import MARKED_LIST, TAGGED_JSON, TOKENS
from hypothesis import example, given, settings
from hypothesis import strategies as st
from row_runs import HashModel, run
from vocabularies import WithEnd, byte_level_tokenizer

from fillengine.errors import FormError
from fillengine.fill import DEFAULT_GUARD, Constraint, Row
from fillengine.fill.sources import usual_sources
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.templates import Thinking, Tools, compile
from fillengine.templates.chat import ChatTemplate

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
FORM = compile(Thinking(SCHEMA, end="</think>\n\n", start="<think>\n"))
TOOL = {"name": "stop", "parameters": {"type": "object", "properties": {}}}


def with_markers() -> Any:
    inner = byte_level_tokenizer()
    inner.add_special_tokens(["<think>", "</think>"])
    return read_tokenizer(WithEnd(inner))


PLAIN, MARKED = read_tokenizer(WithEnd(byte_level_tokenizer())), with_markers()
CHAT = ChatTemplate(TAGGED_JSON, TOKENS, frozenset(["<think>", "</think>"]))


def test_what_was_thought_is_told_from_the_value() -> None:
    text = '<think>\nA </thin> tag, {"ok": false}?\n</think>\n\n{"ok": true}'
    assert FORM.parse(text) == {"ok": True}
    assert FORM.thoughts is not None
    assert FORM.thoughts(text) == 'A </thin> tag, {"ok": false}?\n'
    assert [text[place.begin : place.end] for place in FORM.places(text)] == ["true"]
    assert Constraint(FORM, PLAIN).accepts(text)
    assert not Constraint(FORM, PLAIN).accepts('<think>\nA </think> tag\n</think>\n\n{"ok": true}')


def test_the_markers_are_learnt_from_the_chat_template() -> None:
    form = compile(Thinking(Tools([TOOL], "required", chat_template=CHAT), chat_template=CHAT))
    call = '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>'
    marked = f"\udcff<think>\udcff\nSo.\n\udcff</think>\udcff\n\n{call}"
    assert Constraint(form, MARKED).machine.accepts(marked.encode("utf-8", "surrogateescape"))
    assert form.parse(marked).calls[0].name == "stop"
    assert form.thoughts is not None
    assert form.thoughts(marked) == "So."
    assert form.prompt is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Thinking(SCHEMA, end=" "), "nothing closes the section"),
        (lambda: Thinking(SCHEMA, max_tokens=-1), "max_tokens is -1"),
        (lambda: compile(Thinking(SCHEMA, chat_template=ChatTemplate(MARKED_LIST, TOKENS))), "does not write what"),
        (lambda: compile(Thinking(SCHEMA)), "does not write what"),
    ],
)
def test_what_cannot_be_a_section_is_said(make: Any, message: str) -> None:
    with pytest.raises(FormError, match=message):
        make()


FORMS = [
    (Constraint(form, tokenizer), form, limit)
    for tokenizer, chat in ((PLAIN, None), (MARKED, CHAT))
    for limit in (None, 0, 3, 20)
    for form in (compile(Thinking(SCHEMA, end=None if chat else "</think>", max_tokens=limit, chat_template=chat)),)
]


@settings(max_examples=40, deadline=None)
@example(which=7, seed=219, extra=23, is_guarded=False)
@given(
    which=st.integers(0, len(FORMS) - 1),
    seed=st.integers(0, 1000),
    extra=st.integers(0, 60),
    is_guarded=st.booleans(),
)
def test_thinking_closes_and_has_the_same_tokens_however_filled(
    which: int, seed: int, extra: int, *, is_guarded: bool
) -> None:
    constraint, form, limit = FORMS[which]

    def row(fill: Any) -> Row:
        guard = DEFAULT_GUARD if is_guarded else None
        session = constraint.session(max_tokens=constraint.fewest_tokens + extra, guard=guard)
        return Row(session, fill=fill, sources=usual_sources())

    plain = row("off")
    expected = run(plain, HashModel(seed, constraint.tokenizer))
    assert form.parse(plain.session.raw) in ({"ok": True}, {"ok": False})
    for fill in ("assert", "auto"):
        assert run(row(fill), HashModel(seed, constraint.tokenizer)) == expected
    if limit is not None:
        # Only what closes the section comes on top.
        assert form.thoughts is not None
        thought = form.thoughts(plain.session.raw).encode()
        begin = len(b"\xff<think>\xff\n") if constraint.tokenizer is MARKED else 0
        tokens = [constraint.vocabulary.tokens[token_id] or b"" for token_id in expected]
        offsets = [sum(map(len, tokens[:number])) for number in range(len(tokens))]
        assert sum(begin <= offset < begin + len(thought) for offset in offsets) <= limit + 3

"""A session writes valid texts only, always closes, and depends on its tokens alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from templates_strategy import templates
from vocabularies import WithEnd, byte_level_tokenizer

from fillengine.automata import dfa
from fillengine.automata.nodes import Choice, Literal, Pattern, Repeat, Sequence, Template, Words
from fillengine.errors import BudgetTooSmall, TokenRejected
from fillengine.fill import Constraint, Guard, Session
from fillengine.fill.tokenizer import read_tokenizer

TOKENIZER = read_tokenizer(WithEnd(byte_level_tokenizer()))
TEXT = dfa.free_string()
PERSON = Template(
    Sequence(
        (
            Literal(b'{"name": '),
            Pattern(TEXT, label="/name"),
            Literal(b', "sure": '),
            Choice((Literal(b"true"), Literal(b"false"))),
            Literal(b', "tags": ['),
            Repeat(Pattern(TEXT, label="/tags/*"), 0, None, Literal(b", "), label="/tags"),
            Literal(b"]}"),
        )
    )
)


def ids(text: str) -> list[int]:
    assert TOKENIZER.encoder is not None
    return TOKENIZER.encoder.encode(text)


def write(session: Session, text: str) -> None:
    for token_id in ids(text):
        session.advance(token_id)


def walk(session: Session, data: st.DataObject, *, limit: int = 400) -> None:
    """Choose allowed tokens at random until the session is finished."""
    for _ in range(limit):
        if session.is_finished:
            return
        session.advance(data.draw(st.sampled_from(session.mask().token_ids(TOKENIZER.vocabulary.size).tolist())))
    raise AssertionError("the session went past its budget")


@settings(max_examples=150, deadline=None)
@given(template=templates(), data=st.data())
def test_every_walk_ends_within_the_budget_with_a_whole_text(template: Template, data: st.DataObject) -> None:
    constraint = Constraint(template, TOKENIZER)
    budget = constraint.fewest_tokens + data.draw(st.integers(0, 12))
    session = constraint.session(max_tokens=budget)
    walk(session, data)
    assert session.is_complete
    assert session.num_tokens <= budget
    assert constraint.machine.accepts(session.data)


@settings(max_examples=100, deadline=None)
@given(template=templates(), data=st.data())
def test_forced_tokens_are_the_only_allowed_ones(template: Template, data: st.DataObject) -> None:
    constraint = Constraint(template, TOKENIZER)
    session = constraint.session(max_tokens=constraint.fewest_tokens + 10)
    while not session.is_finished:
        for token_id in session.forced():
            assert session.mask().token_ids(TOKENIZER.vocabulary.size).tolist() == [token_id]
            session.advance(token_id)
        if session.is_finished:
            break
        session.advance(data.draw(st.sampled_from(session.mask().token_ids(TOKENIZER.vocabulary.size).tolist())))
    assert session.is_complete


@settings(max_examples=150, deadline=None)
@given(template=templates(), data=st.data())
def test_what_is_allowed_is_known_without_a_mask(template: Template, data: st.DataObject) -> None:
    constraint = Constraint(template, TOKENIZER)
    budget = data.draw(st.none() | st.integers(0, 12).map(lambda more: constraint.fewest_tokens + more))
    session = constraint.session(
        max_tokens=budget, guard=data.draw(st.sampled_from([None, Guard(repeats=2, min_bytes=4)]))
    )
    for _ in range(12):
        if session.is_finished:
            break
        size = TOKENIZER.vocabulary.size
        allowed = [token_id for token_id in range(-1, size + 1) if session.allows(token_id)]
        assert allowed == session.mask().token_ids(size).tolist()
        assert session.mask().single in (None, *allowed)
        single = session.mask().single
        if single is not None and single not in TOKENIZER.vocabulary.eos_ids and budget is None:
            assert session.forced()[:1] == [single]
        session.advance(data.draw(st.sampled_from(allowed)))


@settings(max_examples=100, deadline=None)
@given(template=templates(), data=st.data())
def test_a_fork_and_its_origin_do_not_touch_each_other(template: Template, data: st.DataObject) -> None:
    constraint = Constraint(template, TOKENIZER)
    session = constraint.session(max_tokens=constraint.fewest_tokens + 8, guard=Guard())
    steps = data.draw(st.integers(0, 4))
    for _ in range(steps):
        if session.is_finished:
            break
        session.advance(data.draw(st.sampled_from(session.mask().token_ids(TOKENIZER.vocabulary.size).tolist())))
    before = (session.token_ids, session.data, session.is_finished)
    walk(session.fork(), data)
    assert (session.token_ids, session.data, session.is_finished) == before
    replayed = constraint.session(max_tokens=constraint.fewest_tokens + 8, guard=Guard())
    for token_id in session.token_ids:
        replayed.advance(token_id)
    if not session.is_finished:
        assert replayed.mask().bits.tolist() == session.mask().bits.tolist()


def test_the_tokenizers_own_tokens_of_a_valid_text_are_always_allowed() -> None:
    constraint = Constraint(PERSON, TOKENIZER)
    for text in (
        '{"name": "Ada", "sure": true, "tags": []}',
        '{"name": "", "sure": false, "tags": ["", "a"]}',
        '{"name": "é\\n😀 ab", "sure": true, "tags": [" ", "12", "}"]}',
        '{"name": ",", "sure": true, "tags": ["\\"", "-", "."]}',
        '{"name": ":", "sure": false, "tags": ["]"]}',
    ):
        session = constraint.session()
        write(session, text)
        assert session.is_complete
        assert session.text == text


def test_scaffolding_is_forced_as_the_tokenizer_writes_it() -> None:
    session = Constraint(PERSON, TOKENIZER).session()
    forced = session.forced()
    assert forced == ids('{"name":')
    for token_id in forced:
        session.advance(token_id)
    # The space and the quote are left open, since a text may begin with what joins them.
    assert session.forced() == []
    assert session.likely() == ids(' "')


def test_a_token_that_is_not_allowed_is_rejected_and_changes_nothing() -> None:
    session = Constraint(PERSON, TOKENIZER).session()
    with pytest.raises(TokenRejected, match="not allowed after b''"):
        session.advance(ids("[")[0])
    with pytest.raises(TokenRejected):
        session.advance(10**6)
    assert session.token_ids == []
    write(session, '{"name": "')


def test_a_budget_below_the_shortest_text_is_refused_with_both_numbers() -> None:
    constraint = Constraint(PERSON, TOKENIZER)
    with pytest.raises(BudgetTooSmall) as caught:
        constraint.session(max_tokens=3)
    assert caught.value.budget == 3
    assert caught.value.needed == constraint.fewest_tokens
    shortest = constraint.session(max_tokens=caught.value.needed)
    while not shortest.is_finished:
        shortest.advance(int(shortest.mask().token_ids(TOKENIZER.vocabulary.size)[0]))
    assert shortest.is_complete


def test_a_string_that_repeats_itself_is_closed() -> None:
    session = Constraint(PERSON, TOKENIZER).session(guard=Guard(repeats=4, min_bytes=24))
    write(session, '{"name": "' + "loop " * 4 + "loop")
    assert session.closed == ("/name: cycle",)
    quotes = session.mask().token_ids(TOKENIZER.vocabulary.size).tolist()
    assert quotes
    assert all(b'"' in (TOKENIZER.vocabulary.tokens[token] or b"") for token in quotes)
    write(session, '", "sure": true, "tags": ["fine"]}')
    assert session.is_complete


def test_an_array_that_lists_the_same_items_is_closed() -> None:
    session = Constraint(PERSON, TOKENIZER).session(guard=Guard(repeats=4, min_bytes=24))
    write(session, '{"name": "x", "sure": true, "tags": [' + '"again", ' * 4 + '"')
    assert session.closed == ("/tags: cycle",)
    while not session.is_finished:
        session.advance(int(session.mask().token_ids(TOKENIZER.vocabulary.size)[0]))
    assert len(json.loads(session.text)["tags"]) == 5


def test_a_value_that_has_used_its_share_of_the_budget_is_closed() -> None:
    session = Constraint(PERSON, TOKENIZER).session(max_tokens=60, guard=Guard(share=0.3))
    write(session, '{"name": "' + "qwertyuiopasdfghjklzxcvbnm"[:19])
    assert session.closed == ("/name: share",)


def test_a_text_that_is_wholly_forced_needs_no_choice() -> None:
    session = Constraint(Template(Words((b'{"a": 1}',))), TOKENIZER).session()
    while not session.is_finished:
        forced = session.forced()
        assert forced
        for token_id in forced:
            session.advance(token_id)
    assert session.text == '{"a": 1}'


def test_a_span_that_is_forced_never_leaves_more_to_write_than_the_budget_has() -> None:
    # The tokenizer writes x and abc; by its parts the text takes xa and bc, and behind an x there are a and bc.
    tokenizer = read_tokenizer(WithEnd(byte_level_tokenizer([("b", "c"), ("a", "bc"), ("x", "a")])))
    constraint = Constraint(Template(Sequence((Literal(b"xa"), Literal(b"bc")))), tokenizer)
    for budget, expected in ((2, [b"xa", b"bc"]), (3, [b"x", b"abc"])):
        session = constraint.session(max_tokens=budget)
        written = []
        while not session.is_finished:
            assert constraint.machine.cost(session.state) <= session.remaining  # type: ignore[operator]
            token_id = int(session.mask().token_ids(tokenizer.vocabulary.size)[0])
            written.append(tokenizer.vocabulary.tokens[token_id])
            session.advance(token_id)
        assert written == expected

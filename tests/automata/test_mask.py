"""Masks say exactly which tokens a state allows."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from templates_strategy import templates
from vocabularies import byte_vocabulary

from fillengine.automata import dfa
from fillengine.automata.leaf import INFINITE
from fillengine.automata.leaf_mask import LeafMasks
from fillengine.automata.lockstep import LockstepLeaf
from fillengine.automata.machine import Machine
from fillengine.automata.mask import Masks
from fillengine.automata.nodes import (
    Choice,
    Except,
    Fresh,
    Literal,
    Node,
    Other,
    Pattern,
    Repeat,
    Sequence,
    Template,
    Unordered,
    Words,
)
from fillengine.automata.state import State
from fillengine.automata.vocabulary import Vocabulary
from fillengine.errors import UnsatisfiableForm
from fillengine.templates import compile

VOCABULARY = byte_vocabulary()
LEAF_MASKS = LeafMasks(VOCABULARY)


def brute_force(machine: Machine, state: State, vocabulary: Vocabulary) -> set[int]:
    """Every token tried byte by byte."""
    allowed = {
        token_id
        for token_id, text in enumerate(vocabulary.tokens)
        if text is not None and machine.advance(state, text) is not None
    }
    return allowed | (set(vocabulary.eos_ids) if state.is_accepting else set())


def satisfiable(template: Template) -> Machine:
    try:
        return Machine(template, VOCABULARY)
    except UnsatisfiableForm:
        reject()


def masked(masks: Masks, state: State) -> set[int]:
    return set(masks.of(state).token_ids(masks.vocabulary.size).tolist())


@settings(max_examples=250, deadline=None)
@given(template=templates(), data=st.data())
def test_a_mask_holds_exactly_the_tokens_that_can_be_written(template: Template, data: st.DataObject) -> None:
    machine = satisfiable(template)
    masks = Masks(machine, LEAF_MASKS)
    state = machine.start
    for _ in range(8):
        allowed = brute_force(machine, state, VOCABULARY)
        assert masked(masks, state) == allowed
        assert allowed or state.is_final
        tokens = sorted(allowed - set(VOCABULARY.eos_ids))
        if not tokens:
            break
        text = VOCABULARY.tokens[data.draw(st.sampled_from(tokens))]
        assert text is not None
        following = machine.advance(state, text)
        assert following is not None
        state = following


@settings(max_examples=150, deadline=None)
@given(template=templates(), data=st.data())
def test_some_token_always_brings_the_end_nearer(template: Template, data: st.DataObject) -> None:
    machine = satisfiable(template)
    masks = Masks(machine, LEAF_MASKS)
    state = machine.start
    for _ in range(8):
        cost = machine.cost(state)
        tokens = sorted(masked(masks, state) - set(VOCABULARY.eos_ids))
        costs = []
        for token_id in tokens:
            after = machine.advance(state, VOCABULARY.tokens[token_id] or b"")
            assert after is not None
            costs.append(machine.cost(after))
        assert max(costs, default=0) <= cost + masks.growth(state)
        if not state.is_accepting:
            assert min(costs) <= cost - 1
            nearer = masks.affordable(state, cost).token_ids(VOCABULARY.size).tolist()
            assert nearer == [token for token, after_cost in zip(tokens, costs, strict=True) if after_cost < cost]
        if not tokens:
            break
        text = VOCABULARY.tokens[data.draw(st.sampled_from(tokens))]
        following = machine.advance(state, text or b"")
        assert following is not None
        state = following


def test_positions_of_a_long_string_far_from_its_bound_share_one_mask() -> None:
    machine = Machine(Template(Pattern(dfa.free_string(), low=0, high=1000)), VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    one = machine.advance(machine.start, b'"' + b"a" * 100)
    other = machine.advance(machine.start, b'"' + b"a" * 700)
    assert one is not None
    assert other is not None
    assert masks.of(one) is masks.of(other)


def test_a_bounded_string_never_exceeds_its_bound_and_never_closes_below_it() -> None:
    machine = Machine(Template(Pattern(dfa.free_string(), low=2, high=4)), VOCABULARY)
    assert not machine.accepts(b'"a"')
    assert machine.accepts('"éé"'.encode())
    assert machine.accepts('"😀😀😀😀"'.encode())
    assert not machine.accepts(b'"aaaaa"')
    masks = Masks(machine, LEAF_MASKS)
    state = machine.advance(machine.start, b'"a')
    assert state is not None
    assert VOCABULARY.tokens.index(b"aaaa") not in masked(masks, state)


def test_the_end_of_sequence_is_allowed_exactly_where_the_text_is_whole() -> None:
    machine = Machine(Template(Pattern(dfa.from_regex("[0-9]+"))), VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    assert not set(VOCABULARY.eos_ids) & masked(masks, machine.start)
    digits = machine.advance(machine.start, b"7")
    assert digits is not None
    assert set(VOCABULARY.eos_ids) <= masked(masks, digits)


def test_a_vocabulary_without_some_bytes_never_leads_into_a_dead_end() -> None:
    # 0x98 stands in no token alone: after F0 9F only what single bytes can finish may come.
    pieces = [bytes.fromhex(piece) for piece in ("f09f98", "a8", "80", "f0", "9f", "99", "8f", "f09f9880")]
    vocabulary = Vocabulary([*pieces, None], eos_ids=[len(pieces)])
    machine = Machine(Template(Pattern(dfa.from_regex("[\U0001f600-\U0001f64f]{1,3}"))), vocabulary)
    masks = Masks(machine, LeafMasks(vocabulary))
    seen = {machine.start}
    work = [machine.start]
    while work:
        state = work.pop()
        allowed = masked(masks, state)
        assert allowed or state.is_final
        for token_id in allowed - set(vocabulary.eos_ids):
            after = machine.advance(state, vocabulary.tokens[token_id] or b"")
            assert after is not None
            if after not in seen:
                seen.add(after)
                work.append(after)


def test_an_enum_of_ten_thousand_words_has_an_exact_mask() -> None:
    words = tuple(sorted(f'"item {number}"'.encode() for number in range(10_000)))
    machine = Machine(Template(Words(words)), VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    state = machine.advance(machine.start, b'"item 12')
    assert state is not None
    assert masked(masks, state) == brute_force(machine, state, VOCABULARY)


def test_two_billion_items_are_counted_and_not_written_out() -> None:
    node = Repeat(Literal(b"a"), 2_000_000_000, None, Literal(b", "))
    machine = Machine(Template(Sequence((Literal(b"["), node, Literal(b"]")))), VOCABULARY)
    assert machine.cost(machine.start) > 2_000_000_000
    state = machine.advance(machine.start, b"[a, a")
    assert state is not None
    assert state.next_bytes() == b","


def test_a_packed_mask_unpacks_to_one_entry_a_token() -> None:
    machine = Machine(Template(Literal(b"ab")), VOCABULARY)
    mask = Masks(machine, LEAF_MASKS).of(machine.start)
    unpacked = mask.unpacked(VOCABULARY.size)
    assert unpacked.dtype == np.bool_
    assert unpacked.shape == (VOCABULARY.size,)
    assert np.flatnonzero(unpacked).tolist() == mask.token_ids(VOCABULARY.size).tolist()


def _any_object() -> Unordered:
    member = Other(Fresh(Pattern(dfa.free_string())), Literal(b": 1"))
    return Unordered((), (member,), 0, None, Literal(b"{"), Literal(b", "), Literal(b"}"), Literal(b"{}"))


def test_keys_that_are_being_written_share_the_search_for_an_end() -> None:
    node = Except(_any_object(), (Literal(b'{"a": 1}'),), {})
    machine = Machine(Template(node), VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    leaf = machine.start.configurations[0][0].leaf
    assert isinstance(leaf, LockstepLeaf)

    def look(number: int) -> None:
        state = machine.advance(machine.start, f'{{"key {number}": 1, "a'.encode())
        assert state is not None
        assert masked(masks, state) == brute_force(machine, state, VOCABULARY)

    look(0)
    num_rows = len(leaf.rows)
    for number in range(1, 20):
        look(number)
    assert len(leaf.rows) <= num_rows + 4


@pytest.mark.parametrize(
    ("node", "text", "num_masks"),
    [
        (Pattern(dfa.free_string(), low=0, high=100_000), b'"' + b"a" * 5_000, 4),
        (Repeat(Literal(b"a"), 1_000, None, Literal(b", ")), b", ".join([b"a"] * 900), 8),
        (_any_object(), b"{" + b", ".join(b'"member number %d": 1' % i for i in range(300)), 40),
    ],
    ids=["100,000 characters", "1,000 items", "300 members"],
)
def test_long_values_take_few_masks(node: Node, text: bytes, num_masks: int) -> None:
    machine = Machine(Template(node), VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    state: State | None = machine.start
    seen = set()
    for byte in text:
        assert state is not None
        seen.add(masks.of(state))
        state = machine.step(state, byte)
    assert state is not None
    assert len(seen) <= num_masks


def test_what_may_be_left_to_write_counts_what_a_shared_mask_has_forgotten() -> None:
    machine = Machine(Template(Choice((Literal(b"0"), Pattern(dfa.free_string(), 60, 70)))), VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    state = machine.start
    assert machine.cost(state) == 1
    for token_id in masked(masks, state):
        after = machine.advance(state, VOCABULARY.tokens[token_id] or b"")
        assert after is not None
        assert machine.cost(after) <= machine.cost(state) + masks.growth(state)
    quote = VOCABULARY.tokens.index(b'"')
    assert quote not in masks.within(state, 20).token_ids(VOCABULARY.size)


def test_an_object_that_the_vocabulary_cannot_close_is_not_begun() -> None:
    tokens = [b"{", b"}", b'"', b"a", b":", b" ", b"1", b"\n  ", None]
    vocabulary = Vocabulary(tokens, eos_ids=[8])
    schema = {"type": "object", "patternProperties": {"a": {"type": "integer"}}}
    machine = Machine(compile(schema, style="indented").template, vocabulary)
    masks = Masks(machine, LeafMasks(vocabulary))
    state = machine.advance(machine.start, b"{")
    assert state is not None
    assert masked(masks, state) == {1}


def _distinct(words: tuple[bytes, ...], low: int, *, is_nested: bool = False, num_wants: int = 0) -> Unordered:
    """A list of `low` of these words at least, and for each want one of nines."""
    others = []
    for granted in range(1 << num_wants):
        part = words if not granted else tuple(b"9" * number for number in range(30 + 10 * granted, 40 + 10 * granted))
        base: Node = Words(part) if not is_nested else Choice(tuple(map(Literal, part)))
        key = Fresh(Except(base, (), {}) if is_nested else base)
        others.append(Other(key, None, grants=granted))
    return Unordered(
        (), tuple(others), low, None, Literal(b"["), Literal(b", "), Literal(b"]"), Literal(b"[]"), num_wants=num_wants
    )


DEARER = (b"1", b"22", b"3" * 30, b"4" * 40, b"5" * 300)
TEXTS = {"type": "array", "uniqueItems": True, "minItems": 2}


@pytest.mark.parametrize(
    "template",
    [
        *(Template(_distinct(DEARER, low, is_nested=is_nested)) for low in (2, 3, 4, 5) for is_nested in (False, True)),
        *(Template(_distinct(DEARER, low, num_wants=num_wants)) for low in (0, 3) for num_wants in (1, 2)),
        compile({**TEXTS, "items": {"type": "string", "pattern": "^(a|b{40,})$"}}).template,
        compile({**TEXTS, "items": {"type": "string", "minLength": 4}}).template,
        compile({**TEXTS, "items": True, "minItems": 14}).template,
        compile(
            {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^(a|b{40,})$"}}, additional="schema"
        ).template,
    ],
)
def test_a_budget_pays_for_new_members_whichever_were_written(template: Template) -> None:
    machine = Machine(template, VOCABULARY)
    masks = Masks(machine, LEAF_MASKS)
    for seed in range(12):
        random = Random(seed)
        state, budget = machine.start, machine.cost(machine.start) + random.choice((0, 1, 3, 10))
        while not state.is_accepting:
            allowed = masks.within(state, budget).token_ids(VOCABULARY.size).tolist()
            assert allowed, "a dead end"
            budget -= 1
            followings = [machine.advance(state, VOCABULARY.tokens[token_id] or b"") for token_id in allowed]
            costs = [INFINITE if after is None else machine.cost(after) for after in followings]
            assert max(costs) <= budget
            chosen = random.choice((random.randrange(len(costs)), costs.index(min(costs))))
            state = followings[chosen]  # type: ignore[assignment]


def test_what_may_be_left_to_write_counts_words_that_a_shared_mask_has_forgotten() -> None:
    schema = {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "pattern": "^(k{12}([0-9]{400,})?|c+)$"},
    }
    machine = Machine(compile(schema).template, VOCABULARY)
    state = machine.advance(machine.start, b'["kkkkkkkkkkkk", "')
    assert state is not None
    bits = Masks(machine, LEAF_MASKS).within(state, 300)
    assert not bits.allows(VOCABULARY.tokens.index(b"k"))
    assert bits.allows(VOCABULARY.tokens.index(b"c"))

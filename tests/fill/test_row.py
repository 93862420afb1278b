"""A row's tokens are the same whatever is asserted, proposed or wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from templates_strategy import templates
from vocabularies import WithEnd, byte_level_tokenizer

from fillengine.automata.mask import Mask
from fillengine.automata.nodes import Literal, Template
from fillengine.errors import FillError
from fillengine.fill import DEFAULT_GUARD, Constraint, Fill, Row, Session, UnstableRest
from fillengine.fill.tokenizer import read_tokenizer

TOKENIZER = read_tokenizer(WithEnd(byte_level_tokenizer()))
SIZE = TOKENIZER.vocabulary.size


class HashModel:
    """Chooses by a hash of everything in the cache: a misaligned cache is noticed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.cache: list[int] = []

    def choose(self, context: Sequence[int], mask: Mask) -> int:
        digest = hashlib.blake2b(repr((self.seed, list(context))).encode(), digest_size=8).digest()
        allowed = mask.token_ids(SIZE)
        return int(allowed[int.from_bytes(digest, "little") % len(allowed)])


class Liar:
    """Proposes allowed tokens that are mostly wrong."""

    name = "liar"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def propose(self, session: Session) -> list[int]:
        ahead, proposed = session.fork(), []
        for index in range((self.seed + session.num_tokens) % 4):
            if ahead.is_finished:
                break
            allowed = ahead.mask().token_ids(SIZE).tolist()
            token_id = allowed[(self.seed * 7 + index) % len(allowed)]
            if token_id in TOKENIZER.vocabulary.eos_ids:
                break
            ahead.advance(token_id)
            proposed.append(token_id)
        return proposed


def run(row: Row, model: HashModel) -> list[int]:
    pending = [0]
    while not row.is_finished:
        planned = row.plan(pending)
        if planned is None:
            break
        base = len(model.cache)
        model.cache += planned.feed
        choices = [
            model.choose(model.cache[: base + index + 1], mask)
            for index, mask in zip(planned.project, planned.masks, strict=True)
        ]
        commit = row.commit(planned, choices)
        del model.cache[base + commit.keep :]
        assert model.cache[1:] + commit.pending == row.token_ids[: len(model.cache) - 1 + len(commit.pending)]
        pending = commit.pending
    return row.token_ids


@settings(max_examples=200, deadline=None)
@given(template=templates(), seed=st.integers(0, 1000), extra=st.integers(0, 20), liar=st.integers(0, 50))
def test_tokens_are_the_same_with_every_way_of_filling(template: Template, seed: int, extra: int, liar: int) -> None:
    constraint = Constraint(template, TOKENIZER)

    def row(fill: Fill, *sources: object) -> Row:
        session = constraint.session(max_tokens=constraint.fewest_tokens + extra, guard=DEFAULT_GUARD)
        return Row(session, fill=fill, sources=sources or None)  # type: ignore[arg-type]

    plain = row("off")
    expected = run(plain, HashModel(seed))
    assert constraint.machine.accepts(plain.session.data)
    assert plain.stats.asserted == 0
    asserted = row("assert")
    assert run(asserted, HashModel(seed)) == expected
    assert asserted.stats.asserted + asserted.stats.sampled >= len(expected)
    assert run(row("auto"), HashModel(seed)) == expected
    assert run(row("auto", Liar(liar), UnstableRest()), HashModel(seed)) == expected


def test_an_unknown_way_of_filling_is_refused() -> None:
    constraint = Constraint(Template(Literal(b"a")), TOKENIZER)
    with pytest.raises(FillError, match='fill is "off", "assert" or "auto"'):
        Row(constraint.session(), fill="fast")  # type: ignore[arg-type]

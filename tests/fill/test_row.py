"""A row's tokens are the same whatever is asserted, proposed or wrong."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from row_runs import TOKENIZER, HashModel, run
from templates_strategy import templates

from fillengine.automata.nodes import Literal, Template
from fillengine.errors import FillError, UnsatisfiableForm
from fillengine.fill import DEFAULT_GUARD, Constraint, Fill, Row
from fillengine.fill.economics import FLAT_CURVE
from fillengine.fill.sources import INSIDE, Cursor, Echo, Guess, Part, Source, UnstableRest, usual_sources
from fillengine.templates import compile


class Liar:
    """Proposes what the form allows for a while, mostly wrong, and then what it may not allow."""

    name = "liar"
    odds = {"lie": 1.0, INSIDE: 1.0}  # noqa: RUF012 (read only)

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def propose(self, cursor: Cursor) -> list[Guess]:
        if self.random.random() < 0.3:
            return []
        ahead = cursor.copy()
        for _ in range(self.random.randrange(12)):
            following = ahead.state.next_bytes()
            if not following:
                break
            ahead.advance(bytes([self.random.choice(following)]))
        text = bytes(ahead.data[len(cursor.data) :])
        if self.random.random() < 0.3:
            text += self.random.choice([b'"}]', b"\xff", b", ", b"abc" * 60, b"<eos>", "é".encode()])
        return [Guess(self, (Part(text[:2], "lie"), Part(text[2:], "lie")))]


@settings(max_examples=200, deadline=None)
@given(template=templates(), seed=st.integers(0, 1000), extra=st.integers(0, 20), liar=st.integers(0, 50))
def test_tokens_are_the_same_with_every_way_of_filling(template: Template, seed: int, extra: int, liar: int) -> None:
    try:
        constraint = Constraint(template, TOKENIZER)
    except UnsatisfiableForm:
        reject()

    def row(fill: Fill, *sources: object) -> Row:
        session = constraint.session(max_tokens=constraint.fewest_tokens + extra, guard=DEFAULT_GUARD)
        return Row(session, fill=fill, sources=sources or None, curve=FLAT_CURVE)  # type: ignore[arg-type]

    plain = row("off")
    expected = run(plain, HashModel(seed))
    assert constraint.machine.accepts(plain.session.data)
    assert plain.stats.asserted == 0
    asserted = row("assert")
    assert run(asserted, HashModel(seed)) == expected
    assert asserted.stats.asserted + asserted.stats.sampled >= len(expected)
    assert run(row("auto"), HashModel(seed)) == expected
    assert run(row("auto", Liar(liar), UnstableRest()), HashModel(seed)) == expected
    assert run(row("auto", UnstableRest(), Liar(liar)), HashModel(seed)) == expected
    assert run(row("auto", UnstableRest(), Echo(plain.session.text)), HashModel(seed)) == expected


@settings(max_examples=60, deadline=None)
@given(
    written=st.text("ab é", max_size=20),
    source=st.text('ab é"\n', max_size=60),
    seed=st.integers(0, 1000),
    extra=st.integers(0, 30),
)
def test_a_records_tokens_are_the_same_with_every_source(written: str, source: str, seed: int, extra: int) -> None:
    text = {"type": "string"}
    numbers = {"type": "array", "items": {"type": "integer", "default": 12}}
    schema = {
        "type": "object",
        "properties": {"a": text, "n": numbers, "b": {"type": ["string", "null"], "default": written}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    constraint = Constraint(compile(schema), TOKENIZER)
    budget = constraint.fewest_tokens + extra

    def row(fill: Fill, *sources: Source) -> Row:
        return Row(constraint.session(max_tokens=budget, guard=DEFAULT_GUARD), fill=fill, sources=sources)

    plain = row("off")
    expected = run(plain, HashModel(seed))
    sources = usual_sources(source_text=f"{source} {plain.session.text}", prediction=plain.session.text, schema=schema)
    drafted = row("auto", *sources)
    assert run(drafted, HashModel(seed)) == expected
    assert run(row("auto", *usual_sources(source_text=source, prediction=written, schema=schema)), HashModel(seed)) == (
        expected
    )
    assert sum(drafted.stats.accepted.values()) <= sum(drafted.stats.proposed.values())
    assert drafted.stats.asserted + drafted.stats.sampled + sum(drafted.stats.accepted.values()) >= len(expected)
    assert drafted.stats.forwards <= plain.stats.forwards


def test_an_unknown_way_of_filling_is_refused() -> None:
    constraint = Constraint(Template(Literal(b"a")), TOKENIZER)
    with pytest.raises(FillError, match='fill is "off", "assert" or "auto"'):
        Row(constraint.session(), fill="fast")  # type: ignore[arg-type]

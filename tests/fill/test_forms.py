"""The laws for every kind of form: valid, the same tokens with every way of filling, closed within its budget."""

from __future__ import annotations

import functools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_runs import TOKENIZER, HashModel, run
from text_forms import CASES
from text_walks import mutated, random_text

from fillengine.fill import DEFAULT_GUARD, Constraint, Fill, Row
from fillengine.fill.economics import FLAT_CURVE
from fillengine.fill.sources import Source, usual_sources
from fillengine.templates import Form, compile
from fillengine.templates.grammar_form import Grammar
from fillengine.templates.library import shipped

FORMS = {name: form for name, (form, *_) in CASES.items()} | {
    f"grammar {name}": Grammar.named(name) for name in shipped()
}
EXAMPLES = max(8, int(os.environ.get("FILLENGINE_EXAMPLES", "250")) // 25)


@functools.cache
def constraint_of(name: str) -> tuple[Form, Constraint]:
    form = compile(FORMS[name])
    return form, Constraint(form, TOKENIZER)


@pytest.mark.parametrize("name", FORMS)
@settings(deadline=None, max_examples=EXAMPLES)
@given(seed=st.integers(0, 10_000), extra=st.sampled_from([0, 0, 1, 2, 7, 40]), change=st.integers(0, 10_000))
def test_a_form_is_valid_closed_and_the_same_however_it_is_filled(
    name: str, seed: int, extra: int, change: int
) -> None:
    form, constraint = constraint_of(name)

    def row(fill: Fill, *sources: Source) -> Row:
        session = constraint.session(max_tokens=constraint.fewest_tokens + extra, guard=DEFAULT_GUARD)
        return Row(session, fill=fill, sources=sources, curve=FLAT_CURVE)

    plain = row("off")
    expected = run(plain, HashModel(seed))
    text = plain.session.text
    assert plain.session.is_complete
    assert constraint.accepts(text)
    form.validate(text)
    assert run(row("assert"), HashModel(seed)) == expected
    # A prediction that is right as a whole, in part, and not at all.
    for prediction in (text, mutated(text, change), random_text(constraint.machine, change)):
        sources = usual_sources(source_text=f"some {text}", prediction=prediction, schema=form.schema)
        assert run(row("auto", *sources), HashModel(seed)) == expected

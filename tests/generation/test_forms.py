"""Every kind of form through the engine: messages in, the form's own value out, and a prediction that saves passes."""

from __future__ import annotations

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import pytest
from text_forms import CASES

import fillengine as fe
from fillengine.generation.engine import Engine
from fillengine.generation.service import Service

MESSAGES = [{"role": "user", "content": "Write something."}]
BUDGET = 160


@pytest.fixture(scope="module")
def engine() -> Engine:
    return tiny_engine.tiny_engine(context_length=400)


@pytest.mark.parametrize("name", CASES)
def test_a_form_is_written_the_same_way_with_a_prediction_as_without(engine: Engine, name: str) -> None:
    form = fe.compile(CASES[name][0])
    plain = engine.generate(MESSAGES, form, max_tokens=BUDGET, fill="off")
    form.validate(plain.text)
    assert plain.value == form.parse(plain.text)
    known = engine.generate(MESSAGES, form, max_tokens=BUDGET, prediction=plain.text)
    other = engine.generate(MESSAGES, form, max_tokens=BUDGET, prediction=CASES[name][1])
    assert known.token_ids == other.token_ids == plain.token_ids
    assert known.stats.forwards <= plain.stats.forwards
    if len(plain.token_ids) > 20:
        assert 3 * known.stats.forwards <= plain.stats.forwards


def test_a_service_takes_predictions_too(engine: Engine) -> None:
    form = fe.compile(fe.Template("Dear {name}, {text}", name=fe.Regex("[a-z]{1,20}"), text=fe.Regex("[a-z ]{20,60}")))
    plain = engine.generate(MESSAGES, form, max_tokens=BUDGET, fill="off")
    with Service(engine, max_rows=2) as service:
        tickets = [
            service.submit(engine.request(MESSAGES, form, max_tokens=BUDGET, row_id=0, prediction=prediction))
            for prediction in (plain.text, None)
        ]
        known, unknown = (ticket.result() for ticket in tickets)
    assert known.value == unknown.value == plain.value
    assert known.stats.accepted_by["prediction"] > 20
    assert known.stats.forwards < unknown.stats.forwards

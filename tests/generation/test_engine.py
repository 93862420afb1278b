"""The engine: results in order, the same alone and in a batch, and a failure stays with its request."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Literal

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_engine import FORM, PLAIN, TinyForm, outcomes, tiny_tokenizer

from fillengine.errors import BudgetTooSmall, ContextExceeded, FillError, ModelError
from fillengine.generation.engine import Engine, Request
from fillengine.generation.sampling import Sampling


@pytest.fixture(scope="module")
def engine() -> Engine:
    return tiny_engine.tiny_engine()


@st.composite
def run_requests(draw):
    sampling = st.sampled_from([Sampling(), Sampling(temperature=0.7), Sampling(1.5, top_p=0.9)])
    common = draw(st.lists(st.integers(0, 255), max_size=30))
    return [
        Request(
            prompt=common + draw(st.lists(st.integers(0, 255), min_size=1, max_size=25)),
            form=draw(st.sampled_from([FORM, PLAIN])),
            sampling=draw(sampling),
            seed=draw(st.integers(0, 3)),
            max_tokens=draw(st.integers(60, 90)),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


@settings(deadline=None, max_examples=12)
@given(st.data())
def test_the_tokens_are_the_same_with_any_fill_in_any_batch(engine, data):
    requests = data.draw(run_requests())
    slow = [replace(request, fill="off") for request in requests]
    alone = [outcomes(engine, [replace(request, row_id=row_id)], 1)[0] for row_id, request in enumerate(slow)]
    for fill in ("off", "assert", "auto"):
        batch_size = data.draw(st.integers(1, 6))
        together = outcomes(engine, [replace(request, fill=fill) for request in requests], batch_size)
        for one, other in zip(alone, together, strict=True):
            assert one.token_ids == other.token_ids
            assert one.value == other.value == {"read": one.text}
            assert other.stats.asserted + other.stats.accepted + other.stats.sampled >= len(one.token_ids)


def test_spans_save_forward_passes(engine):
    request = Request(list(b"some text"), FORM, max_tokens=80)
    off, asserted, auto = (outcomes(engine, [replace(request, fill=fill)], 1)[0] for fill in ("off", "assert", "auto"))
    assert off.token_ids == asserted.token_ids == auto.token_ids
    assert off.stats.forwards >= len(off.token_ids) - 1  # the last token was known without asking
    assert auto.stats.forwards <= asserted.stats.forwards < off.stats.forwards - 20
    assert asserted.stats.asserted > 20
    assert off.stats.asserted == off.stats.proposed == 0


def test_prompts_that_begin_alike_are_read_once(engine):
    common = list(b"These are the instructions of the whole run. ")
    found = outcomes(engine, [Request([*common, number], PLAIN) for number in range(3)], 2)
    assert [result.stats.prompt_tokens for result in found] == [len(common) + 1] * 3
    assert [result.stats.reused_prompt_tokens for result in found][1:] == [len(common)] * 2


def test_a_request_that_cannot_be_served_leaves_the_others_alone(engine):
    good = Request(list(b"text"), FORM, max_tokens=70)

    class Broken(TinyForm):
        @property
        def template(self):
            raise RuntimeError("no template")

        @template.setter
        def template(self, value):
            pass

    requests = [
        good,
        replace(good, max_tokens=3),
        Request([1] * 190, FORM, max_tokens=70),
        replace(good, form=Broken("a")),
        replace(good, prompt=[]),
        good,
    ]
    found = outcomes(engine, requests, 2)
    assert found[0].text == found[5].text
    assert isinstance(found[1], BudgetTooSmall)
    assert isinstance(found[2], ContextExceeded)
    assert "190 tokens and max_tokens is 70" in str(found[2])
    assert "200 tokens" in str(found[2])
    assert type(found[3]) is FillError
    assert "no template" in str(found[3])
    assert "prompt is empty" in str(found[4])


def test_results_come_as_soon_as_those_before_them_are_done(engine):
    taken = []

    def requests():
        for number in range(6):
            taken.append(number)
            yield Request(list(b"text"), PLAIN)

    run = engine.run(requests(), batch_size=2)
    assert next(run)[0] == 0
    assert len(taken) < 6
    run.close()


def test_a_batch_of_no_rows_is_refused_at_once(engine):
    with pytest.raises(FillError, match="batch_size is 0"):
        engine.run([], batch_size=0)
    assert outcomes(engine, [], 3) == []


def test_messages_go_through_the_chat_template_and_text_does_not(engine):
    chat = [{"role": "user", "content": "hi"}]
    assert engine.encode(chat) == engine.encode("user: hi\nassistant: ")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    plain = Engine(replace(engine.loaded, tokenizer=TokenizerWrapper(tokenizer._tokenizer)))
    with pytest.raises(ModelError, match="no chat template"):
        plain.encode(chat)


def test_a_pydantic_model_comes_back_as_its_object(engine):
    class Item(pydantic.BaseModel):
        count: int = pydantic.Field(ge=0, le=99)
        kind: Literal["on", "off"]

    result = engine.generate("some text", Item, max_tokens=60, temperature=1.0, seed=2)
    assert isinstance(result.value, Item)
    assert result.value.model_dump() == json.loads(result.text)
    assert result.finish_reason == "stop"
    again = engine.request("some text", Item, max_tokens=60, temperature=1.0, seed=2, row_id=0)
    noise_of_another = replace(again, row_id=8, seed=5)
    found = outcomes(engine, [noise_of_another, again], 2)
    assert found[1].token_ids == result.token_ids


def test_generate_raises_what_run_yields(engine):
    with pytest.raises(BudgetTooSmall):
        engine.generate("text", {"const": "a rather long constant"}, max_tokens=2)


@pytest.mark.model
def test_the_default_model_writes_the_same_with_any_fill_and_in_a_batch():
    engine = Engine.load()
    form = engine.request(
        "", {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2, "maxItems": 3}
    ).form
    requests = [
        engine.request(
            [{"role": "user", "content": f"Name colours of {thing}."}], form, temperature=heat, max_tokens=30
        )
        for thing, heat in (("grass and sky", 0.0), ("a fire", 0.9), ("the sea on a sunny day in June", 0.0))
    ]
    alone = [
        outcomes(engine, [replace(request, fill="off", row_id=row_id)], 1)[0] for row_id, request in enumerate(requests)
    ]
    together = outcomes(engine, requests, 3)
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]
    assert all(2 <= len(result.value) <= 3 for result in together)
    assert sum(result.stats.forwards for result in together) < sum(result.stats.forwards for result in alone)


def test_what_a_settled_engine_holds_is_out_of_the_collectors_sight():
    engine = tiny_engine.tiny_engine()
    engine.settle()
    try:
        assert gc.get_freeze_count() > 0
        assert not any(found is engine.tokenizer.vocabulary.trie.root for found in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(found is engine.tokenizer.vocabulary.trie.root for found in gc.get_objects())

"""Toy models are deterministic, exact in every batch, and notice a cache that is not as it should be."""

from __future__ import annotations

from fillengine.testing import EchoModel, RandomModel, ScriptedModel, ToyTokenizer  # isort: skip (before mlx)

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

import fillengine
from fillengine.testing.tokenizer import WithEnd, byte_level_tokenizer

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kind": {"enum": ["on", "off", "once"]}},
    "required": ["name", "kind"],
}
IDS = st.lists(st.integers(0, 280), min_size=2, max_size=40)
MODEL = RandomModel(seed=5)


def logits_of(model, ids, cache=None):
    return np.array(model(mx.array([ids], dtype=mx.int32), cache=cache)[0])


@settings(max_examples=40, deadline=None)
@given(ids=IDS, cuts=st.lists(st.integers(1, 8), max_size=8))
def test_random_logits_are_the_same_to_the_bit_however_the_tokens_are_fed(ids, cuts):
    whole, cache, found = logits_of(MODEL, ids), make_prompt_cache(MODEL), []
    while ids:
        count = cuts.pop() if cuts else len(ids)
        found.append(logits_of(MODEL, ids[:count], cache))
        ids = ids[count:]
    assert np.concatenate(found).tobytes() == whole.tobytes()


@settings(max_examples=40, deadline=None)
@given(ids=IDS, data=st.data())
def test_another_token_at_any_place_changes_what_is_said_at_the_end(ids, data):
    place = data.draw(st.integers(0, len(ids) - 1))
    other = [*ids[:place], (ids[place] + 1) % 280, *ids[place + 1 :]]
    assert logits_of(MODEL, ids)[-1].tobytes() != logits_of(MODEL, other)[-1].tobytes()
    # What stands before is not changed by what follows.
    assert logits_of(MODEL, ids)[:place].tobytes() == logits_of(MODEL, other)[:place].tobytes()


def test_a_seed_makes_another_model():
    assert not np.array_equal(logits_of(MODEL, [1, 2]), logits_of(RandomModel(seed=6), [1, 2]))
    assert np.array_equal(logits_of(MODEL, [1, 2]), logits_of(RandomModel(seed=5), [1, 2]))


@pytest.mark.parametrize("model", [RandomModel(), ScriptedModel("x"), EchoModel()])
def test_an_engine_feeds_toy_models_in_batches(model):
    assert model.engine()._reader.pattern.mode == "batched"


@pytest.mark.parametrize("fill", ["off", "assert", "auto"])
def test_a_script_is_said_word_for_word_with_any_fill(fill):
    text = '{"name": "Ada \\"x\\" é😀", "kind": "once"}'
    result = ScriptedModel(text).engine().generate("Who?", PERSON, fill=fill)
    assert result.text == text


def test_a_script_may_depend_on_the_prompt():
    engine = ScriptedModel(lambda prompt: '{"name": "' + prompt.split()[-1] + '", "kind": "on"}').engine()
    outcomes = engine.run([engine.request(f"It is {name}", PERSON) for name in ("Bo", "Cy")], batch_size=2)
    assert [outcome.value["name"] for _, outcome in outcomes] == ["Bo", "Cy"]


def test_a_script_of_token_ids_is_said_token_by_token():
    tokenizer = ToyTokenizer.of_pieces([b'"', b"a", b"b", b"ab", None], eos_ids=[4])
    for script in ([0, 1, 2, 0], [0, 3, 0], [0, 2, 3, 1, 0]):
        engine = ScriptedModel(script, tokenizer).engine()
        assert engine.generate("a", {"type": "string", "maxLength": 9}).token_ids == script


def test_a_script_that_the_form_does_not_permit_ends_there():
    result = ScriptedModel('{"name": "Ada", "kind": "perhaps"}').engine().generate("Who?", PERSON)
    assert result.value["name"] == "Ada"
    assert result.value["kind"] in ("on", "off", "once")


def test_a_spoken_model_says_nothing_where_the_cache_is_misaligned():
    model = ScriptedModel('"a"')
    cache = make_prompt_cache(model)
    logits_of(model, [1, 2, 3], cache)
    cache[0].values[..., 1, 1] = 7  # a token at a wrong place
    assert np.isnan(logits_of(model, [4], cache)).all()
    engine = model.engine()
    engine._reader.read([1, 2, 3, model.mark])
    kept = next(iter(engine._reader.prefixes._kept.values()), None)
    assert kept is None, "short prompts are not kept"


def test_an_echo_goes_on_like_its_prompt():
    result = EchoModel().engine().generate('The answer is {"name": "Grace", "kind": "off"}', PERSON)
    assert result.text == '{"name": "Grace", "kind": "off"}'


def test_documents_are_extracted_without_weights():
    engine = ScriptedModel('{"name": "Ada", "kind": "on"}').engine()
    results = list(engine.extract(["one document", "another"], PERSON, batch_size=2, grounding="free"))
    assert [result.value["name"] for result in results] == ["Ada", "Ada"]
    assert isinstance(engine, fillengine.Engine)


def test_any_tokenizer_will_do():
    tokenizer = WithEnd(byte_level_tokenizer([("a", "b")]))
    engine = RandomModel(tokenizer).engine()
    assert engine.generate([{"role": "user", "content": "ab"}], PERSON, max_tokens=90).value["kind"] in (
        "on",
        "off",
        "once",
    )

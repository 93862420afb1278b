"""What is counted, the logprobs of tokens, and what passes cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_engine import FORM, PLAIN, outcomes

from fillengine.errors import FillError
from fillengine.generation import cost
from fillengine.generation.cost import CostMeter
from fillengine.generation.engine import Request
from fillengine.generation.logprobs import Logprobs
from fillengine.generation.rounds import STAGES
from fillengine.generation.sampling import Sampling


@pytest.fixture(scope="module")
def engine():
    return tiny_engine.tiny_engine()


def request(number, **options):
    options = {"form": FORM, "row_id": number, "max_tokens": 80, **options}
    return Request(list(b"text %d" % number), **options)


@pytest.mark.parametrize("fill", ["off", "assert", "auto"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_accounts_of_a_run_are_those_of_its_rows(engine, fill, batch_size):
    wanted = [request(number, fill=fill) for number in range(5)]
    run = engine.run(wanted, batch_size=batch_size)
    results = [result for _, result in run]
    stats = run.stats
    for name in (
        "forwards", "projected", "asserted", "sampled", "proposed", "accepted", "thrown_away", "rollbacks",
        "prompt_tokens", "reused_prompt_tokens", "dropped", "replayed",
    ):  # fmt: skip
        assert getattr(stats, name) == sum(getattr(result.stats, name) for result in results)
    assert stats.proposed_by == sum((Counter(result.stats.proposed_by) for result in results), Counter())
    assert stats.rows == stats.finished == 5
    assert stats.rounds >= max(result.stats.forwards for result in results)
    # Each moment of a round is in one of its stages.
    assert set(stats.stage_seconds) == set(STAGES)
    assert all(seconds > 0 for seconds in stats.stage_seconds.values())
    assert sum(stats.stage_seconds.values()) <= stats.round_seconds
    assert stats.prompt_tokens == stats.reused_prompt_tokens + stats.read_tokens + len(wanted)
    for result in results:
        assert result.stats.asserted + result.stats.accepted + result.stats.sampled == len(result.token_ids)
        assert result.stats.waiting_seconds >= 0
        assert result.stats.decode_seconds > 0


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from(["off", "assert", "auto"]),
    st.sampled_from([Sampling(), Sampling(0.9), Sampling(1.3, top_k=3)]),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_logprobs_are_those_of_the_model_for_the_text_at_any_fill_and_in_any_batch(
    engine, fill, sampling, num_top, batch_size
):
    asked = [
        Logprobs(num_top, of_determined=True) if number % 2 else Logprobs(num_top, of_determined=False)
        for number in range(4)
    ]
    wanted = [request(n, fill=fill, sampling=sampling, logprobs=each) for n, each in enumerate(asked)]
    wanted[3] = replace(wanted[3], form=PLAIN)
    silent = outcomes(engine, [replace(one, logprobs=None) for one in wanted], batch_size)
    for one, result, quiet in zip(wanted, outcomes(engine, wanted, batch_size), silent, strict=True):
        assert result.token_ids == quiet.token_ids
        assert quiet.logprobs is None
        assert len(result.logprobs) == len(result.token_ids)
        expected = reference(engine, one.prompt, result.token_ids)
        for found, token_id, row in zip(result.logprobs, result.token_ids, expected, strict=True):
            if found is None:
                assert not one.logprobs.of_determined
                continue
            assert found.token_id == token_id
            assert found.logprob == pytest.approx(row[token_id], abs=1e-3)
            best = np.argsort(-row)[:num_top]
            assert [top for top, _ in found.top] == best.tolist()
            assert [value for _, value in found.top] == pytest.approx(row[best].tolist(), abs=1e-3)
        if not one.logprobs.of_determined and one.form is FORM:
            assert None in result.logprobs
        assert any(found is not None for found in result.logprobs)


def reference(engine, prompt, token_ids):
    logits = np.array(engine.loaded.model(mx.array([[*prompt, *token_ids]]))[0], dtype=np.float64)
    logits = logits[len(prompt) - 1 : -1]
    return (
        logits
        - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
        - logits.max(-1, keepdims=True)
    )


def test_the_same_tokens_have_logprobs_whatever_the_fill(engine):
    found = [
        outcomes(engine, [request(0, fill=fill, logprobs=Logprobs(1))], 1)[0].logprobs
        for fill in ("off", "assert", "auto")
    ]
    assert [[each is None for each in logprobs] for logprobs in found] == [[each is None for each in found[0]]] * 3


def test_logprobs_are_asked_for_by_number(engine):
    asked = engine.request("text", {"const": 1}, logprobs=2)
    assert asked.logprobs == Logprobs(2)
    with pytest.raises(FillError, match="logprobs is -1"):
        engine.request("text", {"const": 1}, logprobs=-1)


def test_the_cost_of_passes_is_measured_once_and_kept(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    loaded = replace(engine.loaded, folder=tmp_path)
    measured = []
    measure = cost.measure
    monkeypatch.setattr(cost, "measure", lambda *args: measured.append(args[2]) or measure(*args))

    def meter():
        return CostMeter(loaded, engine._model, engine._reader.pattern)

    first = meter()
    curve = first.curve(3)
    assert curve.cost(1) == 1
    assert curve.cost(32) >= curve.cost(4) >= 1
    assert first.curve(4) is curve
    for _ in range(5):
        meter().curve(4)
    # The first three of those who ask measure, in case that something disturbed one of them.
    assert measured == [4, 4, 4]
    assert meter().curve(4).cost(8) == meter().curve(3).cost(8)
    assert first.curve(1000) is first.curve(8)
    assert measured.pop() == 8
    for file in (tmp_path / "costs").iterdir():
        file.write_text("{torn")
    meter().curve(4)
    assert measured == [4] * 4
    (tmp_path / "config.json").write_text('{"another": "model"}')
    for _ in range(5):
        meter().curve(4)
    assert measured == [4] * 7

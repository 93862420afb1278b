"""The engine over models whose layers keep other state than keys and values of all positions."""

from __future__ import annotations

from dataclasses import replace

import tiny_engine  # noqa: F401  # isort: skip (an optimised BLAS, before mlx is imported)

import pytest
from tiny_engine import FORM, PLAIN, outcomes, tiny_tokenizer
from tiny_models import CONFIGS, tiny_model

from fillengine.fill.economics import FLAT_CURVE
from fillengine.fill.sources import Guess, Part
from fillengine.generation.engine import Engine, Request
from fillengine.generation.models import LoadedModel
from fillengine.generation.sampling import Sampling

TOKENIZER = tiny_tokenizer()


class Babble:
    """Always says the same."""

    name = "babble"
    odds = {"babble": 0.95, "inside": 0.95}  # noqa: RUF012 (read only)

    def propose(self, cursor):
        return [Guess(self, (Part(b"dabdab", "babble"),))]


def engine_of(name, monkeypatch, **options):
    size = {"vocab_size": len(TOKENIZER.get_vocab()) + 5}
    inner = CONFIGS[name].get("text_config")
    model = tiny_model(name, **(size if inner is None else {"text_config": {**inner, **size}}))
    engine = Engine(LoadedModel(model, TOKENIZER, name, None, 300, frozenset()), **options)
    monkeypatch.setattr(engine, "curve", lambda num_rows: FLAT_CURVE)
    return engine


@pytest.mark.parametrize("name", ["mamba2", "mamba", "qwen3_next", "gpt_oss", "llama4"])
def test_rows_of_any_kind_of_model_get_their_tokens_in_a_batch_with_spans(name, monkeypatch):
    engine = engine_of(name, monkeypatch)
    common = list(b"All of these begin like this, and then ")
    wanted = [
        Request([*common, number, *b"end " * number], FORM, Sampling(0.9 * (number % 2)), row_id=number, max_tokens=70)
        for number in range(4)
    ]
    wanted[2] = replace(wanted[2], form=PLAIN)
    alone = [outcomes(engine, [replace(one, fill="off")], 1)[0] for one in wanted]
    fresh = engine_of(name, monkeypatch)
    run = fresh.run(wanted, batch_size=3, round_tokens=30)
    together = [result for _, result in run]
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]
    assert run.stats.asserted > 0
    assert sum(result.stats.forwards for result in together) < sum(result.stats.forwards for result in alone)
    # Where a cache can be copied up to any place, or one was kept where the prompts part.
    assert run.stats.reused_prompt_tokens == 3 * len(common) or name == "llama4"


def test_a_model_that_cannot_be_rolled_back_gets_no_drafts_and_says_so(monkeypatch):
    engine = engine_of("llama4", monkeypatch)
    run = engine.run([Request(list(b"text"), FORM, max_tokens=70, sources=[Babble()])], batch_size=1)
    ((_, result),) = run
    assert result.stats.asserted > 20
    assert result.stats.dropped > 0
    assert result.stats.proposed == result.stats.rollbacks == 0
    assert run.stats.dropped == result.stats.dropped


def test_tokens_that_are_fed_again_behind_a_rejected_draft_are_counted(monkeypatch):
    engine = engine_of("mamba2", monkeypatch)
    run = engine.run(
        [Request([9, number], FORM, max_tokens=70, sources=[Babble()]) for number in range(6)], batch_size=3
    )
    assert all(result.value for _, result in run)
    assert run.stats.rollbacks > 0
    assert run.stats.replayed >= run.stats.rollbacks
    assert run.stats.rollback_seconds > 0


@pytest.mark.parametrize("start", [0, 30, 60])
def test_rows_that_turn_to_few_bits_at_different_rounds_get_their_tokens_in_a_batch(start, monkeypatch):
    options = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": start}
    wanted = [
        Request(list(b"word " * number), FORM, row_id=number, max_tokens=70, sources=[Babble()])
        for number in (1, 3, 5, 7, 9)
    ]
    # With the numbers of a position independent of the pass that they were made in.
    alone = [outcomes(engine_of("llama-wide", monkeypatch, **options), [one], 1)[0] for one in wanted]
    plain = [
        outcomes(engine_of("llama-wide", monkeypatch, **options), [replace(one, fill="off")], 1)[0] for one in wanted
    ]
    together = outcomes(engine_of("llama-wide", monkeypatch, **options), wanted, 3, round_tokens=9)
    assert [result.token_ids for result in together] == [result.token_ids for result in alone]
    assert [result.token_ids for result in plain] == [result.token_ids for result in alone]

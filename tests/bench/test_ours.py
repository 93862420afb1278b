"""Our contenders on a tiny model: the same tokens, and what is said where they differ."""

from __future__ import annotations

from dataclasses import replace

import bench_tiny
import mlx.core as mx
import numpy as np
import pytest
from bench_tiny import RECORDS
from hypothesis import given
from hypothesis import strategies as st

from fillengine.bench.contenders import Ours, Setting
from fillengine.bench.divergence import explain, first_difference
from fillengine.bench.passes import Shape, watch, watch_traced
from fillengine.extraction.engine import Engine
from fillengine.fill import Constraint
from fillengine.generation.layout import Shapes

TOKENS = st.lists(st.integers(0, 2), max_size=6)


@pytest.fixture(scope="module")
def loaded():
    return bench_tiny.tiny_loaded()


@pytest.fixture(autouse=True)
def _short_prompts(monkeypatch):
    """The shipped examples are long, and this vocabulary is bytes."""
    monkeypatch.setattr("fillengine.extraction.prompt._shipped_examples", list)


def _run(loaded, fill, **setting):
    contender = Ours(Engine(loaded), fill, "verbatim", Setting(max_tokens=120, **setting))
    return contender, contender.run(list(enumerate(RECORDS)))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_way_writes_the_same_tokens_in_any_batch(loaded, temperature):
    texts = [
        [answer.token_ids for answer in _run(loaded, fill, batch_size=batch_size, temperature=temperature)[1].answers]
        for fill, batch_size in (("off", 1), ("assert", 3), ("auto", 2))
    ]
    assert texts[0] == texts[1] == texts[2]


def test_times_and_counts_are_those_of_the_run(loaded):
    _, turn = _run(loaded, "auto", batch_size=2)
    assert turn.prefill_seconds > 0
    assert turn.decode_seconds > 0
    assert all(answer.asserted > 0 and answer.forwards < len(answer.token_ids) for answer in turn.answers)


@given(left=TOKENS, right=TOKENS)
def test_texts_are_equal_up_to_their_first_difference(left, right):
    position = first_difference(left, right)
    if position is None:
        assert left == right
    else:
        assert left[:position] == right[:position]
        assert left[position : position + 1] != right[position : position + 1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_token_that_the_model_would_not_choose_is_called_a_fault(loaded, temperature):
    contender, turn = _run(loaded, "off", temperature=temperature)
    right = turn.answers[0].token_ids
    place = next(place for place in range(len(right)) if explain_gap(contender, right, place) > 0.1)
    wrong = [*right[:place], 0 if right[place] else 1]
    found = explain(contender, 0, RECORDS[0], right, wrong)
    assert found.position == place
    assert found.best[0] == right[place]
    assert not found.is_near_tie


def explain_gap(contender, right, place):
    """How far the two best candidates at a place are apart."""
    best = explain(contender, 0, RECORDS[0], right, [*right[:place], -1]).best
    return explain(contender, 0, RECORDS[0], right, [*right[:place], best[1]]).gap


def test_two_candidates_within_rounding_are_called_a_near_tie(loaded):
    contender, turn = _run(loaded, "off")
    right = turn.answers[0].token_ids
    place = next(place for place in range(len(right)) if explain_gap(contender, right, place) > 0)
    best = explain(contender, 0, RECORDS[0], right, [*right[:place], -1]).best
    model = contender.engine.loaded.model

    class Tied:
        def __call__(self, ids):
            logits = model(ids)
            logits[0, -1, best[1]] = logits[0, -1, best[0]] * (1 + 1e-7)
            return logits

    contender.engine.loaded = replace(contender.engine.loaded, model=Tied())
    found = explain(contender, 0, RECORDS[0], right, [*right[:place], best[1]])
    assert found.is_near_tie
    assert found.gap < 64 * found.spacing


def test_of_three_candidates_within_rounding_any_two_may_be_chosen(loaded):
    contender, turn = _run(loaded, "off")
    right = turn.answers[0].token_ids
    session = Constraint(contender.request(0, RECORDS[0]).form, contender.engine.tokenizer).session(max_tokens=120)
    place = 0
    while len(np.flatnonzero(session.allowed())) < 3:
        session.advance(right[place])
        place += 1
    first, second, third = map(int, np.flatnonzero(session.allowed())[:3])
    model = contender.engine.loaded.model

    class Tied:
        def __call__(self, ids):
            logits = model(ids)
            logits[0, -1, mx.array([first, second, third])] = mx.abs(logits[0, -1]).max() * 2
            return logits

    contender.engine.loaded = replace(contender.engine.loaded, model=Tied())
    found = explain(contender, 0, RECORDS[0], [*right[:place], first], [*right[:place], third])
    assert found.best == (first, second)
    assert found.is_near_tie


def test_watching_a_model_changes_nothing_but_counts_its_passes():
    model = bench_tiny.tiny_loaded().model
    ids = mx.array([[1, 2, 3]])
    before = model(ids)
    log = watch(model)
    log.begin(set())
    assert mx.array_equal(model(ids), before)
    model(ids)
    model(ids[:, :1])
    assert (log.num_passes, log.new) == (3, [Shape(1, 3, 3)])
    assert log.seen == set(log.new)


def test_our_passes_are_counted_with_the_slots_that_attention_sees():
    loaded = bench_tiny.tiny_loaded()
    log = watch(loaded.model)
    contender = Ours(Engine(loaded), "auto", "verbatim", Setting(2, max_tokens=120))
    log.begin(set())
    turn = contender.run(list(enumerate(RECORDS[:2])))
    assert log.num_passes >= max(answer.forwards for answer in turn.answers)
    assert all(shape.width >= shape.tokens for shape in log.seen)


def test_passes_by_a_kept_graph_are_counted_like_all_others():
    loaded = bench_tiny.tiny_loaded()
    log = watch(loaded.model)
    engine = Engine(loaded, shapes=Shapes(rounds_up=True, width_step=256))
    watch_traced(engine.trunk, log)
    contender = Ours(engine, "auto", "verbatim", Setting(2, max_tokens=120))
    for _ in range(2):
        # The first time the engine also makes passes to measure what they cost and take.
        log.begin(set())
        requests = [contender.request(index, record) for index, record in enumerate(RECORDS[:2])]
        run = contender.engine.run(requests, batch_size=2)
        assert len(list(run)) == 2
    assert log.num_passes == run.stats.passes + run.stats.read_passes

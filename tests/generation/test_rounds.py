"""Rounds: whatever is drafted, and whoever joins or leaves, a row gets the tokens that it would get alone."""

from __future__ import annotations

import random

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import ModelError
from fillengine.generation.layout import Shapes
from fillengine.generation.sampling import Sampling
from fillengine.generation.traced import TracedTrunk
from fillengine.generation.trunk import SplitModel

MODEL = tiny.tiny_llama()
PROMPT = [5, 9, 2, 44, 17]


def drafting_row(num_tokens, expected, seed, *, share_right=0.6, longest=6, asserts=True):
    """Drafts of up to `longest` tokens, each one right with this probability."""
    rng = random.Random(seed)

    def guess(tokens):
        allowed = tiny.allowed_ids(tiny.mask_after(tokens))
        is_right = tokens == expected[: len(tokens)] and rng.random() < share_right
        return expected[len(tokens)] if is_right else rng.choice(allowed)

    return tiny.ScriptedRow(num_tokens, guess=guess, num_drafted=lambda: rng.randrange(longest + 1), asserts=asserts)


@st.composite
def records(draw):
    prompt = draw(st.lists(st.integers(0, tiny.VOCABULARY - 1), min_size=1, max_size=30))
    sampling = draw(st.sampled_from([Sampling(), Sampling(temperature=0.8), Sampling(temperature=1.5)]))
    return prompt, draw(st.integers(1, 16)), sampling, draw(st.integers(0, 2**31))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(records(), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from([Shapes(), Shapes(max_length=3), tiny.ROUNDED, tiny.PACKED]),
)
def test_a_row_in_any_batch_with_any_drafts_gets_the_tokens_of_plain_decoding(wanted, batch_size, shapes):
    bench = tiny.Bench(MODEL, shapes)
    batch = bench.batch()
    waiting = list(enumerate(wanted))
    expected, rows = {}, {}
    while waiting or batch.num_rows:
        joining = []
        while waiting and batch.num_rows + len(joining) < batch_size:
            row_id, (prompt, num_tokens, sampling, seed) = waiting.pop(0)
            options = {"sampling": sampling, "seed": seed, "row_id": row_id}
            expected[row_id], _ = tiny.plain_decode(MODEL, prompt, num_tokens, **options)
            planner = drafting_row(num_tokens, expected[row_id], seed)
            joining.append(bench.row(planner, prompt, **options))
            rows[row_id] = (joining[-1][0], prompt)
        batch.join(joining)
        if not waiting:
            batch.shrink()
        for done in batch.run_round():
            assert done.error is None
            assert done.planner.tokens == expected[done.row_id]
        for place, row in enumerate(batch.rows):
            num_held = 0 if row is None else len(rows[row.row_id][1]) + len(row.planner.tokens)
            pending = 0 if row is None else len(row.pending)
            assert batch.cache.layout.lengths[place] == num_held - pending
    assert all(row.planner.is_finished for row, _ in rows.values())


@pytest.mark.model
def test_three_rows_of_the_default_model_with_wrong_drafts_get_the_tokens_of_plain_decoding():
    from fillengine.generation.models import load_model

    loaded = load_model()
    prompts = [
        loaded.tokenizer.encode(text)
        for text in ("The capital of France is", "def add(a, b):\n    return", "Dear Sir or Madam,\n\nI am")
    ]
    bench = tiny.Bench(loaded.model)
    size = bench.model.num_logits
    everything = tiny.mask_of(range(size), size)
    planners, joining = [], []
    for number, prompt in enumerate(prompts):
        num_tokens = 14 + number
        expected, _ = tiny.plain_decode(loaded.model, prompt, num_tokens, mask_after=lambda _: everything)
        rng = random.Random(number)
        planner = tiny.ScriptedRow(
            num_tokens,
            guess=lambda tokens, expected=expected, rng=rng: (
                expected[len(tokens)] if rng.random() < 0.7 else rng.randrange(size)
            ),
            num_drafted=lambda rng=rng: rng.randrange(5),
            mask_after=lambda _: everything,
        )
        planners.append((planner, expected))
        joining.append(bench.row(planner, prompt))
    batch = bench.batch()
    batch.join(joining)
    while batch.num_rows:
        batch.run_round()
    for planner, expected in planners:
        assert planner.tokens == expected


def run_alone(bench, planner, prompt=PROMPT, **options):
    batch = bench.batch()
    batch.join([bench.row(planner, prompt, **options)])
    while batch.num_rows:
        done = batch.run_round()
    return done[0]


def test_right_drafts_save_forward_passes():
    expected, _ = tiny.plain_decode(MODEL, PROMPT, 20)
    bench = tiny.Bench(MODEL)
    slow = run_alone(bench, tiny.ScriptedRow(20))
    fast = run_alone(bench, drafting_row(20, expected, 1, share_right=1, longest=9))
    assert slow.planner.tokens == fast.planner.tokens == expected
    assert slow.num_forwards == 20
    assert fast.num_forwards < 10
    assert fast.num_rollbacks == 0


def test_rejected_drafts_are_counted_as_rollbacks():
    expected, _ = tiny.plain_decode(MODEL, PROMPT, 20)
    row = run_alone(tiny.Bench(MODEL), drafting_row(20, expected, 1, share_right=0))
    assert row.planner.tokens == expected
    assert row.num_rollbacks > 0


def test_a_row_that_ends_without_asking_the_model_is_not_fed():
    class AllKnown(tiny.ScriptedRow):
        def plan(self, pending):
            self.tokens = [1, 2, 3]

    row = run_alone(tiny.Bench(MODEL), AllKnown(3))
    assert row.planner.is_finished
    assert row.num_forwards == 0


@pytest.mark.parametrize("failing", ["plan", "commit"])
def test_a_row_that_fails_changes_no_other_row(failing):
    class Failing(tiny.ScriptedRow):
        def plan(self, pending):
            if failing == "plan" and len(self.tokens) > 3:
                raise RuntimeError("no plan")
            return super().plan(pending)

        def commit(self, round, choices):
            if failing == "commit" and len(self.tokens) > 3:
                raise RuntimeError("no commit")
            return super().commit(round, choices)

    bench = tiny.Bench(MODEL)
    batch = bench.batch()
    planners = [tiny.ScriptedRow(12), Failing(12), tiny.ScriptedRow(15)]
    prompts = [PROMPT, [1, 2, 3], [40, 41, 42, 43, 44, 45, 46]]
    batch.join([bench.row(planner, prompt) for planner, prompt in zip(planners, prompts, strict=True)])
    errors = {}
    while batch.num_rows:
        errors.update({row.planner: row.error for row in batch.run_round()})
    assert str(errors[planners[1]]) == f"no {failing}"
    for planner, prompt in zip(planners[::2], prompts[::2], strict=True):
        assert errors[planner] is None
        assert planner.tokens == tiny.plain_decode(MODEL, prompt, planner.num_tokens)[0]


def test_a_row_whose_logits_are_not_numbers_fails_alone_and_leaves_nothing_behind():
    model = tiny.tiny_llama(tied=False)
    weight = model.model.embed_tokens.weight
    weight[69] = float("nan")
    bench = tiny.Bench(model)
    batch = bench.batch()
    good, bad = tiny.ScriptedRow(10), tiny.ScriptedRow(10)
    batch.join([bench.row(bad, [3, 69, 4, 5, 6, 7, 8, 9, 10, 11]), bench.row(good, PROMPT)])
    (failed,) = batch.run_round()
    assert isinstance(failed.error, ModelError)
    assert "not a number" in str(failed.error)
    late = tiny.ScriptedRow(10)
    batch.join([bench.row(late, [8, 7])])
    while batch.num_rows:
        assert all(row.error is None for row in batch.run_round())
    assert good.tokens == tiny.plain_decode(model, PROMPT, 10)[0]
    assert late.tokens == tiny.plain_decode(model, [8, 7], 10)[0]


def test_a_model_that_cannot_be_split_gives_the_same_tokens():
    bench = tiny.Bench(MODEL)
    assert bench.model.is_split
    bench.model = SplitModel(TracedTrunk(MODEL), lambda logits: logits, tiny.NUM_LOGITS, is_split=False)
    expected, _ = tiny.plain_decode(MODEL, PROMPT, 12)
    assert run_alone(bench, drafting_row(12, expected, 5)).planner.tokens == expected

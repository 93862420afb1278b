"""Every kind of layer state: whatever is drafted, and whoever joins or leaves, a row gets mlx-lm's own tokens."""

from __future__ import annotations

import random
from collections import Counter

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import NEAR

from fillengine.generation.layout import Shapes
from fillengine.generation.quantized import Storage

# Short caps, so that rings turn and passes are split within few tokens.
SHORT = Shapes(max_length=5, max_rollback=4)
PACKED = Shapes(max_length=5, max_rollback=4, packs=True)
ROUNDED = Shapes(rounds_up=True, width_step=16, max_length=8, max_rollback=8)


# Those of full attention in all layers.
PACKABLE = ("llama", "qwen3", "qwen3_moe")


def drafting_row(expected, rng, *, longest=6):
    """Drafts of which each token is right two times in three."""

    def guess(tokens):
        is_right = tokens == expected[: len(tokens)] and rng.random() < 0.67
        return expected[len(tokens)] if is_right else rng.choice(tiny.allowed_ids(tiny.mask_after(tokens)))

    return tiny.ScriptedRow(len(expected), guess=guess, num_drafted=lambda: rng.randrange(longest + 1), asserts=True)


def run_law(name, seed, *, shapes, num_rows=5, batch_size=3, longest_prompt=24, num_tokens=14, near=NEAR, **options):
    """Rows of different lengths, with drafts, joining and leaving. Returns the rows and what was seen on the way."""
    model, rng = tiny_models.model_named(name), random.Random(seed)
    bench = tiny.Bench(model, shapes, **options)
    batch = bench.batch()
    common = [rng.randrange(tiny.VOCABULARY) for _ in range(18)]
    seen = Counter()
    waiting, wanted, rows = list(range(num_rows)), {}, []
    while waiting or batch.num_rows:
        joining = []
        while waiting and batch.num_rows + len(joining) < batch_size and rng.random() < 0.7:
            row_id = waiting.pop()
            own = [rng.randrange(tiny.VOCABULARY) for _ in range(rng.randint(1, longest_prompt))]
            prompt = (common if rng.random() < 0.5 else []) + own
            wanted[row_id] = tiny_models.plain_tokens(
                model, prompt, rng.randint(1, num_tokens), storage=options.get("storage"), near=near
            )
            planner = drafting_row(wanted[row_id][0], random.Random(rng.random()))
            joining.append(bench.row(planner, prompt, row_id=row_id))
        batch.join(joining)
        if rng.random() < 0.3:
            batch.shrink()
        for done in batch.run_round():
            assert done.error is None
            rows.append(done)
            expected, ties = wanted[done.row_id]
            pairs = zip(done.planner.tokens, expected, strict=True)
            first = next((place for place, (got, wanted_token) in enumerate(pairs) if got != wanted_token), None)
            if first is not None:
                assert first in ties
                seen["near ties"] += 1
    assert len(rows) == num_rows
    seen["rollbacks"] = sum(row.num_rollbacks for row in rows)
    seen["dropped"] = sum(row.num_dropped for row in rows)
    seen["forwards"] = sum(row.num_forwards for row in rows)
    return bench.cache, seen


IN_ONE_PASS = [name for name in tiny_models.CONFIGS if name not in ("mamba", "llama4", "llama-wide")]


@pytest.mark.parametrize("name", [*IN_ONE_PASS, "mamba", "llama4"])
@settings(deadline=None, max_examples=3, derandomize=True)
@given(seed=st.integers(0, 10**6), shapes=st.sampled_from([SHORT, ROUNDED, PACKED]))
def test_rows_with_wrong_drafts_in_one_batch_get_the_tokens_of_each_row_alone(name, seed, shapes):
    cache, _ = run_law(name, seed, shapes=shapes)
    is_packed = shapes is PACKED and name in PACKABLE
    assert cache.mode == ("packed" if is_packed else {"llama4": "solo", "mamba": "unpadded"}.get(name, "batched"))


@pytest.mark.parametrize("bits", [4, 8])
@settings(deadline=None, max_examples=3, derandomize=True)
@given(seed=st.integers(0, 10**6), start=st.integers(0, 30), shapes=st.sampled_from([SHORT, ROUNDED]))
def test_rows_whose_keys_are_packed_at_different_rounds_get_the_tokens_of_each_row_alone(bits, seed, start, shapes):
    # Rounding to few values makes more of a difference than that of float32 does.
    run_law("llama-wide", seed, shapes=shapes, storage=Storage(bits, 32, start), near=0.5)

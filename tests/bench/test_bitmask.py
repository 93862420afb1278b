from __future__ import annotations

import bench_tiny  # noqa: F401 (an optimised BLAS, before mlx is imported)
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.bench.bitmask import Bitmask, num_words, unpacked_by_numpy, unpacked_on_device


@pytest.mark.parametrize("way", [unpacked_by_numpy, unpacked_on_device, Bitmask().apply])
@settings(deadline=None, max_examples=30)
@given(rows=st.integers(1, 3), num_logits=st.integers(1, 100), seed=st.integers(0, 1000))
def test_exactly_the_tokens_whose_bits_are_set_keep_their_logits(way, rows, num_logits, seed):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, num_logits)).astype(np.float32)
    bits = random.integers(0, 2**32, size=(rows, num_words(num_logits)), dtype=np.uint32)
    found = np.asarray(way(mx.array(logits), bits))
    for row in range(rows):
        for token_id in range(num_logits):
            is_allowed = bits[row, token_id // 32] >> (token_id % 32) & 1
            assert found[row, token_id] == (logits[row, token_id] if is_allowed else -np.inf)

"""Whether a model with our cache says what it says with mlx-lm's own: tried, not assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.models.cache import make_prompt_cache

if TYPE_CHECKING:
    from fillengine.generation.cache import RaggedCache

# Largest difference, as a share of the largest logit, by the precision of the arithmetic: float32; float32 on a
# GPU, whose matrix products may round to fewer bits; half precision. A state that saw padding or a wrong position
# is further off.
TOLERANCE, TOLERANCE_GPU, TOLERANCE_HALF = 1e-4, 5e-3, 3e-2
# How much larger than the model's own rounding (one token at a time against all at once) it may be instead.
ROUNDINGS = 8


def is_exact(model: Any, cache: RaggedCache) -> bool:
    """Feed two rows of different lengths with a wrong draft, and compare with mlx-lm, one row at a time.

    `cache` gives the kinds only, in full precision.
    """
    for is_last in (False, True):
        try:
            return _is_close(model, cache)
        except Exception:
            # What goes wrong says: not this way. Tried twice, since the first run also compiles kernels and loads
            # libraries: a mishap there must not make the model slow for good.
            if is_last:
                return False
    raise AssertionError("the loop returns")


def _is_close(model: Any, cache: RaggedCache) -> bool:
    hidden = _ragged(model, cache)
    tolerance = _tolerance(hidden.dtype)
    for ours, tokens in zip(_as_numpy(hidden), _KEPT, strict=True):
        expected = _as_numpy(_plain(model, [tokens]))
        difference = np.abs(ours - expected).max()
        if difference <= tolerance * np.abs(expected).max():
            continue
        rounding = np.abs(_as_numpy(_plain(model, [[token] for token in tokens])) - expected).max()
        if not difference <= ROUNDINGS * rounding:
            return False
    return True


def check_runs(model: Any, cache: RaggedCache) -> None:
    """Raises ModelError where the cache's storage does not suit the model."""
    mx.eval(_ragged(model, cache))


# What each row is fed, and how many tokens of it a row keeps that does not keep all.
_ROUNDS: tuple[tuple[dict[int, list[int]], dict[int, int]], ...] = (
    ({0: [1, 2, 3, 4], 1: [5]}, {0: 2}),
    ({0: [6, 7], 1: [8, 9, 2]}, {}),
)
_KEPT = ([1, 2, 6, 7], [5, 8, 9, 2])


def _ragged(model: Any, cache: RaggedCache) -> mx.array:
    cache = cache.empty_like(2)
    again: dict[int, list[int]] = {0: [], 1: []}
    hidden = None
    for feeds, kept in _ROUNDS:
        feeds = {row: again[row] + tokens for row, tokens in feeds.items()}
        hidden = cache.feed(model, feeds, [(row, len(tokens) - 1) for row, tokens in feeds.items()])
        num_again = cache.settle(kept)
        again = {row: tokens[: num_again[row]] for row, tokens in feeds.items()}
    if hidden is None:
        raise ValueError("nothing was fed")
    return hidden


def _plain(model: Any, feeds: list[list[int]]) -> mx.array:
    caches = make_prompt_cache(model)
    logits = mx.zeros((1, 1, 1))
    for tokens in feeds:
        logits = model(mx.array([tokens], dtype=mx.int32), cache=caches)
    return logits[0, -1]


def _tolerance(dtype: mx.Dtype) -> float:
    if dtype != mx.float32:
        return TOLERANCE_HALF
    return TOLERANCE_GPU if mx.default_device().type == mx.DeviceType.gpu else TOLERANCE


def _as_numpy(array: mx.array) -> npt.NDArray[np.float32]:
    return np.asarray(array.astype(mx.float32))

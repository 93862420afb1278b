"""A model in two parts, so that only the positions that matter go through the vocabulary projection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from fillengine.errors import ModelError
from fillengine.generation.traced import TracedTrunk

PROBE_IDS = (1, 2, 3)
# Largest difference between the two ways, as a share of the largest logit. They run the same operations,
# so anything else (scaled or capped logits, say) shows as a far larger difference.
TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class SplitModel:
    """`head(trunk(ids, cache))` are the logits.

    trunk: (ids int32[rows, tokens], cache=layers or None) -> [rows, tokens, n]
    head:  [positions, n] -> logits [positions, num_logits]
    """

    trunk: TracedTrunk
    head: Callable[[mx.array], mx.array]
    num_logits: int
    # False: the trunk is the whole model, and the head does nothing.
    is_split: bool
    # The head's weights [num_logits, n] where it is a plain product with them and computing a few logits
    # alone pays: on a CPU, where SmolLM2's whole projection is 9 of the 50 ms of a decode step.
    weight: mx.array | None = None

    def logits_of(self, hidden: mx.array, token_ids: mx.array) -> mx.array:
        """The logits of some tokens only. hidden [positions, n], token_ids int32[positions, k] -> the same."""
        if self.weight is None:
            raise ValueError("this model gives all its logits at once")
        # A sum of its own for each logit: a matrix product's rounding may depend on how many there are.
        return (self.weight[token_ids] * hidden[:, None]).sum(axis=-1)


def split(model: Any) -> SplitModel:
    """Find the parts of an mlx-lm model. A probe must show that they give the model's own logits."""
    probe = mx.array([PROBE_IDS], dtype=mx.int32)
    try:
        expected = model(probe).astype(mx.float32)
    except Exception as error:
        raise ModelError(f"the model fails on its first tokens: {type(error).__name__}: {error}") from error
    for owner in (model, getattr(model, "language_model", None)):
        trunk: Any = getattr(owner, "model", None)
        for head in _heads(owner, trunk):
            try:
                found = head(trunk(probe)).astype(mx.float32)
                is_same = found.shape == expected.shape and _is_close(found, expected)
            except Exception:  # whatever goes wrong here says only: this is not the split
                continue
            if is_same:
                found_model = SplitModel(TracedTrunk(trunk), head, expected.shape[-1], is_split=True)
                return _with_weight(found_model, probe)
    return SplitModel(TracedTrunk(model), lambda logits: logits, expected.shape[-1], is_split=False)


def _with_weight(model: SplitModel, probe: mx.array) -> SplitModel:
    """The model with the head's weights, where a probe shows that these are all of it."""
    if mx.default_device().type != mx.DeviceType.cpu:
        return model
    layer = getattr(model.head, "__self__", model.head)
    weight = getattr(layer, "weight", None)
    if weight is None or weight.ndim != 2 or not mx.issubdtype(weight.dtype, mx.floating):
        return model
    hidden = model.trunk(probe)[0]
    if weight.shape != (model.num_logits, hidden.shape[-1]):
        return model
    weighted = replace(model, weight=weight)
    few = mx.broadcast_to(mx.arange(8, dtype=mx.int32), (len(PROBE_IDS), 8))
    is_same = _is_close(weighted.logits_of(hidden, few), model.head(hidden)[:, :8])
    return weighted if is_same else model


def _heads(owner: Any, trunk: Any) -> list[Callable[[mx.array], mx.array]]:
    if trunk is None:
        return []
    tied = getattr(getattr(trunk, "embed_tokens", None), "as_linear", None)
    return [head for head in (getattr(owner, "lm_head", None), tied) if callable(head)]


def _is_close(found: mx.array, expected: mx.array) -> bool:
    difference = mx.abs(found - expected).max()
    return bool((difference <= TOLERANCE * mx.abs(expected).max()).item())

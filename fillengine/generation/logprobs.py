"""Log-probabilities of written tokens, and the likeliest tokens where they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from fillengine.errors import FillError
from fillengine.generation.result import TokenLogprob
from fillengine.generation.trunk import SplitModel


@dataclass(frozen=True, slots=True)
class Logprobs:
    """What a row is asked for.

    num_top         the likeliest tokens that are named at each place
    of_determined   tokens that the form determines have theirs too; the vocabulary projection is then computed
                    for them, which is otherwise saved
    """

    num_top: int = 0
    of_determined: bool = False

    def __post_init__(self) -> None:
        if self.num_top < 0:
            raise FillError(f"logprobs is {self.num_top}; it must be 0 (of the chosen token only) or more")


def token_logprobs(
    model: SplitModel, hidden: mx.array, token_ids: Sequence[int], num_top: Sequence[int]
) -> list[TokenLogprob]:
    """Of the token written behind each position. hidden: float[positions, n], as the trunk gave it."""
    logits = model.head(hidden).astype(mx.float32)
    logprobs: npt.NDArray[np.float32] = np.asarray(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    return [
        TokenLogprob(token_id, float(row[token_id]), _top(row, wanted))
        for row, token_id, wanted in zip(logprobs, token_ids, num_top, strict=True)
    ]


def _top(row: npt.NDArray[np.float32], wanted: int) -> tuple[tuple[int, float], ...]:
    wanted = min(wanted, len(row))
    if wanted == 0:
        return ()
    least = np.partition(row, len(row) - wanted)[len(row) - wanted]
    likely = np.flatnonzero(row >= least)
    likely = likely[np.argsort(-row[likely], kind="stable")][:wanted]
    return tuple((int(token_id), float(row[token_id])) for token_id in likely)

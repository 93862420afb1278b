"""The choice of a token: mask, then temperature, top_p, min_p and top_k, with noise that no batch changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

from fillengine.errors import FillError

_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a row's tokens are chosen among the allowed ones.

    temperature 0: the likeliest token, of equals the lowest id; the other three then change nothing.
    top_p: of the likeliest tokens those that together have this probability (1: all).
    top_k: the k likeliest tokens (0: all).
    min_p: those at least this share as likely as the likeliest one (0: all).
    Order: top_p, min_p, top_k, temperature, as in mlx-lm.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise FillError(f"temperature is {self.temperature}; it must be 0 or a finite number above 0")
        if not 0 < self.top_p <= 1:
            raise FillError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if self.top_k < 0:
            raise FillError(f"top_k is {self.top_k}; it must be 0 (all tokens) or more")
        if not 0 <= self.min_p <= 1:
            raise FillError(f"min_p is {self.min_p}; it must be between 0 and 1")


GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Draw:
    """One choice to make: by which rule, and which noise is its own."""

    sampling: Sampling
    seed: int
    row_id: int
    # The output position of the chosen token: 0 for the first emitted one.
    position: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Which tokens the columns of a table of logits are, where it does not hold all of them.

    token_ids: int32, the shape of the logits, ascending in a row.  num_logits: how many the model has in all.
    """

    token_ids: mx.array
    num_logits: int

    def take(self, rows: mx.array) -> Columns:
        return Columns(self.token_ids[rows], self.num_logits)


def choose(logits: mx.array, allowed: mx.array, draws: Sequence[Draw], columns: Columns | None = None) -> mx.array:
    """The token of each draw: int32[len(draws)], -1 where the model's numbers are unusable (NaN or infinite).

    logits: float[len(draws), num_logits], as the model gave them, or only some `columns` of that.
    allowed: bool, the same shape, at least one True in a row. Where the model rules out every allowed token
    (minus infinity) all are equally likely.
    """
    logits = logits.astype(mx.float32)
    # NaN where one is NaN or infinite of both signs; minus infinity is how a model rules out a token.
    total = mx.sum(logits, axis=-1)
    is_usable = total < math.inf
    lowest = mx.finfo(mx.float32).min
    masked = mx.where(allowed, mx.maximum(logits, lowest), -math.inf)
    choices = mx.argmax(masked, axis=-1).astype(mx.int32)
    for sampling, group in _groups(draws).items():
        if len(group) == len(draws):
            choices = _sample(masked, draws, sampling, columns)
        else:
            rows = mx.array(group, dtype=mx.int32)
            own_columns = columns and columns.take(rows)
            choices[rows] = _sample(masked[rows], [draws[row] for row in group], sampling, own_columns)
    if columns is not None:
        choices = mx.take_along_axis(columns.token_ids, choices[:, None], axis=-1)[:, 0]
    return mx.where(is_usable, choices, -1)


def _groups(draws: Sequence[Draw]) -> dict[Sampling, list[int]]:
    """The numbers of the draws that need noise, by their rule."""
    groups: dict[Sampling, list[int]] = {}
    for number, draw in enumerate(draws):
        if draw.sampling.temperature > 0:
            groups.setdefault(draw.sampling, []).append(number)
    return groups


def _sample(masked: mx.array, draws: Sequence[Draw], sampling: Sampling, columns: Columns | None) -> mx.array:
    """The chosen column of each draw, int32[len(draws)]."""
    # Not normalised: the three filters and the noise take any constant, and the sum over all is slow.
    logprobs = masked - mx.max(masked, axis=-1, keepdims=True)
    if sampling.top_p < 1:
        logprobs = apply_top_p(logprobs, sampling.top_p)
    if sampling.min_p > 0:
        logprobs = apply_min_p(logprobs, sampling.min_p)
    if 0 < sampling.top_k < masked.shape[-1]:
        logprobs = apply_top_k(logprobs, sampling.top_k)
    if columns is None:
        added = noise(draws, masked.shape[-1])
    else:
        added = mx.take_along_axis(noise(draws, columns.num_logits), columns.token_ids, axis=-1)
    return mx.argmax(logprobs * (1 / sampling.temperature) + added, axis=-1).astype(mx.int32)


def noise(draws: Sequence[Draw], num_logits: int) -> mx.array:
    """Standard Gumbel noise, float32[len(draws), num_logits]; a row depends on its own draw only."""
    keys = mx.array([noise_key(draw.seed, draw.row_id, draw.position) for draw in draws], dtype=mx.uint32)
    return mx.vmap(lambda key: mx.random.gumbel((num_logits,), key=key))(keys)


def noise_key(seed: int, row_id: int, position: int) -> tuple[int, int]:
    """The key of one draw, in the form of `mx.random.key`: two 32-bit words."""
    mixed = _mix(_mix(_mix(seed & _WORD) ^ (row_id & _WORD)) ^ (position & _WORD))
    return mixed >> 32, mixed & 0xFFFFFFFF


def _mix(word: int) -> int:
    """One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): close inputs, unrelated outputs."""
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)

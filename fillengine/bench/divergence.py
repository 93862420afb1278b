"""Where two texts that should be the same differ: a near-tie of the model's own numbers, or a fault."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fillengine.bench.contenders import Ours
from fillengine.bench.records import Record
from fillengine.fill import Constraint
from fillengine.generation.sampling import Draw, noise

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)

# Bits of the fraction, the leading one included (IEEE 754; bfloat16: 8), and how many spacings of such numbers passes
# of different shapes may be apart: rounding adds up over the layers, but short numbers round the logits themselves.
_PRECISION = {mx.float32: (24, 64), mx.float16: (11, 16), mx.bfloat16: (8, 4)}


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first position at which two texts differ.

    chosen       the token of each text there (None: it has ended)
    best         the two best candidates under the mask, computed anew by one pass over prompt and common beginning
    gap          how far the logit of the worse of the chosen ones lies behind the best candidate's; above temperature 0
                 with the position's noise, times the temperature
    spacing      of the numbers of the model's precision at the size of the best candidates' logits
    is_near_tie  both texts chose what is allowed, and the gap is no more than rounding makes it
    """

    position: int
    chosen: tuple[int | None, int | None]
    best: tuple[int, int]
    gap: float
    spacing: float
    is_near_tie: bool


def first_difference(left: list[int], right: list[int]) -> int | None:
    """The first position at which they differ; None where they are equal."""
    if left == right:
        return None
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))


def explain(contender: Ours, index: int, record: Record, left: list[int], right: list[int]) -> Divergence:
    """left, right: different tokens for the same record. `contender`: one of the family that wrote them."""
    position = first_difference(left, right)
    assert position is not None
    request = contender.request(index, record)
    engine, settings = contender.engine, contender.settings
    session = Constraint(request.form, engine.tokenizer).session(max_tokens=request.max_tokens, guard=request.guard)
    for token_id in left[:position]:
        session.advance(token_id)
    allowed = np.flatnonzero(session.allowed())
    ids = mx.array([[*request.prompt, *left[:position]]])
    logits = engine.loaded.model(ids)[0, -1]
    bits, near = _PRECISION.get(logits.dtype, _PRECISION[mx.float32])
    scores = logits.astype(mx.float32)
    if settings.temperature > 0:
        draw = Draw(request.sampling, settings.seed, index, position)
        scores = scores + settings.temperature * noise([draw], scores.shape[-1])[0]
    of_all = np.asarray(scores)
    order = allowed[np.argsort(-of_all[allowed], kind="stable")[:2]]
    best = (int(order[0]), int(order[-1]))
    chosen = (_at(left, position), _at(right, position))
    permitted = [token_id for token_id in chosen if token_id is not None and token_id in allowed]
    gap = float(of_all[best[0]] - min(of_all[token_id] for token_id in [best[0], *permitted]))
    size = max(abs(float(logits[token_id].item())) for token_id in best)
    spacing = float(2.0 ** (np.floor(np.log2(max(size, 1e-30))) + 1 - bits))
    is_near_tie = len(permitted) == len(chosen) and gap < near * spacing
    return Divergence(position, chosen, best, gap, spacing, is_near_tie)


def as_row(contender: str, record: Record, divergence: Divergence | None, position: int) -> dict[str, Any]:
    """For the JSON file. Without a divergence: of a peer, whose masks are not made again."""
    row: dict[str, Any] = {"contender": contender, "id": record.id, "position": position}
    return row if divergence is None else row | asdict(divergence)


def _at(token_ids: list[int], position: int) -> int | None:
    return token_ids[position] if position < len(token_ids) else None

"""Economics of drafts: how many proposed tokens a forward pass should check.

A pass over n tokens costs cost(n); a proposed token that is accepted saves a pass of its own later on, one that is
not was in vain. What a token is worth follows from how often its kind was accepted in this row and at this place
of the template. A source that loses is rested for a while.

    known 1, proposed with odds 0.9, 0.8, 0.5      expected passes saved 0.9, + 0.72, + 0.36
    cost(1..4) = 1.0, 1.1, 1.5, 1.9                to be paid            0.1, + 0.4,  + 0.4     -> two are proposed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fillengine.errors import FillError
from fillengine.fill.sources.guess import INSIDE

MAX_MEASURED = 64
"""Cost curves are given up to this many tokens."""

PRIOR_WEIGHT = 6.0
"""Tokens that the odds of a kind count for when a row has not yet seen any of it."""

LABEL_WEIGHT = 4.0
"""Tokens that a row's odds of a kind count for at a hole of which nothing is known."""

SOURCE_WEIGHT = 3.0
"""A source of which all kinds do worse than expected is trusted less; so many tokens count for the expectation."""

KIND_DEBT = 0.4
SOURCE_DEBT = 1.5
"""Passes that a kind of guess, or a whole source, may lose before it is rested."""

REST_TOKENS = 16
"""Tokens of the first rest; each further rest is twice as long."""


class CostCurve:
    """What a forward pass over n tokens costs, in passes over one token.

    Between measured lengths it is a straight line, behind the last one it goes on like the last stretch.
    """

    def __init__(self, measured: Mapping[int, float]) -> None:
        """`measured`: length -> time in any unit. Raises FillError where length 1 is missing or a time is not > 0."""
        if 1 not in measured or min(measured) < 1 or min(measured.values()) <= 0:
            raise FillError(f"a cost curve needs times above 0 for lengths from 1 on, not {dict(measured)}")
        base = measured[1]
        points = [(length, measured[length] / base) for length in sorted(measured)]
        self._costs = [0.0, 1.0]
        slope = 0.0
        for (length, cost), (longer, dearer) in pairwise(points):
            slope = (dearer - cost) / (longer - length)
            self._costs += [cost + slope * (n - length) for n in range(length + 1, longer + 1)]
        self._slope = max(slope, 0.0)

    def cost(self, num_tokens: int) -> float:
        """The cost of a pass over `num_tokens` tokens; 0 for none."""
        costs = self._costs
        if num_tokens < len(costs):
            return costs[num_tokens]
        return costs[-1] + self._slope * (num_tokens - len(costs) + 1)


CPU_CURVE = CostCurve({1: 1.0, 2: 1.1, 4: 1.9, 8: 2.7, 16: 4.3, 32: 7.0, 64: 12.0})
"""A model of 135 million parameters in float32 on two x86 cores. Measured up to 8 tokens, a guess behind."""

FLAT_CURVE = CostCurve({1: 1.0, 8: 1.08, 32: 1.5, 64: 2.2})
"""A GPU that waits for memory: the same model in 4 bit on an H200."""


@dataclass(slots=True)
class _Count:
    """Tokens whose turn came, or for a source what its odds made expect of them."""

    accepted: float = 0.0
    seen: float = 0.0


@dataclass(slots=True)
class _Balance:
    """Passes won less passes lost since the last rest. `until` is the output position at which a rest ends."""

    passes: float = 0.0
    until: int = 0
    num_rests: int = 0


@dataclass(slots=True)
class Ledger:
    """What a row has seen of its sources. A function of the row's rounds, so of its tokens."""

    curve: CostCurve = CPU_CURVE
    _kinds: dict[tuple[str, str], _Count] = field(default_factory=dict)
    _labels: dict[tuple[str, str], _Count] = field(default_factory=dict)
    _sources: dict[str, _Count] = field(default_factory=dict)
    _balances: dict[tuple[str, str | None], _Balance] = field(default_factory=dict)

    def odds(self, source: str, kind: str, label: str, prior: float) -> float:
        """How likely a token of this kind is to be accepted."""
        of_source = self._sources.get(source)
        if of_source is not None and kind != INSIDE:
            prior *= min((SOURCE_WEIGHT + of_source.accepted) / (SOURCE_WEIGHT + of_source.seen), 1.0)
        count = self._kinds.get((source, kind))
        odds = prior if count is None else (prior * PRIOR_WEIGHT + count.accepted) / (PRIOR_WEIGHT + count.seen)
        at_label = self._labels.get((source, label))
        if at_label is not None:
            odds = (odds * LABEL_WEIGHT + at_label.accepted) / (LABEL_WEIGHT + at_label.seen)
        return odds

    def record(self, source: str, kind: str, label: str, prior: float, *, is_accepted: bool) -> None:
        """What became of a token whose turn came: those behind a rejected one say nothing."""
        for table, key in ((self._kinds, (source, kind)), (self._labels, (source, label))):
            count = table.setdefault(key, _Count())
            count.accepted += is_accepted
            count.seen += 1
        if kind != INSIDE:
            of_source = self._sources.setdefault(source, _Count())
            of_source.accepted += is_accepted
            of_source.seen += prior

    def settle(self, source: str, kind: str, passes: float, position: int) -> None:
        """Book what a round won (or lost) by a kind of guess, at output position `position`."""
        for key, debt in (((source, kind), KIND_DEBT), ((source, None), SOURCE_DEBT)):
            balance = self._balances.setdefault(key, _Balance())
            balance.passes = min(balance.passes + passes, 2 * debt)
            if balance.passes < -debt:
                balance.until = position + (REST_TOKENS << balance.num_rests)
                balance.num_rests += 1
                balance.passes = 0.0

    def is_rested(self, source: str, kind: str | None, position: int) -> bool:
        """Whether a kind of guess (None: the whole source) is left alone at this output position."""
        balance = self._balances.get((source, kind))
        return balance is not None and position < balance.until


def best_length(curve: CostCurve, num_known: int, odds: Sequence[float | None]) -> int:
    """How many of the proposed tokens to check behind `num_known` tokens that are fed anyway.

    `odds` of each token given that those before it are accepted; None for a token that the form then determines:
    it saves no pass, but being fed now it need not be fed later.
    """
    base = curve.cost(num_known)
    later = (curve.cost(5) - curve.cost(1)) / 4
    best, best_gain = 0, 0.0
    reach, saved = 1.0, 0.0
    for num_tokens, chance in enumerate(odds, start=1):
        if chance is None:
            saved += reach * later
        else:
            reach *= chance
            saved += reach
        gain = saved - (curve.cost(num_known + num_tokens) - base)
        if gain > best_gain + 1e-9:
            best, best_gain = num_tokens, gain
    return best

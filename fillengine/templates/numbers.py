"""Automata of JSON numbers within bounds: exact decimal arithmetic on their spelling, a digit at a time.

    integer(-3, 12)                       "-3" ... "12"; never "-0", "+1" or "01"
    number(minimum=Decimal("0.5"))        "0.5", "0.50", "7"; not "0.499"
    number(multiple_of=Decimal("0.25"))   "1.25", "-0.5", "3", "3.000"

A bound is compared with the digits written so far, first by the length of the integer part, then digit by
digit; what was written is below the bound's first digits, the same, or above. A multiple is a remainder that
each digit carries on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

import numpy as np

from fillengine.automata.dfa import Dfa, from_regex, intersection, minimise
from fillengine.automata.tables import check_size, tidy

_ALPHABET = b"-.0123456789"
_CLASS_OF = np.full(256, len(_ALPHABET), np.uint8)
_CLASS_OF[list(_ALPHABET)] = np.arange(len(_ALPHABET))

# Every decimal of up to 15 significant digits is another double (IEEE 754, C's DBL_DIG).
_EXACT_DIGITS = 15

_SPELLING = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"

State = TypeVar("State", bound=Hashable)


def _explore(start: State, step: Callable[[State, str], State | None], accepts: Callable[[State], bool]) -> Dfa:
    """The minimal automaton over the characters of plain decimals, its states found by walking."""
    numbers = {start: 1}
    todo = [start]
    rows = [[0] * (len(_ALPHABET) + 1)]
    for state in todo:
        row = []
        for character in _ALPHABET.decode():
            target = step(state, character)
            if target is None:
                row.append(0)
                continue
            number = numbers.get(target)
            if number is None:
                number = numbers[target] = len(numbers) + 1
                check_size(number)
                todo.append(target)
            row.append(number)
        rows.append([*row, 0])
    accept = np.array([False, *(accepts(state) for state in todo)])
    return minimise(tidy(np.array(rows, np.int32), _CLASS_OF, accept, 1))


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound on the absolute value: integer digits without leading zeros, fraction digits without trailing.

    The digits are taken as they are: arithmetic on Decimal would round to the precision of its context.
    """

    whole: str
    fraction: str

    @classmethod
    def of(cls, value: Decimal) -> _Bound:
        whole, _, fraction = f"{value.copy_abs():f}".partition(".")
        return cls(whole.lstrip("0"), fraction.rstrip("0"))


# Where a number stands against a bound. While the integer part is being written: how many digits it has (up to
# one more than the bound has), and how they compare with the bound's first digits. Behind the point: how many
# fraction digits were compared (up to all of the bound's), and the comparison.
_Standing = tuple[int, int]
_AT_START: _Standing = (0, 0)


def _whole_digit(bound: _Bound, standing: _Standing, digit: str) -> _Standing:
    count, order = standing
    if count == 0 and digit == "0":
        return standing  # the number is 0.…, which has no digits in front of the point
    if count >= len(bound.whole):
        return len(bound.whole) + 1, 1
    if order == 0:
        order = (digit > bound.whole[count]) - (digit < bound.whole[count])
    return count + 1, order


def _at_point(bound: _Bound, standing: _Standing) -> _Standing:
    count, order = standing
    if count != len(bound.whole):
        order = 1 if count > len(bound.whole) else -1
    return 0, order


def _fraction_digit(bound: _Bound, standing: _Standing, digit: str) -> _Standing:
    count, order = standing
    if order:
        return 0, order
    if count == len(bound.fraction):
        return count, int(digit != "0")
    order = (digit > bound.fraction[count]) - (digit < bound.fraction[count])
    return (0, order) if order else (count + 1, 0)


def _order(bound: _Bound, standing: _Standing, *, behind_point: bool) -> int:
    """-1, 0 or 1: how a number that ends here compares with the bound."""
    count, order = standing if behind_point else _at_point(bound, standing)
    return order if order or count == len(bound.fraction) else -1


@dataclass(frozen=True, slots=True)
class _Interval:
    """Absolute values from `low` to `high`; None is no bound."""

    low: _Bound | None
    high: _Bound | None
    open_low: bool
    open_high: bool


def _interval(low: Decimal | None, high: Decimal | None, *, open_low: bool, open_high: bool) -> _Interval | None:
    """The part of an interval that is not below zero; None when there is none."""
    if high is not None and high < 0:
        return None
    if low is not None and low < 0:
        low, open_low = None, False
    return _Interval(
        None if low is None else _Bound.of(low), None if high is None else _Bound.of(high), open_low, open_high
    )


# A state of the walk: (sign not known yet: None, else "+" or "-"; phase; standing to low; standing to high;
# digits of the fraction so far, counted only when they are limited).
_Walk = tuple[str | None, str, _Standing, _Standing, int]


def _between(
    low: Decimal | None,
    high: Decimal | None,
    *,
    open_low: bool = False,
    open_high: bool = False,
    max_fraction: int | None = None,
) -> Dfa:
    """Plain decimals within bounds. max_fraction: most digits behind the point (0: no point; None: any)."""
    intervals = {
        "+": _interval(low, high, open_low=open_low, open_high=open_high),
        "-": _interval(
            None if high is None else high.copy_negate(),
            None if low is None else low.copy_negate(),
            open_low=open_high,
            open_high=open_low,
        ),
    }

    def step(state: _Walk, character: str) -> _Walk | None:
        sign, phase, to_low, to_high, size = state
        if character == "-":
            return ("-", "sign", _AT_START, _AT_START, 0) if sign is None and intervals["-"] else None
        sign = sign or "+"
        interval = intervals[sign]
        if interval is None:
            return None
        if character == ".":
            if phase not in ("zero", "whole") or max_fraction == 0:
                return None
            move: Callable[[_Bound, _Standing], _Standing] = _at_point
            phase = "point"
        elif phase in ("point", "fraction"):
            if size == max_fraction:
                return None

            def move(bound: _Bound, standing: _Standing) -> _Standing:
                return _fraction_digit(bound, standing, character)

            phase = "fraction"
            size += max_fraction is not None
        elif phase == "zero":
            return None
        else:

            def move(bound: _Bound, standing: _Standing) -> _Standing:
                return _whole_digit(bound, standing, character)

            phase = "zero" if phase in ("start", "sign") and character == "0" else "whole"
        if interval.low is not None:
            to_low = move(interval.low, to_low)
        if interval.high is not None:
            to_high = move(interval.high, to_high)
            # Above the upper bound already: more digits do not help.
            if phase == "whole" and to_high[0] > len(interval.high.whole):
                return None
            if phase == "fraction" and to_high[1] > 0:
                return None
        return sign, phase, to_low, to_high, size

    def accepts(state: _Walk) -> bool:
        sign, phase, to_low, to_high, _ = state
        interval = intervals[sign or "+"]
        if phase not in ("zero", "whole", "fraction") or interval is None:
            return False
        behind_point = phase == "fraction"
        if interval.low is not None:
            order = _order(interval.low, to_low, behind_point=behind_point)
            if order < interval.open_low:
                return False
        if interval.high is not None:
            order = _order(interval.high, to_high, behind_point=behind_point)
            if order > -int(interval.open_high):
                return False
        return True

    start: _Walk = (None, "start", _AT_START, _AT_START, 0)
    return _explore(start, step, accepts)


@lru_cache(maxsize=256)
def _multiples(of: Decimal) -> Dfa:
    """Plain decimals (a sign, a fraction) that are multiples of a positive number.

    With `of` = cofactor * 10**zeros / 10**places: read as an integer of `places` fraction digits, a number
    must end in `zeros` zeros, and what is in front of those must be a multiple of the cofactor.
    """
    _, digits, exponent = of.as_tuple()
    assert isinstance(exponent, int)
    cofactor = int("".join(map(str, digits)))
    while cofactor % 10 == 0:
        cofactor //= 10
        exponent += 1
    zeros, places = max(exponent, 0), max(-exponent, 0)
    check_size((zeros + 1) * cofactor)
    # (phase, remainder of the digits in front of the trailing zeros, trailing zeros up to `zeros`,
    # fraction digits up to `places`)
    walk = tuple[str, int, int, int]

    def step(state: walk, character: str) -> walk | None:
        phase, remainder, trailing, size = state
        if character == "-":
            return ("sign", remainder, trailing, size) if phase == "start" else None
        if character == ".":
            return ("point", remainder, trailing, size) if phase in ("zero", "whole") else None
        digit = int(character)
        if phase == "zero":
            return None
        if phase in ("point", "fraction"):
            phase = "fraction"
            if size == places:
                return (phase, remainder, trailing, size) if digit == 0 else None
            size += 1
        else:
            phase = "zero" if phase in ("start", "sign") and digit == 0 else "whole"
        if digit == 0 and trailing < zeros:
            return phase, remainder, trailing + 1, size
        if digit:
            return phase, (remainder * 10 ** (trailing + 1) + digit) % cofactor, 0, size
        return phase, remainder * 10 % cofactor, trailing, size

    def accepts(state: walk) -> bool:
        phase, remainder, trailing, size = state
        if phase not in ("zero", "whole", "fraction"):
            return False
        return trailing == zeros and remainder * 10 ** (places - size) % cofactor == 0

    # Zero ends in as many zeros as one likes.
    return _explore(("start", 0, zeros, 0), step, accepts)


@lru_cache(maxsize=256)
def integer(minimum: int | None = None, maximum: int | None = None, multiple_of: int | None = None) -> Dfa:
    """The integers from `minimum` to `maximum` (None: no bound) that are multiples of `multiple_of` (positive).

    Spelled `-?(0|[1-9][0-9]*)`, and zero never `-0`. Raises AutomatonTooLarge for a `multiple_of` of more than
    some ten thousand different remainders.
    """
    dfa = from_regex("0|-?[1-9][0-9]*")
    if minimum is not None or maximum is not None:
        low, high = (None if bound is None else Decimal(bound) for bound in (minimum, maximum))
        dfa = intersection(dfa, _between(low, high, max_fraction=0))
    if multiple_of is not None and multiple_of != 1:
        dfa = intersection(dfa, _multiples(Decimal(multiple_of)))
    return minimise(dfa)


@lru_cache(maxsize=256)
def number(
    minimum: Decimal | None = None,
    maximum: Decimal | None = None,
    *,
    exclusive_minimum: Decimal | None = None,
    exclusive_maximum: Decimal | None = None,
    multiple_of: Decimal | None = None,
    exponent: bool = True,
) -> Dfa:
    """The JSON numbers within all bounds that are multiples of `multiple_of` (positive).

    An exponent may be written only where there are no bounds and no `multiple_of`, and with `exponent=False`
    not even there (for whoever takes values out of the automaton: all spellings of a value are then decimals).
    `-0` is zero.
    Bounds are exact for any number of digits. An exclusive bound also limits the digits behind the point (to
    15 significant ones near the bound): 4.99999999999999999 is below 5, but reads as the float 5.0, which
    whoever checks the result refuses.
    Raises AutomatonTooLarge for a `multiple_of` of more than some ten thousand different remainders.
    """
    low, open_low = _stricter(minimum, exclusive_minimum, 1)
    high, open_high = _stricter(maximum, exclusive_maximum, -1)
    if low is None and high is None:
        if multiple_of is not None:
            return _multiples(multiple_of)
        return from_regex(_SPELLING + (r"(?:[eE][+-]?[0-9]+)?" if exponent else ""))
    limits = [
        _exact_places(bound) for bound, is_open in ((low, open_low), (high, open_high)) if bound is not None and is_open
    ]
    dfa = _between(low, high, open_low=open_low, open_high=open_high, max_fraction=min(limits, default=None))
    return dfa if multiple_of is None else minimise(intersection(dfa, _multiples(multiple_of)))


def _stricter(closed: Decimal | None, excluded: Decimal | None, sign: int) -> tuple[Decimal | None, bool]:
    """Of a bound that is inside and one that is outside the one that matters, and whether it is outside.

    sign: 1 for lower bounds, -1 for upper ones.
    """
    if excluded is None:
        return closed, False
    if closed is None or excluded == closed or (excluded > closed) == (sign > 0):
        return excluded, True
    return closed, False


def _exact_places(bound: Decimal) -> int:
    """How many fraction digits keep a number and the bound apart as floats, whatever the digits are."""
    parts = _Bound.of(bound)
    return max(len(parts.fraction), _EXACT_DIGITS - len(parts.whole))

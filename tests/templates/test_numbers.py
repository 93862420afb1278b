"""Numbers within bounds, against decimal arithmetic."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fillengine.errors import AutomatonTooLarge
from fillengine.templates.numbers import integer, number

many = settings(deadline=None, max_examples=200)

INTEGER = re.compile(r"0|-?[1-9][0-9]*")
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")

spellings = st.from_regex(r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?", fullmatch=True)
odd = st.text(st.sampled_from("-+.eE0015"), max_size=6)
whole_bounds = st.none() | st.integers(-1200, 1200) | st.integers(-(10**30), 10**30)
bounds = (
    st.none()
    | st.decimals(-1200, 1200, places=2)
    | st.sampled_from([Decimal(text) for text in ("0", "5", "-5", "1E+2", "0.004", "-0")])
)


@many
@given(whole_bounds, whole_bounds, st.none() | st.integers(1, 60), st.lists(st.integers(-1300, 1300), max_size=30), odd)
@example(-3, 12, 5, list(range(-20, 20)), "-0")
@example(0, 0, None, [0, 1, -1], "-0")
@example(None, -1, None, [0, 1, -1, -10], "-01")
def test_integers_are_those_within_the_bounds(
    low: int | None, high: int | None, multiple: int | None, values: list[int], other: str
) -> None:
    dfa = integer(low, high, multiple)
    near = [bound + delta for bound in (low, high) if bound is not None for delta in (-10, -1, 0, 1, 10)]
    for text in [str(value) for value in (*values, *near)] + [other]:
        expected = (
            INTEGER.fullmatch(text) is not None
            and (low is None or int(text) >= low)
            and (high is None or int(text) <= high)
            and (multiple is None or int(text) % multiple == 0)
        )
        assert dfa.matches(text.encode()) == expected, text


@many
@given(bounds, bounds, bounds, bounds, st.lists(spellings, max_size=30), odd)
@example(Decimal(0), None, Decimal(0), None, ["0.004", "0", "-0", "0.0", "-0.0", "1"], "0.")
@example(None, Decimal(5), None, None, ["5.0", "5.000", "5.0001", "-6", "-0"], "05")
@example(Decimal("-0.5"), None, None, Decimal("-0.25"), ["-0.5", "-0.50", "-0.51", "-0.3", "-0.2"], "-.3")
@example(None, Decimal("1E+2"), Decimal("9.99"), None, ["100", "100.01", "9.99", "9.991", "99.9"], "1e2")
def test_numbers_are_those_within_the_bounds(
    low: Decimal | None,
    high: Decimal | None,
    above: Decimal | None,
    below: Decimal | None,
    texts: list[str],
    other: str,
) -> None:
    assume(any(bound is not None for bound in (low, high, above, below)))
    dfa = number(low, high, exclusive_minimum=above, exclusive_maximum=below)
    near = [
        f"{bound + delta:f}"
        for bound in (low, high, above, below)
        if bound is not None
        for delta in map(Decimal, ("-10", "-0.001", "0", "0.0001", "1", "10"))
    ]
    for text in (*texts, *near, other):
        assert dfa.matches(text.encode()) == (
            PLAIN.fullmatch(text) is not None
            and (low is None or Decimal(text) >= low)
            and (high is None or Decimal(text) <= high)
            and (above is None or Decimal(text) > above)
            and (below is None or Decimal(text) < below)
        ), text


@many
@given(
    st.sampled_from(
        ["0.01", "0.5", "2.5", "1", "10", "1000", "3", "0.07", "1.50", "1E+3", "125", "0.001", "40", "15E-1"]
    ),
    bounds,
    st.lists(spellings, max_size=40),
)
def test_multiples_are_exact(of: str, low: Decimal | None, texts: list[str]) -> None:
    step = Decimal(of)
    dfa = number(low, multiple_of=step)
    multiples = [f"{step * factor:f}" for factor in range(-30, 31)] + [f"{step * 7:f}.0", f"{step * 3:f}"]
    for text in (*texts, *multiples, "0", "-0", "0.000"):
        if PLAIN.fullmatch(text):
            expected = Decimal(text) % step == 0 and (low is None or Decimal(text) >= low)
            assert dfa.matches(text.encode()) == expected, text


@many
@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
@example(1e-07)
@example(1e16)
@example(-0.0)
def test_a_number_without_bounds_is_whatever_json_writes(value: float) -> None:
    text = json.dumps(value)
    assert number().matches(text.encode())
    assert number(exponent=False).matches(text.encode()) == ("e" not in text)


@pytest.mark.parametrize("text", ["", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "NaN", "Infinity", " 1", "١"])
def test_what_is_no_json_number_is_refused(text: str) -> None:
    assert not number().matches(text.encode())
    assert not number(Decimal(-10), Decimal(10)).matches(text.encode())
    assert not integer().matches(text.encode())


@many
@given(st.decimals(-100, 100, places=3), st.text("0123456789", max_size=25))
def test_what_is_within_an_exclusive_bound_is_so_as_a_float(bound: Decimal, digits: str) -> None:
    above = number(exclusive_minimum=bound)
    below = number(exclusive_maximum=bound)
    for tail in ("9" * 30, "0" * 20 + "1", digits):
        for text in (f"{bound:f}{tail}", f"{bound - Decimal('0.001'):f}{tail}"):
            if above.matches(text.encode()):
                assert float(text) > float(bound)
            if below.matches(text.encode()):
                assert float(text) < float(bound)


def test_an_exclusive_bound_of_zero_keeps_small_numbers() -> None:
    positive = number(exclusive_minimum=Decimal(0))
    assert positive.matches(b"0.000000000000001")
    assert not positive.matches(b"0.0")
    assert not positive.matches(b"-1")


def test_bounds_that_contradict_each_other_leave_nothing() -> None:
    assert integer(5, 4).is_empty
    assert integer(1, 9, 10).is_empty
    assert number(Decimal(1), Decimal(0)).is_empty
    assert number(exclusive_minimum=Decimal(1), exclusive_maximum=Decimal(1)).is_empty
    assert not number(Decimal(1), Decimal(1)).is_empty


def test_huge_bounds_take_a_few_states_for_each_digit() -> None:
    dfa = integer(-(10**40), 10**40 - 1)
    assert dfa.matches(str(10**40 - 1).encode())
    assert not dfa.matches(str(10**40).encode())
    assert dfa.matches(str(-(10**40)).encode())
    assert len(dfa.next) < 400


def test_a_multiple_of_a_power_of_ten_is_small_and_one_of_a_large_prime_is_refused() -> None:
    assert len(integer(None, None, 10**12).next) < 40
    with pytest.raises(AutomatonTooLarge):
        integer(None, None, 1_000_003)


def test_automata_are_built_once() -> None:
    assert integer(0, 10) is integer(0, 10)
    assert number(Decimal(0)) is number(Decimal(0))


def test_bounds_of_more_digits_than_the_decimal_context_are_not_rounded() -> None:
    low = -(10**35) - 7
    dfa = integer(low, None)
    assert dfa.matches(str(low).encode())
    assert not dfa.matches(str(low - 1).encode())
    exact = number(Decimal("-0." + "1" * 40), Decimal("-0.0"))
    assert exact.matches(b"-0." + b"1" * 40)
    assert not exact.matches(b"-0." + b"1" * 41)
    assert exact.matches(b"0")

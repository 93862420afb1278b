"""Values that stand in realistic sentences."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.templates.grounding import grounded_dates, grounded_numbers, grounded_text

DAY = date(2022, 11, 29)


def test_passages_are_whole_words_of_the_source_and_are_remembered() -> None:
    source = "The meeting with Dr. Ana-Lucía Prado is moved to room 12b."
    dfa = grounded_text(source)
    assert dfa.matches("Dr. Ana-Lucía Prado".encode())
    assert dfa.matches(b"room 12b")
    assert not dfa.matches(b"room 12")
    assert grounded_text(source) is dfa


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("The archive takes 1,234 KiB on disk.", "1234"),
        ("It holds 1,234,567.89 euros and 3 coins.", "1234567.89 3"),
        ("Outside it was -3 degrees, inside 21.5.", "-3 21.5"),
        ("A loss of (−4.25) %, after 50%.", "-4.25 50"),
        ("Version 2.26+dfsg-1 is uploaded.", "2.26 2 26 1"),
        ("Upgrade pip to 1.10.13 now", "1 10 13"),
        ("needs python>=3.10, <4", "3.10 3 10 4"),
        ("Released as v2.4 for x86 and arm64", "2.4 2 4"),
        ("Pages 12-15 and 7, 8,9", "12 15 7 8.9 8 9"),
        ("The sum is 3,5 million", "3.5 3 5"),
        ("Der Preis: 1.234,56 EUR oder 1.234.567 Yen", "1234.56 1234567 1 234 567"),
        ("La ville compte 12\u202f345 habitants, 1\u00a0234,5 hectares", "12345 1234.5"),
        ("In Zürich kostet es 1'250.50 Franken", "1250.50"),
        ("a 10MB file, the 3rd, in 200ms, digest 3f2a9c", "10 3 200"),
        ("a tolerance of 1e-07 and 2.5E3 steps", "1e-07 2.5E3"),
        ("Call 555-0199 or --3", "555 199 3"),
        ("Costs $5 or €-1.50; 5 again", "5 -1.50"),
        ("It ended 0:3.", "0 3"),
        ("0,123 of it", "0.123 0 123"),
        ("No figures here", ""),
        ("", ""),
        ("…7… and 8", "7 8"),
        ("9", "9"),
    ],
)
def test_numbers_are_those_that_stand_in_the_sentence(sentence: str, numbers: str) -> None:
    assert grounded_numbers(sentence) == [Decimal(number) for number in numbers.split()]


@settings(deadline=None)
@given(st.decimals(-(10**7), 10**7, places=2), st.sampled_from(["{}", "about {} m", "({})", "a: {}."]))
def test_a_number_is_found_with_and_without_thousands_separators(value: Decimal, frame: str) -> None:
    assert grounded_numbers(frame.format(f"{value:,f}")) == [value]
    assert grounded_numbers(frame.format(f"{value:f}")) == [value]


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert len(set(grounded_numbers(text))) == len(grounded_numbers(text))
    assert len(set(grounded_dates(text))) == len(grounded_dates(text))


@pytest.mark.parametrize(
    "spelling",
    [
        "2022-11-29",
        "2022-11-29T13:17:46Z",
        "2022/11/29",
        "20221129",
        "Tue, 29 Nov 2022 13:17:46 +0100",
        "29 November 2022",
        "29th of November, 2022",
        "29. November 2022",
        "29-Nov-2022",
        "29 NOV 22",
        "Nov 29, 2022",
        "November 29th 2022",
        "Nov. 29, '22",
        "Tue Nov 29 13:17:46 2022",
        "Tue Nov 29 13:17:46 UTC 2022",
        "Tue Nov 29 01:17:46 PM CET 2022",
        "2022 Nov 29",
        "29.11.2022",
        "29/11/2022",
        "11/29/2022",
        "29.11.22",
        "11/29/22",
        "2022年11月29日",
    ],
)
@pytest.mark.parametrize("frame", ["{}", "It was signed on {}, in Graz.", " -- J. Doe <j@example.org>  {}\n"])
def test_a_date_is_found_in_its_common_spellings(spelling: str, frame: str) -> None:
    assert grounded_dates(frame.format(spelling)) == [DAY]


def test_a_date_that_can_be_read_in_two_ways_gives_both() -> None:
    assert grounded_dates("due 03/04/2021") == [date(2021, 4, 3), date(2021, 3, 4)]
    assert grounded_dates("due 04/04/2021") == [date(2021, 4, 4)]


def test_dates_come_in_order_of_appearance_and_once() -> None:
    text = "From May 5, 2020 to 2019-01-31, again 5 May 2020, and 28-30 June 2021."
    assert grounded_dates(text) == [date(2020, 5, 5), date(2019, 1, 31), date(2021, 6, 28), date(2021, 6, 30)]


@pytest.mark.parametrize(
    "text",
    [
        "2022-13-01",
        "31 February 2020",
        "version 1.10.13",
        "10.0.0.1",
        "call 555-0199",
        "in May",
        "12:30:45",
        "May 2020",
    ],
)
def test_what_is_no_whole_date_gives_none(text: str) -> None:
    assert grounded_dates(text) == []


@settings(deadline=None)
@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)))
def test_every_day_is_found_however_it_is_written(day: date) -> None:
    for pattern in ("%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%b %d, %Y", "%a, %d %b %Y", "%Y%m%d"):
        if pattern == "%Y%m%d" and day.year == 2100:
            continue
        assert day in grounded_dates(f"On {day.strftime(pattern)}.")

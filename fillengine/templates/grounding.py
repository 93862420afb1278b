"""Values that stand in a source text: passages, numbers and dates.

    "Filed on 29 November 2022: 1,234 KiB, -3.5 %"
        passages   "Filed", "29 November 2022", "1,234 KiB", ...
        numbers    29, 2022, 1234, -3.5
        dates      2022-11-29

The readers of numbers and dates would rather give one candidate too many than miss one: the model chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from functools import lru_cache

from dateutil.parser import parserinfo

from fillengine.automata.dfa import Dfa
from fillengine.automata.substrings import substrings

# The fields of a record ask for the same source, and a batch holds some records; an automaton of a page of text
# takes some MiB.
_REMEMBERED = 8


@lru_cache(maxsize=_REMEMBERED)
def grounded_text(source: str) -> Dfa:
    """The automaton (over values) of all passages of `source` from word boundary to word boundary.

    See `substrings` for what a boundary is; raises AutomatonTooLarge for a source of more than some 25,000 bytes.
    """
    return substrings(source)


# --- Numbers --------------------------------------------------------------------------------------------------

_THIN = "\u00a0\u202f\u2009"  # the spaces that stand inside numbers: no-break, narrow no-break, thin
_RUN = re.compile(rf"[0-9]+(?:[.,'’{_THIN}][0-9]+)*", re.ASCII)
_GROUPED = re.compile(rf"[1-9][0-9]{{0,2}}(?:([,'’{_THIN}])[0-9]{{3}})(?:\1[0-9]{{3}})*(?:\.[0-9]+)?")
_GROUPED_BY_POINTS = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}|[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+")
_GROUPED_BY_SPACES = re.compile(rf"[1-9][0-9]{{0,2}}(?:[{_THIN}][0-9]{{3}})+,[0-9]+")
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+")
_EXPONENT = re.compile(r"[eE][-+]?[0-9]{1,3}(?!\w)")
_UNIT = re.compile(r"[^\W\d_]{1,5}(?![\w])")  # "10MB", "3rd", but not a digest such as "3f2a"


def grounded_numbers(source: str) -> list[Decimal]:
    """The distinct numbers that stand in `source`, in order of appearance.

    Thousands separators are understood: "1,234" is 1234, and neither 1 nor 234. What can be read in two ways
    gives both: "1,5" is 1.5, 1 and 5. Versions give their digits too: "2.26+dfsg-1" is 2.26, 2, 26 and 1, "1.10.13"
    is 1, 10 and 13. Digits behind a letter are part of a word ("x86"), except behind the "v" of a version.
    """
    return list(dict.fromkeys(_numbers(source)))


def _numbers(source: str) -> Iterator[Decimal]:
    resume = 0
    for match in _RUN.finditer(source):
        text, begin, end = match[0], match.start(), match.end()
        if begin < resume:
            continue  # the exponent of the number in front
        before, after = source[max(0, begin - 2) : begin], source[end : end + 2]
        is_version = _is_version_mark(before)
        if before and _is_word(before[-1]) and not is_version:
            text = _without_first(text)
        elif (exponent := _EXPONENT.match(source, end)) and (text.isdigit() or _DECIMAL.fullmatch(text)):
            yield _signed(Decimal(text + exponent[0]), before)
            resume = exponent.end()
            continue
        if after and _is_word(after[0]) and not _UNIT.match(source, end):
            text = _without_last(text)
        is_version |= before[-1:] in set("=<>~^@/+:_") or re.match(r"[-+~:/]\w", after) is not None
        readings = [Decimal(reading) for reading in _readings(text, in_version=is_version)]
        if len(text) == len(match[0]):
            readings[:1] = [_signed(reading, before) for reading in readings[:1]]
        yield from readings


def _readings(text: str, *, in_version: bool) -> Iterable[str]:
    """What a run of digits and separators can mean, the likeliest first."""
    if not text or text.isdigit():
        return [text] if text else []
    digits = re.findall("[0-9]+", text)
    if _GROUPED.fullmatch(text):
        return [re.sub("[^0-9.]", "", text)]
    if _GROUPED_BY_POINTS.fullmatch(text) or _GROUPED_BY_SPACES.fullmatch(text):
        joined = re.sub("[^0-9,]", "", text).replace(",", ".")
        return [joined] if "." in joined else [joined, *digits]
    if _DECIMAL.fullmatch(text):
        return [text, *digits] if in_version else [text]
    if _DECIMAL_COMMA.fullmatch(text):
        return [text.replace(",", "."), *digits]
    parts = re.split(f"[,'’{_THIN}]", text)
    if len(parts) == 1:
        return digits
    return [reading for part in parts for reading in _readings(part, in_version=in_version)]


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_version_mark(before: str) -> bool:
    return before[-1:] in ("v", "V") and not _is_word(before[:-1] or " ")


def _without_first(text: str) -> str:
    return re.sub("^[0-9]+[^0-9]?", "", text)


def _without_last(text: str) -> str:
    return re.sub("[^0-9]?[0-9]+$", "", text)


def _signed(value: Decimal, before: str) -> Decimal:
    """A minus counts where it stands alone in front: in "(-3" and "= -3", not in "5-3" or "--3"."""
    is_minus = before[-1:] in ("-", "−") and (len(before) == 1 or before[0] in " \t\n\r([{<>=:;,/|*\"'$€£~")
    return -value if is_minus else value


# --- Dates ----------------------------------------------------------------------------------------------------

_NAMES = parserinfo()
_MONTH = r"(?P<name>(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*)"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_TIME = r"(?:[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:\.[0-9]+)?\s+(?:[AP]M\s+)?(?:[A-Z]{2,5}\s+|[-+][0-9]{4}\s+)?)?"
_YEAR = r"(?P<year>[0-9]{4}|['’]?[0-9]{2})(?![0-9:])"

# The spellings, each with named parts; `either` and `other` are day and month in an order that must be guessed.
_SPELLINGS = [
    re.compile(spelling, re.IGNORECASE)
    for spelling in (
        r"(?<![0-9])(?P<year>[0-9]{4})(?P<mark>[-/.])(?P<month>[0-9]{1,2})(?P=mark)(?P<day>[0-9]{1,2})(?![0-9])",
        r"(?<![0-9])(?P<year>(?:19|20)[0-9]{2})(?P<month>[01][0-9])(?P<day>[0-3][0-9])(?![0-9])",
        r"(?P<year>[0-9]{4})\s*年\s*(?P<month>[0-9]{1,2})\s*月\s*(?P<day>[0-9]{1,2})\s*日",
        r"(?<![0-9])(?P<either>[0-9]{1,2})(?P<mark>[-/.])(?P<other>[0-9]{1,2})(?P=mark)(?P<year>[0-9]{4})(?![0-9])",
        # With a year of two digits the rest must have two as well, or versions would be dates.
        r"(?<![0-9.])(?P<either>[0-9]{2})\.(?P<other>[0-9]{2})\.(?P<year>[0-9]{2})(?![0-9]|\.[0-9])",
        r"(?<![0-9/])(?P<either>[0-9]{1,2})/(?P<other>[0-9]{1,2})/(?P<year>[0-9]{2})(?![0-9/])",
        rf"(?<![0-9])(?:(?P<first>[0-9]{{1,2}})\s*[-–]\s*)?{_DAY}[\s.\-/]*(?:of\s+)?{_MONTH}[\s.,\-/]*{_YEAR}",
        rf"\b{_MONTH}[\s.\-]*(?:(?P<first>[0-9]{{1,2}})\s*[-–]\s*)?{_DAY}(?:[\s,.]+|-){_TIME}{_YEAR}",
        rf"(?<![0-9])(?P<year>[0-9]{{4}})[\s.,\-/]*{_MONTH}[\s.\-/]*{_DAY}(?![0-9:])",
    )
]  # fmt: skip


def grounded_dates(source: str) -> list[date]:
    """The distinct dates with day, month and year that stand in `source`, in order of appearance.

    Numbers alone (ISO 8601 with or without hyphens, 29.11.2022, 11/29/22) and English month names in any order
    ("Tue, 29 Nov 2022 13:17:46 +0100", "Nov 29th, 2022", "Tue Nov 29 13:17:46 UTC 2022"). What can be read as
    day-month and as month-day gives both, the day first. Years of two digits are 1969 to 2068, as in POSIX.
    """
    found: list[tuple[int, date]] = []
    for spelling in _SPELLINGS:
        for match in spelling.finditer(source):
            found += [(match.start(), day) for day in _dates(match.groupdict())]
    return list(dict.fromkeys(day for _, day in sorted(found, key=lambda pair: pair[0])))


def _dates(parts: dict[str, str | None]) -> Iterator[date]:
    year = int((parts["year"] or "").lstrip("'’"))
    if len((parts["year"] or "").lstrip("'’")) == 2:
        year += 1900 if year >= 69 else 2000
    if either := parts.get("either"):
        other = parts["other"] or ""
        readings = [(other, either), (either, other)]
    else:
        month = parts.get("month") or str(_NAMES.month(parts.get("name") or "") or 0)
        readings = [(month, day) for day in (parts.get("first"), parts["day"]) if day]
    for month, day in readings:
        try:
            yield date(year, int(month), int(day))
        except ValueError:
            continue  # no such day

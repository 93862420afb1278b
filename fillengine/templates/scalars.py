"""Numbers and strings: what their keywords allow, as shapes and as automata.

String constraints are automata over the string's value; they are intersected there and lifted to JSON once.
Automata are remembered across schemas: by pattern, format and excluded words, and by numeric bounds.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from fillengine.automata import dfa as automata
from fillengine.automata.dfa import Dfa
from fillengine.automata.lengths import lengths
from fillengine.errors import AutomatonTooLarge, UnsupportedForm
from fillengine.templates import formats, numbers, regex
from fillengine.templates.schema import NUMERIC
from fillengine.templates.string_forms import is_string_form

Placed = tuple[str, str]  # a pattern or format, and the pointer of where it stands


class FormWarning(UserWarning):
    """Something in a form is passed over, as its standard says: a `format` that nobody defines."""


@dataclass(frozen=True, slots=True)
class NumberShape:
    """`atoms`: "integer", "fraction" or both. All values are exact."""

    atoms: frozenset[str] = NUMERIC
    minimum: Decimal | None = None
    maximum: Decimal | None = None
    is_above_minimum: bool = False
    is_below_maximum: bool = False
    multiple_of: Decimal | None = None
    excluded: tuple[Decimal, ...] = ()
    not_multiple_of: tuple[Decimal, ...] = ()

    def admits(self, value: Decimal) -> bool:
        if (value == value.to_integral_value()) is not ("integer" in self.atoms) and self.atoms != NUMERIC:
            return False
        low, high = self.minimum, self.maximum
        if low is not None and (value <= low if self.is_above_minimum else value < low):
            return False
        if high is not None and (value >= high if self.is_below_maximum else value > high):
            return False
        if value in self.excluded or any(is_multiple(value, step) for step in self.not_multiple_of):
            return False
        return self.multiple_of is None or is_multiple(value, self.multiple_of)


def is_multiple(value: Decimal, step: Decimal) -> bool:
    (numerator, denominator), (n, d) = value.as_integer_ratio(), step.as_integer_ratio()
    return (numerator * d) % (denominator * n) == 0


@dataclass(frozen=True, slots=True)
class StringShape:
    """`low` and `high` count characters; `words` not None: one of these and nothing else."""

    low: int = 0
    high: int | None = None
    patterns: tuple[Placed, ...] = ()
    formats: tuple[Placed, ...] = ()
    excluded_patterns: tuple[Placed, ...] = ()
    excluded_formats: tuple[Placed, ...] = ()
    excluded: tuple[str, ...] = ()
    words: tuple[str, ...] | None = None

    @property
    def text_form(self) -> str | None:
        """The format of the text form that says what the string is, if nothing stands beside it."""
        names = {name for name, _ in self.formats if is_string_form(name)}
        alone = StringShape(formats=self.formats) == self and len({name for name, _ in self.formats}) == 1
        return names.pop() if names and alone else None

    def only(self, words: tuple[str, ...]) -> StringShape:
        if self.words is not None:
            words = tuple(word for word in words if word in self.words)
        return replace(self, words=words)

    def and_also(self, other: StringShape) -> StringShape:
        highs = [high for high in (self.high, other.high) if high is not None]
        shape = StringShape(
            max(self.low, other.low),
            min(highs, default=None),
            self.patterns + other.patterns,
            self.formats + other.formats,
            self.excluded_patterns + other.excluded_patterns,
            self.excluded_formats + other.excluded_formats,
            tuple(sorted({*self.excluded, *other.excluded})),
            self.words,
        )
        return shape if other.words is None else shape.only(other.words)

    def admits(self, text: str) -> bool:
        if len(text) < self.low or (self.high is not None and len(text) > self.high):
            return False
        if text in self.excluded or (self.words is not None and text not in self.words):
            return False
        data = text.encode("utf-8", "surrogatepass")
        if not all(_pattern(pattern, place).matches(data) for pattern, place in self.patterns):
            return False
        if any(_pattern(pattern, place).matches(data) for pattern, place in self.excluded_patterns):
            return False
        if any(_excluded_format(name, place).matches(data) for name, place in self.excluded_formats):
            return False
        allowed = (_format(name, place) for name, place in self.formats)
        return all(one.matches(data) for one in allowed if one is not None)


def _pattern(pattern: str, pointer: str) -> Dfa:
    return regex.search(pattern, pointer=pointer)


# Formats that the drafts define. They are enforced or refused, never passed over.
_DEFINED = frozenset(
    [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "iri",
        "iri-reference",
        "uuid",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    ]
)
_passed_over: set[str] = set()


def _format(name: str, pointer: str) -> Dfa | None:
    """The automaton of a format; None, with a warning the first time, for one that no draft defines."""
    if is_string_form(name):
        raise UnsupportedForm(
            "a text form stands beside other constraints of its string, or is excluded",
            keyword="format",
            pointer=pointer,
            remedy="say all of it in the text form",
        )
    found = formats.format_dfa(name)
    if found is None and name in _DEFINED:
        raise UnsupportedForm(
            f"format {name!r} is not supported",
            keyword="format",
            pointer=pointer,
            remedy="use a pattern instead",
        )
    if found is None and name not in _passed_over:
        _passed_over.add(name)
        warnings.warn(f"format {name!r} is not known and constrains nothing", FormWarning, stacklevel=2)
    return found


def _excluded_format(name: str, pointer: str) -> Dfa:
    """What a string must not be where the negation of a format holds: any text for a format that nobody defines."""
    if _format(name, pointer) is None:
        return automata.any_text()
    found = formats.widest(name)
    if found is None:
        raise UnsupportedForm(
            f"what is no {name!r} cannot be told",
            keyword="format",
            pointer=pointer,
            remedy="use a pattern instead",
        )
    return found


_REMEMBERED = 4096  # automata; they are dropped together when there are more
_values: dict[tuple[object, ...], Dfa | None] = {}
_lifted: dict[tuple[object, ...], Dfa] = {}


def _names(placed: tuple[Placed, ...]) -> tuple[str, ...]:
    return tuple(name for name, _ in placed)


def _key(shape: StringShape) -> tuple[object, ...]:
    return (
        _names(shape.patterns),
        _names(shape.formats),
        _names(shape.excluded_patterns),
        _names(shape.excluded_formats),
        shape.excluded,
        shape.words,
    )


def string_value(shape: StringShape, pointer: str = "") -> Dfa | None:
    """The automaton over the value, lengths apart; None: any text. May be empty. Raises UnsupportedForm.

    Any text, too, where a text form says what the string is. `pointer` is where values are excluded that patterns and
    formats say nothing of.
    """
    if shape.text_form is not None:
        return None
    if not any(_key(shape)[:-1]) and shape.words is None:
        return None
    key = _key(shape)
    if key not in _values:
        if len(_values) >= _REMEMBERED:
            _values.clear()
        placed = (*shape.patterns, *shape.formats, *shape.excluded_patterns)
        try:
            _values[key] = _string_value(shape)
        except AutomatonTooLarge as error:
            raise UnsupportedForm(
                error.problem,
                keyword="pattern" if shape.patterns else "format" if placed else "not",
                pointer=placed[0][1] if placed else pointer,
                remedy=error.remedy,
            ) from error
    return _values[key]


def _string_value(shape: StringShape) -> Dfa | None:
    allowed = [_pattern(pattern, place) for pattern, place in dict(shape.patterns).items()]
    allowed += [found for name, place in shape.formats if (found := _format(name, place)) is not None]
    if shape.words is not None:
        allowed.append(automata.words(word.encode() for word in shape.words))
    value = automata.intersection(*allowed) if allowed else None
    forbidden = [_pattern(pattern, place) for pattern, place in dict(shape.excluded_patterns).items()]
    forbidden += [_excluded_format(name, place) for name, place in dict(shape.excluded_formats).items()]
    if shape.excluded:
        encoded = (word.encode("utf-8", "surrogatepass") for word in shape.excluded)
        forbidden.append(automata.words(encoded))
    for one in forbidden:
        value = automata.difference(automata.any_text() if value is None else value, one)
    return value


def string_pattern(shape: StringShape, pointer: str = "") -> Dfa | None:
    """The automaton of the JSON string, for a `Pattern` with the shape's lengths; None: no string fits.

    `pointer`: see `string_value`, which raises UnsupportedForm.
    """
    value = string_value(shape, pointer)
    if value is None:
        return automata.free_string()
    if value.is_empty:
        return None
    lifted = lift(value)
    if (shape.low or shape.high is not None) and not can_have_length(lifted, shape.low, shape.high):
        return None
    return lifted


def lift(value: Dfa) -> Dfa:
    """lift_json, remembered."""
    found = _lifted.get((value.key,))
    if found is None:
        if len(_lifted) >= _REMEMBERED:
            _lifted.clear()
        found = _lifted[(value.key,)] = automata.lift_json(value)
    return found


def can_have_length(lifted: Dfa, low: int, high: int | None) -> bool:
    """Whether some string of the automaton has from `low` to `high` characters."""
    return lengths(lifted).can_finish(lifted.start, low, high)


def number_dfa(shape: NumberShape, pointer: str = "") -> Dfa | None:
    """The automaton of the numbers; None: no number fits. Raises UnsupportedForm."""
    try:
        return _number_dfa(shape)
    except AutomatonTooLarge as error:
        keyword = "multipleOf" if shape.multiple_of is not None or shape.not_multiple_of else "maximum"
        raise UnsupportedForm(error.problem, keyword=keyword, pointer=pointer, remedy=error.remedy) from error


@lru_cache(maxsize=1024)
def _number_dfa(shape: NumberShape) -> Dfa | None:
    found = _integers(shape) if shape.atoms == frozenset({"integer"}) else _numbers(shape)
    if found is not None and shape.atoms == frozenset({"fraction"}):
        found = automata.intersection(found, _short_decimals())
        found = automata.difference(found, numbers.number(multiple_of=Decimal(1)))
    if found is None or found.is_empty:
        return None
    if shape.excluded or shape.not_multiple_of:
        found = automata.intersection(found, numbers.number(exponent=False))
    for value in shape.excluded:
        found = automata.difference(found, numbers.number(value, value))
    if shape.not_multiple_of and shape.atoms != frozenset({"integer"}):
        found = automata.intersection(found, _short_decimals())
    for step in shape.not_multiple_of:
        found = automata.difference(found, numbers.number(multiple_of=step))
    return None if found.is_empty else found


@lru_cache(maxsize=1)
def _short_decimals() -> Dfa:
    """At most 17 characters and no exponent: what stands behind the point is still there in a float."""
    return automata.from_regex("[-.0-9]{1,17}")


def _integers(shape: NumberShape) -> Dfa | None:
    low = high = step = None
    if shape.minimum is not None:
        low = int(shape.minimum.to_integral_value(ROUND_CEILING))
        if shape.is_above_minimum and low == shape.minimum:
            low += 1
    if shape.maximum is not None:
        high = int(shape.maximum.to_integral_value(ROUND_FLOOR))
        if shape.is_below_maximum and high == shape.maximum:
            high -= 1
    if low is not None and high is not None and low > high:
        return None
    if shape.multiple_of is not None:
        step = shape.multiple_of.as_integer_ratio()[0]  # the integers among the multiples of n/d are those of n
    return numbers.integer(low, high, step)


def _numbers(shape: NumberShape) -> Dfa | None:
    low, high = shape.minimum, shape.maximum
    is_open = shape.is_above_minimum or shape.is_below_maximum
    if low is not None and high is not None and (low > high or (low == high and is_open)):
        return None
    return numbers.number(
        None if shape.is_above_minimum else low,
        None if shape.is_below_maximum else high,
        exclusive_minimum=low if shape.is_above_minimum else None,
        exclusive_maximum=high if shape.is_below_maximum else None,
        multiple_of=shape.multiple_of,
    )

"""Reading a text of several parts: where does each part end?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from fillengine.templates.form import Form
from fillengine.templates.text_form import Matcher

Place = TypeVar("Place")


def path(start: Place, following: Callable[[Place], Iterable[Place]], is_end: Callable[[Place], bool]) -> list[Place]:
    """The first way from `start` to an end, in the order of `following`; [] where there is none.

    No place is tried twice.
    """
    seen = {start}
    way, open_ways = [start], [iter(following(start))]
    while way:
        if is_end(way[-1]):
            return way
        place = next((place for place in open_ways[-1] if place not in seen), None)
        if place is None:
            way.pop()
            open_ways.pop()
        else:
            seen.add(place)
            way.append(place)
            open_ways.append(iter(following(place)))
    return []


@dataclass(frozen=True)
class Part:
    """A form as a part of a text."""

    form: Form
    matcher: Matcher

    @classmethod
    def of(cls, form: Form) -> Part:
        return cls(form, Matcher(form.template))

    def ends(self, data: bytes, start: int) -> Iterator[int]:
        """Where it can end, in the order in which that is tried: as far as can be, unless the form is open."""
        found = self.matcher.ends(data, start)
        return iter(found if self.form.is_open else reversed(found))

"""A part of a measurement's records: several processes or several sessions make one measurement in pieces."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fillengine.errors import FillError


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` (from 1) of `total`. Records are dealt out in blocks that hold whole turns of every setting, so
    that each part compares all contenders and all settings over records of its own."""

    number: int = 1
    total: int = 1

    @classmethod
    def of(cls, text: str) -> Part:
        """2/3 is the second of three parts. Raises FillError."""
        found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
        part = cls(*map(int, found.groups())) if found else None
        if part is None or not 1 <= part.number <= part.total:
            raise FillError(f"--part is {text!r}; give the part and how many there are, such as 1/3")
        return part

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def takes(self, first: int, *, unit: int) -> bool:
        """Whether the turn whose first record has this place belongs to it. unit: records of the largest turn."""
        return first // unit % self.total == self.number - 1


WHOLE = Part()

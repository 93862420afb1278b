"""The colour of each origin: ink and paper, on light and on dark ground."""

from __future__ import annotations

from typing import NamedTuple


class Colours(NamedTuple):
    light: tuple[str, str]
    dark: tuple[str, str]


# Contrast of ink on paper is 7 to 1 or more (WCAG 2.2, 1.4.6).
_COLOURS = {
    "asserted": Colours(("#0b3a66", "#d3e7fb"), ("#b9dcff", "#12324f")),
    "forced": Colours(("#0b4a4f", "#cfeef0"), ("#a8e8ec", "#0f3a3e")),
    "rest": Colours(("#3d4a00", "#eaf2c2"), ("#dcea9d", "#343d0c")),
    "begun": Colours(("#5a2f00", "#fde6c8"), ("#ffd7a3", "#4a2f10")),
    "own": Colours(("#45247a", "#e9defa"), ("#d8c5ff", "#37245a")),
    "echo": Colours(("#0d4a1f", "#cdf0d6"), ("#a5ecb8", "#103d1e")),
    "prediction": Colours(("#6b0f45", "#fbd9ea"), ("#ffbfdd", "#4f1738")),
    "constant": Colours(("#5c3d00", "#f8eab0"), ("#f3df8e", "#44360c")),
    "sampled": Colours(("#1c1c1a", "#ffffff"), ("#eceae4", "#1d1d1b")),
}
REJECTED = Colours(("#7d1a12", "#fbe3e0"), ("#ffb8b0", "#45201c"))
_OTHER = Colours(("#333333", "#e4e4e0"), ("#dddddd", "#3a3a38"))


def colours(origin: str) -> Colours:
    return _COLOURS.get(origin, _OTHER)

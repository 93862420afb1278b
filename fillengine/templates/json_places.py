"""Where in a JSON text each value stands.

{"a": [1, "x"]}       /a/0 at 7..8, /a/1 at 10..13
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from fillengine.templates.schema import escape

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_WORD = re.compile(r"[-+.0-9A-Za-z]+")


class Place(NamedTuple):
    """A value without parts: a JSON pointer to it, and the characters `begin`..`end` of the text."""

    pointer: str
    begin: int
    end: int


def json_places(text: str, begin: int = 0, pointer: str = "") -> tuple[list[Place], int]:
    """The values of the JSON text at `begin`, in order, and its end. Empty arrays and objects are values.

    Raises ValueError where there is no JSON.
    """
    found: list[Place] = []
    # What is open: its pointer, the items so far (None for an object), and the pointer of the value that comes.
    stack: list[tuple[str, int | None]] = []
    here = pointer
    position = _skip(text, begin)
    while True:
        sign = text[position : position + 1]
        if sign in ("[", "{") and sign:
            inside = _skip(text, position + 1)
            if text[inside : inside + 1] != "]}"["[{".index(sign)]:
                if sign == "[":
                    stack.append((here, 0))
                    here, position = f"{here}/0", inside
                else:
                    stack.append((here, None))
                    here, position = _key(text, inside, here)
                continue
            end = inside + 1
        else:
            end = _scalar(text, position)
        found.append(Place(here, position, end))
        while stack:
            end = _skip(text, end)
            above, number = stack[-1]
            sign = text[end : end + 1]
            if sign == ",":
                position = _skip(text, end + 1)
                if number is None:
                    here, position = _key(text, position, above)
                else:
                    stack[-1] = (above, number + 1)
                    here = f"{above}/{number + 1}"
                break
            if sign != ("}" if number is None else "]"):
                raise ValueError(f"no JSON at character {end}")
            stack.pop()
            end += 1
        else:
            return found, end


def _key(text: str, position: int, above: str) -> tuple[str, int]:
    if text[position : position + 1] != '"':
        raise ValueError(f"no key at character {position}")
    name, end = _DECODER.raw_decode(text, position)
    end = _skip(text, end)
    if text[end : end + 1] != ":":
        raise ValueError(f"no colon at character {end}")
    return f"{above}/{escape(name)}", _skip(text, end + 1)


def _scalar(text: str, position: int) -> int:
    if text[position : position + 1] == '"':
        return _DECODER.raw_decode(text, position)[1]
    word = _WORD.match(text, position)
    if word is None:
        raise ValueError(f"no value at character {position}")
    return word.end()


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()

"""The passages of a source text as an automaton over values.

    "Send 2.26+dfsg-1 to J. Doe,\n   room 7"
        accepts   "Send", "2.26+dfsg-1", "J. Doe", "J.", "Doe, room 7", "7", ...
        not       "end" (inside a word), "2.26" (inside a version), " to" (white space at an edge)

A passage begins and ends at word boundaries. A word is a run of letters, digits, underscores and marks, and what
glues such runs together when nothing else stands between them: `.` `-` `+` `~` `@` (versions, addresses,
compounds), `:` between digits (times). Everything else has a boundary on both sides, so that `>=3.10`, `C++` and
`urgency=medium` can be taken whole, and `3.10` and `medium` by themselves. Scripts that write no spaces between
words (Chinese, Japanese, Thai, ...) have a boundary between any two characters. No boundary comes before a mark
or a joiner, which belongs to the character in front of it.

A run of white space in the source, a line break with its indentation say, reads as one space. A blank line ends a
paragraph, and no passage goes past it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Union

import numpy as np
from numpy.typing import NDArray

from fillengine.automata.tables import Dfa, check_size, tidy

# Scripts without spaces between words (Unicode 16.0, Blocks.txt): Thai to Myanmar, Khmer, kana and the Han
# ideographs with their extensions.
_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)
_JOINERS = "\u200c\u200d"

# Ascending; above this number of positions an int32 array, which numpy is quicker with, else a tuple.
_WIDE = 48
_Positions = Union[tuple[int, ...], NDArray[np.int32]]  # noqa: UP007 (Python 3.10 cannot join these with "|")

# Where passages stop: at a blank line, and at what UTF-8 cannot write.
_ENDS = re.compile("(?:\r\n?|\n)[^\\S\r\n]*(?:\r\n?|\n)|[\ud800-\udfff]+")
_GLUE = re.compile(r"(?<=\w)[.\-+~@](?=\w)|(?<=[0-9]):(?=[0-9])")


def substrings(text: str, *, whole_words: bool = True) -> Dfa:
    """All non-empty passages of `text` that begin and end at word boundaries, never at white space.

    With `whole_words=False` they begin and end at any character. Raises AutomatonTooLarge for texts of more
    than about `STATE_LIMIT` / 2 bytes.
    """
    data = bytearray()
    begins: list[int] = []
    ends: list[int] = []
    for piece in _ENDS.split(text):
        _mark(" ".join(piece.split()), data, begins, ends, whole_words=whole_words)
    return _passages(bytes(data), begins, ends)


def _mark(text: str, data: bytearray, begins: list[int], ends: list[int], *, whole_words: bool) -> None:
    """Append the UTF-8 of `text` and where in it passages may begin and end, and a byte that ends it all."""
    kind_before = _SPACE
    kinds: dict[str, int] = {}
    glue = {match.start() for match in _GLUE.finditer(text)} if whole_words else set()
    for index, character in enumerate(text):
        kind = kinds.get(character)
        if kind is None:
            kind = kinds[character] = _kind(character)
        if index in glue:
            kind = _WORD
        if kind != _MARK and not (whole_words and kind == kind_before == _WORD):
            if kind != _SPACE:
                begins.append(len(data))
            if kind_before != _SPACE:
                ends.append(len(data))
        data += character.encode()
        # A mark goes on with the word that it stands in.
        if kind != _MARK:
            kind_before = kind
    if kind_before != _SPACE:
        ends.append(len(data))
    data.append(0xFF)  # no byte of UTF-8


_SPACE, _WORD, _MARK, _OTHER = range(4)


def _kind(character: str) -> int:
    if character == " ":
        return _SPACE
    if character in _JOINERS or unicodedata.category(character)[0] == "M":
        return _MARK
    if any(low <= ord(character) <= high for low, high in _UNSPACED):
        return _OTHER
    return _WORD if character.isalnum() or character == "_" else _OTHER


def _passages(data: bytes, begins: list[int], ends: list[int]) -> Dfa:
    """The subset construction over positions: a state is the set of places where what was read may end.

    Two such sets are either nested or have nothing in common, so that there are fewer than twice as many as
    there are bytes.
    """
    used = sorted(set(data) - {0xFF})
    column = {byte: number for number, byte in enumerate(used, start=1)}
    columns = bytes(column.get(byte, 0) for byte in range(256))
    text = data.translate(columns)  # column numbers; 0 where all passages end
    array = np.frombuffer(text, np.uint8)
    end_at = frozenset(ends)
    is_end = np.zeros(len(data) + 1, np.bool_)
    is_end[ends] = True

    todo: list[_Positions] = [np.array(begins, np.int32) if len(begins) > _WIDE else tuple(begins)]
    numbers: dict[tuple[int, ...] | bytes, int] = {}
    singles = [0] * (len(data) + 1)  # the state of each set of one position
    accept = [False, False]
    sources: list[int] = []
    through: list[int] = []
    targets: list[int] = []
    for state, positions in enumerate(todo, start=1):
        for byte, members in _groups(text, array, positions):
            lone = members[0] if len(members) == 1 else None
            key = members if isinstance(members, tuple) else members.tobytes()
            target = numbers.get(key, 0) if lone is None else singles[lone]
            if not target:
                todo.append(members)
                target = len(todo)
                check_size(target)
                if lone is None:
                    numbers[key] = target
                else:
                    singles[lone] = target
                if isinstance(members, tuple):
                    accept.append(not end_at.isdisjoint(members))
                else:
                    accept.append(bool(is_end[members].any()))
            sources.append(state)
            through.append(byte)
            targets.append(target)
    table = np.zeros((len(todo) + 1, len(used) + 1), np.int32)
    table[sources, through] = targets
    return tidy(table, np.frombuffer(columns, np.uint8), np.array(accept), 1)


def _groups(text: bytes, array: NDArray[np.uint8], positions: _Positions) -> list[tuple[int, _Positions]]:
    """What may be read at `positions`: (column, the positions behind it)."""
    if not isinstance(positions, tuple):
        following = array[positions]
        groups: list[tuple[int, _Positions]] = []
        for byte in np.flatnonzero(np.bincount(following)).tolist():
            members = positions[following == byte] + 1
            if byte:
                groups.append((byte, members if len(members) > _WIDE else tuple(members.tolist())))
        return groups
    if len(positions) == 1:
        (position,) = positions
        return [(text[position], (position + 1,))] if text[position] else []
    lists: dict[int, list[int]] = {}
    for position in positions:
        lists.setdefault(text[position], []).append(position + 1)
    lists.pop(0, None)
    return [(byte, tuple(members)) for byte, members in lists.items()]

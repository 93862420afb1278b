"""How the white space of a text is written.

spaced      {"a": [1, 2]}       as json.dumps writes
compact     {"a":[1,2]}
indented    as json.dumps(..., indent=2); below some levels of recursion the rest stands on one line
any         up to 40 characters of free white space at each place where JSON allows some
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.nodes import Node

Style = Literal["spaced", "compact", "indented", "any"]
STYLES: tuple[Style, ...] = ("spaced", "compact", "indented", "any")

_spaced = json.JSONEncoder(ensure_ascii=False).encode
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_indented = json.JSONEncoder(ensure_ascii=False, indent=2).encode

Piece = bytes | Node

# A recursive schema is written on one line once it is this deep in an indented text: a template that knew
# the indentation of every level would have no end.
INLINE_BELOW = 16
ON_ONE_LINE = -1

_LONGEST_SPACE = 40
# A child of more parts than this keeps its own node: copying it into each parent could grow without bound.
_SPLICED = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """The white space of one array or object.

    gap: behind the opening bracket when something follows; end: before the closing one.
    """

    gap: tuple[Piece, ...]
    comma: tuple[Piece, ...]
    colon: tuple[Piece, ...]
    end: tuple[Piece, ...]
    empty: tuple[Piece, ...] = ()

    @property
    def is_flush(self) -> bool:
        """Nothing stands between the brackets and what they hold."""
        return not self.gap and not self.end


@lru_cache(maxsize=1024)
def layout(style: Style, depth: int) -> Layout:
    """The layout at a nesting depth (0 is the root, ON_ONE_LINE inside what is written on one line)."""
    if style == "compact":
        return Layout((), (b",",), (b":",), ())
    if style == "any":
        pattern = nodes.Pattern(automata.from_regex(f"[ \\t\\n\\r]{{0,{_LONGEST_SPACE}}}"))
        return Layout((pattern,), (pattern, b",", pattern), (pattern, b":", pattern), (pattern,), (pattern,))
    if style == "indented" and depth != ON_ONE_LINE:
        line = b"\n" + b"  " * (depth + 1)
        return Layout((line,), (b"," + line,), (b": ",), (line[:-2],))
    return Layout((), (b", ",), (b": ",), ())


def spelled(value: Any, style: Style, depth: int) -> bytes:
    """A JSON value as this style writes it, beginning at `depth`."""
    if style == "compact":
        text = _compact(value)
    elif style == "indented" and depth != ON_ONE_LINE and isinstance(value, list | dict):
        text = _indented(value).replace("\n", "\n" + "  " * depth)
    else:
        text = _spaced(value)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: it has no spelling but its escape
        return "".join(f"\\u{ord(c):04x}" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text).encode()


def sequence(pieces: Iterable[Piece]) -> Node:
    """The pieces one after another: adjacent literals are one, short sequences are taken apart."""
    items: list[Node] = []
    text = b""
    for piece in pieces:
        parts: tuple[Piece, ...] = (piece,)
        if isinstance(piece, nodes.Sequence) and len(piece.items) <= _SPLICED:
            parts = piece.items
        for part in parts:
            if isinstance(part, bytes):
                text += part
            elif isinstance(part, nodes.Literal):
                text += part.text
            else:
                if text:
                    items.append(nodes.Literal(text))
                    text = b""
                items.append(part)
    if text or not items:
        items.append(nodes.Literal(text))
    return items[0] if len(items) == 1 else nodes.Sequence(tuple(items))


def choice(options: Iterable[Node]) -> Node:
    """One of the options: literals and word lists among them become one `Words`."""
    words: list[bytes] = []
    others: list[Node] = []
    label = ""
    for option in options:
        if isinstance(option, nodes.Words):
            words += option.words
            label = option.label
        elif isinstance(option, nodes.Literal):
            words.append(option.text)
        elif isinstance(option, nodes.Choice):
            others += option.options
        else:
            others.append(option)
    if words:
        distinct = tuple(sorted(set(words)))
        others.insert(0, nodes.Literal(distinct[0]) if len(distinct) == 1 else nodes.Words(distinct, label))
    return others[0] if len(others) == 1 else nodes.Choice(tuple(others))

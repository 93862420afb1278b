"""Automata of JSON strings (RFC 8259, section 7): from a string's value to its spelling."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fillengine.automata.regex import from_regex
from fillengine.automata.tables import Dfa, check_size, tidy

_QUOTE, _BACKSLASH = 0x22, 0x5C

# byte of the value -> its escape without the backslash, exactly as json.dumps(ensure_ascii=False) writes it
_ESCAPES: dict[int, bytes] = {
    byte: json.dumps(chr(byte), ensure_ascii=False)[2:-1].encode() for byte in (*range(0x20), _QUOTE, _BACKSLASH)
}
_ESCAPED = list(_ESCAPES)
_APART = sorted({_QUOTE, _BACKSLASH, *b"".join(_ESCAPES.values())})


def lift_json(value: Dfa) -> Dfa:
    r"""The JSON spellings, quotes included, of the texts that `value` accepts; `boundary` is set.

    Each character has exactly one spelling, that of json.dumps(ensure_ascii=False): itself, or
    `\" \\ \b \f \n \r \t`, or `\u00xx` in lower-case hex for the other control characters.
    `value` accepts well-formed UTF-8 only. Minimal when `value` is.
    """
    if value.is_empty:
        return Dfa(value.next, value.accept, 0, np.zeros(1, np.bool_))
    class_of = _spelling_classes(value.classes[0])
    reps = np.unique(class_of, return_index=True)[1]
    count = len(value.next)
    final, start = count, count + 1
    rows: list[dict[int, int]] = [{}, {_QUOTE: value.start}]  # of the states from `final` on
    known: dict[tuple[tuple[int, int], ...], int] = {}

    def trie(entries: list[tuple[bytes, int]]) -> int:
        """The state from which each text leads to its target; tries with the same targets share states."""
        row: dict[int, int] = {}
        for byte in sorted({text[0] for text, _ in entries}):
            rest = [(text[1:], target) for text, target in entries if text[0] == byte]
            row[byte] = rest[0][1] if not rest[0][0] else trie(rest)
        key = tuple(row.items())
        if key not in known:
            known[key] = final + len(rows)
            rows.append(row)
            check_size(known[key])
        return known[key]

    backslash: dict[int, int] = {}
    behind: dict[bytes, int] = {}
    leaving = value.next[:, _ESCAPED]
    for state in np.flatnonzero(leaving.any(axis=1)).tolist():
        targets = leaving[state]
        key = targets.tobytes()
        if key not in behind:
            behind[key] = trie([(_ESCAPES[b], t) for b, t in zip(_ESCAPED, targets.tolist(), strict=True) if t])
        backslash[state] = behind[key]

    table = np.zeros((count + len(rows), len(reps)), np.int32)
    table[:count] = value.next[:, reps]
    table[:count, class_of[_ESCAPED]] = 0
    table[list(backslash), class_of[_BACKSLASH]] = list(backslash.values())
    table[:count][value.accept, class_of[_QUOTE]] = final
    for state, row in enumerate(rows, start=final):
        table[state, class_of[list(row)]] = list(row.values())
    accept = np.zeros(len(table), np.bool_)
    accept[final] = True
    # In well-formed UTF-8 only a continuation byte (0x80 to 0xBF) can follow inside a character, so what may
    # follow tells whether a state stands between two characters.
    bytes_of_value = value.classes[1]
    outside = bytes_of_value[(bytes_of_value < 0x80) | (bytes_of_value >= 0xC0)]
    boundary = np.zeros(len(table), np.bool_)
    boundary[:count] = value.accept | (value.next[:, outside] != 0).any(axis=1)
    return tidy(table, class_of, accept, start, boundary)


def _spelling_classes(class_of: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`class_of` with the bytes that spellings treat in their own way taken apart: uint8[256]."""
    apart = class_of.astype(np.intp)
    apart[:0x20] = 256  # the characters that are never written raw
    apart[_APART] = 257 + np.arange(len(_APART))
    return np.unique(apart, return_inverse=True)[1].reshape(-1).astype(np.uint8)


@lru_cache(maxsize=1)
def free_string() -> Dfa:
    r"""Any JSON string, quotes included, in all legal spellings; `boundary` is set.

    `\/` and `\uXXXX` in either case are legal; the escapes of surrogates come in pairs only, and a pair is
    one character.
    """
    dfa = from_regex(
        r'"(?:[^"\\\x00-\x1F]'
        r'|\\["\\/bfnrt]'
        r"|\\u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}"
        r"|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})"
        r')*"'
    )
    boundary = np.zeros(len(dfa.next), np.bool_)
    boundary[dfa.next[dfa.start, _QUOTE]] = True
    return Dfa(dfa.next, dfa.accept, dfa.start, boundary)

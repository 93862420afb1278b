r"""Control tokens in texts of bytes.

A control token (`<tool_call>`, `[TOOL_CALLS]`, `</think>`, where the tokenizer keeps one) writes no text: spelling it
out letter by letter is something else. So that a form can ask for it, it stands in a text as its name between two
bytes that no UTF-8 text holds:

    control("<tool_call>")            b"\xff<tool_call>\xff"

Neither an automaton over texts nor a token with text can write these; a `Literal` can demand them.
"""

from __future__ import annotations

MARK = b"\xff"


def control(name: str) -> bytes:
    """The control token of this name, as bytes of a text."""
    return MARK + name.encode() + MARK


def is_control(token: bytes) -> bool:
    """Whether a token is a control token."""
    return token[:1] == MARK


def visible(data: bytes) -> bytes:
    """The text as people see it: control tokens by their names."""
    return data.replace(MARK, b"") if MARK in data else data

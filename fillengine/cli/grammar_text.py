"""What a hole accepts, in a few words: its regular expression where that is short, else its shortest text."""

from __future__ import annotations

import re
from functools import lru_cache

from fillengine.automata.dfa import Dfa, any_text, free_string, lift_json
from fillengine.automata.nodes import Pattern
from fillengine.templates.numbers import number
from fillengine.templates.style import layout

MAX_STATES = 16
"""Turning an automaton into an expression can grow exponentially with its states."""
MAX_EXPRESSION = 48
MAX_EXAMPLE = 40

_BY_LOOKS = sorted(range(256), key=lambda byte: (not chr(byte).islower(), not chr(byte).isdigit(), byte))
_ATOM = r"(\[(?:\\.|[^\]\\])+\]|\\x[0-9a-f]{2}|\\.|[^\\|?*+()\[\]{}])"
_RUN = re.compile(rf"{_ATOM}\1{{1,}}(?![?*+])")
_AT_LEAST_ONE = re.compile(rf"{_ATOM}\1\*")


def describe(pattern: Pattern, hint: str = "") -> str:
    """One line: `string, 1 to 50 characters`, `-?(0|[1-9][0-9]*)`, `email, like "a@b" (731 states)`."""
    words = _grammar(pattern.dfa, hint)
    count = bounds(pattern.low, pattern.high, "character")
    return f"{words}, {count}" if count else words


def bounds(low: int, high: int | None, unit: str) -> str:
    """`1 to 5 items`, `at least 1 item`; empty where there is no bound."""
    if high is None:
        return f"at least {_counted(low, unit)}" if low else ""
    if low == high:
        return f"exactly {_counted(low, unit)}"
    return f"{low} to {_counted(high, unit)}" if low else f"at most {_counted(high, unit)}"


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _grammar(dfa: Dfa, hint: str) -> str:
    known = _known().get(dfa.key)
    if known is not None:
        return known
    expression = as_expression(dfa)
    if expression is not None:
        return expression
    text = shortest_text(dfa).decode("utf-8", "backslashreplace")
    text = text if len(text) <= MAX_EXAMPLE else f"{text[:MAX_EXAMPLE]}…"
    example = f"like {text} ({len(dfa.next) - 1} states)"
    return f"{hint}, {example}" if hint else example


@lru_cache(maxsize=1)
def _known() -> dict[bytes, str]:
    """Automata that have a name, by their keys."""
    (space,) = layout("any", 0).gap
    return {
        free_string().key: "string",
        lift_json(any_text()).key: "string",
        number().key: "number",
        **({space.dfa.key: "white space"} if isinstance(space, Pattern) else {}),
    }


def shortest_text(dfa: Dfa) -> bytes:
    """A shortest accepted text; of several bytes a letter or a digit, where there is one."""
    text = bytearray()
    state = dfa.start
    while not dfa.accept[state]:
        left = dfa.shortest[state] - 1
        nexts = dfa.next[state]
        byte = next(b for b in _BY_LOOKS if nexts[b] and dfa.shortest[nexts[b]] == left)
        text.append(byte)
        state = int(nexts[byte])
    return bytes(text)


def as_expression(dfa: Dfa) -> str | None:
    """The automaton as a regular expression, by eliminating its states; None where that is not short."""
    num_states = len(dfa.next)
    if dfa.is_empty or num_states - 1 > MAX_STATES:
        return None
    start, end = num_states, num_states + 1
    edges: dict[tuple[int, int], str] = {(start, int(dfa.start)): ""}
    for state in range(1, num_states):
        targets: dict[int, list[int]] = {}
        for byte in range(256):
            if dfa.next[state, byte]:
                targets.setdefault(int(dfa.next[state, byte]), []).append(byte)
        for target, members in targets.items():
            edges[state, target] = _byte_class(members)
        if dfa.accept[state]:
            edges[state, end] = ""
    for state in sorted(range(1, num_states), key=lambda s: sum(s in edge for edge in edges)):
        _eliminate(edges, state)
        if sum(map(len, edges.values())) > 20 * MAX_EXPRESSION:
            return None
    expression = _with_counts(edges.get((start, end), ""))
    return expression if len(expression) <= MAX_EXPRESSION else None


def _with_counts(expression: str) -> str:
    """`[0-9][0-9][0-9][0-9]` to `[0-9]{4}`, `aa*` to `a+`."""

    def counted(run: re.Match[str]) -> str:
        return min(f"{run[1]}{{{len(run[0]) // len(run[1])}}}", run[0], key=len)

    return _AT_LEAST_ONE.sub(r"\1+", _RUN.sub(counted, expression))


def _eliminate(edges: dict[tuple[int, int], str], state: int) -> None:
    loop = edges.pop((state, state), None)
    again = "" if loop is None else f"{_grouped(loop)}*"
    into = [(a, edges.pop((a, b))) for a, b in list(edges) if b == state]
    out = [(b, edges.pop((a, b))) for a, b in list(edges) if a == state]
    for source, before in into:
        for target, after in out:
            path = _alternative(before) + again + _alternative(after)
            edges[source, target] = _either(edges.get((source, target)), path)


def _either(first: str | None, second: str) -> str:
    if first is None or first == second:
        return second
    if not first or not second:
        return f"{_grouped(first or second)}?"
    for short, long in ((first, second), (second, first)):
        head = long.removesuffix(short)
        if head != long and not _has_bar(short) and _grouped(head) == head:
            return f"{head}?{short}"
    return f"{first}|{second}"


def _alternative(expression: str) -> str:
    return f"({expression})" if _has_bar(expression) else expression


def _grouped(expression: str) -> str:
    is_one = len(expression) == 1 or (len(expression) == 2 and expression[0] == "\\")
    is_class = expression.startswith("[") and expression.find("]") == len(expression) - 1
    return expression if is_one or is_class else f"({expression})"


def _has_bar(expression: str) -> bool:
    depth = 0
    for place, sign in enumerate(expression):
        if sign in "([" and expression[place - 1 : place] != "\\":
            depth += 1
        elif sign in ")]" and expression[place - 1 : place] != "\\":
            depth -= 1
        elif sign == "|" and depth == 0 and expression[place - 1 : place] != "\\":
            return True
    return False


def _byte_class(members: list[int]) -> str:
    if len(members) == 1:
        return _sign(members[0])
    runs: list[tuple[int, int]] = []
    for byte in members:
        if runs and runs[-1][1] == byte - 1:
            runs[-1] = (runs[-1][0], byte)
        else:
            runs.append((byte, byte))
    inside = "".join(
        _member(low) if low == high else f"{_member(low)}{'-' if high > low + 1 else ''}{_member(high)}"
        for low, high in runs
    )
    return f"[{inside}]"


def _member(byte: int) -> str:
    """A byte inside brackets."""
    sign = chr(byte)
    return f"\\{sign}" if sign in "\\^-[]&~" else (sign if 0x20 <= byte < 0x7F else _sign(byte))


def _sign(byte: int) -> str:
    if not 0x20 <= byte < 0x7F:
        return f"\\x{byte:02x}"
    sign = chr(byte)
    return f"\\{sign}" if sign in "\\^$.|?*+()[]{}" else sign

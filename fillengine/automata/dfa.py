"""The algebra of byte automata: literals, words, set operations, concatenation, repetition.

Everything here takes and returns trimmed `Dfa`s. The operations work on automata over values; `boundary` is
not carried through them (lift to JSON last). All raise AutomatonTooLarge past `STATE_LIMIT` states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from fillengine.automata.json_text import free_string, lift_json
from fillengine.automata.regex import from_regex
from fillengine.automata.tables import NEVER, STATE_LIMIT, Bools, Dfa, check_size, empty, minimise, tidy
from fillengine.errors import AutomatonTooLarge

__all__ = [
    "ANY_TEXT",
    "NEVER",
    "STATE_LIMIT",
    "Dfa",
    "any_text",
    "complement",
    "concat",
    "difference",
    "empty",
    "free_string",
    "from_regex",
    "intersection",
    "lift_json",
    "literal",
    "minimise",
    "repeat",
    "star",
    "union",
    "words",
]


@lru_cache(maxsize=1)
def any_text() -> Dfa:
    """All well-formed UTF-8 texts, the empty one included."""
    return from_regex("(?s:.)*")


ANY_TEXT = any_text


def literal(text: bytes) -> Dfa:
    """Exactly `text`."""
    return words((text,))


def words(texts: Iterable[bytes]) -> Dfa:
    """One of `texts`: the minimal automaton, built from the sorted words (Daciuk et al. 2000)."""
    known: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}
    path: list[tuple[int, list[tuple[int, int]]]] = [(0, [])]  # (byte that led here, finished children)
    ends: list[bool] = [False]

    def close(depth: int) -> None:
        while len(path) > depth:
            byte, children = path.pop()
            key = (ends.pop(), tuple(children))
            state = known.setdefault(key, len(known) + 1)
            path[-1][1].append((byte, state))

    previous = b""
    for text in sorted(set(texts)):
        common = 0
        for a, b in zip(previous, text):  # noqa: B905 (the shorter one ends it)
            if a != b:
                break
            common += 1
        close(common + 1)
        for byte in text[common:]:
            path.append((byte, []))
            ends.append(False)
        ends[-1] = True
        previous = text
    close(1)
    root = (ends[0], tuple(path[0][1]))
    start = known.setdefault(root, len(known) + 1)
    check_size(len(known))
    used = np.zeros(256, np.bool_)
    for _, children in known:
        for byte, _ in children:
            used[byte] = True
    class_of = np.where(used, np.cumsum(used), 0)
    if used.all():
        class_of -= 1
    column = class_of.tolist()
    table = np.zeros((len(known) + 1, int(class_of.max()) + 1), np.int32)
    accept = np.zeros(len(known) + 1, np.bool_)
    for (is_end, children), state in known.items():
        accept[state] = is_end
        for byte, target in children:
            table[state, column[byte]] = target
    return tidy(table, class_of.astype(np.uint8), accept, start)


def _joint_classes(parts: Sequence[Dfa]) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Byte classes that all `parts` respect: (class of each byte, one byte of each class)."""
    joint = np.zeros(256, np.int64)
    for part in parts:
        joint = joint * 256 + part.classes[0]
        _, joint = np.unique(joint, return_inverse=True)
        joint = joint.reshape(-1)
    _, reps = np.unique(joint, return_index=True)
    return joint.astype(np.uint8), reps


# Below this many table cells a layer of pairs is quicker in plain Python than in numpy.
_FEW_CELLS = 400


def _product(a: Dfa, b: Dfa, accepts: Callable[[Bools, Bools], Bools], keeps: str) -> Dfa:
    """The reachable pairs of states. `keeps`: pairs that can matter: "both", "first" or "any" alive."""
    class_of, reps = _joint_classes((a, b))
    next_a, next_b = a.next[:, reps].astype(np.int64), b.next[:, reps].astype(np.int64)
    width = len(b.next)
    codes = [0, a.start * width + b.start]
    numbers = {code: number for number, code in enumerate(codes)}
    rows: list[int] = []  # the edges: state, column, target
    columns: list[int] = []
    targets: list[int] = []
    done = 1
    while done < len(codes):
        check_size(len(codes))
        layer = codes[done:]
        if len(layer) * len(reps) <= _FEW_CELLS:
            for code in layer:
                first, second = divmod(code, width)
                pairs = zip(next_a[first].tolist(), next_b[second].tolist(), strict=True)
                for column, (to_a, to_b) in enumerate(pairs):
                    if (to_a and (to_b or keeps != "both")) or (to_b and keeps == "any"):
                        target = to_a * width + to_b
                        number = numbers.get(target)
                        if number is None:
                            number = numbers[target] = len(codes)
                            codes.append(target)
                        rows.append(done)
                        columns.append(column)
                        targets.append(number)
                done += 1
            continue
        first_states, second_states = np.divmod(np.array(layer, np.int64), width)
        all_a, all_b = next_a[first_states], next_b[second_states]
        alive = {"both": (all_a != 0) & (all_b != 0), "first": all_a != 0, "any": (all_a | all_b) != 0}[keeps]
        sources, where = np.nonzero(alive)
        distinct, inverse = np.unique(all_a[sources, where] * width + all_b[sources, where], return_inverse=True)
        found: list[int] = []
        for target in distinct.tolist():
            number = numbers.get(target)
            if number is None:
                number = numbers[target] = len(codes)
                codes.append(target)
            found.append(number)
        rows += (sources + done).tolist()
        columns += where.tolist()
        targets += np.array(found, np.int32)[inverse].tolist() if found else []
        done += len(layer)
    table = np.zeros((len(codes), len(reps)), np.int32)
    table[rows, columns] = targets
    in_a, in_b = np.divmod(np.array(codes, np.int64), width)
    accept = accepts(a.accept[in_a], b.accept[in_b])
    return tidy(table, class_of, accept, 1)


def _intersect(a: Dfa, b: Dfa) -> Dfa:
    if a.is_empty or b.is_empty:
        return empty()
    if a is any_text():
        return b
    if b is any_text():
        return a
    return _product(a, b, np.logical_and, "both")


def intersection(*parts: Dfa) -> Dfa:
    """The texts that all `parts` accept (well-formed UTF-8, as everywhere)."""
    return reduce(_intersect, parts)


def _unite(a: Dfa, b: Dfa) -> Dfa:
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    return _product(a, b, np.logical_or, "any")


def union(*parts: Dfa) -> Dfa:
    """The texts that one of `parts` accepts; nothing when there are no parts."""
    return reduce(_unite, parts, empty())


def difference(a: Dfa, b: Dfa) -> Dfa:
    """The texts of `a` that are not texts of `b`."""
    if a.is_empty or b.is_empty:
        return a
    return _product(a, b, lambda in_a, in_b: in_a & ~in_b, "first")


def complement(dfa: Dfa) -> Dfa:
    """The well-formed UTF-8 texts that `dfa` does not accept."""
    return difference(any_text(), dfa)


# States in all subsets of one construction: keeps long repetitions of ambiguous units under a few seconds.
_WORK_LIMIT = 500_000


class _Links:
    """Automata side by side, with silent steps: reaching a state of `silent` means its targets as well.

    States are numbered through all parts (0 stays the shared dead state).
    """

    def __init__(self, parts: Sequence[Dfa]) -> None:
        self.class_of, reps = _joint_classes(parts)
        self.rows: list[list[int]] = [[0] * len(reps)]
        self.starts: list[int] = []
        self.accepts: list[list[int]] = []
        self.silent: dict[int, list[int]] = {}
        for part in parts:
            offset = len(self.rows) - 1
            narrow = part.next[1:, reps]
            self.rows += np.where(narrow != 0, narrow + offset, 0).tolist()
            self.starts.append(part.start + offset)
            self.accepts.append((np.flatnonzero(part.accept) + offset).tolist())

    def link(self, sources: Iterable[int], target: int) -> None:
        for source in sources:
            self.silent.setdefault(source, []).append(target)

    def _closed(self, states: Iterable[int]) -> frozenset[int]:
        members = set(states)
        members.discard(0)
        todo = list(members)
        for state in todo:
            for target in self.silent.get(state, ()):
                if target not in members:
                    members.add(target)
                    todo.append(target)
        return frozenset(members)

    def determinise(self, start: int, accept: Iterable[int]) -> Dfa:
        """The subset construction, over byte classes."""
        final = set(accept)
        first = self._closed((start,))
        numbers: dict[frozenset[int], int] = {frozenset(): 0, first: 1}
        # (raw targets of a subset) -> number of the closed subset, so that closing is done once for each
        known: dict[int | frozenset[int], int] = {0: 0}
        todo = [first]
        table: list[list[int]] = [[0] * len(self.rows[0])]

        def number_of(raw: Iterable[int]) -> int:
            subset = self._closed(raw)
            number = numbers.get(subset)
            if number is None:
                number = numbers[subset] = len(numbers)
                check_size(number)
                todo.append(subset)
            return number

        work = 0
        for subset in todo:
            work += len(subset)
            if work > _WORK_LIMIT:
                raise AutomatonTooLarge(work, _WORK_LIMIT)
            row: list[int] = []
            if len(subset) == 1:
                (state,) = subset
                for target in self.rows[state]:
                    if target not in known:
                        known[target] = number_of((target,))
                    row.append(known[target])
            else:
                for targets in zip(*(self.rows[state] for state in subset), strict=True):
                    raw = frozenset(targets)
                    if raw not in known:
                        known[raw] = number_of(raw)
                    row.append(known[raw])
            table.append(row)
        accepting = np.array([False, *(not final.isdisjoint(subset) for subset in todo)])
        return tidy(np.array(table, np.int32), self.class_of, accepting, 1)


def concat(*parts: Dfa) -> Dfa:
    """A text of the first part, then one of the second, and so on; the empty text when there are no parts."""
    if not parts:
        return literal(b"")
    if any(part.is_empty for part in parts):
        return empty()
    if len(parts) == 1:
        return parts[0]
    check_size(sum(len(part.next) for part in parts))
    links = _Links(parts)
    for accepts, start in zip(links.accepts, links.starts[1:], strict=False):
        links.link(accepts, start)
    return links.determinise(links.starts[0], links.accepts[-1])


def star(dfa: Dfa) -> Dfa:
    """Any number of texts of `dfa`, none included."""
    return repeat(dfa, 0, None)


def repeat(dfa: Dfa, low: int, high: int | None) -> Dfa:
    """From `low` to `high` (None: any number) texts of `dfa`, one after another.

    On the tables: a chain of `high` copies, each accepting state also standing at the start of the next copy.
    """
    if high is not None and high < low:
        return empty()
    if high == 0:
        return literal(b"")
    if dfa.is_empty:
        return literal(b"") if low == 0 else empty()
    if dfa.accept[dfa.start]:
        low = 0
    copies = max(low, 1) if high is None else high
    check_size(copies * (len(dfa.next) - 1))
    if high is not None and not dfa.next[dfa.accept].any():
        return _chain(dfa, low, high)
    links = _Links((literal(b""), *[dfa] * copies))
    for accepts, start in zip(links.accepts, links.starts[1:], strict=False):
        links.link(accepts, start)
    final = {state for accepts in links.accepts[low:] for state in accepts}
    if high is None:
        # With low 0 the empty text stands in front, and the one copy may follow itself.
        links.link(links.accepts[-1], links.starts[-1])
    return links.determinise(links.starts[0], final)


def _chain(dfa: Dfa, low: int, high: int) -> Dfa:
    """`repeat` of a unit that ends as soon as it accepts: copies side by side are deterministic already."""
    class_of, reps = dfa.classes
    narrow = dfa.next[:, reps]
    inner = np.flatnonzero(~dfa.accept)[1:]  # without the dead state
    # State numbers of a copy: 0 the fresh start, then the inner ones; `join` is the next copy's fresh start.
    size = len(inner) + 1
    number = np.zeros(len(narrow), np.int64)
    number[inner] = np.arange(1, size) + 1
    number[dfa.accept] = size + 1
    unit = number[np.concatenate((narrow[[dfa.start]], narrow[inner]))]  # (size, k), 1 based, 0 dead
    offsets = (np.arange(high) * size)[:, None, None]
    table = np.where(unit != 0, unit + offsets, 0).reshape(high * size, -1)
    table = np.concatenate((np.zeros((1, len(reps)), np.int64), table, np.zeros((1, len(reps)), np.int64)))
    accept = np.zeros(len(table), np.bool_)
    accept[1 + size * np.arange(low, high + 1)] = True
    return tidy(table.astype(np.int32), class_of, accept, 1)

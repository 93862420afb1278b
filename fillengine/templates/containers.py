"""Objects and arrays as nodes.

Optional parts are right-linear: what follows part i is one node, shared by "part i is written" and "it is
not", so n optional parts cost O(n) nodes. What may follow depends on the number of parts that are written
only as far as it matters: not at all or once (is a comma due?), or up to the bound of a count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fillengine.automata import nodes
from fillengine.automata.nodes import Node
from fillengine.automata.presence import Clause
from fillengine.templates.array_shapes import ArrayWalk, State
from fillengine.templates.object_shapes import least_granting
from fillengine.templates.schema import Conjunction
from fillengine.templates.style import Layout, Piece, choice, sequence


@dataclass(frozen=True, slots=True)
class Part:
    """A property (key, colon and value) or an item, without a comma."""

    pieces: tuple[Piece, ...]
    is_required: bool


@dataclass(frozen=True, slots=True)
class Tail:
    """What may stand any number of times behind the parts: `node` without a comma, or, where no two of them may
    begin alike, `others`."""

    node: Node | None
    label: str
    others: tuple[nodes.Other, ...] = ()
    most: int | None = None
    num_wants: int = 0


# Nothing is written yet; the clauses of which something is still open.
_Lack = tuple[bool, frozenset[Clause]]
# So many of them behind one part are told apart.
LACKS_LIMIT = 4096

# Written so far -> pieces of what follows, last first; None: no way to finish from here.
_States = dict[int, "list[Piece] | None"]


def unordered_node(
    brackets: tuple[bytes, bytes],
    parts: Sequence[Part],
    others: tuple[nodes.Other, ...],
    low: int,
    high: int | None,
    layout: Layout,
    label: str,
    num_wants: int = 0,
    clauses: tuple[Clause, ...] = (),
) -> Node | None:
    """`parts` and any number of `others` in any order, `low` to `high` in all. None: impossible.

    clauses: which parts may stand together (as bits); only where `low` and `high` say nothing
    """
    required = sum(part.is_required for part in parts)
    if high is not None and max(required, low) > high:
        return None
    if not _can_grant(others, (1 << num_wants) - 1, None if high is None else high - required):
        return None
    if not others:
        if low > len(parts):
            return None
        high = None if high is None or high >= len(parts) else high
    start, close = brackets
    entries = tuple(_entry(part) for part in parts)
    members = nodes.Unordered(
        entries,
        others,
        0 if low <= required else low,
        high,
        sequence(layout.gap),
        sequence(layout.comma),
        sequence((*layout.end, close)),
        sequence((*layout.empty, close)),
        label,
        num_wants,
        clauses,
    )
    return sequence((start, members))


def _entry(part: Part) -> nodes.Entry:
    """A part as an entry: what it begins with for certain, and the rest."""
    whole = sequence(part.pieces)
    if isinstance(whole, nodes.Literal):
        return nodes.Entry(whole.text, None, part.is_required)
    assert isinstance(whole, nodes.Sequence)
    first, *rest = whole.items
    assert isinstance(first, nodes.Literal)
    return nodes.Entry(first.text, rest[0] if len(rest) == 1 else nodes.Sequence(tuple(rest)), part.is_required)


def object_node(parts: Sequence[Part], tail: Tail | None, low: int, high: int | None, layout: Layout) -> Node | None:
    """`parts` in order, each that is not required may be left out; then `tail`. `low` to `high` properties
    in all. None: impossible."""
    required = sum(part.is_required for part in parts)
    has_choice = required < len(parts)
    cap = 1
    if has_choice and high is not None and (high < len(parts) or tail is not None):
        cap = max(high, 1)
    if low <= required:
        low = 0
    elif has_choice:
        cap = max(cap, low)
    builder = _Builder(b"}", layout, low, high, cap, None if has_choice else len(parts))
    states = builder.ends(tail, min(required, cap), min(len(parts), cap))
    before = required
    for number in range(len(parts) - 1, -1, -1):
        before -= parts[number].is_required
        states = builder.before(parts[number], states, min(before, cap), min(number, cap))
    pieces = states[0]
    return None if pieces is None else sequence([b"{", *reversed(pieces)])


def together_node(parts: Sequence[Part], clauses: tuple[Clause, ...], tail: Tail | None, layout: Layout) -> Node | None:
    """`parts` in order, of which those may stand together that the clauses (over their numbers, as bits) let; then
    `tail`. None: impossible, or more than `LACKS_LIMIT` things to remember between two parts.

    What follows a part depends on what the parts before it leave of the clauses.
    """
    builder = _Builder(b"}", layout, 0, None, 1, None)
    levels: list[dict[_Lack, None]] = [{(True, frozenset(clauses)): None}]
    for number in range(len(parts)):
        level: dict[_Lack, None] = {}
        for lack in levels[-1]:
            level.update(dict.fromkeys(_following(lack, number, parts[number]).values()))
        if len(level) > LACKS_LIMIT:
            return None
        levels.append(level)
    behind: dict[_Lack, Node | None] = {}
    for lack in levels.pop():
        pieces = builder.ends(tail, 0, 1)[0 if lack[0] else 1]
        behind[lack] = None if pieces is None else sequence(reversed(pieces))
    for number in range(len(parts) - 1, -1, -1):
        here: dict[_Lack, Node | None] = {}
        for lack in levels.pop():
            lead = layout.gap if lack[0] else layout.comma
            options: list[Node] = []
            for is_written, after in _following(lack, number, parts[number]).items():
                rest = behind[after]
                if rest is not None:
                    options.append(sequence((*lead, *parts[number].pieces, rest)) if is_written else rest)
            here[lack] = choice(options) if options else None
        behind = here
    (whole,) = behind.values()
    return None if whole is None else sequence((b"{", whole))


def _following(lack: _Lack, number: int, part: Part) -> dict[bool, _Lack]:
    """What is lacking behind a part that is written, and behind one that is left out, where these may be."""
    is_first, clauses = lack
    bit = 1 << number
    found: dict[bool, _Lack] = {}
    written = frozenset((some, every & ~bit) for some, every in clauses if not some & bit)
    if (0, 0) not in written:
        found[True] = (False, written)
    left_out = frozenset((some & ~bit, every) for some, every in clauses if not every & bit)
    if not part.is_required and (0, 0) not in left_out:
        found[False] = (is_first, left_out)
    return found


def array_node(prefix: Sequence[Node], rest: Tail | None, low: int, high: int | None, layout: Layout) -> Node | None:
    """The items of `prefix` one by one, then `rest`: `low` to `high` in all. None: impossible."""
    builder = _Builder(b"]", layout, low, high, 1, len(prefix))
    pieces = builder.ends(rest, min(len(prefix), 1), min(len(prefix), 1))[min(len(prefix), 1)]
    for number in range(len(prefix) - 1, -1, -1):
        if pieces is not None:
            pieces += reversed((*(layout.comma if number else layout.gap), prefix[number]))
        if number >= low:
            close = builder.close(is_first=number == 0)
            if pieces is None:
                pieces = close
            else:
                options = (sequence(reversed(close)), sequence(reversed(pieces)))
                pieces = [nodes.Choice(options)]
    return None if pieces is None else sequence([b"[", *reversed(pieces)])


def walk_node(
    walk: ArrayWalk,
    has_value: Callable[[Conjunction], bool],
    node_of: Callable[[Conjunction], Node],
    layout: Layout,
    label: str,
) -> Node | None:
    """An array whose items are counted. None: impossible.

    What follows a state is one node, shared by all ways to it; a step back to the same state is a Repeat.
    """
    living = walk.living(has_value)
    if walk.start not in living:
        return None
    behind: dict[State, Node] = {}  # what follows an item

    def steps(state: State, lead: tuple[Piece, ...]) -> list[Node]:
        items: dict[State, list[Node]] = {}
        for item, after in walk.steps(state):
            if after in behind and has_value(item):
                items.setdefault(after, []).append(node_of(item))
        return [sequence((*lead, choice(options), behind[after])) for after, options in items.items()]

    for state in sorted(living, reverse=True):
        loops = [node_of(item) for item, after in walk.steps(state) if after == state and has_value(item)]
        options = steps(state, layout.comma)
        if walk.is_complete(state):
            options.append(sequence((*layout.end, b"]")))
        node = choice(options)
        if loops:
            more = nodes.Repeat(sequence((*layout.comma, choice(loops))), 0, None, None, label)
            node = sequence((more, node))
        behind[state] = node
    options = steps(walk.start, layout.gap)
    if walk.is_complete(walk.start):
        options.append(sequence((*layout.empty, b"]")))
    return sequence((b"[", choice(options)))


class _Builder:
    def __init__(self, close: bytes, layout: Layout, low: int, high: int | None, cap: int, exact: int | None) -> None:
        """`cap`: counts are told apart up to here. `exact`: the number of parts, if all are written."""
        self._close, self._layout = close, layout
        self._low, self._high, self._cap, self._exact = low, high, cap, exact

    def ends(self, tail: Tail | None, fewest: int, most: int) -> _States:
        """The states behind the last part, where `fewest` to `most` parts may be written."""
        return {
            written: self._end(tail, written if self._exact is None else self._exact, is_first=written == 0)
            for written in range(fewest, most + 1)
        }

    def close(self, *, is_first: bool) -> list[Piece]:
        return [self._close, *reversed(self._layout.empty if is_first else self._layout.end)]

    def _end(self, tail: Tail | None, count: int, *, is_first: bool) -> list[Piece] | None:
        more = max(0, self._low - count)
        room = None if self._high is None else self._high - count
        if room is not None and (room < 0 or more > room):
            return None
        if tail is None or room == 0:
            impossible = more or (tail is not None and tail.num_wants)
            return None if impossible else self.close(is_first=is_first)
        close = self.close(is_first=False)
        if tail.others:
            if tail.most is not None:
                room = tail.most if room is None else min(room, tail.most)
            if room is not None and more > room:
                return None
            if tail.num_wants and not _can_grant(tail.others, (1 << tail.num_wants) - 1, room):
                return None
            lead = self._layout.gap if is_first else self._layout.comma
            last = sequence(reversed(close))
            empty = sequence(reversed(self.close(is_first=True))) if is_first else last
            comma = sequence(self._layout.comma)
            return [
                nodes.Unordered(
                    (), tail.others, more, room, sequence(lead), comma, last, empty, tail.label, tail.num_wants
                )
            ]
        assert tail.node is not None
        if not is_first:
            item = sequence([*self._layout.comma, tail.node])
            return [*close, nodes.Repeat(item, more, room, None, tail.label)]
        comma = sequence(self._layout.comma)
        if self._layout.is_flush:
            return [*close, nodes.Repeat(tail.node, more, room, comma, tail.label)]
        some = [*close, nodes.Repeat(tail.node, max(more, 1), room, comma, tail.label)]
        some += reversed(self._layout.gap)
        if more:
            return some
        none = self.close(is_first=True)
        return [nodes.Choice((sequence(reversed(none)), sequence(reversed(some))))]

    def before(self, part: Part, states: _States, fewest: int, most: int) -> _States:
        """The states in front of a part: `fewest` to `most` parts may be written there."""
        if fewest < most or not part.is_required:
            states = {written: _as_node(pieces) for written, pieces in states.items()}
        found: _States = {}
        for written in range(fewest, most + 1):
            lead = self._layout.comma if written else self._layout.gap
            after = states.get(min(written + 1, self._cap))
            if self._high is not None and self._exact is None and written >= self._high:
                after = None
            taken: list[Piece] | None = None
            if after is not None:
                taken = after if fewest == most and part.is_required else list(after)
                taken += reversed((*lead, *part.pieces))
            if part.is_required:
                found[written] = taken
                continue
            skipped = states.get(written)
            if taken is None or skipped is None:
                found[written] = skipped if taken is None else taken
                continue
            options: list[Node] = [sequence(reversed(taken))]
            skipped_node = sequence(skipped)
            if written == 0 and isinstance(skipped_node, nodes.Choice):
                options += skipped_node.options  # nobody shares the states in which nothing is written yet
            else:
                options.append(skipped_node)
            found[written] = [nodes.Choice(tuple(options))]
        return found


def _can_grant(others: tuple[nodes.Other, ...], wants: int, room: int | None) -> bool:
    """Whether at most `room` of the others grant all of `wants`."""
    fewest = least_granting([other.grants for other in others], wants)
    return fewest is not None and (room is None or fewest <= room)


def _as_node(pieces: list[Piece] | None) -> list[Piece] | None:
    if pieces is None:
        return None
    return [sequence(reversed(pieces))]

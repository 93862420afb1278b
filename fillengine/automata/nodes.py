"""The nodes of a template: what a form looks like once it is only bytes.

A node says which byte strings may be written at its place:

    Literal(b'{"a": ')                     exactly these bytes
    Pattern(dfa)                           what the byte automaton accepts
    Words((b'"no"', b'"yes"'))             one of many literals (an enum, also with 10,000 members)
    Sequence((x, y, z))                    one after another
    Choice((x, y))                         one of them; the options may overlap
    Repeat(x, 1, None, Literal(b", "))     x at least once, a separator between two
    Unordered(...)                         members in any order, none of them twice (properties, distinct items)
    Rule("tree")                           the node that the template calls by this name (recursion)

Nodes compare by identity, so that a node that is reached twice is walked once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

from fillengine.automata.dfa import Dfa


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    text: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What `dfa` accepts.

    With `low`/`high` also a bound on its characters: leaving a state of `dfa.boundary` by a byte that does
    not lead to an accepting state counts one (see `Dfa.boundary`). `high` None is no upper bound.
    `label` is where the hole comes from (a JSON pointer into the value, say) for people and statistics.
    `max_tokens` is what may be spent on it before it is closed (None: no bound); the automaton does not see it.
    """

    dfa: Dfa
    low: int = 0
    high: int | None = None
    label: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """What `base` says, but none of `excluded`; where it begins a member of an `Unordered` (and nowhere else it
    may stand), neither what such a member began with before.

    `base` is a Pattern, or any node at all (an item of a list of distinct objects, say). No word of `base` with
    something behind it is compared: what is written must be spelled in one way only to be told apart.
    """

    base: Node
    excluded: tuple[bytes, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Except:
    """What `base` says and none of `without` (each with the rules of `rules`). What all of them write must be
    spelled in one way only."""

    base: Node
    without: tuple[Node, ...]
    rules: Mapping[str, Node]
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """One of `words`, which are sorted and distinct."""

    words: tuple[bytes, ...]
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """`item` from `low` to `high` times (None: no upper bound), `separator` between two."""

    item: Node
    low: int
    high: int | None
    separator: Node | None = None
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A member that is written once at most: `text`, and `rest` behind it (None: nothing)."""

    text: bytes
    rest: Node | None
    is_required: bool


@dataclass(frozen=True, slots=True, eq=False)
class Other:
    """Members that differ in what they begin with: `key`, and `rest` behind it (None: nothing).

    `grants`: what is wanted of the members of an `Unordered` and such a one gives, as bits.
    """

    key: Fresh
    rest: Node | None
    grants: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Unordered:
    """`low` to `high` members in any order (high None: no bound), each entry at most once, each other one new.

    clauses        which entries may stand together (see `presence`); only where `low` and `high` say nothing
    num_wants      bits of `Other.grants` of which each must be granted by some member; the others that grant
                   anything have words without end
    lead, comma    in front of the first member and of all others
    end, empty     behind the last one, and where there is none
    """

    entries: tuple[Entry, ...]
    others: tuple[Other, ...]
    low: int
    high: int | None
    lead: Node
    comma: Node
    end: Node
    empty: Node
    label: str = ""
    num_wants: int = 0
    clauses: tuple[tuple[int, int], ...] = ()

    @property
    def most_new(self) -> int:
        """How many others may have to be written at once (those that grant what is wanted apart)."""
        return max(self.low - len(self.entries), 0)

    @property
    def most_counted(self) -> int:
        """How many others matter to the bounds."""
        return max(self.low, (self.high or 0) + 1, 1)

    def num_written(self, written: int) -> int:
        """How many entries are written, of `Frame.count`, which has the wants that are granted above them."""
        return (written & ((1 << len(self.entries)) - 1)).bit_count()

    def wants(self, written: int) -> int:
        """The wants that are not granted yet."""
        return ~(written >> len(self.entries)) & ((1 << self.num_wants) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    name: str


Node = Union[Literal, Pattern, Fresh, Except, Words, Sequence, Choice, Repeat, Unordered, Rule]  # noqa: UP007 (forward references)


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A whole form: the root node, and the nodes that `Rule` names."""

    root: Node
    rules: Mapping[str, Node] = field(default_factory=dict)


def walk(template: Template) -> Iterator[Node]:
    """Every node of a template, once."""
    stack: list[Node | None] = [template.root, *template.rules.values()]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if isinstance(node, Sequence):
            stack += node.items
        elif isinstance(node, Choice):
            stack += node.options
        elif isinstance(node, Repeat):
            stack += (node.item, node.separator)
        elif isinstance(node, Unordered):
            stack += (entry.rest for entry in node.entries)
            for other in node.others:
                stack += (other.key, other.rest)
            stack += (node.lead, node.comma, node.end, node.empty)
        elif isinstance(node, Fresh):
            stack.append(node.base)
        elif isinstance(node, Except):
            stack += (node.base, *node.without, *node.rules.values())

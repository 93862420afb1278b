"""The nodes of a template: what a form looks like once it is only bytes.

A node says which byte strings may be written at its place:

    Literal(b'{"a": ')                     exactly these bytes
    Pattern(dfa)                           what the byte automaton accepts
    Words((b'"no"', b'"yes"'))             one of many literals (an enum, also with 10,000 members)
    Sequence((x, y, z))                    one after another
    Choice((x, y))                         one of them; the options may overlap
    Repeat(x, 1, None, Literal(b", "))     x at least once, a separator between two
    Rule("tree")                           the node that the template calls by this name (recursion)

Nodes compare by identity, so that a node that is reached twice is walked once.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """

    dfa: Dfa
    low: int = 0
    high: int | None = None
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
class Rule:
    name: str


Node = Union[Literal, Pattern, Words, Sequence, Choice, Repeat, Rule]  # noqa: UP007 (forward references)


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A whole form: the root node, and the nodes that `Rule` names."""

    root: Node
    rules: Mapping[str, Node] = field(default_factory=dict)

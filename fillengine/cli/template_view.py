"""A template on the terminal: asserted text, holes with their grammar, choices, repeats, rules.

Pure rendering over the nodes of a template; what it shows is what will be enforced.

    {"name": ⟨string⟩
    , "tags": [
    ├── 0 to 5 times, ", " between two
    │   └── ⟨string⟩
    ]}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text
from rich.tree import Tree

from fillengine.automata.nodes import (
    Choice,
    Except,
    Fresh,
    Literal,
    Node,
    Pattern,
    Repeat,
    Rule,
    Sequence,
    Template,
    Unordered,
    Words,
)
from fillengine.cli.grammar_text import bounds, describe
from fillengine.extraction.schema_reading import hint_at

ASSERTED, HOLE, CHOICE, REPEAT, RULE = "green", "yellow", "cyan", "magenta", "blue"

MAX_WORDS_SHOWN = 6
MAX_INLINE = 80
"""Characters of a choice that is still shown in one line."""


@dataclass(slots=True)
class Counts:
    """What a template holds. `literals` are its asserted texts, adjacent ones joined."""

    literals: list[bytes] = field(default_factory=list)
    num_holes: int = 0
    num_choices: int = 0
    num_repeats: int = 0


def legend() -> Text:
    parts = (
        (ASSERTED, "asserted text"),
        (HOLE, "⟨hole⟩"),
        (CHOICE, "choice"),
        (REPEAT, "repeat"),
        (RULE, "↻ rule"),
    )
    return Text("  ").join(Text(name, style=style) for style, name in parts)


def view(template: Template, schema: Any = None) -> tuple[list[Tree], Counts]:
    """One tree for the form, and one for each rule or part that is recursive or used in several places.

    `schema` gives formats and ranges, which say more than their automata do.
    """
    viewer = _Viewer(template, schema)
    viewer.refer(template.root)
    trees: list[Tree] = []
    for node, name in viewer.named:  # grows while it is walked
        label = Text(name, style=f"bold {RULE}")
        if not trees:
            label = Text("form", style="bold") if name == "form" else Text.assemble(("form ", "bold"), label)
        trees.append(viewer.tree(label, node))
    return trees, viewer.counts


class _Viewer:
    """What the lines of all trees share."""

    def __init__(self, template: Template, schema: Any) -> None:
        self.rules = template.rules
        self._schema = schema
        self.named: list[tuple[Node, str]] = []
        self.counts = Counts()
        self._optional: dict[int, tuple[list[list[Node]], list[Node]]] = {}
        self._uses = self._count_uses(template.root)

    def tree(self, label: Text, node: Node) -> Tree:
        tree = Tree(label, guide_style="dim")
        _Lines(self, tree).open(node)
        return tree

    def is_shared(self, node: Node) -> bool:
        return self._uses[id(node)] > 1

    def refer(self, node: Node) -> Text:
        """A shared node by its name; its own tree follows."""
        target = node
        while isinstance(target, Rule):
            target = self.rules[target.name]
        for known, name in self.named:
            if known is target:
                return Text(f"↻ {name}", style=RULE)
        rule = next((name for name, there in self.rules.items() if there is target), None)
        name = rule or (f"part {len(self.named)}" if self.named else "form")
        self.named.append((target, name))
        return Text(f"↻ {name}", style=RULE)

    def optional(self, node: Choice) -> tuple[list[list[Node]], list[Node]]:
        """`optional_parts`, kept."""
        found = self._optional.get(id(node))
        if found is None:
            found = self._optional[id(node)] = optional_parts(node)
        return found

    def _count_uses(self, root: Node) -> dict[int, int]:
        """How often each node (by id) is referred to in what will be shown, rules counted by their nodes."""
        uses: dict[int, int] = {id(root): 1}
        waiting: list[Node] = [root]
        while waiting:
            for child in self._children(waiting.pop()):
                uses[id(child)] = uses.get(id(child), 0) + 1
                if uses[id(child)] == 1:
                    waiting.append(child)
        return uses

    def _children(self, node: Node) -> Iterable[Node]:
        if isinstance(node, Rule):
            return (self.rules[node.name],)
        if isinstance(node, Sequence):
            return node.items
        if isinstance(node, Choice):
            parts, rest = self.optional(node)
            return [*itertools.chain(*parts), *rest] if parts else node.options
        if isinstance(node, Repeat):
            return (node.item,) if node.separator is None else (node.item, node.separator)
        if isinstance(node, Unordered):
            return members(node)
        return (node.base,) if isinstance(node, Fresh) else ()

    def inline(self, node: Node) -> Text | None:
        """A node that fits into a line; None where it does not. Nothing is counted."""
        if isinstance(node, (Sequence, Repeat, Unordered)):
            return None
        if isinstance(node, Choice):
            options = []
            for option in node.options:
                text = self.inline(option)
                if text is None:
                    return None
                options.append(text)
            text = Text.assemble(("( ", CHOICE), Text(" | ", style=CHOICE).join(options), (" )", CHOICE))
            return text if len(text) <= MAX_INLINE else None
        return self.shown(node)

    def shown(self, node: Node) -> Text:
        """A node that needs no branches, as it stands in a line."""
        if isinstance(node, Literal):
            return Text(visible(node.text), style=ASSERTED)
        if isinstance(node, Pattern):
            return Text(f"⟨{describe(node, hint_at(self._schema, node.label))}⟩", style=HOLE)
        if isinstance(node, Words):
            return Text(f"⟨{_some(node.words)}⟩", style=CHOICE)
        if isinstance(node, Fresh):
            return Text.assemble(self.inline(node.base) or self.refer(node.base), (" (each once)", CHOICE))
        if isinstance(node, Except):
            return Text("⟨what the schema leaves after what it excludes⟩", style=HOLE)
        return self.inline(node) or Text("…") if isinstance(node, Choice) else self.refer(node)


class _Lines:
    """Writes a node into a tree: asserted text and the hole behind it in one line, blocks as branches."""

    def __init__(self, viewer: _Viewer, tree: Tree) -> None:
        self._viewer = viewer
        self._tree = tree
        self._line = Text()
        self._literal = b""
        self._ends = False

    def close(self, items: Iterable[Node]) -> None:
        """Write the items and end the last line."""
        self._add_all(items)
        self._break()

    def open(self, node: Node) -> None:
        """Write a node itself, not its name."""
        if isinstance(node, Choice) and self._viewer.inline(node) is None:
            self._choice(node)
            self._break()
        else:
            self.close(_items(node))

    def _add_all(self, items: Iterable[Node]) -> None:
        for item in items:
            self._add(item)

    def _add(self, node: Node) -> None:
        viewer = self._viewer
        if isinstance(node, Literal):
            if self._ends:
                self._break()
            self._literal += node.text
        elif isinstance(node, Repeat):
            self._repeat(node)
        elif isinstance(node, Unordered):
            self._unordered(node)
        elif isinstance(node, (Pattern, Fresh, Except, Words, Rule)) or (
            isinstance(node, Choice) and viewer.inline(node)
        ):
            self._hole(node, viewer.shown(node))
        elif viewer.is_shared(node):
            self._hole(node, viewer.refer(node))
        elif isinstance(node, Choice):
            self._choice(node)
        else:
            self._add_all(_items(node))

    def _hole(self, node: Node, text: Text) -> None:
        if isinstance(node, (Choice, Words)):
            self._viewer.counts.num_choices += 1
        elif isinstance(node, (Pattern, Fresh, Except)):
            self._viewer.counts.num_holes += 1
        self._end_literal()
        self._line.append_text(text)
        self._ends = True

    def _choice(self, node: Choice) -> None:
        parts, rest = self._viewer.optional(node)
        if parts:
            for part in parts:
                self._viewer.counts.num_choices += 1
                self._block(Text("optional", style=CHOICE), part)
            self._add_all(rest)
            return
        self._viewer.counts.num_choices += 1
        self._break()
        branch = self._tree.add(Text("one of", style=CHOICE))
        for number, option in enumerate(node.options, start=1):
            text = self._viewer.inline(option)
            if text is not None:
                branch.add(text)
            else:
                _Lines(self._viewer, branch.add(Text(f"{number}", style=CHOICE))).close([option])

    def _repeat(self, node: Repeat) -> None:
        self._viewer.counts.num_repeats += 1
        count = bounds(node.low, node.high, "time") or "any number of times"
        between = ""
        if node.separator is not None:
            text = self._viewer.inline(node.separator)
            between = ", a separator between" if text is None else f", {text.plain!r} between"
        self._block(Text(f"{count}{between}", style=REPEAT), [node.item])

    def _unordered(self, node: Unordered) -> None:
        self._viewer.counts.num_repeats += 1
        self._break()
        count = bounds(node.low, node.high, "member")
        branch = self._tree.add(Text(f"in any order{f', {count}' if count else ''}", style=REPEAT))
        for entry in node.entries:
            label = Text("required" if entry.is_required else "optional", style=CHOICE)
            rest = () if entry.rest is None else (entry.rest,)
            _Lines(self._viewer, branch.add(label)).close((Literal(entry.text), *rest))
        for other in node.others:
            rest = () if other.rest is None else (other.rest,)
            _Lines(self._viewer, branch.add(Text("others", style=CHOICE))).close((other.key, *rest))
        self._add(node.end)

    def _block(self, label: Text, items: Iterable[Node]) -> None:
        self._break()
        _Lines(self._viewer, self._tree.add(label)).close(items)

    def _end_literal(self) -> None:
        if self._literal:
            self._viewer.counts.literals.append(self._literal)
            self._line.append(visible(self._literal), style=ASSERTED)
            self._literal = b""

    def _break(self) -> None:
        self._end_literal()
        if self._line:
            self._tree.add(self._line)
        self._line = Text()
        self._ends = False


def members(node: Unordered) -> list[Node]:
    """The nodes inside an Unordered that are shown."""
    found: list[Node | None] = [entry.rest for entry in node.entries]
    for other in node.others:
        found += (other.key, other.rest)
    return [inner for inner in (*found, node.end) if inner is not None]


def visible(text: bytes) -> str:
    """Bytes for people: line ends and other control characters as escapes."""
    shown = text.decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in shown)


def _some(words: tuple[bytes, ...]) -> str:
    shown = " | ".join(visible(word) for word in words[:MAX_WORDS_SHOWN])
    return f"{shown} | … {len(words)} in all" if len(words) > MAX_WORDS_SHOWN else shown


def optional_parts(node: Choice) -> tuple[list[list[Node]], list[Node]]:
    """A choice as optional parts in a row and what follows them; ([], []) where it is none.

    Templates write optional parts as "part i and what follows it, or only what follows it" (see
    `templates.containers`); in front of the first part that is written, the choice is among all of them.
    """
    first = _items(node.options[0])
    parts, rest = _chain(node)
    if parts or not isinstance(first[-1], Choice):
        return parts, rest
    parts, rest = _chain(first[-1])
    others = [_items(option) for option in node.options[1:]]
    if parts and len(others) == len(parts) + 1 and all(map(_is_same_part, others, parts)):
        return [first[:-1], *parts], rest
    return [], []


def _chain(node: Node) -> tuple[list[list[Node]], list[Node]]:
    """Parts that may each be left out, one behind the other, and what follows the last."""
    parts: list[list[Node]] = []
    rest = [node]
    while len(rest) == 1 and isinstance(rest[0], Choice) and len(rest[0].options) == 2:
        taken, skipped = map(_items, rest[0].options)
        part = _without_end(taken, skipped)
        if not part:
            break
        parts.append(part)
        rest = skipped
    return (parts, rest) if parts else ([], [])


def _items(node: Node) -> list[Node]:
    return list(node.items) if isinstance(node, Sequence) else [node]


def _without_end(items: list[Node], end: list[Node]) -> list[Node]:
    """`items` without `end`, which they end with; [] where they do not. Literals may be cut."""
    if len(end) > len(items):
        return []
    cut = len(items) - len(end)
    head, tail = items[:cut], items[cut:]
    for place, (ours, theirs) in enumerate(zip(tail, end, strict=True)):
        if isinstance(ours, Literal) and isinstance(theirs, Literal):
            if place == 0 and ours.text.endswith(theirs.text):
                left = ours.text.removesuffix(theirs.text)
                head += [Literal(left)] if left else []
                continue
            if ours.text == theirs.text:
                continue
        if ours is not theirs:
            return []
    return head


def _is_same_part(one: list[Node], other: list[Node]) -> bool:
    """Whether `one` begins with the property that `other` is, which has a comma in front."""
    if len(other) == 1 and isinstance(other[0], Literal) and isinstance(one[0], Literal):
        return one[0].text.startswith(other[0].text.lstrip(b", \n"))
    ends = [place for place, node in enumerate(one, start=1) if node is other[-1]]
    return bool(ends) and bool(_without_end(other, one[: ends[0]]))

"""A JSON Schema's outline as template nodes.

Values are written from the leaves up, each flat conjunction once (once per depth where the text is
indented); one that contains itself is a `Rule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.nodes import Node, Template
from fillengine.errors import UnsupportedForm
from fillengine.templates import numbers
from fillengine.templates.alternatives import Flat
from fillengine.templates.containers import Part, Tail, array_node, distinct_node, object_node
from fillengine.templates.holes import Ground, Holes
from fillengine.templates.object_shapes import ObjectShape
from fillengine.templates.outline import Outline, children
from fillengine.templates.schema import Conjunction, escape
from fillengine.templates.shapes import ArrayShape, Shape
from fillengine.templates.style import INLINE_BELOW, ON_ONE_LINE, Style, choice, layout, sequence, spelled

_Key = tuple[Flat, int]  # a flat conjunction, and the depth at which it is written


def write(outline: Outline, style: Style, ground: Ground | None = None) -> Template:
    """The template of a form. Raises UnsupportedForm."""
    return _Writer(outline, style, Holes(ground)).template()


@dataclass(slots=True)
class _Open:
    """Something that is being written: its children up to `position` are done."""

    key: _Key
    label: str
    children: list[tuple[Conjunction, str]]
    position: int = 0


class _Writer:
    def __init__(self, outline: Outline, style: Style, holes: Holes) -> None:
        self._outline, self._style, self._holes = outline, style, holes
        self._done: dict[_Key, Node] = {}
        self._rules: dict[str, Node] = {}
        self._names: dict[_Key, str] = {}  # of what contains itself
        self._open_flats: dict[Flat, int] = {}  # what is being written, and how many times over

    def template(self) -> Template:
        root = self._outline.root
        for flat in self._outline.alive(root):
            self._write((flat, 0))
        return Template(self._node(root, 0), self._rules)

    def _write(self, key: _Key) -> None:
        """Depth first, with a stack of its own: schemas may nest deeper than Python's."""
        if key in self._done:
            return
        stack: list[_Open] = []
        is_open: set[_Key] = set()
        flats = self._open_flats

        def enter(key: _Key, label: str) -> None:
            # What any value may hold is a rule of its own.
            inner = list(children(self._outline.shape(key[0]))) if key[0] else []
            stack.append(_Open(key, label, inner))
            is_open.add(key)
            flats[key[0]] = flats.get(key[0], 0) + 1

        enter(key, "")
        while stack:
            top = stack[-1]
            fresh = self._next(top, is_open)
            if fresh is not None:
                enter(*fresh)
                continue
            stack.pop()
            key = top.key
            self._done[key] = node = self._build(key, top.label)
            is_open.remove(key)
            flats[key[0]] -= 1
            if not flats[key[0]]:
                del flats[key[0]]
            if key in self._names:
                self._rules[self._names[key]] = node

    def _next(self, top: _Open, is_open: set[_Key]) -> tuple[_Key, str] | None:
        """What must be written before `top` can be, and its label; None: nothing any more."""
        below = self._below(top.key)
        while top.position < len(top.children):
            conjunction, token = top.children[top.position]
            for flat in self._outline.alive(conjunction):
                child = self._key(flat, below, is_recursive=flat in self._open_flats)
                if child in is_open:
                    self._name(child)
                elif child not in self._done:
                    return child, f"{top.label}/{escape(token)}"
            top.position += 1
        return None

    def _below(self, key: _Key) -> int:
        if self._style != "indented":
            return 0
        return ON_ONE_LINE if key[1] == ON_ONE_LINE else key[1] + 1

    def _key(self, flat: Flat, depth: int, *, is_recursive: bool) -> _Key:
        if is_recursive and depth > INLINE_BELOW:
            depth = ON_ONE_LINE
        return flat, depth

    def _name(self, key: _Key) -> str:
        name = self._names.get(key)
        if name is None:
            pointer = key[0][0].pointer if key[0] else ""
            name = base = f"#{pointer}"
            number = 1
            while name in self._names.values():
                number += 1
                name = f"{base} ({number})"
            self._names[key] = name
        return name

    def _node(self, conjunction: Conjunction, depth: int) -> Node:
        """What a conjunction one level down may be: all its parts are written, or open and named."""
        options: list[Node] = []
        for flat in self._outline.alive(conjunction):
            key = self._key(flat, depth, is_recursive=flat in self._open_flats)
            options.append(self._done.get(key) or nodes.Rule(self._names[key]))
        return options[0] if len(options) == 1 else choice(options)

    def _build(self, key: _Key, label: str) -> Node:
        flat, depth = key
        if not flat:
            return self._any(depth)
        shape = self._outline.shape(flat)
        if shape.values is not None:
            words = {spelled(value, self._style, depth) for value in shape.values}
            return nodes.Literal(words.pop()) if len(words) == 1 else nodes.Words(tuple(sorted(words)), label)
        options: list[Node] = []
        words = {b"true" if value else b"false" for value in shape.booleans if "boolean" in shape.atoms}
        if "null" in shape.atoms:
            words.add(b"null")
        if words:
            options.append(nodes.Words(tuple(sorted(words)), label))
        if shape.numbers is not None:
            options.append(self._holes.number(shape.numbers, shape, label))
        if shape.strings is not None:
            options.append(self._holes.string(shape.strings, shape, label))
        if shape.array is not None:
            array = self._array(shape.array, depth, label)
            if array is not None:
                options.append(array)
        if shape.object is not None:
            written = self._object(shape, shape.object, depth, label)
            if written is not None:
                options.append(written)
        assert options, "the outline found a value"
        return options[0] if len(options) == 1 else choice(options)

    def _array(self, shape: ArrayShape, depth: int, label: str) -> Node | None:
        below = self._below(((), depth))
        if shape.distinct is not None and shape.high is not None:
            words = [spelled(value, self._style, below) for value in shape.distinct]
            return distinct_node(words, shape.low, shape.high, layout(self._style, depth))
        prefix: list[Node] = []
        rest, high = None, shape.high
        for item in shape.prefix:
            if not self._outline.has_value(item):
                high = len(prefix)
                break
            prefix.append(self._node(item, below))
        if high is None or high > len(shape.prefix):
            if self._outline.has_value(shape.rest):
                rest = Tail(self._node(shape.rest, below), label)
            else:
                high = len(prefix)
        return array_node(prefix, rest, shape.low, high, layout(self._style, depth))

    def _object(self, shape: Shape, inner: ObjectShape, depth: int, label: str) -> Node | None:
        has_value, form = self._outline.has_value, layout(self._style, depth)
        below = self._below(((), depth))
        parts = []
        for member in inner.members:
            if has_value(member.value):
                name = spelled(member.name, self._style, depth)
                pieces = (name, *form.colon, self._node(member.value, below))
                parts.append(Part(pieces, member.is_required))
            elif member.is_required:
                return None
        extras: list[Node] = []
        for extra in inner.extras:
            if has_value(extra.value):
                key = nodes.Pattern(extra.key, extra.low, extra.high, f"{label}/*")
                extras.append(sequence((key, *form.colon, self._node(extra.value, below))))
        tail = None
        if extras:
            tail = Tail(extras[0] if len(extras) == 1 else nodes.Choice(tuple(extras)), label)
            if inner.low > sum(part.is_required for part in parts) + 1:
                raise UnsupportedForm(
                    f"at least {inner.low} properties, more than one of them undeclared: it cannot be told "
                    "apart from one that is written twice",
                    keyword="minProperties",
                    pointer=f"{shape.pointer}/minProperties",
                    remedy="declare the properties, or leave minProperties out",
                )
        return object_node(parts, tail, inner.low, inner.high, form)

    def _any(self, depth: int) -> Node:
        """Any JSON value: shared by all templates of a style."""
        if self._style == "indented" and depth != ON_ONE_LINE:
            deepest = max(depth, INLINE_BELOW)
            self._rules.setdefault("any value", any_value("indented", ON_ONE_LINE))
            return any_value("indented", depth, deepest)
        node = any_value(self._style, depth)
        self._rules.setdefault("any value", node)
        return node


@lru_cache(maxsize=256)
def any_value(style: Style, depth: int, deepest: int = ON_ONE_LINE) -> Node:
    """Any JSON value. What it holds is the rule "any value", one line at a time below level `deepest`."""
    if style != "indented" or depth in (deepest, ON_ONE_LINE):
        inner: Node = nodes.Rule("any value")
    else:
        inner = any_value(style, depth + 1, deepest)
    form = layout(style, depth)
    key = nodes.Pattern(automata.free_string(), label="/*")
    array = array_node((), Tail(inner, ""), 0, None, form)
    member = sequence((key, *form.colon, inner))
    mapping = object_node((), Tail(member, ""), 0, None, form)
    assert array is not None
    assert mapping is not None
    return nodes.Choice(
        (
            nodes.Words((b"false", b"null", b"true")),
            nodes.Pattern(numbers.number()),
            nodes.Pattern(automata.free_string()),
            array,
            mapping,
        )
    )

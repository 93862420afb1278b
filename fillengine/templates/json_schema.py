"""A JSON Schema's outline as template nodes.

Values are written from the leaves up, each flat conjunction once (once per depth where the text is
indented); one that contains itself is a `Rule`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.dfa import Dfa
from fillengine.automata.nodes import Node, Template
from fillengine.errors import AutomatonTooLarge, UnsupportedForm
from fillengine.templates import numbers
from fillengine.templates.alternatives import Flat
from fillengine.templates.array_shapes import ArrayShape, ArrayWalk
from fillengine.templates.containers import (
    LACKS_LIMIT,
    Part,
    Tail,
    array_node,
    object_node,
    together_node,
    unordered_node,
    walk_node,
)
from fillengine.templates.holes import Ground, Holes
from fillengine.templates.object_shapes import ObjectShape
from fillengine.templates.outline import Outline, children
from fillengine.templates.presence import can_hold, in_bits, refusal, settled
from fillengine.templates.scalars import lift
from fillengine.templates.schema import Conjunction, Schema, escape
from fillengine.templates.shapes import Shape
from fillengine.templates.style import (
    INLINE_BELOW,
    ON_ONE_LINE,
    Layout,
    Piece,
    Style,
    choice,
    layout,
    sequence,
    spelled,
)

Spelling = Literal["any", "plain", "ordered"]
_Key = tuple[Flat, int]  # a flat conjunction, and the depth at which it is written


def write(outline: Outline, style: Style, ground: Ground | None = None) -> Template:
    """The template of a form. Raises UnsupportedForm."""
    return _Writer(outline, style, Holes(ground)).template()


@dataclass(slots=True)
class _Plain:
    """Texts that are compared with one another: each value has one spelling. `number` tells the rules apart.

    is_ordered: its properties have one order too, so that at most one of them is undeclared.
    """

    rules: dict[str, Node]
    is_open: set[Flat]
    number: int = 0
    is_ordered: bool = False


@dataclass(slots=True)
class _Open:
    """Something that is being written: its children up to `position` are done."""

    key: _Key
    label: str
    children: list[tuple[Conjunction, str]]
    position: int = 0


class _Writer:
    """`plain`: see _Plain; None for what is not compared. `has_orders`: what is written is taken away from values
    of which some have several spellings, since the properties in them have several orders."""

    def __init__(
        self,
        outline: Outline,
        style: Style,
        holes: Holes,
        plain: _Plain | None = None,
        *,
        has_orders: bool = False,
    ) -> None:
        self._outline, self._style, self._holes, self._plain = outline, style, holes, plain
        self._has_orders = has_orders
        self._done: dict[_Key, Node] = {}
        self._rules: dict[str, Node] = {} if plain is None else plain.rules
        self._prefix = ""
        if plain is not None:
            plain.number += 1
            self._prefix = f"{plain.number}: "
        self._comparing: _Plain | None = plain
        self._compared: _Writer | None = self if plain is not None else None
        self._distinct: _Writer | None = self if plain is not None and plain.is_ordered else None
        self._open_arrays: set[ArrayShape] = set()
        self._is_free_order = outline.is_free_order and not (plain is not None and plain.is_ordered)
        self._writers: dict[tuple[Schema, bool], _Writer] = {}
        self._names: dict[_Key, str] = {}  # of what contains itself
        self._open_flats: dict[Flat, int] = {}  # what is being written, and how many times over

    def template(self) -> Template:
        root = self._outline.root
        for flat in self._outline.alive(root):
            self._write((flat, 0))
        return Template(self._node(root, 0), {**self._rules, **self._holes.rules})

    def _write(self, key: _Key) -> None:
        """Depth first, with a stack of its own: schemas may nest deeper than Python's."""
        if key in self._done:
            return
        stack: list[_Open] = []
        is_open: set[_Key] = set()
        flats = self._open_flats

        def enter(key: _Key, label: str) -> None:
            # What any value may hold is a rule of its own.
            shape = self._outline.shape(key[0]) if key[0] else None
            inner = list(children(shape)) if shape is not None and not shape.opposites else []
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
            name = base = f"{self._prefix}#{pointer}"
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
            if self._plain is not None:
                return choice([self._constant(value, depth) for value in shape.values])
            words = {spelled(value, self._style, depth) for value in shape.values}
            return nodes.Literal(words.pop()) if len(words) == 1 else nodes.Words(tuple(sorted(words)), label)
        if shape.opposites:
            return self._except(flat, shape, depth, label)
        return self._sum(shape, depth, label)

    def _constant(self, value: Any, depth: int) -> Node:
        """One value; its properties in any order where the form's are."""
        form, below = layout(self._style, depth), self._below(((), depth))
        value = _plainest(value)
        if isinstance(value, dict) and value:
            parts = []
            for name, item in value.items():
                pieces = (spelled(name, self._style, depth), *form.colon, self._constant(item, below))
                parts.append(Part(pieces, is_required=True))
            if self._is_free_order:
                node = unordered_node((b"{", b"}"), parts, (), 0, None, form, "")
            else:
                node = object_node(parts, None, 0, None, form)
        elif isinstance(value, list) and value:
            node = array_node([self._constant(item, below) for item in value], None, len(value), len(value), form)
        else:
            node = nodes.Literal(spelled(value, self._style, depth))
        assert node is not None
        return node

    def _except(self, flat: Flat, shape: Shape, depth: int, label: str) -> Node:
        """What the shape allows, without what fits its opposites."""
        if self._comparing is None:
            self._comparing = _Plain({}, set())
        comparing = self._comparing
        if flat in comparing.is_open:
            raise UnsupportedForm(
                "a value that holds itself cannot be compared with what it must not be",
                keyword="not",
                pointer=f"{shape.pointer}/not",
                remedy="say what is allowed instead",
            )
        comparing.is_open.add(flat)
        if self._compared is None:
            self._compared = _Writer(self._outline, self._style, self._holes, comparing)
        writer = self._compared
        base = writer._whole(flat, shape, depth, label)
        without = []
        has_orders = _has_orders(self._outline, shape)
        for opposite in shape.opposites:
            outline = self._outline.against(opposite)
            if outline is not None:
                key = (opposite, has_orders)
                if key not in self._writers:
                    self._writers[key] = _Writer(outline, self._style, Holes(None), comparing, has_orders=has_orders)
                without.append(self._writers[key].root_at(depth))
        comparing.is_open.remove(flat)
        return nodes.Except(base, tuple(without), comparing.rules, label)

    def root_at(self, depth: int) -> Node:
        """The outline's root at a depth."""
        return self.conjunction_at(self._outline.root, depth)

    def _whole(self, flat: Flat, shape: Shape, depth: int, label: str) -> Node:
        """A shape without regard to its opposites."""
        below = self._below((flat, depth))
        for conjunction, _ in children(shape):
            for child in self._outline.alive(conjunction):
                self._write(self._key(child, below, is_recursive=child in self._open_flats))
        return self._sum(shape, depth, label)

    def _sum(self, shape: Shape, depth: int, label: str) -> Node:
        options: list[Node] = []
        words = {b"true" if value else b"false" for value in shape.booleans if "boolean" in shape.atoms}
        if "null" in shape.atoms:
            words.add(b"null")
        if words:
            options.append(nodes.Words(tuple(sorted(words)), label))
        if shape.numbers is not None:
            number = self._holes.number(shape.numbers, shape, label)
            options.append(number if self._plain is None else plain_number(number, shape.pointer))
        if shape.strings is not None:
            if self._plain is not None and shape.strings.text_form is not None:
                raise UnsupportedForm(
                    "strings that hold a text form are not compared",
                    keyword="format",
                    pointer=f"{shape.pointer}/format",
                    remedy="leave out what compares them: not, uniqueItems",
                )
            string = self._holes.string(shape.strings, shape, label)
            options.append(string if self._plain is None else plain_string(string))
        if shape.array is not None:
            array = self._array(shape.array, depth, label, shape.pointer)
            if array is not None:
                options.append(array)
        for one in shape.objects:
            written = self._object(one, depth, label, shape.pointer)
            if written is not None:
                options.append(written)
        assert options, "the outline found a value"
        return options[0] if len(options) == 1 else choice(options)

    def _array(self, shape: ArrayShape, depth: int, label: str, pointer: str) -> Node | None:
        below = self._below(((), depth))
        if shape.is_unique:
            return self._unique(shape, depth, label, pointer)
        if shape.counted:
            walk, has_value = ArrayWalk(shape), self._outline.has_value
            return walk_node(
                walk, has_value, lambda item: self._node(item, below), layout(self._style, depth), f"{label}/*"
            )
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

    def _unique(self, shape: ArrayShape, depth: int, label: str, pointer: str) -> Node | None:
        """An array no two items of which are the same: each has one spelling, so that texts can be compared."""
        is_longer = shape.high is None or shape.high > shape.head_length
        items = self._outline.alive(shape.rest) if is_longer else ()
        if self._has_orders and any(
            not flat or _has_orders(self._outline, self._outline.shape(flat)) for flat in items
        ):
            raise UnsupportedForm(
                "items that are the same in another order of their properties cannot be compared",
                keyword="uniqueItems",
                pointer=f"{pointer}/uniqueItems",
                remedy="say what the items are where uniqueItems must not hold, or leave it out",
            )
        if self._distinct is None:
            plain = _Plain({}, set(), is_ordered=True)
            self._distinct = _Writer(self._outline, self._style, self._holes, plain)
        below = self._below(((), depth))
        assert self._distinct._plain is not None
        rules = self._distinct._plain.rules
        if shape in self._distinct._open_arrays:
            raise UnsupportedForm(
                "an array of distinct items that holds itself is not supported",
                keyword="uniqueItems",
                pointer=f"{pointer}/uniqueItems",
                remedy="leave uniqueItems out and check the result",
            )
        self._distinct._open_arrays.add(shape)
        item = self._distinct.conjunction_at(shape.rest, below) if is_longer else nodes.Choice(())
        self._distinct._open_arrays.remove(shape)
        words: dict[bytes, None] = {}
        keys: list[Node] = []
        for option in item.options if isinstance(item, nodes.Choice) else (item,):
            if isinstance(option, nodes.Literal):
                words[option.text] = None
            elif isinstance(option, nodes.Words):
                words.update(dict.fromkeys(option.words))
            elif isinstance(option, nodes.Pattern | nodes.Except):
                keys.append(option)
            else:
                keys.append(nodes.Except(option, (), rules, label))
        texts, form = tuple(sorted(words)), layout(self._style, depth)

        def behind(used: tuple[bytes, ...], low: int, high: int | None, form: Layout) -> Node | None:
            """The items behind those that are used, with the bracket."""
            taken = tuple(sorted({*texts, *used}))
            others = tuple(nodes.Other(nodes.Fresh(key, taken, f"{label}/*"), None) for key in keys)
            parts = [Part((text,), is_required=False) for text in texts if text not in used]
            return unordered_node((b"", b"]"), parts, others, low, high, form, label)

        options: list[Node] = []
        for head in shape.heads or ((),):
            used = tuple(spelled(_plainest(value), self._style, below) for value in head)
            if shape.heads and len(head) >= shape.low:
                options.append(self._constant([*head], depth))
            if len(head) < shape.head_length or not is_longer:
                continue
            lead: list[Piece] = [b"["]
            for number, text in enumerate(used):
                lead += (*(form.comma if number else form.gap), text)
            low, high = shape.low - len(head), None if shape.high is None else shape.high - len(head)
            if shape.heads:
                rest = behind(used, max(low, 1), high, replace(form, gap=form.comma)) if words or keys else None
            else:
                rest = behind((), low, high, form)
            if rest is not None:
                options.append(sequence((*lead, rest)))
        return choice(options) if options else None

    def conjunction_at(self, conjunction: Conjunction, depth: int) -> Node:
        """What a conjunction may be at a depth; nothing (no option) where it has no value."""
        for flat in self._outline.alive(conjunction):
            self._write((flat, depth))
        options: list[Node] = [self._node(conjunction, depth)] if self._outline.has_value(conjunction) else []
        return choice(options) if options else nodes.Choice(())

    def _object(self, inner: ObjectShape, depth: int, label: str, pointer: str) -> Node | None:
        has_value, form = self._outline.has_value, layout(self._style, depth)
        below = self._below(((), depth))
        required = frozenset(member.name for member in inner.members if member.is_required)
        dead = frozenset(member.name for member in inner.members if not has_value(member.value))
        names = settled(inner.clauses, required, dead)
        if names is None or names.required & names.absent or not can_hold(names, pointer):
            return None
        parts: list[Part] = []
        order: dict[str, int] = {}
        for member in inner.members:
            if member.name not in names.absent:
                name = spelled(member.name, self._style, depth)
                pieces = (name, *form.colon, self._node(member.value, below))
                order[member.name] = len(parts)
                parts.append(Part(pieces, member.name in names.required))
        clauses = in_bits(names.clauses, order)
        excluded = tuple(sorted(spelled(name, self._style, depth) for name in inner.names)) if inner.extras else ()
        others: list[nodes.Other] = []
        for extra in inner.extras:
            if has_value(extra.value):
                key = nodes.Pattern(extra.key, extra.low, extra.high, f"{label}/*")
                rest = sequence((*form.colon, self._node(extra.value, below)))
                others.append(nodes.Other(nodes.Fresh(key, excluded, key.label), rest, extra.grants))
        if self._is_free_order and len(parts) + len(others) > 1:
            return unordered_node(
                (b"{", b"}"), parts, tuple(others), inner.low, inner.high, form, label, inner.num_wants, clauses
            )
        most = 1 if self._plain is not None and self._plain.is_ordered else None
        tail = Tail(None, label, tuple(others), most, inner.num_wants) if others else None
        if clauses:
            written = together_node(parts, clauses, tail, form)
            if written is None:
                raise refusal(
                    f"which properties may stand together leaves more than {LACKS_LIMIT} conditions open at once in "
                    "this order",
                    pointer,
                )
            return written
        return object_node(parts, tail, inner.low, inner.high, form)

    def _any(self, depth: int) -> Node:
        """Any JSON value: shared by all templates of a style."""
        if self._plain is not None:
            deepest = max(depth, INLINE_BELOW) if self._style == "indented" and depth != ON_ONE_LINE else depth
            kind: Spelling = "ordered" if self._plain.is_ordered else "plain"
            rule = any_value(self._style, ON_ONE_LINE if self._style == "indented" else depth, spelling=kind)
            self._rules.setdefault("any value", rule)
            return any_value(self._style, depth, deepest, spelling=kind)
        if self._style == "indented" and depth != ON_ONE_LINE:
            deepest = max(depth, INLINE_BELOW)
            self._rules.setdefault("any value", any_value("indented", ON_ONE_LINE))
            return any_value("indented", depth, deepest)
        node = any_value(self._style, depth)
        self._rules.setdefault("any value", node)
        return node


def _has_orders(outline: Outline, shape: Shape) -> bool:
    """Whether some value holds an object of several properties."""
    work: list[Shape] = [shape]
    seen: set[Conjunction] = set()
    while work:
        shape = work.pop()
        if shape.values is not None:
            if any(map(_holds_properties, shape.values)):
                return True
            continue
        for one in shape.objects:
            if (one.high is None or one.high > 1) and (one.extras or len(one.members) > 1):
                return True
        for conjunction, _ in children(shape):
            if conjunction not in seen:
                seen.add(conjunction)
                flats = outline.alive(conjunction)
                if () in flats:
                    return True  # anything
                work += map(outline.shape, flats)
    return False


def _holds_properties(value: Any) -> bool:
    """Whether an object of several properties is somewhere in it."""
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_holds_properties, value.values()))
    return isinstance(value, list) and any(map(_holds_properties, value))


@lru_cache(maxsize=256)
def any_value(style: Style, depth: int, deepest: int = ON_ONE_LINE, *, spelling: Spelling = "any") -> Node:
    """Any JSON value. What it holds is the rule "any value", one line at a time below level `deepest`.

    spelling: "plain": each value has one spelling, order apart, and no key comes twice; "ordered": one spelling.
    """
    if style != "indented" or depth in (deepest, ON_ONE_LINE):
        inner: Node = nodes.Rule("any value")
    else:
        inner = any_value(style, depth + 1, deepest, spelling=spelling)
    form = layout(style, depth)
    string: Node = nodes.Pattern(automata.free_string())
    number: Node = nodes.Pattern(numbers.number())
    key = nodes.Pattern(automata.free_string(), label="/*")
    array = array_node((), Tail(inner, ""), 0, None, form)
    if spelling != "any":
        string, number = plain_string(string), plain_number(number)
        other = nodes.Other(nodes.Fresh(nodes.Pattern(lift(automata.any_text()))), sequence((*form.colon, inner)))
        most = 1 if spelling == "ordered" else None
        mapping = unordered_node((b"{", b"}"), (), (other,), 0, most, form, "")
    else:
        member = sequence((key, *form.colon, inner))
        mapping = object_node((), Tail(member, ""), 0, None, form)
    assert array is not None
    assert mapping is not None
    return nodes.Choice((nodes.Words((b"false", b"null", b"true")), number, string, array, mapping))


def _plainest(value: Any) -> Any:
    """A number as it is spelled where texts are compared."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain_number(node: Node, pointer: str = "") -> Node:
    """Each number in one spelling, and short enough that its float is its own."""
    if not isinstance(node, nodes.Pattern):
        return node
    try:
        return nodes.Pattern(_plain_number(node.dfa), label=node.label)
    except AutomatonTooLarge as error:
        raise UnsupportedForm(error.problem, keyword="multipleOf", pointer=pointer, remedy=error.remedy) from error


def plain_string(node: Node) -> Node:
    """Each string in one spelling: what is not lifted from values is the string that may be anything."""
    if not isinstance(node, nodes.Pattern) or node.dfa is not automata.free_string():
        return node
    return nodes.Pattern(lift(automata.any_text()), node.low, node.high, node.label)


@lru_cache(maxsize=512)
def _plain_number(dfa: Dfa) -> Dfa:
    return automata.intersection(dfa, _plain_numbers())


@lru_cache(maxsize=1)
def _plain_numbers() -> Dfa:
    spelled = automata.from_regex(r"0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]")
    short = automata.from_regex(r"-?[0-9]+|[-.0-9]{1,17}")
    return automata.intersection(spelled, short)

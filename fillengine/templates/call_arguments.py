"""The arguments of a call as template nodes, and back from text to values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.dfa import Dfa
from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Node
from fillengine.errors import AutomatonTooLarge, InvalidForm, UnsatisfiableForm, UnsupportedForm
from fillengine.templates import numbers
from fillengine.templates.form import Form
from fillengine.templates.json_places import Place, json_places
from fillengine.templates.nesting import nested
from fillengine.templates.raw_text import core, until
from fillengine.templates.scalars import StringShape, can_have_length, string_value
from fillengine.templates.schema import escape
from fillengine.templates.style import Style, sequence
from fillengine.templates.tool import Tool
from fillengine.templates.wire import Members

Marked = Callable[[str], bytes]
"""A folded text as bytes of a template (`ChatTemplate.marked`)."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_KINDS = ("string", "number", "boolean", "null", "array", "object")
# What says nothing about which arguments stand together.
_PLAIN_KEYWORDS = frozenset(
    ["type", "properties", "required", "additionalProperties", "title", "description", "$defs", "definitions",
     "$schema", "$id", "$comment", "examples", "default", "deprecated"]
)  # fmt: skip


class ArgumentsReader(Protocol):
    """`node` is what may be written; `read` gives the arguments that begin at an offset, where their values stand,
    and where they end.

    Texts are those of a template, decoded with "surrogateescape". `read` raises ValueError.
    """

    node: Node

    def read(self, text: str, begin: int) -> tuple[dict[str, Any], list[Place], int]: ...


class JsonObject:
    """Arguments as one JSON object."""

    def __init__(self, tool: Tool, style: Style, rules: dict[str, Node]) -> None:
        with placed(tool):
            self.node = _nested(_compiled(tool.parameters, style), tool, "", rules)

    def read(self, text: str, begin: int) -> tuple[dict[str, Any], list[Place], int]:
        value, end = _DECODER.raw_decode(text, begin)
        if not isinstance(value, dict):
            raise ValueError(f"the arguments at {begin} are no object")
        return value, json_places(text, begin)[0], end


class MemberList:
    """Arguments one by one, in the order of the schema."""

    def __init__(self, tool: Tool, members: Members, marked: Marked, rules: dict[str, Node]) -> None:
        with placed(tool):
            schema = tool.parameters
            for keyword in schema:
                if keyword not in _PLAIN_KEYWORDS:
                    raise UnsupportedForm(
                        f"this model writes arguments one by one, where {keyword} cannot be held",
                        keyword=keyword,
                        pointer=f"/{escape(keyword)}",
                        remedy="say it by the properties alone",
                    )
            self._required = frozenset(schema.get("required", ()))
            unknown = self._required.difference(members.around)
            if unknown:
                name = min(unknown)
                raise UnsupportedForm(
                    f"the argument {name!r} is required, and no property says what it is",
                    keyword="required",
                    pointer="/required",
                    remedy=f"add {name} to properties",
                )
            self._members = [
                _Member(tool, name, members, marked, rules, is_required=name in self._required)
                for name in members.around
            ]
        self._separator = _text(marked(members.separator))
        self.node = self._chain(marked(members.separator))

    def read(self, text: str, begin: int) -> tuple[dict[str, Any], list[Place], int]:
        found: dict[str, Any] = {}
        places: list[Place] = []
        for member in self._members:
            start = begin + len(self._separator) if found else begin
            if found and not text.startswith(self._separator, begin):
                continue
            if text.startswith(member.open, start):
                start += len(member.open)
                found[member.name], end = member.read(text, start)
                places.append(Place(f"/{escape(member.name)}", start, end))
                begin = end + len(member.close)
        missing = self._required.difference(found)
        if missing:
            raise ValueError(f"the argument {min(missing)!r} is missing at {begin}")
        return found, places, begin

    def _chain(self, separator: bytes) -> Node:
        """Each member or, where it is optional, none; a separator between two."""
        nothing: Node = nodes.Literal(b"")
        if not separator:
            return sequence(
                member.node if member.is_required else nodes.Choice((member.node, nothing)) for member in self._members
            )
        first: Node = nothing  # nothing is written yet
        later: Node = nothing
        for member in reversed(self._members):
            begun = sequence((member.node, later))
            follows = sequence((separator, member.node, later))
            first = begun if member.is_required else nodes.Choice((begun, first))
            later = follows if member.is_required else nodes.Choice((follows, later))
        return first


class _Member:
    """One argument: `open`, its value, `close`."""

    def __init__(
        self, tool: Tool, name: str, members: Members, marked: Marked, rules: dict[str, Node], *, is_required: bool
    ) -> None:
        self.name, self.is_required = name, is_required
        open_, close = map(marked, members.around[name])
        self.open, self.close = _text(open_), _text(close)
        self._values = members.values
        self._words = {members.values.true: True, members.values.false: False, members.values.null: None}
        place = f"/{escape(name)}"
        schema = tool.parameters["properties"][name]
        with placed(tool, f"/properties/{escape(name)}"):
            forms = _by_kind(schema, tool.parameters, members.values.style or "spaced")
            self._kinds = frozenset(forms)
            if members.values.style is None and not self._kinds.isdisjoint(("array", "object")):
                raise UnsupportedForm("this model writes no arrays and objects as arguments", keyword="type")
            options: list[Node] = []
            words: list[bytes] = []
            for kind, form in forms.items():
                if kind == "string" and members.values.is_raw:
                    options += self._raw(form, close, f"/{escape(tool.name)}{place}")
                elif kind in ("boolean", "null"):
                    machine = Machine(form.template)
                    spelled = {word: json.dumps(value).encode() for word, value in self._words.items()}
                    words += [marked(word) for word, text in spelled.items() if machine.accepts(text)]
                else:
                    options.append(sequence((_nested(form, tool, place, rules, kind), close)))
            if words:
                word = nodes.Words(tuple(sorted(words)), f"/{escape(tool.name)}{place}")
                options.append(sequence((word, close)))
            if not options:
                raise UnsatisfiableForm(
                    "no value of this argument can be written in this model's calls", keyword="type"
                )
        self.node = sequence((open_, options[0] if len(options) == 1 else nodes.Choice(tuple(options))))

    def read(self, text: str, begin: int) -> tuple[Any, int]:
        """The value at `begin`, and its end."""
        kinds, close = self._kinds, self.close
        for word, constant in self._words.items():
            if _kind_of(constant) in kinds and text.startswith(word + close, begin):
                return constant, begin + len(word)
        if not self._values.is_raw or text.startswith(("[", "{"), begin):
            try:
                value, end = _DECODER.raw_decode(text, begin)
            except ValueError:
                pass
            else:
                if _kind_of(value) in kinds and text.startswith(close, end):
                    return value, end
        if not self._values.is_raw:
            raise ValueError(f"no value of the argument {self.name!r} stands at {begin}")
        end = text.index(close, begin)
        raw = text[begin:end]
        if "number" in kinds and _NUMBER.fullmatch(raw):
            return json.loads(raw), end
        if "string" not in kinds:
            raise ValueError(f"{raw!r} is no value of the argument {self.name!r}")
        return raw, end

    def _raw(self, form: Form, close: bytes, label: str) -> Iterator[Node]:
        """Strings without quotes, each with what closes it."""
        outline = form.outline
        assert outline is not None
        allowed = self._raw_texts(close)
        for flat in outline.alive(outline.root):
            shape = outline.shape(flat)
            if shape.opposites:
                raise UnsupportedForm("texts without quotes cannot be compared", keyword="not", pointer="/not")
            if shape.values is not None:
                words = sorted(word.encode() for word in shape.values if isinstance(word, str))
                kept = tuple(word for word in words if allowed.matches(word))
                if kept:
                    yield sequence((nodes.Words(kept, label), close))
            elif shape.strings is not None:
                node = _raw_string(shape.strings, allowed, close, label)
                if node is not None:
                    yield node

    def _raw_texts(self, close: bytes) -> Dfa:
        """What can stand in front of `close`, and is not read as a value of another kind."""
        marker = core(close)
        allowed = until([] if marker is None else [marker], [] if marker is None else [close])
        others: list[Dfa] = []
        constants = [text.encode() for text, value in self._words.items() if _kind_of(value) in self._kinds]
        if constants:
            others.append(automata.words(constants))
        if "number" in self._kinds:
            others.append(numbers.number())
        begins = [sign for sign, kind in ((b"[", "array"), (b"{", "object")) if kind in self._kinds]
        if begins:
            others.append(automata.concat(automata.words(begins), automata.any_text()))
        for other in others:
            allowed = automata.difference(allowed, other)
        return allowed


def _raw_string(shape: StringShape, allowed: Dfa, close: bytes, label: str) -> Node | None:
    value = string_value(shape)
    try:
        dfa = allowed if value is None else automata.intersection(allowed, value)
        if dfa.is_empty:
            return None
        if shape.low == 0 and shape.high is None:
            return sequence((nodes.Pattern(dfa, label=label), close))
        # Characters are counted up to the byte that leads to acceptance: the last one of `close`.
        whole = automata.minimise(automata.concat(dfa, automata.literal(close)))
    except AutomatonTooLarge as error:
        raise UnsupportedForm(str(error), keyword="pattern") from error
    begins = np.r_[0x00:0x80, 0xC0:0x100]
    counted = Dfa(whole.next, whole.accept, whole.start, (whole.next[:, begins] != 0).any(axis=1))
    more = sum(byte & 0xC0 != 0x80 for byte in close) - (close[-1] & 0xC0 != 0x80)
    low, high = shape.low + more, None if shape.high is None else shape.high + more
    return nodes.Pattern(counted, low, high, label) if can_have_length(counted, low, high) else None


def _by_kind(schema: Any, parameters: Mapping[str, Any], style: Style) -> dict[str, Form]:
    """A property's schema for each type of which it has values."""
    around = {key: parameters[key] for key in ("$schema", "$defs", "definitions") if key in parameters}
    forms: dict[str, Form] = {}
    for kind in _KINDS:
        try:
            forms[kind] = _compiled({**around, "allOf": [schema], "type": kind}, style)
        except UnsatisfiableForm:
            continue
    return forms


def _compiled(schema: Any, style: Style) -> Form:
    from fillengine.templates import compile

    return compile(schema, style=style)


def _nested(form: Form, tool: Tool, place: str, rules: dict[str, Node], kind: str = "") -> Node:
    where = f"/{escape(tool.name)}{place}"
    return nested(form.template, where, rules, name=f"{where} {kind}")


@contextmanager
def placed(tool: Tool, place: str = "") -> Iterator[None]:
    """Errors of a form say of which tool it is."""
    try:
        yield
    except (UnsupportedForm, InvalidForm) as error:
        if error.pointer.startswith("tool "):
            raise
        pointer = f"tool {tool.name}, parameters{place}{error.pointer}"
        if isinstance(error, UnsupportedForm):
            raise type(error)(error.problem, keyword=error.keyword, pointer=pointer, remedy=error.remedy) from error
        raise InvalidForm(error.problem, pointer=pointer, remedy=error.remedy) from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _kind_of(value: Any) -> str:
    for kind, types in _TYPES.items():
        if isinstance(value, types):
            return kind
    return "null"


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "number": (int, float), "array": list, "object": dict
}  # fmt: skip
_DECODER = json.JSONDecoder()

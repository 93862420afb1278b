"""Text forms as what a JSON string holds: formats of their own, beside those of `grammars/formats`.

    {"type": "string", "format": "grammar:sql-select"}      a shipped grammar
    Annotated[str, Grammar(...)]                             any text form; its format is made up here

Such a format need not be regular, so it is written as nodes and stands alone: with a pattern or a length beside it
the schema is refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fillengine.automata import nodes
from fillengine.automata.dfa import lift_json
from fillengine.automata.nodes import Node, Template
from fillengine.automata.tables import Dfa, tidy
from fillengine.errors import UnsupportedForm
from fillengine.templates.library import shipped
from fillengine.templates.style import sequence, spelled

GRAMMAR = "grammar:"

_QUOTE = 0x22

_names: dict[int, str] = {}  # by identity: `_declared` keeps the forms
_declared: dict[str, Any] = {}


def declare(form: Any) -> str:
    """The format of a text form, for as long as the process lives."""
    name = _names.get(id(form))
    if name is None:
        name = _names[id(form)] = f"text form {len(_names) + 1}"
        _declared[name] = form
    return name


def is_string_form(name: str) -> bool:
    return name in _declared or (name.startswith(GRAMMAR) and name.removeprefix(GRAMMAR) in shipped())


@lru_cache(maxsize=256)
def compiled(name: str) -> Any:
    """The `Form` of a format for which `is_string_form` holds."""
    # It is made of what this module is below of.
    from fillengine.templates import Grammar, compile

    found = _declared.get(name)
    return compile(Grammar.named(name.removeprefix(GRAMMAR)) if found is None else found)


def quoted(template: Template, place: str, rules: dict[str, Node]) -> Node:
    """The JSON strings whose values are the texts of `template`, for a template with these `rules`.

    Raises UnsupportedForm for what cannot be escaped once more.
    """
    quoter = _Quoter(place)
    root = quoter.quote(template.root)
    for name, node in template.rules.items():
        rules[quoter.name(name)] = quoter.quote(node)
    return sequence((b'"', root, b'"'))


def _escaped(text: bytes) -> bytes:
    return spelled(text.decode(), "compact", 0)[1:-1]


@lru_cache(maxsize=256)
def _content(dfa: Dfa) -> Dfa:
    """The lifted automaton without its quotes."""
    lifted = lift_json(dfa)
    table = lifted.next.copy()
    start = int(table[lifted.start, _QUOTE])
    accept = lifted.accept[table[:, _QUOTE]]
    table[accept, _QUOTE] = 0
    return tidy(table, np.arange(256, dtype=np.uint8), accept, start)


class _Quoter:
    def __init__(self, place: str) -> None:
        self._place = place
        self._done: dict[int, Node] = {}

    def name(self, rule: str) -> str:
        return f"in the string {self._place}: {rule}"

    def quote(self, node: Node) -> Node:
        found = self._done.get(id(node))
        if found is None:
            found = self._done[id(node)] = self._quote(node)
        return found

    def _quote(self, node: Node) -> Node:
        match node:
            case nodes.Literal(text):
                return nodes.Literal(_escaped(text))
            case nodes.Words(words):
                return nodes.Words(tuple(sorted(map(_escaped, words))), self._place)
            case nodes.Pattern(dfa, 0, None):
                return nodes.Pattern(_content(dfa), label=self._place)
            case nodes.Rule(name):
                return nodes.Rule(self.name(name))
            case nodes.Sequence(items):
                return nodes.Sequence(tuple(map(self.quote, items)))
            case nodes.Choice(options):
                return nodes.Choice(tuple(map(self.quote, options)))
            case nodes.Repeat(item, low, high, separator):
                between = None if separator is None else self.quote(separator)
                return nodes.Repeat(self.quote(item), low, high, between, self._place)
        raise UnsupportedForm(
            "JSON whose strings have bounded lengths, or whose keys come in any order, cannot stand in a JSON string",
            keyword="format",
            pointer=self._place,
            remedy="leave the bounds out, or make the field an object",
        )

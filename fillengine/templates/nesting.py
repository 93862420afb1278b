"""A template inside another: its rules get names of their own, its labels the place where it stands.

nested(Template(Rule("tree"), {"tree": …}), "/answer", rules)     Rule("/answer: tree"), which is put into `rules`
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fillengine.automata import nodes
from fillengine.automata.nodes import Node, Template


def nested(template: Template, place: str, rules: dict[str, Node], *, name: str = "") -> Node:
    """The root of `template` for a larger one with these `rules`, which gain those of `template`.

    place: a JSON pointer into the value of the larger one, in front of every label
    name: what tells its rules apart from others; the place where it is not given
    """
    copier = _Copier(place, name or place)
    root = copier.copy(template.root)
    for name, node in template.rules.items():
        rules[copier.name(name)] = copier.copy(node)
    return root


class _Copier:
    def __init__(self, place: str, name: str) -> None:
        self._place, self._name = place, name
        self._copies: dict[int, Node] = {}

    def name(self, rule: str) -> str:
        return f"{self._name}: {rule}"

    def copy(self, node: Node) -> Node:
        """What is reached twice is copied once: nodes compare by identity."""
        found = self._copies.get(id(node))
        if found is None:
            found = self._copies[id(node)] = self._copy(node)
        return found

    def _copy(self, node: Node) -> Node:
        match node:
            case nodes.Literal():
                return node
            case nodes.Rule(name):
                return nodes.Rule(self.name(name))
            case nodes.Sequence(items):
                return nodes.Sequence(tuple(map(self.copy, items)))
            case nodes.Choice(options):
                return nodes.Choice(tuple(map(self.copy, options)))
        label: dict[str, Any] = {"label": f"{self._place}{node.label}"}
        match node:
            case nodes.Repeat():
                separator = None if node.separator is None else self.copy(node.separator)
                return replace(node, item=self.copy(node.item), separator=separator, **label)
            case nodes.Unordered():
                return replace(
                    node,
                    entries=tuple(replace(entry, rest=self._optional(entry.rest)) for entry in node.entries),
                    others=tuple(self._other(other) for other in node.others),
                    lead=self.copy(node.lead),
                    comma=self.copy(node.comma),
                    end=self.copy(node.end),
                    empty=self.copy(node.empty),
                    **label,
                )
            case nodes.Fresh():
                return replace(node, base=self.copy(node.base), **label)
        # Pattern and Words have nothing inside; the rules of an Except are its own.
        return replace(node, **label)

    def _optional(self, node: Node | None) -> Node | None:
        return None if node is None else self.copy(node)

    def _other(self, other: nodes.Other) -> nodes.Other:
        key = self.copy(other.key)
        assert isinstance(key, nodes.Fresh)
        return nodes.Other(key, self._optional(other.rest), other.grants)

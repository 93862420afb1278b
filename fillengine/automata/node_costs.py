"""What the nodes of a template cost at least."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fillengine.automata.cheap_words import CheapWords
from fillengine.automata.leaf import INFINITE
from fillengine.automata.member_costs import MemberCosts
from fillengine.automata.nodes import Choice, Entry, Node, Other, Repeat, Rule, Sequence, Template, Unordered
from fillengine.automata.state import Bytes, Members


class NodeCosts:
    """What it costs at least to write a node, by fixed point over the recursion. `leaf` gives the leaves' cost.

    Knuth, "A generalization of Dijkstra's algorithm" (1977), is the quick way; templates are small enough for
    plain iteration, which needs as many sweeps as the shortest text nests rules. `leaf` and `text` give what
    leaves and the texts of entries cost, `new_key` the key of an other member behind some members, `cheap_words` what
    several of its keys can be.
    """

    def __init__(
        self,
        template: Template,
        leaf: Callable[[Bytes], int],
        text: Callable[[bytes], int],
        new_key: Callable[[Other, Members], int],
        cheap_words: Callable[[Other], CheapWords],
    ) -> None:
        self._leaf = leaf
        self._text = text
        self._new_key = new_key
        self._cheap_words = cheap_words
        self._rules = template.rules
        self._cost: dict[Node, int] = {}
        self._rests: dict[Sequence, list[int]] = {}
        self._member_costs: dict[Unordered, MemberCosts] = {}
        rule_costs = dict.fromkeys(template.rules, INFINITE)
        while True:
            self._rule_costs = rule_costs
            self._cost.clear()
            self._member_costs.clear()
            found = {name: self.of(node) for name, node in template.rules.items()}
            if found == rule_costs:
                break
            rule_costs = found

    def of(self, node: Node) -> int:
        cost = self._cost.get(node)
        if cost is None:
            cost = self._fill(node)
        return cost

    def rest(self, node: Sequence | Repeat | Unordered, count: int, members: Members | None = None) -> int:
        """What a frame of this node with this count still costs."""
        if isinstance(node, Unordered):
            assert members is not None
            return self._members(node).left(count, members)
        if isinstance(node, Repeat):
            return min(INFINITE, count * self._round(node)) if count else 0
        rests = self._rests.get(node)
        if rests is None:
            rests = [0]
            for item in reversed(node.items):
                rests.append(min(INFINITE, rests[-1] + self.of(item)))
            rests.reverse()
            self._rests[node] = rests
        return rests[count]

    def left_behind(self, node: Unordered, count: int, members: Members, indexes: Iterable[int]) -> list[int]:
        """What a frame of this node still costs behind each of these entries."""
        return self._members(node).left_behind(count, members, indexes)

    def _members(self, node: Unordered) -> MemberCosts:
        found = self._member_costs.get(node)
        if found is None:
            entries = [
                min(INFINITE, self._text(entry.text) + (0 if entry.rest is None else self.of(entry.rest)))
                for entry in node.entries
            ]
            rests = [0 if other.rest is None else self.of(other.rest) for other in node.others]
            keys = [self._leaf(other.key) for other in node.others]
            others = [min(INFINITE, key + rest) for key, rest in zip(keys, rests, strict=True)]
            comma, end = self.of(node.comma), self.of(node.end)
            words = [self._cheap_words(other) for other in node.others]
            costs = MemberCosts(node, entries, others, rests, comma, end, self._new_key, words)
            found = self._member_costs[node] = costs
        return found

    def _round(self, node: Repeat) -> int:
        return self.of(node.item) + (self.of(node.separator) if node.separator is not None else 0)

    def _fill(self, root: Node) -> int:
        """Children first, without Python's stack: nesting may be deep."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self._cost:
                stack.pop()
                continue
            missing = [child for child in self._children(node) if child not in self._cost]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._cost[node] = min(INFINITE, self._combined(node))
        return self._cost[root]

    def _children(self, node: Node) -> tuple[Node, ...]:
        if isinstance(node, Sequence):
            return node.items
        if isinstance(node, Choice):
            return node.options
        if isinstance(node, Repeat):
            return (node.item,) if node.separator is None else (node.item, node.separator)
        if isinstance(node, Unordered):
            members: tuple[Entry | Other, ...] = (*node.entries, *node.others)
            rests = (member.rest for member in members if member.rest is not None)
            return (*rests, node.lead, node.comma, node.end, node.empty)
        return ()

    def _combined(self, node: Node) -> int:
        if isinstance(node, Sequence):
            return sum(self._cost[item] for item in node.items)
        if isinstance(node, Choice):
            return min((self._cost[option] for option in node.options), default=INFINITE)
        if isinstance(node, Rule):
            return self._rule_costs[node.name]
        if isinstance(node, Unordered):
            if node.low == 0 and self._members(node).is_whole(0):
                return self._cost[node.empty]
            return min(INFINITE, self._cost[node.lead] + self._members(node).left(0, Members(is_due=True)))
        if isinstance(node, Repeat):
            if node.low == 0:
                return 0
            return self._cost[node.item] + (node.low - 1) * self._round(node)
        return self._leaf(node)

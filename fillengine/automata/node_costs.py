"""What the nodes of a template cost at least."""

from __future__ import annotations

from collections.abc import Callable

from fillengine.automata.leaf import INFINITE
from fillengine.automata.nodes import Choice, Entry, Node, Other, Repeat, Rule, Sequence, Template, Unordered
from fillengine.automata.state import Bytes, Members


class NodeCosts:
    """What it costs at least to write a node, by fixed point over the recursion. `leaf` gives the leaves' cost.

    Knuth, "A generalization of Dijkstra's algorithm" (1977), is the quick way; templates are small enough for
    plain iteration, which needs as many sweeps as the shortest text nests rules. `leaf` and `text` give what
    leaves and the texts of entries cost.
    """

    def __init__(self, template: Template, leaf: Callable[[Bytes], int], text: Callable[[bytes], int]) -> None:
        self._leaf = leaf
        self._text = text
        self._rules = template.rules
        self._cost: dict[Node, int] = {}
        self._rests: dict[Sequence, list[int]] = {}
        rule_costs = dict.fromkeys(template.rules, INFINITE)
        while True:
            self._rule_costs = rule_costs
            self._cost.clear()
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
            return self._members(node, count, members)
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

    def _members(self, node: Unordered, written: int, members: Members) -> int:
        """The required entries that are missing, then the cheapest members up to `low`, then the end."""
        comma = self.of(node.comma)
        total, number = 0, written.bit_count() + members.num_others
        if members.key is not None:
            rest = node.others[members.key].rest
            total += 0 if rest is None else self.of(rest)
        following: list[int] = []
        optional: list[int] = []
        for index, entry in enumerate(node.entries):
            if written >> index & 1:
                continue
            if entry.is_required:
                following.append(self._entry(entry))
            elif node.low or members.is_due:
                optional.append(self._entry(entry))
        needed = node.low - number - len(following)
        if members.is_due and not following:
            needed = max(needed, 1)  # a comma is written, so something must follow it
        if needed > 0:
            optional.sort()
            following += optional[:needed]
            if needed > len(optional):
                # The more are written, the longer a new one may have to be.
                slack = 2 + node.low.bit_length() if node.low else 0
                other = min(map(self._other, node.others), default=INFINITE) + slack
                following += [other] * (needed - len(optional))
        commas = len(following) - members.is_due if following else 0
        return min(INFINITE, total + sum(following) + commas * comma + self.of(node.end))

    def _entry(self, entry: Entry) -> int:
        return min(INFINITE, self._text(entry.text) + (0 if entry.rest is None else self.of(entry.rest)))

    def _other(self, other: Other) -> int:
        return min(INFINITE, self._leaf(other.key) + (0 if other.rest is None else self.of(other.rest)))

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
            if node.low == 0 and not any(entry.is_required for entry in node.entries):
                return self._cost[node.empty]
            return min(INFINITE, self._cost[node.lead] + self._members(node, 0, Members(is_due=True)))
        if isinstance(node, Repeat):
            if node.low == 0:
                return 0
            return self._cost[node.item] + (node.low - 1) * self._round(node)
        return self._leaf(node)

"""The machine: a template as a lazily determinised pushdown automaton over bytes.

A configuration is a position in a leaf together with a stack of what follows. A state is the set of all
configurations that the bytes so far may stand for; it is immutable, and `step` remembers where each byte led.
Looking ahead, rolling back and forking are assignments.

    machine = Machine(Template(Sequence((Literal(b"["), Pattern(digits), Literal(b"]")))))
    machine.accepts(b"[12]")                      -> True
    machine.forced(machine.start)                 -> (b"[", <state before the first digit>)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from fillengine.automata.leaf import INFINITE, ByteCosts, Costs, Leaf, LiteralLeaf, leaf_of
from fillengine.automata.nodes import Choice, Literal, Node, Pattern, Repeat, Rule, Sequence, Template, Words
from fillengine.errors import UnsatisfiableForm

MAX_STATES = 200_000
"""States that one machine remembers (some 500 bytes each). Past it the memory is emptied and filled anew."""


class Frame:
    """One entry of a stack: what follows when the node above it is finished.

    For a Sequence `count` is the index of the next item. For a Repeat `count` items must still come and `room`
    may (None: no bound).
    """

    __slots__ = ("clamped", "cost", "count", "node", "parent", "resumed", "room")

    def __init__(self, node: Sequence | Repeat, count: int, room: int | None, parent: Frame | None) -> None:
        self.node = node
        self.count = count
        self.room = room
        self.parent = parent
        self.cost: int | None = None
        self.clamped: Frame | None = None
        self.resumed: State | None = None


class Spot:
    """A leaf node of the template together with its automaton."""

    __slots__ = ("leaf", "node", "start")

    def __init__(self, node: Literal | Pattern | Words, leaf: Leaf, start: Hashable | None) -> None:
        self.node = node
        self.leaf = leaf
        self.start = start


Configuration = tuple[Spot, Any, "Frame | None"]


class State:
    """A set of configurations. Compare by identity: the machine gives one object for one set."""

    __slots__ = ("_bytes", "_clamped", "_cost", "_forced", "_next", "configurations", "is_accepting")

    def __init__(self, configurations: tuple[Configuration, ...], *, is_accepting: bool) -> None:
        self.configurations = configurations
        self.is_accepting = is_accepting
        self._cost: int | None = None
        self._next: dict[int, State | None] = {}
        self._bytes: bytes | None = None
        self._forced: tuple[bytes, State] | None = None
        self._clamped: State | None = None

    @property
    def is_final(self) -> bool:
        """The text is whole and nothing may follow."""
        return self.is_accepting and not self.configurations

    def next_bytes(self) -> bytes:
        """The bytes that may come next, sorted."""
        if self._bytes is None:
            found: set[int] = set()
            for spot, q, _frame in self.configurations:
                found.update(spot.leaf.next_bytes(q))
            self._bytes = bytes(sorted(found))
        return self._bytes


class Machine:
    """The automaton of one template.

    Raises UnsatisfiableForm where no text at all fits the template.
    """

    def __init__(self, template: Template, costs: Costs | None = None) -> None:
        self.template = template
        self._costs: Costs = costs if costs is not None else ByteCosts()
        self._spots: dict[Node, Spot] = {}
        self._items: dict[Repeat, Sequence] = {}
        self._frames: dict[tuple[Node, int, int | None, Frame | None], Frame] = {}
        self._states: dict[tuple[frozenset[Configuration], bool], State] = {}
        self._in_tokens: NodeCosts | None = None
        if len(self._costs.alphabet) == 256:
            self._finite = NodeCosts(template, self._fewest_bytes)
        else:
            self._finite = self._token_costs()
        if self._finite.of(template.root) >= INFINITE:
            raise UnsatisfiableForm("no text fits this form")
        self.start: State = self._closed([(template.root, None)])

    def step(self, state: State, byte: int) -> State | None:
        """The state after one more byte; None where no text goes on so. `state` is unchanged."""
        try:
            return state._next[byte]
        except KeyError:
            pass
        work: list[Frame | None] = []
        kept: list[Configuration] = []
        for spot, q, frame in state.configurations:
            leaf = spot.leaf
            after = leaf.step(q, byte)
            if after is None:
                continue
            if leaf.is_accepting(after):
                work.append(frame)
            if leaf.next_bytes(after):
                kept.append((spot, after, frame))
        following = self._resumed(work, kept) if work or kept else None
        state._next[byte] = following
        return following

    def advance(self, state: State, data: bytes) -> State | None:
        """The state after `data`; None where no text goes on so."""
        current: State | None = state
        for byte in data:
            current = self.step(current, byte)  # type: ignore[arg-type]
            if current is None:
                return None
        return current

    def forced(self, state: State) -> tuple[bytes, State]:
        """The bytes that must come next whatever is chosen, and the state behind them."""
        if state._forced is None:
            data = bytearray()
            current = state
            while not current.is_accepting:
                configurations = current.configurations
                if len(configurations) == 1:
                    spot, q, frame = configurations[0]
                    if isinstance(spot.leaf, LiteralLeaf):
                        data += spot.leaf.text[q:]
                        current = self.after(frame)
                        continue
                following = current.next_bytes()
                if len(following) != 1:
                    break
                data += following
                after = self.step(current, following[0])
                assert after is not None
                current = after
            state._forced = (bytes(data), current)
        return state._forced

    def accepts(self, data: bytes) -> bool:
        """Whether `data` is a whole text of the form."""
        state = self.advance(self.start, data)
        return state is not None and state.is_accepting

    def after(self, frame: Frame | None) -> State:
        """The state in which a leaf below `frame` is finished and nothing of what follows is written."""
        if frame is None:
            return self._state([], is_accepting=True)
        if frame.resumed is None:
            frame.resumed = self._resumed([frame], [])
        return frame.resumed

    def clamped(self, state: State, reach: int) -> State:
        """A state that behaves as `state` does for the next `reach` bytes, with counters cut to what matters.

        Always called with the same `reach` (the longest token) for one machine.
        """
        if state._clamped is None:
            cut = [
                (spot, spot.leaf.clamp(q, reach), self._clamped_frame(frame, reach))
                for spot, q, frame in state.configurations
            ]
            state._clamped = self._state(cut, is_accepting=state.is_accepting)
        return state._clamped

    def cost(self, state: State) -> int:
        """Upper bound on the tokens that complete the text from `state`; 0 where it is complete.

        Some token leads to a state whose cost is smaller by one at least.
        """
        if state._cost is None:
            cost = 0 if state.is_accepting else INFINITE
            for spot, q, frame in state.configurations:
                cost = min(cost, spot.leaf.cost(q) + self.frame_cost(frame))
            state._cost = cost
        return state._cost

    def frame_cost(self, frame: Frame | None) -> int:
        """Upper bound on the tokens that finish everything from `frame` to the end of the text."""
        if frame is None:
            return 0
        if frame.cost is None:
            costs = self._token_costs()
            missing = []
            current: Frame | None = frame
            while current is not None and current.cost is None:
                missing.append(current)
                current = current.parent
            below = current.cost if current is not None and current.cost is not None else 0
            for entry in reversed(missing):
                below = entry.cost = min(INFINITE, below + costs.rest(entry.node, entry.count))
        assert frame.cost is not None
        return frame.cost

    def _token_costs(self) -> NodeCosts:
        if self._in_tokens is None:
            self._in_tokens = NodeCosts(self.template, self._fewest_tokens)
        return self._in_tokens

    def _fewest_tokens(self, node: Literal | Pattern | Words) -> int:
        spot = self._spot(node)
        return INFINITE if spot.start is None else spot.leaf.cost(spot.start)

    def _fewest_bytes(self, node: Literal | Pattern | Words) -> int:
        """As `_fewest_tokens`, cheaper: every text takes no fewer bytes than tokens, and only finiteness matters."""
        if isinstance(node, Literal):
            return len(node.text)
        if isinstance(node, Words):
            return len(node.words[0]) if node.words else INFINITE
        return self._fewest_tokens(node)

    def _clamped_frame(self, frame: Frame | None, reach: int) -> Frame | None:
        if frame is None:
            return None
        if frame.clamped is None:
            # Found from the bottom up: stacks can be deeper than Python's own.
            missing = []
            current: Frame | None = frame
            while current is not None and current.clamped is None:
                missing.append(current)
                current = current.parent
            for entry in reversed(missing):
                parent = entry.parent.clamped if entry.parent is not None else None
                count, room = entry.count, entry.room
                if isinstance(entry.node, Repeat):
                    # Every item takes a byte at least.
                    count = min(count, reach + 1)
                    room = None if room is None or room > 2 * reach + 2 else room
                entry.clamped = self._frame(entry.node, count, room, parent)
        return frame.clamped

    def _spot(self, node: Literal | Pattern | Words) -> Spot:
        spot = self._spots.get(node)
        if spot is None:
            leaf, start = leaf_of(node, self._costs)
            spot = self._spots[node] = Spot(node, leaf, start)
        return spot

    def _frame(self, node: Sequence | Repeat, count: int, room: int | None, parent: Frame | None) -> Frame:
        key = (node, count, room, parent)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = Frame(node, count, room, parent)
        return frame

    def _state(self, configurations: list[Configuration], *, is_accepting: bool) -> State:
        key = (frozenset(configurations), is_accepting)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MAX_STATES:
                self._forget()
            state = self._states[key] = State(tuple(dict.fromkeys(configurations)), is_accepting=is_accepting)
        return state

    def _forget(self) -> None:
        # States and frames refer to one another; those that sessions still hold go on working.
        for state in self._states.values():
            state._next.clear()
            state._forced = state._clamped = None
        for frame in self._frames.values():
            frame.resumed = frame.clamped = None
        self._states.clear()
        self._frames.clear()

    def _resumed(self, frames: list[Frame | None], kept: list[Configuration]) -> State:
        work: list[tuple[Node | None, Frame | None]] = [(None, frame) for frame in frames]
        return self._close(work, kept)

    def _closed(self, work: list[tuple[Node, Frame | None]]) -> State:
        return self._close(list(work), [])

    def _close(self, work: list[tuple[Node | None, Frame | None]], configurations: list[Configuration]) -> State:
        """Follow everything that takes no byte. A work item (None, frame) resumes the frame."""
        is_accepting = False
        seen: set[tuple[Node | None, Frame | None]] = set()
        while work:
            item = work.pop()
            if item in seen:
                continue
            seen.add(item)
            node, frame = item
            if node is None:
                if frame is None:
                    is_accepting = True
                else:
                    work.extend(self._continuations(frame))
            elif isinstance(node, Literal | Pattern | Words):
                spot = self._spot(node)
                if spot.start is None:
                    continue
                if spot.leaf.is_accepting(spot.start):
                    work.append((None, frame))
                if spot.leaf.next_bytes(spot.start):
                    configurations.append((spot, spot.start, frame))
            elif isinstance(node, Choice):
                work.extend((option, frame) for option in node.options if self._finite.of(option) < INFINITE)
            elif isinstance(node, Rule):
                work.append((self.template.rules[node.name], frame))
            elif isinstance(node, Sequence):
                work.append(self._item(node, 0, frame))
            else:
                if node.low == 0:
                    work.append((None, frame))
                if node.high != 0 and self._finite.of(node.item) < INFINITE:
                    room = None if node.high is None else node.high - 1
                    work.append((node.item, self._frame(node, max(node.low - 1, 0), room, frame)))
        return self._state(configurations, is_accepting=is_accepting)

    def _item(self, node: Sequence, index: int, parent: Frame | None) -> tuple[Node | None, Frame | None]:
        if index == len(node.items):
            return (None, parent)
        # The last item leaves no frame of its own, so tail recursion does not deepen the stack.
        last = index + 1 == len(node.items)
        return (node.items[index], parent if last else self._frame(node, index + 1, None, parent))

    def _item_of(self, node: Repeat) -> Sequence:
        """The item of a Repeat as a Sequence of one: what stands behind a separator."""
        if node not in self._items:
            self._items[node] = Sequence((node.item,))
        return self._items[node]

    def _continuations(self, frame: Frame) -> Iterator[tuple[Node | None, Frame | None]]:
        node = frame.node
        if isinstance(node, Sequence):
            yield self._item(node, frame.count, frame.parent)
            return
        if frame.count == 0:
            yield (None, frame.parent)
        if frame.room != 0:
            room = None if frame.room is None else frame.room - 1
            following = self._frame(node, max(frame.count - 1, 0), room, frame.parent)
            if node.separator is None:
                yield (node.item, following)
            else:
                yield (node.separator, self._frame(self._item_of(node), 0, None, following))


class NodeCosts:
    """What it costs at least to write a node, by fixed point over the recursion. `leaf` gives the leaves' cost.

    Knuth, "A generalization of Dijkstra's algorithm" (1977), is the quick way; templates are small enough for
    plain iteration, which needs as many sweeps as the shortest text nests rules.
    """

    def __init__(self, template: Template, leaf: Callable[[Literal | Pattern | Words], int]) -> None:
        self._leaf = leaf
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

    def rest(self, node: Sequence | Repeat, count: int) -> int:
        """What a frame of this node with this count still costs."""
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
        return ()

    def _combined(self, node: Node) -> int:
        if isinstance(node, Sequence):
            return sum(self._cost[item] for item in node.items)
        if isinstance(node, Choice):
            return min((self._cost[option] for option in node.options), default=INFINITE)
        if isinstance(node, Rule):
            return self._rule_costs[node.name]
        if isinstance(node, Repeat):
            if node.low == 0:
                return 0
            return self._cost[node.item] + (node.low - 1) * self._round(node)
        return self._leaf(node)

"""The machine: a template as a lazily determinised pushdown automaton over bytes.

A configuration is a position in a leaf together with a stack of what follows. A state is the set of all
configurations that the bytes so far may stand for; it is immutable, and `step` remembers where each byte led.
Looking ahead, rolling back and forking are assignments.

    machine = Machine(Template(Sequence((Literal(b"["), Pattern(digits), Literal(b"]")))))
    machine.accepts(b"[12]")                      -> True
    machine.forced(machine.start)                 -> (b"[", <state before the first digit>)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any
from weakref import WeakValueDictionary

from fillengine.automata.cheap_words import CheapWords
from fillengine.automata.fresh import FreshLeaf, fresh_leaf
from fillengine.automata.leaf import INFINITE, ByteCosts, Costs, EntriesLeaf, LiteralLeaf, leaf_of
from fillengine.automata.lockstep import LockstepLeaf, lockstep_leaf
from fillengine.automata.membership import Membership
from fillengine.automata.node_costs import NodeCosts
from fillengine.automata.nodes import (
    Choice,
    Except,
    Fresh,
    Literal,
    Node,
    Other,
    Pattern,
    Repeat,
    Rule,
    Sequence,
    Template,
    Unordered,
    Words,
    walk,
)
from fillengine.automata.prefixes import members as members_of
from fillengine.automata.stacks import Stacks
from fillengine.automata.state import Bytes, Configuration, Frame, Members, Spot, State, Work
from fillengine.errors import UnsatisfiableForm

MAX_STATES = 200_000
"""States that one machine remembers (some 500 bytes each). Past it the memory is emptied and filled anew."""


MAX_WAYS = 512
"""Bytes and texts (tokens) of which one state remembers where they lead. Past it texts are followed anew."""


class Machine:
    """The automaton of one template.

    `exclusions`: LooseLeaf in a machine whose texts are excluded by another one.
    Raises UnsatisfiableForm where no text at all fits the template.
    """

    def __init__(
        self, template: Template, costs: Costs | None = None, *, exclusions: type[LockstepLeaf] = LockstepLeaf
    ) -> None:
        self.template = template
        self._exclusions = exclusions
        self._costs: Costs = costs if costs is not None else ByteCosts()
        self._spots: dict[Node, Spot] = {}
        self._items: dict[Repeat, Sequence] = {}
        self._frames: dict[tuple[Node, int, int | None, Frame | None, Members | None], Frame] = {}
        self._states: dict[Hashable, State] = {}
        self._stacks = Stacks(self._frame, self._fresh_leaf)
        self._membership = Membership(lambda node: self._finite.of(node), self._fresh_leaf)
        self._in_tokens: NodeCosts | None = None
        self._planned = {
            other.key
            for node in walk(template)
            if isinstance(node, Unordered) and (node.most_new > 1 or node.num_wants)
            for other in node.others
        }
        self._finite = NodeCosts(template, self._fewest_bytes, self._fewest_of_text, self._new_key, self._cheap_words)
        if self._finite.of(template.root) >= INFINITE:
            raise UnsatisfiableForm("no text fits this form, or none of fewer than 10**12 bytes", keyword="")
        self.start: State = self._close([(template.root, None)], [])

    def step(self, state: State, byte: int) -> State | None:
        """The state after one more byte; None where no text goes on so. `state` is unchanged."""
        try:
            return state._next[byte]
        except KeyError:
            pass
        work, kept = self._moved(state.configurations, byte)
        if work:
            following: State | None = self._close(work, kept)
        else:
            following = self._state(kept, is_accepting=False) if kept else None
        state._next[byte] = following
        return following

    def _moved(self, configurations: Iterable[Configuration], byte: int) -> tuple[list[Work], list[Configuration]]:
        """What one more byte leads to: leaves that are finished, and leaves that go on."""
        work: list[Work] = []
        kept: list[Configuration] = []
        for spot, q, frame in configurations:
            leaf = spot.leaf
            after = leaf.step(q, byte)
            if after is None:
                continue
            if isinstance(leaf, EntriesLeaf):
                work += self._entered(leaf, after, frame)
            elif leaf.is_accepting(after):
                work.append((None, self._with_key(frame, after) if isinstance(leaf, FreshLeaf) else frame))
            if leaf.can_go_on(after):
                kept.append((spot, after, frame))
        return work, kept

    def advance(self, state: State, data: bytes) -> State | None:
        """The state after `data`; None where no text goes on so.

        Between two bytes that both stay in their leaves no state is made.
        """
        if data in state._next:
            return state._next[data]
        current: State | None = state
        # What has been stepped through is known.
        num_known = 0
        for byte in data:
            assert current is not None
            if byte not in current._next:
                break
            current = current._next[byte]
            if current is None:
                return None
            num_known += 1
        assert current is not None
        configurations: Iterable[Configuration] = current.configurations
        kept: list[Configuration] = []
        for byte in data[num_known:]:
            work, kept = self._moved(configurations, byte)
            if work:
                current = self._close(work, kept)
                configurations, kept = current.configurations, []
            elif kept:
                configurations = kept
            else:
                current = None
                break
        if kept:
            current = self._state(kept, is_accepting=False)
        if len(state._next) < MAX_WAYS:
            state._next[data] = current
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
                byte = current.only_byte()
                if byte is None:
                    break
                data.append(byte)
                after = self.step(current, byte)
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
            frame.resumed = self._close([(None, frame)], [])
        return frame.resumed

    def clamped(self, state: State, reach: int) -> State:
        """A state that behaves as `state` does for the next `reach` bytes, with counters cut to what matters.

        Always called with the same `reach` (the longest token: `Costs.reach`) for one machine.
        """
        if state._clamped is None:
            cut = [
                (spot, spot.leaf.clamp(q, reach), self._stacks.clamped(frame, reach))
                for spot, q, frame in state.configurations
            ]
            state._clamped = self._state(cut, is_accepting=state.is_accepting)
        return state._clamped

    def nameless(self, state: State) -> State:
        """The same for states that differ only in the key that is being written, and in written words that no
        token holds.

        It is no state to go on from: what it leads to has forgotten words.
        """
        if state._nameless is None:
            found = [
                (
                    spot,
                    q._replace(text=None) if isinstance(spot.leaf, FreshLeaf) and q.text is not None else q,
                    self._stacks.nameless(frame),
                )
                for spot, q, frame in state.configurations
            ]
            state._nameless = self._state(found, is_accepting=state.is_accepting)
        return state._nameless

    def ends_key(self, state: State, byte: int) -> bool:
        """Whether a key (or what else must be new) may end with this byte."""
        for spot, q, _ in state.configurations:
            if isinstance(spot.leaf, FreshLeaf):
                after = spot.leaf.step(q, byte)
                if after is not None and spot.leaf.is_accepting(after):
                    return True
        return False

    def cost(self, state: State) -> int:
        """Upper bound on the tokens that complete the text from `state`; 0 where it is complete.

        Some token leads to a state whose cost is smaller by one at least.
        """
        if state._cost is None:
            cost = 0 if state.is_accepting else INFINITE
            for spot, q, frame in state.configurations:
                if isinstance(spot.leaf, EntriesLeaf):
                    cost = min(cost, self.entries_cost(spot.leaf, q, frame))
                else:
                    cost = min(cost, spot.leaf.cost(q) + self.frame_cost(frame))
            state._cost = cost
        return state._cost

    def entries_cost(self, leaf: EntriesLeaf, q: Any, frame: Frame | None) -> int:
        """The cheapest way on from the texts of entries."""
        assert frame is not None
        node, members = frame.node, frame.members
        assert isinstance(node, Unordered)
        assert members is not None
        costs = self._token_costs()
        below = self.frame_cost(frame.parent)
        best = INFINITE
        indexes = tuple(members_of(q[0]))
        for index, behind in zip(indexes, costs.left_behind(node, frame.count, members, indexes), strict=True):
            rest = node.entries[index].rest
            best = min(best, leaf.cost_of(index, q[2]) + (0 if rest is None else costs.of(rest)) + behind)
        return min(INFINITE, best + below)

    def worst_entry(self, q: Any, frame: Frame) -> int:
        """The most that can be left behind one more byte of some entries, `frame_cost(frame)` apart."""
        node, members, costs = frame.node, frame.members, self._token_costs()
        assert isinstance(node, Unordered)
        assert members is not None
        leaf = self._spot(node).leaf
        assert isinstance(leaf, EntriesLeaf)
        worst = 0
        indexes = tuple(members_of(q[0]))
        for index, behind in zip(indexes, costs.left_behind(node, frame.count, members, indexes), strict=True):
            rest = node.entries[index].rest
            lengths = range(q[2] + 1, len(leaf.texts[index]) + 1)
            inside = [cost for cost in (leaf.cost_of(index, depth) for depth in lengths) if cost < INFINITE]
            worst = max(worst, max(inside, default=0) + (0 if rest is None else costs.of(rest)) + behind)
        return worst - costs.rest(node, frame.count, members)

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
                below = entry.cost = min(INFINITE, below + costs.rest(entry.node, entry.count, entry.members))
        assert frame.cost is not None
        return frame.cost

    def growth(self, state: State, reach: int) -> int:
        """How much dearer the rest of the text can be than `clamped` knows: it has cut counters, and has forgotten
        words that must not be written again."""
        most = 0
        for spot, q, frame in state.configurations:
            cut, stack = spot.leaf.clamp(q, reach), self._stacks.clamped(frame, reach)
            counted = 0 if cut == q else spot.leaf.cost(q) - spot.leaf.cost(cut)
            counted += 0 if stack is frame else max(0, self.frame_cost(frame) - self.frame_cost(stack))
            most = max(most, counted)
        return most

    def _token_costs(self) -> NodeCosts:
        if self._in_tokens is None:
            text = lambda text: self._costs.literal(text)[0]  # noqa: E731
            self._in_tokens = NodeCosts(self.template, self._fewest_tokens, text, self._new_key, self._cheap_words)
        return self._in_tokens

    def _new_key(self, other: Other, members: Members) -> int:
        leaf = self._fresh_leaf(other.key)
        start = leaf.begin(members.words, is_sealed=members.is_sealed)
        return INFINITE if start is None else leaf.cost(start)

    def _cheap_words(self, other: Other) -> CheapWords:
        return self._fresh_leaf(other.key).cheap_words

    def _fewest_tokens(self, node: Bytes) -> int:
        spot = self._spot(node)
        return INFINITE if spot.start is None else spot.leaf.cost(spot.start)

    def _fewest_bytes(self, node: Bytes) -> int:
        """As `_fewest_tokens`, cheaper: every text takes no fewer bytes than tokens, and only finiteness matters."""
        if isinstance(node, Literal):
            return self._fewest_of_text(node.text)
        if isinstance(node, Words) and node.words:
            shortest = min(node.words, key=len)
            if self._costs.spells(shortest):
                return len(shortest)
        return self._fewest_tokens(node)

    def _fewest_of_text(self, text: bytes) -> int:
        return len(text) if self._costs.spells(text) else self._costs.literal(text)[0]

    def _with_key(self, frame: Frame | None, q: Any) -> Frame | None:
        """The frame of a member whose key is written."""
        assert frame is not None
        assert frame.members is not None
        members = frame.members
        if q.text is not None:
            members = members._replace(words=members.words | {q.text})
        return self._frame(frame.node, frame.count, frame.room, frame.parent, members)

    def _fresh_leaf(self, node: Fresh) -> FreshLeaf:
        leaf = self._spot(node).leaf
        assert isinstance(leaf, FreshLeaf)
        return leaf

    def _spot(self, node: Bytes) -> Spot:
        spot = self._spots.get(node)
        if spot is None and isinstance(node, Unordered):
            texts = tuple(entry.text for entry in node.entries)
            spot = self._spots[node] = Spot(node, EntriesLeaf(texts, self._costs), None)
        elif spot is None and isinstance(node, Except):
            spot = self._spots[node] = self._lockstep(node)
        elif spot is None and isinstance(node, Fresh):
            if isinstance(node.base, Except):
                below = self._spot(node.base)
                base, start = below.leaf, below.start
            else:
                base, start = leaf_of(node.base, self._costs)  # type: ignore[arg-type]
            fresh = fresh_leaf(base, start, node.excluded, self._costs, is_planned=node in self._planned)
            spot = self._spots[node] = Spot(node, fresh, fresh.begin(frozenset(), is_sealed=False))
        elif spot is None:
            assert isinstance(node, Literal | Pattern | Words)
            leaf, start = leaf_of(node, self._costs)
            spot = self._spots[node] = Spot(node, leaf, start)
        return spot

    def _lockstep(self, node: Except) -> Spot:
        leaf = lockstep_leaf(node, self._costs, Machine, self._exclusions)
        return Spot(node, LiteralLeaf(b"", self._costs), None) if leaf is None else Spot(node, leaf, leaf.start)

    def _frame(
        self,
        node: Sequence | Repeat | Unordered,
        count: int,
        room: int | None,
        parent: Frame | None,
        members: Members | None = None,
    ) -> Frame:
        key = (node, count, room, parent, members)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = Frame(node, count, room, parent, members)
        return frame

    def _state(self, configurations: list[Configuration], *, is_accepting: bool) -> State:
        unique = tuple(configurations) if len(configurations) < 2 else tuple(dict.fromkeys(configurations))
        single = len(unique) == 1 and not is_accepting
        key: Hashable = unique[0] if single else frozenset((*unique, None) if is_accepting else unique)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MAX_STATES:
                self._forget()
            state = self._states[key] = State(unique, is_accepting=is_accepting)
        return state

    def _forget(self) -> None:
        # States and frames refer to one another; those that sessions still hold go on working.
        for state in self._states.values():
            state._next.clear()
            state._forced = state._clamped = state._nameless = None
        for frame in self._frames.values():
            frame.resumed = frame.clamped = frame.nameless = None
        # Frames that are held stay the ones of their parts: two frames of the same parts would make equal states two.
        held = WeakValueDictionary(self._frames)
        self._states.clear()
        self._frames.clear()
        self._frames.update(held)

    def _close(self, work: list[Work], configurations: list[Configuration]) -> State:
        """Follow everything that takes no byte. A work item (None, frame) resumes the frame."""
        is_accepting = False
        seen: set[Work] = set()
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
            elif isinstance(node, Fresh):
                assert frame is not None
                assert frame.members is not None
                spot = self._spot(node)
                leaf = self._fresh_leaf(node)
                start = leaf.begin(frame.members.words, is_sealed=frame.members.is_sealed)
                if start is not None:
                    configurations.append((spot, start, frame))
            elif isinstance(node, Unordered) and frame is not None and frame.is_due(node):
                # Its entries, behind the comma.
                entries = self._membership.open_entries(frame)
                if entries:
                    spot = self._spot(node)
                    assert isinstance(spot.leaf, EntriesLeaf)
                    configurations.append((spot, (entries, spot.leaf.root, 0), frame))
            elif isinstance(node, Unordered):
                first = self._frame(node, 0, None, frame, Members())
                if node.low == 0 and not self._membership.num_missing(first):
                    work.append((node.empty, frame))
                if self._can_go_on(first):
                    due = self._frame(node, 0, None, frame, Members(is_due=True))
                    work.append((node.lead, due))
            elif isinstance(node, Literal | Pattern | Words | Except):
                spot = self._spot(node)
                if spot.start is None:
                    continue
                if spot.leaf.is_accepting(spot.start):
                    work.append((None, frame))
                if spot.leaf.can_go_on(spot.start):
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

    def _can_go_on(self, frame: Frame) -> bool:
        """Whether one more member of an Unordered can be written, and all that must follow it."""
        if not self._membership.can_go_on(frame):
            return False
        node, members = frame.node, frame.members
        assert members is not None
        is_sure = len(self._costs.alphabet) == 256
        return is_sure or self._finite.rest(node, frame.count, members._replace(is_due=True)) < INFINITE

    def _item(self, node: Sequence, index: int, parent: Frame | None) -> Work:
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

    def _continuations(self, frame: Frame) -> Iterator[Work]:
        node = frame.node
        if isinstance(node, Sequence):
            yield self._item(node, frame.count, frame.parent)
            return
        if isinstance(node, Unordered):
            yield from self._members(frame, node)
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

    def _members(self, frame: Frame, node: Unordered) -> Iterator[Work]:
        """What follows a member, a key or a comma of an Unordered."""
        members = frame.members
        assert members is not None
        if members.key is not None:
            rest = node.others[members.key].rest
            behind = self._frame(node, frame.count, None, frame.parent, members._replace(key=None))
            if rest is not None:
                yield rest, behind
            else:
                yield None, behind
        elif members.is_due:
            if node.entries:
                yield node, frame
            number = members.num_others + 1
            for index, other in enumerate(node.others):
                if self._membership.fits(frame, other):
                    count = frame.count | other.grants << len(node.entries)
                    # What grants is the dearer the more there are.
                    num_others = number if node.wants(count) else min(number, node.most_counted)
                    begun = members.begun(index, num_others)
                    yield other.key, self._frame(node, count, None, frame.parent, begun)
        else:
            number = node.num_written(frame.count) + members.num_others
            if number >= node.low and not self._membership.num_missing(frame):
                yield node.end, frame.parent
            if self._can_go_on(frame):
                yield node.comma, self._frame(node, frame.count, None, frame.parent, members._replace(is_due=True))

    def _entered(self, leaf: EntriesLeaf, q: Any, frame: Frame | None) -> list[Work]:
        """What follows the entries whose text is whole."""
        assert frame is not None
        return [self.entry(frame, index) for index in leaf.whole(q)]

    def entry(self, frame: Frame, index: int) -> Work:
        """What follows the text of an entry: its rest, and the frame behind it."""
        node, members = frame.node, frame.members
        assert isinstance(node, Unordered)
        assert members is not None
        written = members.written()
        return node.entries[index].rest, self._frame(node, frame.count | 1 << index, None, frame.parent, written)

    def after_entry(self, frame: Frame, index: int) -> State:
        """The state behind the text of an entry."""
        return self._close([self.entry(frame, index)], [])

"""What an object still costs is the same however it is found out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fillengine.automata.leaf import INFINITE
from fillengine.automata.member_costs import MemberCosts
from fillengine.automata.nodes import Entry, Literal, Unordered
from fillengine.automata.state import Members

COMMA, END = 2, 1


def unordered(required: list[bool], low: int) -> Unordered:
    entries = tuple(Entry(b"%d" % index, None, is_required) for index, is_required in enumerate(required))
    nothing = Literal(b"")
    return Unordered(entries, (), low, None, nothing, nothing, nothing, nothing)


def plainly(costs: list[int], node: Unordered, other: int, written: set[int], members: Members) -> int:
    """The required entries that are missing, and the cheapest others, one by one."""
    following = [cost for i, cost in enumerate(costs) if node.entries[i].is_required and i not in written]
    pool = sorted(cost for i, cost in enumerate(costs) if not node.entries[i].is_required and i not in written)
    number = len(written) + members.num_others
    new = [other]  # the first one is known, the others are estimated
    while number + len(following) < node.low or (members.is_due and not following):
        estimated = other + (2 + node.low.bit_length() if node.low else 0)
        following.append(pool.pop(0) if pool else new.pop() if new else estimated)
    commas = len(following) - members.is_due if following else 0
    return min(INFINITE, sum(following) + commas * COMMA + END)


@given(
    entries=st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=6),
    low=st.integers(0, 8),
    other=st.sampled_from([5, INFINITE]),
    num_others=st.integers(0, 2),
    is_due=st.booleans(),
    data=st.data(),
)
def test_what_is_left_is_the_cheapest_way_to_the_end(
    entries: list[tuple[int, bool]], low: int, other: int, num_others: int, is_due: bool, data: st.DataObject
) -> None:
    costs = [cost for cost, _ in entries]
    node = unordered([is_required for _, is_required in entries], low)
    written = data.draw(st.sets(st.sampled_from(range(len(entries))))) if entries else set()
    bits = sum(1 << index for index in written)
    members = Members(num_others, is_due=is_due)
    found = MemberCosts(node, costs, [other], [], COMMA, END, lambda _other, _members: other)
    assert found.left(bits, members) == plainly(costs, node, other, written, members)
    indexes = [index for index in range(len(entries)) if index not in written]
    assert found.left_behind(bits, members, indexes) == [
        plainly(costs, node, other, written | {index}, members.written()) for index in indexes
    ]

"""What an object still costs is the same however it is found out."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fillengine.automata.cheap_words import CheapWords
from fillengine.automata.leaf import INFINITE
from fillengine.automata.member_costs import MemberCosts
from fillengine.automata.nodes import Entry, Fresh, Literal, Other, Unordered
from fillengine.automata.state import Members

COMMA, END = 2, 1


def unordered(required: list[bool], low: int) -> Unordered:
    entries = tuple(Entry(b"%d" % index, None, is_required) for index, is_required in enumerate(required))
    nothing = Literal(b"")
    return Unordered(entries, (Other(Fresh(nothing), None),), low, None, nothing, nothing, nothing, nothing)


class Words(CheapWords):
    """Words of these costs, each word its number."""

    def __init__(self, costs: list[int]) -> None:
        self._costs_of = costs

    def bound(self, index: int) -> int:
        return self._costs_of[index] if index < len(self._costs_of) else INFINITE

    def words(self, number: int) -> list[bytes]:
        return [b"%d" % index for index in range(min(number, len(self._costs_of)))]


def plainly(costs: list[int], node: Unordered, new: list[int], written: set[int], members: Members) -> int:
    """The required entries that are missing, and the cheapest others, one by one."""
    following = [cost for i, cost in enumerate(costs) if node.entries[i].is_required and i not in written]
    pool = sorted(cost for i, cost in enumerate(costs) if not node.entries[i].is_required and i not in written)
    number = len(written) + members.num_others
    left = new[members.num_others :]
    while number + len(following) < node.low:
        following.append(pool.pop(0) if pool else left.pop(0) if left else INFINITE)
    if members.is_due and not following:
        following.append(pool.pop(0) if pool else new[0] if new else INFINITE)
    commas = len(following) - members.is_due if following else 0
    return min(INFINITE, sum(following) + commas * COMMA + END)


@given(
    entries=st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=6),
    low=st.integers(0, 8),
    new=st.lists(st.integers(1, 20), max_size=9).map(sorted),
    num_others=st.integers(0, 2),
    is_due=st.booleans(),
    data=st.data(),
)
def test_what_is_left_is_the_cheapest_way_to_the_end(
    entries: list[tuple[int, bool]], low: int, new: list[int], num_others: int, is_due: bool, data: st.DataObject
) -> None:
    costs = [cost for cost, _ in entries]
    node = unordered([is_required for _, is_required in entries], low)
    written = data.draw(st.sets(st.sampled_from(range(len(entries))))) if entries else set()
    bits = sum(1 << index for index in written)
    members = Members(num_others, is_due=is_due)
    first = new[0] if new else INFINITE
    found = MemberCosts(node, costs, [first], [0], COMMA, END, lambda _other, _members: first, [Words(new)])
    assert found.left(bits, members) == plainly(costs, node, new, written, members)
    indexes = [index for index in range(len(entries)) if index not in written]
    assert found.left_behind(bits, members, indexes) == [
        plainly(costs, node, new, written | {index}, members.written()) for index in indexes
    ]


def test_behind_a_comma_only_entries_are_counted_on_that_may_stand_beside_what_is_written() -> None:
    node = replace(unordered([False, False], 0), clauses=((0, 0b11),))
    found = MemberCosts(node, [1, 5], [9], [0], COMMA, END, lambda _other, _members: 9, [Words([9])])
    assert found.left(0b00, Members(is_due=True)) == 1 + END
    assert found.left(0b10, Members(is_due=True)) == 9 + END

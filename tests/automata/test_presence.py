"""Entries that may stand together: what is missing is found as trying all sets finds it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Entry, Literal, Template, Unordered
from fillengine.automata.presence import Clause, Presence, connected
from fillengine.errors import UnsatisfiableForm

NUM_ENTRIES = 5
SETS = st.integers(0, (1 << NUM_ENTRIES) - 1)
CLAUSES = st.lists(st.tuples(SETS, SETS), max_size=4)


def holds(clauses: list[Clause], written: int) -> bool:
    return all(some & written or every & ~written for some, every in clauses)


@given(CLAUSES, st.lists(st.none() | st.integers(1, 9), min_size=NUM_ENTRIES, max_size=NUM_ENTRIES), SETS)
def test_what_is_missing_is_the_cheapest_set_that_makes_all_clauses_hold(
    clauses: list[Clause], costs: list[int | None], written: int
) -> None:
    presence = Presence(clauses, costs)
    free = [i for i in range(NUM_ENTRIES) if costs[i] is not None and not written >> i & 1]
    added = [sum(1 << i for i in some) for size in range(len(free) + 1) for some in combinations(free, size)]
    ways = [way for way in added if holds(clauses, written | way)]
    found = presence.missing(written)
    if found is None:
        assert not ways
    else:
        assert holds(clauses, written | found)
        assert presence.cost(found) == min(map(presence.cost, ways))


@given(CLAUSES)
def test_groups_have_no_entry_in_common_and_all_clauses(clauses: list[Clause]) -> None:
    groups = connected(clauses)
    assert sorted(clause for group in groups for clause in group) == sorted(clauses)
    masks = [0] * len(groups)
    for number, group in enumerate(groups):
        for some, every in group:
            masks[number] |= some | every
    assert all(not a & b for a, b in combinations(masks, 2))


@given(CLAUSES, st.integers(0, 3))
def test_a_machine_writes_the_sets_whose_clauses_hold_in_any_order(clauses: list[Clause], num_required: int) -> None:
    entries = tuple(Entry(b"%d" % index, None, index < num_required) for index in range(NUM_ENTRIES))
    lead, comma, end = Literal(b"<"), Literal(b","), Literal(b">")
    node = Unordered(entries, (), 0, None, lead, comma, end, end, clauses=tuple(clauses))
    every = [sum(1 << i for i in some) for size in range(NUM_ENTRIES + 1) for some in combinations(range(5), size)]
    good = {bits for bits in every if holds(clauses, bits) and not ~bits & ((1 << num_required) - 1)}
    root = Template(node)
    if not good:
        with pytest.raises(UnsatisfiableForm):
            Machine(root)
        return
    machine = Machine(root)
    for bits in every:
        texts = [b"%d" % index for index in range(NUM_ENTRIES) if bits >> index & 1]
        for order in (texts, texts[::-1]):
            data = (b"<" if order else b"") + b",".join(order) + b">"
            assert machine.accepts(data) == (bits in good), data

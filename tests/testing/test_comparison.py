"""What the comparison with the peer counts."""

from __future__ import annotations

from hypothesis import strategies as st

from fillengine.testing import instances
from fillengine.testing.comparison import NUM_DRAWS, draws

NAMES = {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array"}}}


def test_values_are_counted_with_those_that_are_valid_and_distinct():
    found = draws(st.sampled_from([True, False, None]), {"type": "boolean"}, 0)
    assert (found.num_drawn, found.num_valid, found.num_distinct) == (3, 2, 3)


def test_instances_are_all_valid_and_rarely_the_same():
    found = draws(instances(NAMES), NAMES, 0)
    assert found.num_drawn == found.num_valid == NUM_DRAWS
    assert found.num_distinct > 0.75 * NUM_DRAWS

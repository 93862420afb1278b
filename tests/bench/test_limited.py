"""Nothing that one piece of work does holds up the others."""

from __future__ import annotations

from limited_work import answer

from fillengine.bench.limited import Unfinished, run_limited


def test_a_piece_that_hangs_or_dies_is_named_and_the_others_are_done() -> None:
    tasks = ["first", "hang", "die", "last"]
    found = dict(run_limited(answer, tasks, jobs=2, seconds=1.0))
    assert found == {
        "first": "first",
        "hang": Unfinished("not done in 1 seconds", "begun hang", 1.0),
        "die": Unfinished("its process ended with code 3", "begun die", None),
        "last": "last",
    }


def test_no_work_needs_no_process() -> None:
    assert list(run_limited(answer, [], jobs=2, seconds=1.0)) == []

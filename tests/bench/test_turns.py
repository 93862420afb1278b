"""Turns on disk survive interruptions, and are never mixed with another measurement's."""

from __future__ import annotations

import pytest
from bench_tiny import RECORDS, Pretender, answer

from fillengine.bench.contenders import Setting
from fillengine.bench.generate import run
from fillengine.bench.passes import PassLog
from fillengine.bench.turns import TurnLog, TurnRow
from fillengine.errors import DocumentError

HEADER = {"seed": 0, "ways": ["off"]}
SETTING = Setting(num_records=1)
ROW = TurnRow("batch 1", "off", 0, ["one"], 1.0, 0.25, 0.5, 7, [(1, 4, 256)], [answer(1, 2, proposed=3)])


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "turns.jsonl"
    log = TurnLog.open(path, HEADER, resume=False)
    log.add(ROW)
    log.close()
    assert TurnLog.open(path, HEADER, resume=True).rows == [ROW]


def test_a_torn_last_line_is_cut_off_and_the_turn_made_again(tmp_path):
    path = tmp_path / "turns.jsonl"
    log = TurnLog.open(path, HEADER, resume=False)
    log.add(ROW)
    log.add(ROW)
    log.close()
    path.write_bytes(path.read_bytes()[:-5])
    log = TurnLog.open(path, HEADER, resume=True)
    assert log.rows == [ROW]
    log.add(ROW)
    log.close()
    assert TurnLog.open(path, HEADER, resume=True).rows == [ROW, ROW]


def test_turns_are_never_overwritten_or_mixed(tmp_path):
    path = tmp_path / "turns.jsonl"
    log = TurnLog.open(path, HEADER, resume=False)
    log.add(ROW)
    log.close()
    with pytest.raises(DocumentError, match="go on with --resume, or remove it"):
        TurnLog.open(path, HEADER, resume=False)
    with pytest.raises(DocumentError, match="its seed is 0, and here it is 1"):
        TurnLog.open(path, {**HEADER, "seed": 1}, resume=True)
    path.write_text("nothing of the kind\n")
    with pytest.raises(DocumentError, match="holds no turns"):
        TurnLog.open(path, HEADER, resume=True)


def test_a_measurement_that_is_refused_leaves_no_file(tmp_path):
    TurnLog.open(tmp_path / "turns.jsonl", HEADER, resume=False).close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DocumentError, match="there is no folder"):
        TurnLog.open(tmp_path / "nowhere" / "turns.jsonl", HEADER, resume=False)


def test_contenders_take_turns_and_none_is_always_first():
    order = []

    class Heard(Pretender):
        def run(self, records):
            order.append((self.name, records[0][0]))
            return super().run(records)

    contenders = [Heard("A"), Heard("B")]
    run(SETTING, contenders, RECORDS, log=TurnLog({}), passes=PassLog(), num_warm_up=0)
    assert order == [("A", 0), ("B", 0), ("B", 1), ("A", 1), ("A", 2), ("B", 2), ("B", 3), ("A", 3)]


def test_warming_up_leaves_no_turn_behind():
    log = TurnLog({})
    contender = Pretender("A")
    run(SETTING, [contender], RECORDS, log=log, passes=PassLog(), num_warm_up=2)
    assert contender.heard == [[0], [0], [0], [1], [2], [3]]
    assert [row.first for row in log.rows] == [0, 1, 2, 3]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    path = tmp_path / "turns.jsonl"
    log = TurnLog.open(path, HEADER, resume=False)
    with pytest.raises(KeyboardInterrupt):
        run(SETTING, [Pretender("A"), Pretender("B", fails_at=2)], RECORDS, log=log, passes=PassLog(), num_warm_up=0)
    log.close()
    log = TurnLog.open(path, HEADER, resume=True)
    contenders = [Pretender("A"), Pretender("B")]
    run(SETTING, contenders, RECORDS, log=log, passes=PassLog(), num_warm_up=0)
    log.close()
    assert [contender.heard for contender in contenders] == [[[3]], [[2], [3]]]
    for name in ("A", "B"):
        assert [row.ids for row in log.of(SETTING.name, name)] == [["one"], ["two"], ["three"], ["four"]]


def test_records_of_a_turn_are_answered_together():
    contender = Pretender("A")
    run(Setting(2, num_records=3), [contender], RECORDS, log=TurnLog({}), passes=PassLog(), num_warm_up=0)
    assert contender.heard == [[0, 1, 2], [3]]

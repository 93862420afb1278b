"""The soak finds what it looks for, and finds nothing in this engine."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from fillengine.bench.soak import faults_of, rows_of, run_wave, soak, tiny_engine
from fillengine.generation.result import Result
from fillengine.generation.service import Service


@pytest.mark.parametrize("planner_processes", [0, 2])
def test_waves_with_cancellations_and_failures_lose_no_row_and_count_exactly(planner_processes):
    found = soak(minutes=0, num_rows=40, max_rows=4, seed=3, planner_processes=planner_processes)
    assert found["faults"] == []
    assert all(sum(wave["ends"].values()) == 40 and wave["open"] == 0 for wave in found["waves"])
    ends = {end for wave in found["waves"] for end in wave["ends"]}
    assert ends == {"finished", "cancelled", "failed", "time"}
    assert json.loads(json.dumps(found))["stats"]["proposed_by"]


@pytest.fixture(scope="module")
def wave():
    """Rows that all finish, their tokens alone, and the accounts before and behind them."""
    engine = tiny_engine()
    rng = random.Random(1)
    rows = rows_of(engine, 6, rng)
    alone = engine.run([replace(row.request, fill="off") for row in rows], batch_size=1)
    expected = {index: outcome.token_ids for index, outcome in alone if isinstance(outcome, Result)}
    with Service(engine, max_rows=3) as service:
        for row in rows:
            row.fate = "finish"
        before = replace(service.stats)
        run_wave(service, rows, rng)
        after = replace(service.stats)
    return rows, expected, before, after


def test_a_wave_without_faults_has_none(wave):
    assert faults_of(*wave) == []


def test_a_row_with_other_tokens_is_a_fault(wave):
    rows, expected, before, after = wave
    assert faults_of(rows, {**expected, 2: [1, 2]}, before, after) == ["row 2 has other tokens than alone"]


def test_a_count_that_is_off_is_a_fault(wave):
    rows, expected, before, after = wave
    off = replace(after, forwards=after.forwards + 1, rows=after.rows - 1)
    assert faults_of(rows, expected, before, off) == [
        f"forwards: the service counted {off.forwards}, its rows {after.forwards}",
        "5 rows were counted of 6",
    ]

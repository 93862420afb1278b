"""Many triples of schema, vocabulary and model under the laws: some here, 20,000 by hand (see docs/testing.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fillengine
from fillengine.automata.machine import Machine
from fillengine.templates import compile
from fillengine.testing.campaign import BLOCK, FAILED, FAULTS, HELD, _done, _limited, _written, triples

NUM_TRIPLES = 500 if os.environ.get("CI") else 50


@pytest.mark.parametrize("block", range(NUM_TRIPLES // BLOCK))
def test_every_law_holds_for_the_triples_of_a_block(block: int) -> None:
    found = list(triples(block, seconds=0))
    faults = [f"{triple.outcome}: {triple.detail}\n{json.dumps(triple.schema)}" for triple in found]
    assert not [fault for triple, fault in zip(found, faults, strict=True) if triple.outcome in FAULTS]
    assert sum(triple.outcome == HELD for triple in found) > BLOCK // 3


def test_a_campaign_writes_a_line_a_triple_and_is_taken_up_where_it_was(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(Path(fillengine.__file__).parent.parent)}
    command = [sys.executable, "-m", "fillengine.testing.campaign", "--output", str(output), "--triples"]

    def run(num_triples: int) -> str:
        done = subprocess.run(
            [*command, str(num_triples)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(BLOCK)
    first = output.read_text()
    rows = [json.loads(line) for line in first.splitlines()]
    assert [(row["block"], row["index"]) for row in rows] == [(0, index) for index in range(BLOCK)]
    # What was torn by the end of a process is done again, what is whole is not.
    output.write_text(first + '{"block": 1, "ind')
    assert f"{2 * BLOCK} triples" in run(2 * BLOCK)
    assert output.read_text().startswith(first)
    assert run(2 * BLOCK) == ""


def test_what_is_torn_or_half_done_is_cut_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    rows = [json.dumps({"block": block, "index": index, "outcome": HELD}) for block in (3, 4) for index in range(BLOCK)]
    whole = "".join(f"{row}\n" for row in rows[:BLOCK])
    output.write_text(whole + "".join(f"{row}\n" for row in rows[BLOCK:-1]) + rows[-1])
    blocks, counts = _done(output)
    assert blocks == {3}
    assert counts == {HELD: BLOCK}
    assert output.read_text() == whole


def test_a_triple_is_limited_in_its_time_on_the_processor_and_not_on_the_clock() -> None:
    def work(wait: float, spend: float) -> tuple[str, str]:
        time.sleep(wait)
        begun = time.process_time()
        while time.process_time() < begun + spend:
            pass
        return HELD, ""

    assert _limited(1, lambda: work(1.5, 0)) == (HELD, "")
    outcome, detail = _limited(1, lambda: work(0, 30))
    assert outcome == FAILED
    assert "TooSlow: took more than 1 s of the processor" in detail


def test_a_value_is_looked_for_in_every_order_of_its_members() -> None:
    # Items that are compared have one order of members: declared ones first.
    schema = {"type": "array", "items": {"properties": {"a": {"type": "integer"}, "b": {}}}, "uniqueItems": True}
    machine = Machine(compile(schema, additional="schema").template)
    value = [{"x": None, "b": [{}], "a": 1}, {"a": 2}]
    assert not machine.accepts(json.dumps(value).encode())
    assert any(state.is_accepting for state in _written(machine, value))
    assert not _written(machine, [{"a": "text"}])

"""Many triples of schema, vocabulary and model under the laws: some here, 20,000 by hand (see docs/testing.md)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fillengine
from fillengine.testing.campaign import BLOCK, FAULTS, HELD, triples

NUM_TRIPLES = 100 if os.environ.get("CI") else 50


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

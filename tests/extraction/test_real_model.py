"""The law of same tokens, and valid answers, with the default model and real documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def engine() -> Any:
    from fillengine import load

    return load("smollm2")


def answers(engine: Any, document: str, schema: dict[str, Any], **options: Any) -> list[Any]:
    return [
        next(engine.extract([document], schema, fill=fill, max_tokens=400, **options))
        for fill in ("off", "assert", "auto")
    ]


@pytest.mark.model
@pytest.mark.parametrize("kind", ["debian", "python", "changelog"])
def test_a_record_gets_the_same_tokens_with_every_way_of_filling(engine: Any, shared: Path, kind: str) -> None:
    lines = (shared / "data/extraction/dev.jsonl").read_text(encoding="utf-8").splitlines()
    record = next(record for record in map(json.loads, lines) if record["kind"] == kind)
    off, asserted, auto = answers(engine, record["document"], record["schema"])
    assert off.token_ids == asserted.token_ids == auto.token_ids
    assert set(off.value) == set(record["truth"])
    assert asserted.stats.forwards < off.stats.forwards
    assert asserted.stats.asserted > 0


@pytest.mark.model
def test_a_shipped_document_gets_the_same_tokens_at_a_temperature_too(engine: Any) -> None:
    document = (DOCS / "fault-report.txt").read_text(encoding="utf-8")
    schema = json.loads((DOCS / "fault-report.schema.json").read_text(encoding="utf-8"))
    off, asserted, auto = answers(engine, document, schema, temperature=0.8, seed=7)
    assert off.token_ids == asserted.token_ids == auto.token_ids

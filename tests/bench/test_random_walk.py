"""A random model writes valid texts of every schema, within every budget that can hold one."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from vocabularies import byte_level_tokenizer

from fillengine.bench import random_walk
from fillengine.bench.random_text import Limits, Outcome, Walk, walk
from fillengine.bench.random_walk import read_schemas
from fillengine.fill.guard import DEFAULT_GUARD
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer

SCHEMAS = {
    "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
    "refused": {"$dynamicRef": "https://example.org/elsewhere"},
    "none": {"allOf": [{"type": "string"}, {"type": "null"}]},
    "long": {"type": "string", "minLength": 3000},
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    from fillengine.generation.models import model_folder

    return read_tokenizer(model_folder("smollm2"))


@pytest.fixture(scope="module")
def sample(shared: Path) -> dict[str, Any]:
    return read_schemas(shared / "data/jsonschemabench/sample.jsonl.gz")


def written(name: str, schema: Any, tokenizer: Tokenizer, limits: Limits) -> Walk:
    found = walk(schema, tokenizer, Random(name), limits, lambda _: None)
    assert found.outcome.is_fine, f"{name}: {found}"
    return found


@pytest.mark.model
def test_random_texts_of_schemas_in_the_wild_are_valid(sample: dict[str, Any], tokenizer: Tokenizer) -> None:
    for name in list(sample)[::60]:
        assert written(name, sample[name], tokenizer, Limits(budget=600)).tokens <= 600


@pytest.mark.model
def test_a_budget_at_the_shortest_text_is_kept(sample: dict[str, Any], tokenizer: Tokenizer) -> None:
    for number, name in enumerate(list(sample)[20::80]):
        found = written(name, sample[name], tokenizer, Limits(slack=number % 6, guard=DEFAULT_GUARD))
        assert found.fewest is None or found.tokens <= found.fewest + number % 6


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    (tmp_path / "schemas.jsonl.gz").write_bytes(
        gzip.compress(
            b"".join(json.dumps({"name": name, "schema": schema}).encode() + b"\n" for name, schema in SCHEMAS.items())
        )
    )
    byte_level_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')

    def main(*options: str) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        output = tmp_path / "rows.jsonl"
        paths = [str(tmp_path / "schemas.jsonl.gz"), str(tmp_path), "--output", str(output)]
        monkeypatch.setattr(sys, "argv", ["random_walk", *paths, *options])
        code = random_walk.main()
        return code, json.loads(capsys.readouterr().out), [json.loads(line) for line in output.read_text().splitlines()]

    return main


def test_each_schema_has_its_outcome_and_a_second_run_does_what_is_missing_alike(run: Any, tmp_path: Path) -> None:
    code, summary, rows = run("--seeds", "2")
    assert code == 0
    assert summary["texts"] == len(rows) == 8
    assert summary["counts"] == {"valid": 2, "refused": 2, "unsatisfiable": 2, "budget too small": 2}
    assert summary["wrong"] == []
    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:-9])
    _, again, resumed = run("--seeds", "2")
    assert again["counts"] == summary["counts"]
    assert [{**row, "seconds": 0} for row in resumed] == [{**row, "seconds": 0} for row in rows]


def test_a_budget_below_the_shortest_text_is_an_error_with_both_numbers() -> None:
    tokenizer = read_tokenizer(byte_level_tokenizer())
    found = walk(SCHEMAS["long"], tokenizer, Random(0), Limits(), lambda _: None)
    assert found.outcome is Outcome.BUDGET_TOO_SMALL
    assert found.fewest is not None
    assert found.fewest > 2_000
    assert f"max_tokens is 2000, but the shortest text of this form may take {found.fewest} tokens" in found.detail

"""Verdicts over schemas, and what counts as the time of a mask."""

from __future__ import annotations

import gzip
import json
import time

import bench_tiny
import pytest

from fillengine.bench import hard_schemas
from fillengine.bench.hard_schemas import HARD_SCHEMAS
from fillengine.bench.mask_engines import mask_engines
from fillengine.bench.masks import Case, Judgement, figures, judge, judge_all, percentiles, read_cases
from fillengine.errors import DocumentError, ModelError
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.templates import compile

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture(scope="module")
def tokenizer():
    return read_tokenizer(bench_tiny.tiny_loaded().tokenizer)


@pytest.fixture(scope="module")
def engines(tokenizer):
    pytest.importorskip("llguidance", reason="the extra `bench` is not installed: no peers here")
    return mask_engines(("llguidance",), bench_tiny.tiny_loaded().tokenizer._tokenizer, tokenizer)


def _case(*tests, schema=SCHEMA):
    return Case("case", schema, [{"data": data, "valid": is_valid} for data, is_valid in tests])


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (_case(({"n": 1}, True), ({"n": "1"}, False), ({}, False)), "right"),
        (_case(({"n": "1"}, True)), "too narrow"),
        (_case(({"n": 1}, False)), "too wide"),
        (_case(), "right"),
        (_case(("aa", True), schema={"type": "string", "pattern": r"^(a)\1$"}), "refused"),
    ],
)
def test_every_engine_is_judged_alike(engines, tokenizer, case, verdict):
    for engine in engines:
        assert judge(engine, case, tokenizer.encoder.encode, max_seconds=60).verdict == verdict


class Engine:
    """Does something else than compile."""

    def __init__(self, name, compile):
        self.name = name
        self.compile = compile


def _slow(_schema):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pass


def _broken(_schema):
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("compile", "verdict", "detail"),
    [(_slow, "time-out", "more than 0.05 seconds"), (_broken, "crash", "ZeroDivisionError: by nothing")],
)
def test_an_engine_that_fails_is_judged_too(compile, verdict, detail):
    found = judge(Engine("A", compile), _case(), list, max_seconds=0.05)
    assert (found.verdict, found.detail) == (verdict, detail)


def test_the_engine_that_begins_changes_from_schema_to_schema():
    engines = [Engine("A", _broken), Engine("B", _broken)]
    found = list(judge_all(engines, [_case(), _case(), _case()], list, max_seconds=1))
    assert [one.engine for one in found] == ["A", "B", "B", "A", "A", "B"]


def test_ratios_are_over_the_schemas_that_both_get_right():
    judgements = [
        Judgement("one", "A", "right", "", 100.0, [10.0, 30.0]),
        Judgement("one", "B", "right", "", 300.0, [20.0]),
        Judgement("two", "A", "right", "", 1.0, [1.0]),
        Judgement("two", "B", "refused", "no"),
    ]
    first, second = figures(judgements, ["A", "B"])
    assert first["verdicts"]["right"] == 2
    assert second["verdicts"] == {**dict.fromkeys(second["verdicts"], 0), "right": 1, "refused": 1}
    assert second["times_of_first"]["schemas"] == 1
    assert second["times_of_first"]["first_mask"]["total"] == 3.0
    assert second["times_of_first"]["masks"]["median"] == 0.5
    assert second["not_right"] == [{"name": "two", "verdict": "refused", "detail": "no"}]


def test_percentiles_of_nothing_and_of_one():
    assert percentiles([]) == {"count": 0}
    assert percentiles([2.0]) == {"count": 1, "mean": 2.0, "p50": 2.0, "p90": 2.0, "p99": 2.0, "max": 2.0}


def test_cases_are_read_from_plain_and_compressed_lines(tmp_path):
    line = json.dumps({"name": "one", "schema": SCHEMA}) + "\n"
    plain, packed = tmp_path / "cases.jsonl", tmp_path / "cases.jsonl.gz"
    plain.write_text(line * 3)
    packed.write_bytes(gzip.compress((line * 3).encode()))
    assert len(read_cases(plain)) == len(read_cases(packed)) == 3
    assert len(read_cases(packed, limit=2)) == 2
    plain.write_text("{}\n")
    with pytest.raises(DocumentError, match="each line needs name, schema, tests"):
        read_cases(plain)
    with pytest.raises(DocumentError, match="give JSONSchemaBench's mask data"):
        read_cases(tmp_path / "nothing")


def test_a_peer_without_masks_is_named(tokenizer):
    with pytest.raises(ModelError, match="there is no peer outlines; there is llguidance"):
        mask_engines(("outlines",), None, tokenizer)


@pytest.mark.parametrize("hard", HARD_SCHEMAS, ids=lambda hard: hard.name)
def test_the_instance_of_a_hard_schema_is_valid_and_no_two_are_alike(hard):
    schema, value = hard.make(1)
    compile(schema).validate(json.dumps(value))
    assert hard.make(2)[0] != schema


def test_hard_schemas_are_measured_or_say_why_not(engines, tokenizer, monkeypatch):
    monkeypatch.setattr(hard_schemas, "HARD_SCHEMAS", HARD_SCHEMAS[1:2])
    contenders = [*engines, Engine("broken", _broken), Engine("slow", _slow)]
    rows = hard_schemas.measure(contenders, tokenizer.encoder.encode, repeat=2, max_seconds=3)
    by_engine = {row["engine"]: row for row in rows}
    assert by_engine["fillengine"]["first_mask_ms"]["median"] > 0
    assert by_engine["llguidance"]["problem"] is None
    assert by_engine["broken"]["problem"] == "ZeroDivisionError: by nothing"
    assert by_engine["slow"]["problem"] == "more than 3 seconds"

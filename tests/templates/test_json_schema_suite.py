"""Conformance: the JSON Schema Test Suite, and real schemas of JSONSchemaBench. What is refused is refused by name."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from json_schema_suite import COUNTS, DRAFTS, EXCEPTIONS, Verdict, counted, reason_of, verdicts

from fillengine.automata.machine import Machine
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile

pytestmark = pytest.mark.filterwarnings("ignore::fillengine.templates.scalars.FormWarning")

_verdicts: dict[str, list[Verdict]] = {}


@pytest.fixture(params=DRAFTS)
def draft(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def found(shared: Path, draft: str) -> list[Verdict]:
    if draft not in _verdicts:
        _verdicts[draft] = list(verdicts(shared / "data" / "json-schema-test-suite", draft))
    return _verdicts[draft]


def place(document: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) names. KeyError or IndexError where it names nothing."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


def assert_is_named(error: UnsupportedForm, schema: Any) -> None:
    """A refusal names a keyword, a place of the schema, and what to do."""
    assert error.keyword, error
    if error.pointer.startswith("/"):  # in a meta-schema it is a reference to it instead
        place(schema, error.pointer)
    assert error.remedy, error


def test_the_verdicts_of_the_suite_are_those_of_the_documentation(found: list[Verdict], draft: str) -> None:
    committed = json.loads(COUNTS.read_text("utf-8"))[draft]
    for file, counts in counted(found).items():
        before = committed.get(file, {"passed": 0, "refused": 0, "wrong": 0})
        assert counts["passed"] >= before["passed"], f"{file}: fewer tests pass than before"
        assert counts["wrong"] <= before["wrong"], f"{file}: more verdicts are wrong than before"
    assert counted(found) == committed, "it got better: run tests/templates/json_schema_suite.py, then `make docs`"


def test_a_verdict_other_than_the_suites_is_in_the_list_with_its_reason(found: list[Verdict]) -> None:
    exceptions = json.loads(EXCEPTIONS.read_text("utf-8"))
    wrong = [verdict for verdict in found if verdict.outcome == "wrong"]
    assert [verdict.name for verdict in wrong if reason_of(verdict, exceptions) is None] == []


def test_no_instance_that_the_suite_calls_invalid_can_be_written(found: list[Verdict]) -> None:
    assert [v.name for v in found if v.is_looser and not v.name.startswith("optional/content: ")] == []


def test_every_refusal_of_the_suite_names_place_and_keyword(found: list[Verdict]) -> None:
    for verdict in found:
        if verdict.refusal is not None:
            assert_is_named(verdict.refusal, verdict.schema)


def sample(shared: Path) -> list[dict[str, Any]]:
    path = shared / "data" / "jsonschemabench" / "sample.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def test_every_refusal_of_the_sample_names_place_and_keyword(shared: Path) -> None:
    rows = sample(shared) if os.environ.get("CI") else sample(shared)[::10]
    for row in rows:
        try:
            compile(row["schema"], additional="schema")
        except UnsupportedForm as error:
            assert_is_named(error, row["schema"])


def test_real_schemas_are_honoured_exactly_or_refused(shared: Path) -> None:
    rows = sample(shared)[::12]
    counts: Counter[str] = Counter()
    for row in rows:
        try:
            machine = Machine(compile(row["schema"], additional="schema").template)
        except UnsatisfiableForm:
            assert not any(test["valid"] for test in row["tests"]), row["name"]
            counts["correct"] += 1
            continue
        except UnsupportedForm:
            continue
        verdicts = []
        for test in row["tests"]:
            is_accepted = machine.accepts(json.dumps(test["data"], ensure_ascii=False).encode())
            assert test["valid"] or not is_accepted, (row["name"], test["data"])
            verdicts.append(is_accepted == test["valid"])
        counts["correct" if all(verdicts) else "over"] += 1
    assert counts["correct"] >= 0.97 * len(rows), counts

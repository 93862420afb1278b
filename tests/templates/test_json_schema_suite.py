"""Conformance: the JSON Schema Test Suite, and real schemas of JSONSchemaBench. What is refused is refused by name."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fillengine.automata.machine import Machine
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import compile

pytestmark = pytest.mark.filterwarnings("ignore::fillengine.templates.scalars.FormWarning")

DRAFT7 = "http://json-schema.org/draft-07/schema#"

# Groups with instances that the suite calls invalid and the form allows.
EXCEPTIONS = {
    # The content keywords are annotations; "optional" tests assert them.
    ("draft7", "optional/content.json"),
}

# Verdicts that agree with the suite, and groups that are refused. To be ratcheted: more right, fewer refused.
RIGHT = {"draft2020-12": 1745, "draft7": 1510}
REFUSED = {"draft2020-12": 99, "draft7": 14}


def groups(folder: Path, draft: str) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    for path in sorted((folder / draft).rglob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            schema = group["schema"]
            if draft == "draft7" and isinstance(schema, dict):
                schema = {"$schema": DRAFT7, **schema}
            yield str(path.relative_to(folder / draft)), schema, group["tests"]


@pytest.mark.parametrize("draft", ["draft2020-12", "draft7"])
def test_no_instance_that_the_suite_calls_invalid_can_be_written(shared: Path, draft: str) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    refusals: list[tuple[str, UnsupportedForm]] = []
    for name, schema, tests in groups(shared / "data" / "json-schema-test-suite", draft):
        try:
            machine = Machine(compile(schema, additional="schema").template)
        except UnsupportedForm as error:
            refusals.append((name, error))
            continue
        except UnsatisfiableForm:
            assert not any(test["valid"] for test in tests), name
            counts["right"] += len(tests)
            continue
        for test in tests:
            try:
                text = json.dumps(test["data"], ensure_ascii=False).encode()
            except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
                continue
            is_accepted = machine.accepts(text)
            counts["right" if is_accepted == test["valid"] else "over"] += 1
            if is_accepted and not test["valid"] and (draft, name) not in EXCEPTIONS:
                wrong.append((name, test["description"], text))
    assert wrong == []
    assert all(error.keyword for _, error in refusals)
    assert counts["right"] >= RIGHT[draft], counts
    assert len(refusals) <= REFUSED[draft], counts


def test_real_schemas_are_honoured_exactly_or_refused_by_pointer_and_keyword(shared: Path) -> None:
    path = shared / "data" / "jsonschemabench" / "sample.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 12 == 0]
    counts: Counter[str] = Counter()
    refusals = []
    for row in rows:
        try:
            machine = Machine(compile(row["schema"], additional="schema").template)
        except UnsupportedForm as error:
            refusals.append((row["name"], error))
            continue
        except UnsatisfiableForm:
            assert not any(test["valid"] for test in row["tests"]), row["name"]
            counts["correct"] += 1
            continue
        verdicts = []
        for test in row["tests"]:
            is_accepted = machine.accepts(json.dumps(test["data"], ensure_ascii=False).encode())
            assert test["valid"] or not is_accepted, (row["name"], test["data"])
            verdicts.append(is_accepted == test["valid"])
        counts["correct" if all(verdicts) else "over"] += 1
    assert all(error.keyword and error.pointer.startswith("/") for _, error in refusals), refusals
    assert counts["correct"] >= 0.97 * len(rows), counts

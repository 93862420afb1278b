"""The JSON Schema Test Suite against the compiler: a verdict for each of its tests, and counts by file.

    python tests/templates/json_schema_suite.py ../shared/data/json-schema-test-suite

writes docs/json-schema-suite.json.

A text is judged as `json.dumps` writes the instance. `passed`: the form allows it where the suite calls it valid and
forbids it where not. `refused`: the schema is refused, by pointer and keyword. `wrong`: anything else.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fillengine.automata.machine import Machine
from fillengine.errors import UnsatisfiableForm, UnsupportedForm
from fillengine.templates import FormWarning, compile

DOCS = Path(__file__).resolve().parents[2] / "docs"
COUNTS = DOCS / "json-schema-suite.json"
EXCEPTIONS = DOCS / "json-schema-exceptions.json"

DRAFTS = {"draft2020-12": None, "draft7": "http://json-schema.org/draft-07/schema#"}
OUTCOMES = ("passed", "refused", "wrong")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`is_looser`: an instance that the suite calls invalid can be written. `refusal`: why the schema is refused."""

    file: str
    group: str
    test: str
    outcome: str
    is_looser: bool = False
    refusal: UnsupportedForm | None = None
    schema: Any = None

    @property
    def name(self) -> str:
        return f"{self.file}: {self.group}: {self.test}"


def verdicts(suite: Path, draft: str) -> Iterator[Verdict]:
    for path in sorted((suite / draft).rglob("*.json")):
        file = path.relative_to(suite / draft).as_posix().removesuffix(".json")
        for group in json.loads(path.read_text("utf-8")):
            schema = group["schema"]
            if DRAFTS[draft] is not None and isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            yield from _judged(file, group["description"], schema, group["tests"])


def _judged(file: str, group: str, schema: Any, tests: list[dict[str, Any]]) -> Iterator[Verdict]:
    machine = None
    try:
        machine = Machine(compile(schema, additional="schema").template)
    except UnsatisfiableForm:
        pass
    except UnsupportedForm as error:
        for test in tests:
            yield Verdict(file, group, test["description"], "refused", refusal=error, schema=schema)
        return
    for test in tests:
        try:
            text = json.dumps(test["data"], ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8, but an escape
            text = json.dumps(test["data"]).encode()
        is_accepted = machine is not None and machine.accepts(text)
        outcome = "passed" if is_accepted == test["valid"] else "wrong"
        yield Verdict(file, group, test["description"], outcome, is_looser=is_accepted and not test["valid"])


def reason_of(verdict: Verdict, exceptions: list[dict[str, Any]]) -> str | None:
    """The reason that the list of exceptions gives for a verdict; None: it is not expected."""
    for exception in exceptions:
        for tests in exception["tests"]:
            if verdict.name == tests or (tests.endswith("*") and verdict.name.startswith(tests[:-1])):
                return str(exception["reason"])
    return None


def counted(found: list[Verdict]) -> dict[str, dict[str, int]]:
    """file -> {passed, refused, wrong}"""
    counts: dict[str, Counter[str]] = {}
    for verdict in found:
        counts.setdefault(verdict.file, Counter())[verdict.outcome] += 1
    return {file: {outcome: count[outcome] for outcome in OUTCOMES} for file, count in counts.items()}


def written(table: dict[str, dict[str, dict[str, int]]]) -> str:
    """As JSON, one line a file of the suite."""
    drafts = []
    for draft, counts in table.items():
        lines = ",\n".join(f"  {json.dumps(file)}: {json.dumps(count)}" for file, count in counts.items())
        drafts.append(f" {json.dumps(draft)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(drafts) + "\n}\n"


def main() -> None:
    warnings.simplefilter("ignore", FormWarning)
    suite = Path(sys.argv[1])
    COUNTS.write_text(written({draft: counted(list(verdicts(suite, draft))) for draft in DRAFTS}), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The failures that users of constrained decoding have reported, from the data beside the checkout (see its README)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "field-cases" / "cases.jsonl"
CASES: dict[str, dict[str, Any]] = {}
if FILE.is_file():
    with FILE.open(encoding="utf-8") as lines:
        CASES = {case["id"]: case for case in map(json.loads, lines)}


def case(name: str) -> dict[str, Any]:
    if name not in CASES:
        pytest.skip("no folder `shared` beside the checkout: the field cases are not here")
    return CASES[name]


def of_kind(*kinds: str) -> list[Any]:
    """The cases of some kinds; one that is skipped where the data is absent."""
    names = [name for name, row in CASES.items() if row["kind"] in kinds]
    return names or ["absent"]

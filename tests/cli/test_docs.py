"""The generated pages and the shipped examples are held to the code."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_generated_pages_are_up_to_date():
    pages = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    stale = [name for name, text in pages.items() if (DOCS / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


@pytest.mark.parametrize("schema", sorted((DOCS / "examples").glob("*.schema.json")), ids=lambda path: path.name)
def test_shipped_schemas_are_valid_and_compile(schema):
    from fillengine.templates import compile

    form = json.loads(schema.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(form)
    compile(form)
    assert schema.with_name(schema.name.replace(".schema.json", ".txt")).is_file()


def test_every_keyword_that_is_read_is_in_the_support_statement():
    from fillengine.templates.reading import KEYWORDS
    from fillengine.templates.support import SUPPORT

    assert set(SUPPORT) == set(KEYWORDS)

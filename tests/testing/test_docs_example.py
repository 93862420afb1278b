"""The code of docs/testing.md runs, and says what the page says."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parent.parent.parent / "docs" / "testing.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Everything that the page's code defines."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = "\n".join(blocks).replace("examples=20", "examples=1")
    # What the mark does is shown by test_plugin.py, in a process of its own.
    code = code.replace("@pytest.mark.fillengine(form=Note, examples=1)\n", "")
    file = tmp_path_factory.mktemp("page") / "page_of_docs.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatched = pytest.MonkeyPatch()
    monkeypatched.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    yield vars(module)
    monkeypatched.undo()


def test_the_failing_test_fails_with_the_instance_that_the_page_names(page: dict[str, Any]) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        page["test_every_note_has_a_mean"]()
    notes = "\n".join(caught.value.__notes__)
    assert "Note(supplier='', status='open', lines=[])" in notes
    assert "Note(supplier='', status='open', lines=[])" in PAGE


def test_the_other_tests_of_the_page_pass(page: dict[str, Any]) -> None:
    page["test_a_note_is_read"]()
    page["test_the_prompt_says_whose_note_it_is"]()
    page["test_notes_are_written"](page["RandomModel"]().engine())


def test_the_laws_of_the_page_are_those_that_are_checked() -> None:
    package = Path(__file__).parent.parent.parent / "fillengine" / "testing"
    source = (package / "laws.py").read_text() + (package / "rows.py").read_text()
    found = set(re.findall(r'LawViolation(?:\.at)?\(\s*(?:session, |again, )?"([A-Z][a-z ]+)"', source))
    named = set(re.findall(r"^\| ([A-Z][a-z ]+) \|", PAGE, re.MULTILINE))
    assert found == named

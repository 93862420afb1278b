"""The pytest plugin and the command, each in a process of its own as users run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fillengine

MODULE = """
import pydantic
import pytest


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0, le=120)


@pytest.mark.fillengine(form=Person, examples=2)
def test_people_are_read(fill_model):
    assert isinstance(fill_model.generate("Who?", Person, max_tokens=120).value, Person)


@pytest.mark.fillengine(forms=Person)
def test_with_a_wrong_mark():
    pass
"""
BROKEN = """
import pytest
from fillengine.fill.place import Place
from fillengine.fill.session import Session

Session._find_place = lambda self: Place(self.constraint.masks, self.state, None, None)


@pytest.mark.fillengine(form={"type": "string"})
def test_of_a_broken_engine():
    pass
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(fillengine.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    command = [sys.executable, "-W", "ignore", "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_mark_holds_the_laws_for_its_form_and_the_fixture_writes_it(tmp_path: Path) -> None:
    (tmp_path / "test_people.py").write_text(MODULE)
    done = run(tmp_path, "pytest", "-p", "fillengine.testing.plugin", "--strict-markers", "--fill-seed", "4")
    assert "fillengine: --fill-seed=4" in done.stdout
    assert "the mark fillengine takes no forms; it takes form, tokenizer," in done.stdout
    assert "1 passed, 1 error" in done.stdout


def test_a_violation_is_the_whole_report_of_a_failing_test(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    done = run(tmp_path, "pytest", "-p", "fillengine.testing.plugin")
    assert done.returncode == 1
    assert "Always closes: " in done.stdout
    assert "again with  check_form(..., seed=0, example=" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["form.json", "--examples", "2"], 0, "2 examples: every law held in 4 random texts and "),
        (["none.json"], 2, "fillengine: error: none.json: "),
        (["form.json", "--tokenizer", "nowhere"], 2, "no tokenizer there"),
        (["form.json", "--tokenizer", "x", "--model", "y"], 2, "--tokenizer goes without --model"),
    ],
)
def test_the_command_says_what_it_found(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / "form.json").write_text('{"type": "object", "properties": {"a": {"type": "boolean"}}}')
    done = run(tmp_path, "fillengine", "check", *arguments)
    assert done.returncode == code
    assert said in (done.stdout if code == 0 else done.stderr)
    assert "Traceback" not in done.stderr

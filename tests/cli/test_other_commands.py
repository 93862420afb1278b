"""`fillengine models`, `doctor`, `inspect` and the program itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fillengine
from fillengine.errors import ModelError

KNOWN = "fillengine.generation.models.known_models"


@pytest.fixture
def models(line, monkeypatch):
    from fillengine.generation.models import KnownModel

    here = KnownModel("here", line.folder, 98_000_000, "Apache-2.0", "A model")
    away = KnownModel("away", None, 98_000_000, "MIT", "Another model")
    monkeypatch.setattr(KNOWN, lambda: [here, away])


def test_models_are_listed_with_license_and_place(line, models):
    result = line.run("models")
    assert result.exit_code == 0
    assert [row.split("\t") for row in result.stdout.splitlines()] == [
        ["here", "Apache-2.0", "A model", str(line.folder)],
        ["away", "MIT", "Another model", "not fetched yet (98 MB)"],
    ]


def test_path_prints_the_folder_alone(line, monkeypatch):
    monkeypatch.setattr("fillengine.generation.models.model_folder", lambda name: Path("/models") / name)
    result = line.run("models", "path", "small")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "/models/small\n", "")


def test_fetch_says_where_the_model_is_on_standard_error(line, monkeypatch):
    monkeypatch.setattr("fillengine.generation.models.model_folder", lambda name: Path("/models") / name)
    result = line.run("models", "fetch", "small")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "fillengine: small is in /models/small\n"


def test_a_model_that_cannot_be_fetched_is_one_line(line, monkeypatch):
    def model_folder(name):
        raise ModelError(f"{name}: no network;\nconnect and try again")

    monkeypatch.setattr("fillengine.generation.models.model_folder", model_folder)
    result = line.run("models", "fetch", "small")
    assert result.exit_code == 2
    assert result.stderr == "fillengine: error: small: no network; connect and try again\n"


def test_doctor_shows_findings_and_advice(line, monkeypatch):
    from fillengine.generation.doctor import Finding

    findings = [Finding("device", "CPU"), Finding("BLAS", "none", "install one")]
    monkeypatch.setattr("fillengine.generation.doctor.examine", lambda: findings)
    result = line.run("doctor")
    assert result.stdout.splitlines() == ["device  CPU", "BLAS    none", "        -> install one"]


class TestInspect:
    def test_it_shows_the_template_with_a_legend_and_counts(self, line, models, monkeypatch):
        monkeypatch.setattr(KNOWN, list)
        result = line.run("inspect", "word.json")
        assert result.exit_code == 0
        assert result.stdout.splitlines()[0].startswith("asserted text")
        assert '{"word": ⟨string⟩' in result.stdout
        assert result.stdout.splitlines()[-1] == "10 bytes of asserted text, 1 hole"

    def test_tokens_are_counted_with_the_tokenizer_of_a_folder(self, line):
        line.engine.tokenizer.save(str(line.folder / "tokenizer.json"))
        result = line.run("inspect", "word.json", "--model", str(line.folder))
        assert "10 bytes of asserted text (about 8 tokens of" in result.stdout

    def test_a_folder_without_a_tokenizer_is_told_before_anything_is_shown(self, line):
        result = line.run("inspect", "word.json", "--model", str(line.folder))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "its tokenizer cannot be read" in result.stderr

    def test_the_style_changes_the_asserted_text(self, line, monkeypatch):
        monkeypatch.setattr(KNOWN, list)
        assert '{"word":⟨' in line.run("inspect", "word.json", "--style", "compact").stdout

    def test_formats_are_named(self, line, monkeypatch):
        monkeypatch.setattr(KNOWN, list)
        schema = {"type": "object", "properties": {"on": {"type": "string", "format": "date"}}, "required": ["on"]}
        assert '{"on": ⟨date, like "' in line.run("inspect", line.write("d.json", json.dumps(schema))).stdout

    def test_ranges_are_named_where_their_expression_would_be_long(self, line, monkeypatch):
        monkeypatch.setattr(KNOWN, list)
        schema = {"type": "integer", "minimum": 17, "maximum": 4321}
        assert "⟨from 17 to 4321, like " in line.run("inspect", line.write("n.json", json.dumps(schema))).stdout

    def test_a_bad_schema_is_one_line(self, line):
        result = line.run("inspect", line.write("bad.json", "{"))
        assert result.exit_code == 2
        assert result.stderr.startswith("fillengine: error: bad.json: not JSON: ")


def test_without_a_command_the_help_is_shown(line):
    result = line.run()
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert result.stdout == line.run("--help").stdout


def test_the_version_is_printed(line):
    assert line.run("--version").stdout == f"fillengine {fillengine.__version__}\n"


def test_the_package_runs_as_a_module():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "fillengine", "--version"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"fillengine {fillengine.__version__}\n"

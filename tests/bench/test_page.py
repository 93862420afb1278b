"""The page of benchmarks says what the results say, and how each is made again."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from results import RESULTS, generate_result
from typer.main import get_command

from fillengine.bench.app import app
from fillengine.bench.page import command_line, page, read_results
from fillengine.bench.plots import draw_all, fingerprint, has_plot
from fillengine.errors import DocumentError

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "about.md").write_text("# Benchmarks\n")
    (tmp_path / "notes.md").write_text("## Notes\n")
    for name, make in RESULTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(make()))
    return tmp_path


def test_the_page_has_a_section_for_each_result_between_about_and_notes(folder):
    text = page(folder, notice="<!-- generated -->")
    assert re.findall(r"^#{1,2} .*$", text, re.M) == [
        "# Benchmarks",
        "## Extraction, end to end: smollm2, 4 bit, GPU",
        "## Writing: smollm2, 4 bit, float32, batch 2, true answers, CPU",
        "## Masks over JSONSchemaBench: CPU",
        "## Time to the first mask: CPU",
        "## Memory: smollm2, 4 bit, float32, GPU",
        "## Notes",
    ]
    assert "2 x86_64 cores, mkl; Linux, Python 3.11.2" in text
    assert "NVIDIA H200" in text
    # A table's rows have as many cells as its heading.
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_ratios_and_quartiles_are_on_the_page(folder):
    text = page(folder, notice="")
    assert "Times as fast as llguidance, batch generator" in text
    assert "| auto, verbatim | 3.00 | 3.00 (2.50 to 3.50) |" in text
    assert "Interrupted: the figures are of the turns that were made." in text


def test_the_time_of_a_round_is_on_the_page_where_it_was_measured(folder):
    text = page(folder, notice="")
    assert "| auto, verbatim | 8 | 5.0 | 0.0 | 0.0 | 0.0 | 100.0 | 0.0 | 0.0 |" in text
    for file in folder.glob("*.json"):
        file.write_text(file.read_text().replace('"round_milliseconds": {', '"was": {'))
    assert "the time of a round" not in page(folder, notice="")


@pytest.mark.parametrize("name", RESULTS)
def test_the_command_on_the_page_is_one_that_there_is(name):
    program, group, command, *arguments = shlex.split(command_line(RESULTS[name]()["measurement"]))
    assert (program, group) == ("fillengine", "bench")
    found = get_command(app).commands[command].make_context(command, arguments)
    assert found.params["peers"] is not None


def test_options_at_their_defaults_are_left_out_of_the_command():
    line = command_line(generate_result()["measurement"])
    assert line == (
        "fillengine bench generate records.jsonl --quantize 4 --ways auto --peers llguidance --batch-sizes 2 "
        "--per-kind 2 --write-truth --warm-up 0"
    )


def test_extraction_shows_the_shares_of_prefill_and_documents_a_second(folder):
    text = page(folder, notice="")
    assert (
        "|  | valid | cut | fields right | seconds | of it prefill | decode | other | passes a token | documents/s |"
        in text
    )
    assert "| auto, verbatim | 0 | 0 | 0.000 | 2.0 | 25% | 50% | 25% | 1.00 | 2.000 |" in text
    assert (
        "Times the documents a second of llguidance, batch generator: all; median and quartiles of the turns." in text
    )


def test_a_part_of_a_measurement_is_no_result_for_the_page(folder):
    (folder / "f-part.json").write_text(json.dumps({**generate_result(), "part": "1/3"}))
    with pytest.raises(DocumentError) as caught:
        read_results(folder)
    assert str(caught.value) == (
        f"{folder / 'f-part.json'}: part 1/3 of a measurement; put its parts together by merge"
    )


def test_what_is_no_result_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(DocumentError, match="not a result of fillengine bench"):
        read_results(tmp_path)


def test_plots_are_drawn_for_light_and_dark_and_the_same_each_time(folder):
    pytest.importorskip("matplotlib", reason="the extra `bench` is not installed: no plots here")
    written = draw_all(folder)
    assert {path.name for path in written} == {
        f"{name}.{theme}.svg"
        for name in ("a-generate", "b-masks", "c-compile", "e-extract")
        for theme in ("light", "dark")
    }
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in draw_all(folder)] == before
    assert 'srcset="benchmarks/a-generate.dark.svg"' in page(folder, notice="")


def test_committed_plots_are_of_the_committed_figures():
    stale = [
        f"{name}.{theme}.svg"
        for name, content in read_results(DOCS).items()
        if has_plot(content)
        for theme in ("light", "dark")
        if not (DOCS / f"{name}.{theme}.svg").is_file()
        or fingerprint(content) not in (DOCS / f"{name}.{theme}.svg").read_text(encoding="utf-8")
    ]
    assert stale == [], "run `make docs` with the extra `bench` installed"

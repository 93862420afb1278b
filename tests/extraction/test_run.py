"""Runs: rows are written one by one, and an interrupted run is taken up where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_engine import FakeResult
from hypothesis import given
from hypothesis import strategies as st

from fillengine.errors import DocumentError, FillError
from fillengine.extraction.documents import Document
from fillengine.extraction.extract import ExtractionError, Row
from fillengine.extraction.run import encode_row, open_output, resume_output, without_done


def row(index: int, name: str, text: str = "{}") -> Row:
    return Row(index, name, FakeResult(text))


def documents(*names: str) -> list[Document]:
    return [Document(name, "text") for name in names]


def test_a_row_holds_the_generated_text_letter_by_letter():
    line = encode_row(row(0, "a.txt", '{"n": 1.50, "s": "\\u00e9"}'))
    assert line == b'{"document": "a.txt", "value": {"n": 1.50, "s": "\\u00e9"}}\n'


def test_a_failed_document_gives_its_reason_without_its_name_twice():
    failed = Row(0, "a.txt", ExtractionError("a.txt", DocumentError("a.txt: is empty")))
    assert json.loads(encode_row(failed)) == {"document": "a.txt", "error": "is empty"}


@given(st.text(st.characters()), st.text(st.characters(exclude_categories=["Cs"])))
def test_every_row_is_one_line_of_utf_8_that_gives_its_parts_back(name, value):
    text = json.dumps(value, ensure_ascii=False)
    line = encode_row(row(0, name, text))
    assert line.count(b"\n") == 1
    assert json.loads(line.decode()) == {"document": name, "value": value}


def test_each_row_is_in_the_file_before_the_next_one(tmp_path):
    output = open_output(tmp_path / "out.jsonl")
    for index, name in enumerate("abc"):
        output.write(row(index, name))
        assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == index + 1
    output.close()


def test_a_file_with_rows_is_never_overwritten(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious\n")
    with pytest.raises(FillError, match="go on with it by --resume, or remove it"):
        open_output(path)
    assert path.read_text() == "precious\n"


def test_an_empty_file_may_be_written_to(tmp_path):
    path = tmp_path / "out.jsonl"
    path.touch()
    open_output(path).close()


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_run_cut_at_any_byte_ends_up_the_same(tmp_path, cut):
    path = tmp_path / "out.jsonl"
    rows = [row(i, name, json.dumps({"value": name * 5})) for i, name in enumerate("abc")]
    whole = b"".join(map(encode_row, rows))
    path.write_bytes(whole[:cut])
    output = resume_output(path)
    num_done = len(output.done)
    left = [source.name for source in without_done(documents("a", "b", "c"), output)]
    for item in rows[num_done:]:
        output.write(item)
    output.close()
    assert num_done == whole[:cut].count(b"\n")
    assert left == ["a", "b", "c"][num_done:]
    assert path.read_bytes() == whole


def test_resuming_without_a_file_starts_one(tmp_path):
    output = resume_output(tmp_path / "out.jsonl")
    assert output.done == []
    output.close()


def test_error_rows_count_as_done(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text('{"document": "a", "error": "is empty"}\n')
    output = resume_output(path)
    assert output.done == ["a"]
    output.close()


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["a", "x", "c"], "2: this row is of b, but document 2 is x"),
        (["b", "a"], "1: this row is of a, but document 1 is b"),
        (["a"], "2: this row is of b, but no document is left"),
        ([], "1: this row is of a, but no document is left"),
    ],
)
def test_rows_of_other_documents_are_refused_at_once(tmp_path, names, why):
    path = tmp_path / "out.jsonl"
    path.write_bytes(encode_row(row(0, "a")) + encode_row(row(1, "b")))
    output = resume_output(path)
    with pytest.raises(FillError, match=why):
        without_done(documents(*names), output)
    output.close()


@pytest.mark.parametrize("line", ["text", "[]", "{}", '{"document": 1, "value": 1}', '{"document": "a"}', "\xff"])
def test_a_file_of_other_things_is_refused_with_the_line_and_left_alone(tmp_path, line):
    path = tmp_path / "out.jsonl"
    content = encode_row(row(0, "a")) + line.encode("latin-1") + b"\n"
    path.write_bytes(content)
    with pytest.raises(FillError, match=r"out.jsonl:2: no row of an extraction; write to another file$"):
        resume_output(path)
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_written_is_told_with_the_remedy(tmp_path):
    with pytest.raises(FillError, match=r"the folder .*gone does not exist; make it first$"):
        open_output(tmp_path / "gone" / "out.jsonl")
    with pytest.raises(FillError, match="cannot be written"):
        open_output(tmp_path)


def test_closing_cuts_what_an_interrupted_write_left(tmp_path):
    path = tmp_path / "out.jsonl"
    output = open_output(path)
    output.write(row(0, "a"))
    output.stream.write(b'{"docu')
    output.close()
    assert path.read_bytes() == encode_row(row(0, "a"))


def test_a_full_disk_says_how_many_rows_are_whole():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    output = open_output(Path("/dev/full"))
    with pytest.raises(FillError) as caught:
        output.write(row(0, "a"))
    assert str(caught.value) == (
        "/dev/full: cannot be written (No space left on device); 0 rows are whole, make room and go on with --resume"
    )
    output.close()

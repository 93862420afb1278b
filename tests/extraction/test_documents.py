"""Reading documents: what is read, how it is named, and where a fault is."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fillengine.errors import DocumentError
from fillengine.extraction.documents import (
    BadDocument,
    Document,
    count_rows,
    decode,
    read_rows,
    read_text,
    read_texts,
)


def problem(path: Path | str) -> str:
    with pytest.raises(DocumentError) as caught:
        read_text(str(path))
    return str(caught.value)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes a file in the current folder, so that names in messages are short."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


class TestTextFiles:
    def test_a_text_is_read_whole_and_named_as_given(self, file):
        assert read_text(file("a.txt", "one\ntwo\n")) == Document("a.txt", "one\ntwo\n")

    def test_line_ends_become_newlines_and_a_byte_order_mark_goes(self, file):
        assert read_text(file("a.txt", b"\xef\xbb\xbfone\r\ntwo\rthree")).text == "one\ntwo\nthree"

    @given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])))
    def test_any_other_text_comes_out_as_it_went_in(self, text):
        assert decode(text.encode(), "a") == text.removeprefix("\ufeff")

    def test_the_offset_of_the_first_bad_byte_is_told(self, file):
        assert problem(file("a.txt", b"caf\xe9 au lait")) == (
            "a.txt: not UTF-8 (byte 0xe9 at offset 3); convert it to UTF-8"
        )

    def test_the_offset_counts_a_byte_order_mark(self, file):
        assert "(byte 0xff at offset 4)" in problem(file("a.txt", b"\xef\xbb\xbfa\xff"))

    def test_utf_16_is_named(self, file):
        assert "UTF-16" in problem(file("a.txt", "text".encode("utf-16")))

    @pytest.mark.parametrize("content", ["", " \n\t\n", b"\xef\xbb\xbf"])
    def test_white_space_is_an_empty_document(self, file, content):
        assert problem(file("a.txt", content)) == ("a.txt: the document is empty; there is nothing to extract from")

    def test_a_missing_file_and_a_folder_are_told_apart(self, file, tmp_path):
        assert problem("gone.txt") == "gone.txt: no such file; check the path"
        assert problem(tmp_path) == f"{tmp_path}: is a folder; name the files in it, for example {tmp_path}/*.txt"

    def test_a_bad_document_stands_in_its_place_among_the_others(self, file):
        names = [file("a.txt", "A"), file("b.txt", b"\xff"), file("c.txt", "C")]
        assert [type(source) for source in read_texts(names)] == [Document, BadDocument, Document]

    def test_a_dash_is_standard_input(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
        assert read_text("-") == Document("-", "from a pipe")


class TestJsonLines:
    def rows(self, file, *lines: str | bytes):
        data = b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
        return list(read_rows(file("rows.jsonl", data), "text"))

    def test_each_line_is_a_document_named_by_its_number(self, file):
        assert self.rows(file, '{"text": "A"}', "", '{"id": 1, "text": "C"}') == [
            Document("rows.jsonl:1", "A"),
            Document("rows.jsonl:3", "C"),
        ]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"id": 7, "body": "x"}', 'no field "text" in this row; it has: "id", "body"'),
            ("{}", 'no field "text" in this row; it has: none'),
            ('{"text": 7}', 'the field "text" is a number; name a field that holds text'),
            ('{"text": null}', 'the field "text" is null; name a field that holds text'),
            ('{"text": ["x"]}', 'the field "text" is an array; name a field that holds text'),
            (
                '{"text": "x"',
                "not JSON: Expecting ',' delimiter at column 13; each line must be one JSON object",
            ),
            ('["x"]', "an array, not an object; each line must be one JSON object"),
            ('{"text": " "}', "the document is empty; there is nothing to extract from"),
            ('{"text": "a\\ud800"}', "half a surrogate pair at character 1; write the whole character"),
            (b'{"text": "\xff"}', "not UTF-8 (byte 0xff at offset 10); convert it to UTF-8"),
            ("[" * 100_000, "JSON nested too deeply; each line must be one JSON object"),
        ],
    )
    def test_a_bad_line_is_told_with_its_number_and_the_others_go_on(self, file, line, message):
        good, bad, last = self.rows(file, '{"text": "A"}', line, '{"text": "C"}')
        assert isinstance(bad, BadDocument)
        assert str(bad.error) == f"rows.jsonl:2: {message}"
        assert (good.text, last.text) == ("A", "C")

    @given(st.lists(st.dictionaries(st.sampled_from(["text", "id"]), st.text(min_size=1)), max_size=5))
    def test_there_is_one_source_for_each_row(self, tmp_path_factory, rows):
        path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert len(list(read_rows(str(path), "text"))) == len(rows)

    def test_rows_are_counted_without_the_blank_lines(self, file):
        assert count_rows([file("r.jsonl", '{"text": "A"}\n\n{"text": "B"}')], "text") == 2

    def test_a_field_that_no_row_has_is_one_error_and_not_many(self, file):
        name = file("r.jsonl", '{"id": 1}\n{"id": 2}\n')
        with pytest.raises(DocumentError, match=r'^r.jsonl:1: no field "text" in this row; it has: "id"$'):
            count_rows([name], "text")

    def test_a_field_that_only_the_first_row_lacks_is_that_row_s_error(self, file):
        assert count_rows([file("r.jsonl", '{"id": 1}\n{"text": "B"}\n')], "text") == 2

    def test_a_file_without_rows_is_an_error(self, file):
        with pytest.raises(DocumentError, match=r"^r.jsonl: no rows; there is nothing to extract from$"):
            count_rows([file("r.jsonl", "\n\n")], "text")

    def test_standard_input_cannot_be_counted(self):
        assert count_rows(["-"], "text") is None

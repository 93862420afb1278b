from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from bench_tiny import RECORDS

from fillengine.bench.records import field_accuracy, for_warming_up, mispaired, read_records
from fillengine.errors import DocumentError


def _file(tmp_path, records):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))
    return path


def test_records_come_kind_by_kind_and_evenly_spread(tmp_path):
    mixed = [RECORDS[2], RECORDS[0], RECORDS[3], RECORDS[1]]
    assert [record.id for record in read_records(_file(tmp_path, mixed))] == ["three", "four", "one", "two"]
    assert [record.id for record in read_records(_file(tmp_path, mixed), per_kind=1)] == ["three", "one"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [("", "no records in it"), ("{}\n", "not a file of records"), ("nothing\n", "not a file of records")],
)
def test_a_file_without_records_is_refused(tmp_path, content, problem):
    path = tmp_path / "records.jsonl"
    path.write_text(content)
    with pytest.raises(DocumentError, match=problem):
        read_records(path)


def test_a_mispaired_record_has_the_document_of_another_kind():
    kinds = {record.document: record.kind for record in RECORDS}
    for record, before in zip(mispaired(RECORDS), RECORDS, strict=True):
        assert (record.id, record.schema) == (before.id, before.schema)
        assert kinds[record.document] != record.kind


def test_records_of_one_kind_cannot_be_mispaired():
    with pytest.raises(DocumentError, match="all records are of kind bug"):
        mispaired(RECORDS[:2])


def test_no_document_for_warming_up_is_one_that_is_measured():
    chosen = for_warming_up(RECORDS, 2)
    assert [(place, record.id) for place, record in chosen] == [(0, "one"), (2, "three")]
    assert not {record.document for _, record in chosen} & {record.document for record in RECORDS}


def test_an_answer_that_is_no_object_has_no_field_right():
    assert field_accuracy([(RECORDS[0], {"package": "ab", "closes": [12]}), (RECORDS[1], None)]) == 0.25

"""Forms that are held to a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fillengine.automata import nodes
from fillengine.automata.machine import Machine
from fillengine.templates import compile

DOCUMENT = 'Invoice 4711, paid on 3 March 2024 by Mr. O\'Neil "Bob" pays 1,250 euros (VAT 19 %).'


def holds(keywords: dict[str, Any], value: Any, ground: Any = "verbatim") -> bool:
    form = compile(keywords, grounding=DOCUMENT, ground=ground)
    return Machine(form.template).accepts(json.dumps(value).encode())


def test_a_string_is_a_passage_of_the_document() -> None:
    assert holds({"type": "string"}, "O'Neil")
    assert holds({"type": "string"}, 'O\'Neil "Bob" pays')
    assert not holds({"type": "string"}, "O'Nei")
    assert not holds({"type": "string"}, "Alice")


def test_a_passage_obeys_the_schema_too() -> None:
    assert holds({"type": "string", "maxLength": 5}, "euros")
    assert not holds({"type": "string", "maxLength": 5}, "Invoice")
    assert not holds({"type": "string", "pattern": "^[a-z]+$"}, "Bob")
    assert holds({"type": ["string", "null"]}, None)


def test_a_number_and_a_date_are_among_those_of_the_document() -> None:
    assert holds({"type": "integer"}, 4711)
    assert holds({"type": "number"}, 1250)
    assert not holds({"type": "integer"}, 4712)
    assert not holds({"type": "integer", "maximum": 100}, 4711)
    assert holds({"type": "string", "format": "date"}, "2024-03-03")
    assert not holds({"type": "string", "format": "date"}, "2024-03-04")


def test_where_nothing_in_the_document_fits_the_hole_is_free() -> None:
    assert holds({"type": "string", "pattern": "^z+$"}, "zzz")
    assert holds({"type": "integer", "minimum": 10_000}, 123_456)
    assert holds({"type": "string", "minLength": 500}, "x" * 500)


def test_constants_are_never_held_to_the_document() -> None:
    assert holds({"enum": ["x", 3]}, "x")
    assert holds({"const": 3}, 3)


def test_a_field_can_say_itself_whether_it_is_held() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-fill": "verbatim"}, "b": {"type": "string"}}}
    assert holds(schema, {"a": "euros", "b": "anything"}, "free")
    assert not holds(schema, {"a": "anything"}, "free")
    assert holds({"type": "string", "x-fill": "free"}, "anything", "verbatim")
    assert holds({"x-fill": "verbatim", "anyOf": [{"type": "string"}, {"type": "null"}]}, "Bob", "free")
    assert not holds({"x-fill": "verbatim", "anyOf": [{"type": "string"}, {"type": "null"}]}, "Rob", "free")


def test_keys_are_never_held_to_the_document() -> None:
    assert holds({"type": "object", "additionalProperties": {"type": "string"}}, {"anything": "Bob"})


def test_grounding_a_form_leaves_it_as_it_was_and_shares_the_passages() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }
    form = compile(schema)
    held = form.ground(DOCUMENT)
    assert Machine(form.template).accepts(b'{"a": "x", "b": "y"}')
    assert not Machine(held.template).accepts(b'{"a": "x", "b": "y"}')
    root = held.template.root
    assert isinstance(root, nodes.Sequence)
    first, second = (item for item in root.items if isinstance(item, nodes.Pattern))
    assert first.dfa is second.dfa


@pytest.mark.parametrize("kind", ["debian", "python", "changelog"])
def test_true_answers_of_real_documents_can_be_written_with_grounding(shared: Path, kind: str) -> None:
    folder = shared / "data" / "extraction"
    form = compile((folder / "schemas" / f"{kind}.json").read_text("utf-8"))
    with (folder / "dev.jsonl").open(encoding="utf-8") as lines:
        records = [record for record in map(json.loads, lines) if record["kind"] == kind]
    for record in records[:12]:
        truth = json.dumps(record["truth"], ensure_ascii=False).encode()
        assert Machine(form.template).accepts(truth)
        assert Machine(form.ground(record["document"]).template).accepts(truth), record["id"]

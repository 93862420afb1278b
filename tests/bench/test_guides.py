"""The peers' guides accept the right answers, and the grounded one only what stands in the document."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from bench_tiny import BUG, RECORDS, tiny_loaded

from fillengine.bench.bitmask import num_words
from fillengine.bench.guides import grounded_lark, peer
from fillengine.errors import ModelError, UnsupportedForm

PEERS = ["llguidance", "llguidance-grounded", "outlines"]


@pytest.fixture(scope="module")
def loaded():
    return tiny_loaded()


@pytest.fixture(scope="module")
def guides(loaded):
    pytest.importorskip("llguidance", reason="the extra `bench` is not installed: no peers here")
    num_logits = len(loaded.tokenizer.get_vocab()) + 5
    return {name: peer(name, loaded, num_logits) for name in PEERS}


def _accepts(guides, loaded, record, value) -> bool:
    guide = guides.guide(record)
    num_logits = len(loaded.tokenizer.get_vocab()) + 5
    for token_id in loaded.tokenizer.encode(json.dumps(value)):
        bits = np.zeros((1, num_words(num_logits)), np.uint32)
        guides.fill([guide], bits)
        if not bits[0, token_id // 32] >> (token_id % 32) & 1:
            return False
        guide.consume(token_id)
    return guide.is_stopped


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.id)
def test_the_right_answer_is_accepted_to_its_end(name, record, guides, loaded):
    assert _accepts(guides[name], loaded, record, record.truth)


@pytest.mark.parametrize(
    "package", ["zz", "", " ab", "ab ", "cl"], ids=["another word", "nothing", "a space", "a space", "half a word"]
)
def test_a_grounded_string_is_a_passage_of_whole_words(package, guides, loaded):
    value = {"package": package, "closes": []}
    assert not _accepts(guides["llguidance-grounded"], loaded, RECORDS[0], value)
    assert _accepts(guides["llguidance-grounded"], loaded, RECORDS[0], {**value, "package": "ab (1.2) closes"})


def test_a_format_that_nothing_in_the_document_has_stays_free(guides, loaded):
    record = replace(RECORDS[2], document="No address here.")
    assert _accepts(guides["llguidance-grounded"], loaded, record, {"mail": "x@y.org", "home": None})


@pytest.mark.parametrize(
    "schema",
    [
        {**BUG, "required": ["package"]},
        {"type": "object", "properties": {"in": BUG}, "required": ["in"]},
        {"type": "array", "items": {"type": "string"}},
    ],
    ids=["an optional property", "a nested object", "no object"],
)
def test_a_form_that_cannot_be_grounded_there_is_refused(schema):
    with pytest.raises(UnsupportedForm):
        grounded_lark(replace(RECORDS[0], schema=schema))


def test_several_rows_get_the_masks_that_each_gets_alone(guides, loaded):
    words = num_words(len(loaded.tokenizer.get_vocab()) + 5)
    for name in PEERS:
        rows = [guides[name].guide(record) for record in RECORDS[1:3]]
        together = np.zeros((2, words), np.uint32)
        guides[name].fill(rows, together)
        for row, record in enumerate(RECORDS[1:3]):
            alone = np.zeros((1, words), np.uint32)
            guides[name].fill([guides[name].guide(record)], alone)
            assert (together[row] == alone[0]).all()


def test_a_peer_that_is_not_there_is_named_with_the_remedy(loaded, monkeypatch):
    with pytest.raises(ModelError, match="the peers are llguidance, llguidance-grounded, outlines"):
        peer("guidance", loaded, 300)
    monkeypatch.setitem(sys.modules, "llguidance.hf", None)
    with pytest.raises(ModelError, match="pip install 'fillengine\\[bench\\]'"):
        peer("llguidance", loaded, 300)

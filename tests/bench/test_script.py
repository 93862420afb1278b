"""With a script everybody writes the true answers, and every pass is run all the same."""

from __future__ import annotations

import json
from dataclasses import replace

import bench_tiny
import pytest
from bench_tiny import RECORDS

from fillengine.bench.contenders import Ours, Setting
from fillengine.bench.guides import peer
from fillengine.bench.models import num_logits
from fillengine.bench.passes import watch
from fillengine.bench.peers import InBatches, TokenByToken
from fillengine.bench.script import ScriptedEngine, script_of, writable
from fillengine.fill.tokenizer import read_tokenizer


@pytest.fixture(scope="module")
def loaded():
    return bench_tiny.tiny_loaded()


@pytest.fixture(autouse=True)
def _short_prompts(monkeypatch):
    monkeypatch.setattr("fillengine.extraction.prompt._shipped_examples", list)


@pytest.fixture(scope="module")
def script(loaded):
    return script_of(RECORDS, read_tokenizer(loaded.tokenizer))


@pytest.mark.parametrize("fill", ["off", "assert", "auto"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_every_way_writes_the_true_answers(loaded, script, fill, batch_size):
    contender = Ours(ScriptedEngine(loaded, script), fill, "verbatim", Setting(batch_size, max_tokens=200))
    turn = contender.run(list(enumerate(RECORDS)))
    assert [json.loads(answer.text) for answer in turn.answers] == [record.truth for record in RECORDS]
    assert [answer.token_ids for answer in turn.answers] == list(script.values())


@pytest.mark.parametrize(("kind", "batch_size"), [(TokenByToken, 1), (InBatches, 3)])
def test_the_peers_write_them_with_a_pass_for_each_token(loaded, script, kind, batch_size):
    pytest.importorskip("llguidance", reason="the extra `bench` is not installed: no peers here")
    guides = peer("llguidance", loaded, num_logits(loaded.model))
    engine = ScriptedEngine(loaded, script)
    log = watch(loaded.model)
    contender = kind(loaded, engine.encode, guides, Setting(batch_size, max_tokens=200), script=script)
    turn = contender.run(list(enumerate(RECORDS)))
    assert [answer.token_ids for answer in turn.answers] == list(script.values())
    assert not any(answer.is_cut for answer in turn.answers)
    assert log.num_passes >= max(map(len, script.values()))


def test_answers_that_do_not_stand_in_the_document_are_left_out(loaded):
    tokenizer = read_tokenizer(loaded.tokenizer)
    elsewhere = replace(RECORDS[0], document="Nothing of the kind.")
    assert writable([elsewhere, RECORDS[1]], ["verbatim"], tokenizer) == [RECORDS[1]]
    assert writable([elsewhere, RECORDS[1]], ["free"], tokenizer) == [elsewhere, RECORDS[1]]

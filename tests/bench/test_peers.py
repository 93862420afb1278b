"""The peers' generators write what masked greedy decoding writes, alone and in batches."""

from __future__ import annotations

import bench_tiny
import mlx.core as mx
import numpy as np
import pytest
from bench_tiny import RECORDS

from fillengine.bench.bitmask import num_words
from fillengine.bench.contenders import Setting
from fillengine.bench.guides import peer
from fillengine.bench.models import num_logits
from fillengine.bench.peers import InBatches, SharedBeginning, TokenByToken

MAX_TOKENS = 24


@pytest.fixture(scope="module")
def loaded():
    return bench_tiny.tiny_loaded()


@pytest.fixture(scope="module")
def guides(loaded):
    pytest.importorskip("llguidance", reason="the extra `bench` is not installed: no peers here")
    return peer("llguidance", loaded, num_logits(loaded.model))


def _encode(messages):
    """The document only: the shipped examples are long, and this vocabulary is bytes."""
    return [1, 2, 3, *messages[-1]["content"].encode()[-40:]]


def _masked_greedy(loaded, guides, record):
    from fillengine.extraction.prompt import build_messages

    guide = guides.guide(record)
    token_ids = []
    prompt = _encode(build_messages(record.schema, record.document))
    while len(token_ids) < MAX_TOKENS and not guide.is_stopped:
        logits = np.asarray(loaded.model(mx.array([prompt + token_ids]))[0, -1])
        bits = np.zeros((1, num_words(len(logits))), np.uint32)
        guides.fill([guide], bits)
        allowed = np.unpackbits(bits.view(np.uint8), bitorder="little")[: len(logits)].astype(bool)
        token_ids.append(int(np.where(allowed, logits, -np.inf).argmax()))
        guide.consume(token_ids[-1])
    return token_ids


@pytest.fixture(scope="module")
def expected(loaded, guides):
    return [_masked_greedy(loaded, guides, record) for record in RECORDS]


def test_token_by_token_is_masked_greedy_decoding(loaded, guides, expected):
    contender = TokenByToken(loaded, _encode, guides, Setting(1, max_tokens=MAX_TOKENS))
    for _ in range(2):  # the second time with what the first has left in its cache
        turn = contender.run(list(enumerate(RECORDS)))
        assert [answer.token_ids for answer in turn.answers] == expected


@pytest.mark.parametrize("batch_size", [2, 3])
def test_the_batch_generator_is_masked_greedy_decoding(loaded, guides, expected, batch_size):
    contender = InBatches(loaded, _encode, guides, Setting(batch_size, max_tokens=MAX_TOKENS))
    for _ in range(2):
        turn = contender.run(list(enumerate(RECORDS)))
        assert [answer.token_ids for answer in turn.answers] == expected


@pytest.mark.parametrize("kind", [TokenByToken, InBatches])
def test_a_text_is_cut_at_the_limit_or_whole(loaded, guides, kind):
    contender = kind(loaded, _encode, guides, Setting(2, temperature=1.5, max_tokens=MAX_TOKENS))
    for answer in contender.run(list(enumerate(RECORDS))).answers:
        assert answer.is_cut == (len(answer.token_ids) == MAX_TOKENS)


def test_what_prompts_begin_with_is_read_once(loaded):
    beginning = SharedBeginning(loaded.model)
    sizes = []
    model = loaded.model

    def counted(ids, **options):
        sizes.append(ids.shape[1])
        return model(ids, **options)

    beginning._model = counted
    beginning.cache = None
    fresh = SharedBeginning(model)
    fresh.read([5, 6, 7])
    beginning.tokens, beginning.cache = fresh.tokens, fresh.cache
    cache = beginning.read([5, 6, 8, 9])
    assert sizes == [2]
    alone = SharedBeginning(model).read([5, 6, 8, 9])
    for held, wanted in zip(cache, alone, strict=True):
        assert mx.allclose(held.keys[..., :4, :], wanted.keys[..., :4, :], atol=1e-5)

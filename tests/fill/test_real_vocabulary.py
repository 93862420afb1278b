"""Masks over the default model's whole vocabulary, for schemas as people write them."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fillengine import Constraint, UnsupportedForm, compile
from fillengine.automata.machine import Machine
from fillengine.automata.state import State
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer

NUM_SCHEMAS = 20
SEED = 20261129


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    from fillengine.generation.models import model_folder

    return read_tokenizer(model_folder("smollm2"))


def brute_force(machine: Machine, state: State, tokenizer: Tokenizer) -> np.ndarray:
    """Every token tried byte by byte."""
    tokens = tokenizer.vocabulary.tokens
    allowed = [text is not None and _can_come(machine, state, text) for text in tokens]
    for token_id in tokenizer.vocabulary.eos_ids:
        allowed[token_id] = state.is_accepting
    return np.array(allowed)


def _can_come(machine: Machine, state: State, text: bytes) -> bool:
    after = machine.advance(state, text)
    # A state that the vocabulary cannot finish (SmolLM2 lacks the first byte of some planes) is a dead end.
    return after is not None and machine.cost(after) < 1 << 40


def schemas(shared: Path) -> list[dict[str, Any]]:
    with gzip.open(shared / "data/jsonschemabench/sample.jsonl.gz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["schema"] for row in random.Random(SEED).sample(rows, 3 * NUM_SCHEMAS)]


@pytest.mark.model
def test_masks_of_schemas_in_the_wild_equal_brute_force(shared: Path, tokenizer: Tokenizer) -> None:
    seen = 0
    chooser = random.Random(SEED)
    for schema in schemas(shared):
        try:
            constraint = Constraint(compile(schema, additional="schema"), tokenizer)
        except UnsupportedForm:
            continue
        seen += 1
        machine, state = constraint.machine, constraint.machine.start
        for _ in range(2):
            _, state = machine.forced(state)
            if state.is_final:
                break
            expected = brute_force(machine, state, tokenizer)
            found = constraint.masks.of(state).unpacked(tokenizer.vocabulary.size)
            assert np.array_equal(found, expected), schema
            tokens = np.flatnonzero(found).tolist()
            text = tokenizer.vocabulary.tokens[chooser.choice(tokens)]
            if text is None:
                break
            following = machine.advance(state, text)
            assert following is not None
            state = following
        if seen == NUM_SCHEMAS:
            break
    assert seen == NUM_SCHEMAS


@pytest.mark.model
def test_the_tokenizers_own_tokens_of_true_answers_are_always_allowed(shared: Path, tokenizer: Tokenizer) -> None:
    encoder = tokenizer.encoder
    assert encoder is not None
    lines = (shared / "data/extraction/dev.jsonl").read_text(encoding="utf-8").splitlines()
    constraints: dict[str, Constraint] = {}
    for record in map(json.loads, lines):
        constraint = constraints.setdefault(record["kind"], Constraint(compile(record["schema"]), tokenizer))
        session = constraint.session()
        for token_id in encoder.encode(json.dumps(record["truth"], ensure_ascii=False)):
            session.advance(token_id)
        assert session.is_complete

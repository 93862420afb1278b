"""Drawn vocabularies hold what they promise, and every session over them keeps the laws."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from fillengine.errors import AutomatonTooLarge, FormError, VocabularyError
from fillengine.fill import Constraint
from fillengine.templates import compile
from fillengine.testing import ToyTokenizer, schemas, vocabularies
from fillengine.testing.laws import Judgement, check_walk
from fillengine.testing.vocabulary import hostile_vocabularies

LAW = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


@LAW
@given(tokenizer=vocabularies(), schema=schemas(hostile=True), seed=st.integers(0, 2**32))
def test_any_schema_over_any_vocabulary_keeps_the_laws(tokenizer: ToyTokenizer, schema: Any, seed: int) -> None:
    try:
        form = compile(schema)
        constraint = Constraint(form, tokenizer)
    except (FormError, VocabularyError, AutomatonTooLarge):
        assume(False)
        raise
    assume(constraint.fewest_tokens < 200)
    check_walk(form, constraint, Random(seed), Judgement())


@LAW
@given(tokenizer=vocabularies(hostile=False), text=st.text(max_size=20))
def test_usual_vocabularies_write_every_text(tokenizer: ToyTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_hostile_vocabularies_hold_every_kind_of_trouble() -> None:
    def texts(tokenizer: ToyTokenizer) -> list[bytes]:
        return [text for text in tokenizer.vocabulary.tokens if text is not None]

    def is_partial(text: bytes) -> bool:
        return len(text) > 1 and text.decode(errors="ignore").encode() != text

    troubles: dict[str, Any] = {
        "duplicates": lambda one: len(set(texts(one))) < len(texts(one)),
        "missing bytes": lambda one: len({text for text in texts(one) if len(text) == 1}) < 256,
        "parts of characters": lambda one: any(map(is_partial, texts(one))),
        "tokens across quotes": lambda one: any(b'"' in text and text.strip(b'"') for text in texts(one)),
        "tokens without text": lambda one: None in one.vocabulary.tokens[:-1],
        "an end among ordinary tokens": lambda one: min(one.vocabulary.eos_ids) < one.vocabulary.size - 1,
        "two ends": lambda one: len(one.vocabulary.eos_ids) == 2,
    }
    seen: set[str] = set()

    @settings(max_examples=60, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(hostile_vocabularies())
    def collect(tokenizer: ToyTokenizer) -> None:
        seen.update(name for name, is_there in troubles.items() if is_there(tokenizer))

    collect()
    assert seen == set(troubles)

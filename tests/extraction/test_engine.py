"""The engine with extraction on top."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path

import pytest

from fillengine.extraction.settings import Settings

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def test_extract_takes_exactly_the_settings_with_the_same_defaults():
    from fillengine.extraction.engine import Engine

    parameters = inspect.signature(Engine.extract).parameters.values()
    options = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert options == dataclasses.asdict(Settings())


@pytest.mark.model
def test_the_default_model_reads_a_shipped_document_into_a_valid_object():
    from fillengine.extraction.engine import load
    from fillengine.generation.models import known_models
    from fillengine.templates import compile

    if known_models()[0].folder is None:
        pytest.skip("the default model is not in the cache: `fillengine models fetch smollm2`")
    form = compile(json.loads((EXAMPLES / "e-mail.schema.json").read_text()))
    (outcome,) = load().extract([EXAMPLES / "e-mail.txt"], form)
    form.validate(outcome.text)
    assert outcome.value["booking_reference"] == "KH-58120"
    assert outcome.stats.forwards < len(outcome.token_ids)

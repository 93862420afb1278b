"""Editing: the old version of a document is the prediction of the new one."""

from __future__ import annotations

import pytest
from row_runs import TOKENIZER, FollowingModel, run

import fillengine as fe
from fillengine.bench.edits import Edit, edits
from fillengine.fill import Constraint, Fill, Row
from fillengine.fill.economics import CPU_CURVE, FLAT_CURVE, CostCurve
from fillengine.fill.sources import usual_sources
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer


def written(edit: Edit, constraint: Constraint, fill: Fill, curve: CostCurve) -> Row:
    """The row of a model that writes the new version."""
    tokenizer = constraint.tokenizer
    assert tokenizer.encoder is not None
    model = FollowingModel(tokenizer.encoder.encode(edit.new), min(tokenizer.vocabulary.eos_ids))
    row = Row(constraint.session(), fill=fill, sources=usual_sources(prediction=edit.old), curve=curve)
    run(row, model)
    assert row.session.text == edit.new
    return row


def test_there_are_twenty_documents_with_one_field_changed() -> None:
    assert len(edits()) == 20
    assert all(edit.old != edit.new for edit in edits())


def total_forwards(kind: str, tokenizer: Tokenizer, curve: CostCurve) -> dict[Fill, int]:
    """Over all edits, by way of filling. The tokens are the same in each way."""
    forwards: dict[Fill, int] = {"off": 0, "assert": 0, "auto": 0}
    for edit in edits():
        form = fe.compile(edit.schema if kind == "schema" else fe.Grammar.named("json"))
        constraint = Constraint(form, tokenizer)
        rows = {fill: written(edit, constraint, fill, curve) for fill in forwards}
        assert rows["off"].token_ids == rows["assert"].token_ids == rows["auto"].token_ids
        for fill, row in rows.items():
            forwards[fill] += row.stats.forwards
    return forwards


@pytest.mark.parametrize("curve", [CPU_CURVE, FLAT_CURVE], ids=["CPU", "GPU"])
@pytest.mark.parametrize("kind", ["schema", "grammar"])
def test_edits_take_a_quarter_of_the_forward_passes_at_most(kind: str, curve: CostCurve) -> None:
    forwards = total_forwards(kind, TOKENIZER, curve)
    assert 4 * forwards["auto"] <= forwards["off"]
    assert 4 * forwards["auto"] <= forwards["assert"]


@pytest.mark.model
def test_over_the_default_models_tokens_it_is_a_tenth(tokens_of_smollm2: Tokenizer) -> None:
    """12.9 times fewer passes than with spans off, and 8.0 times fewer than with assert spans only."""
    forwards = total_forwards("schema", tokens_of_smollm2, CPU_CURVE)
    assert 10 * forwards["auto"] <= forwards["off"]
    assert 7 * forwards["auto"] <= forwards["assert"]


@pytest.fixture(scope="module")
def tokens_of_smollm2() -> Tokenizer:
    from fillengine.generation.models import model_folder

    return read_tokenizer(model_folder("smollm2"))

"""Extraction over an engine: order, names, failures, and what reaches the engine."""

from __future__ import annotations

import pytest
from fake_engine import WORD_SCHEMA, FakeEngine
from hypothesis import given
from hypothesis import strategies as st

from fillengine.errors import BudgetTooSmall, ContextExceeded, DocumentError, FormError
from fillengine.extraction.documents import BadDocument, Document
from fillengine.extraction.extract import ExtractionError, as_form, extract, extract_rows
from fillengine.extraction.settings import Settings


def words(outcomes) -> list[str]:
    return ["-" if isinstance(o, ExtractionError) else o.value["word"] for o in outcomes]


@given(st.lists(st.sampled_from(["A", "B", "", "refused"])), st.integers(1, 4))
def test_outcomes_come_in_the_order_of_the_documents_whatever_fails(documents, batch_size):
    def answer(document):
        if document == "refused":
            raise ContextExceeded("too long")
        return f'{{"word": "{document}"}}'

    outcomes = extract(FakeEngine(answer), documents, WORD_SCHEMA, batch_size=batch_size)
    assert words(outcomes) == ["-" if d in ("", "refused") else d for d in documents]


def test_documents_are_read_only_as_they_are_needed():
    read = []

    def documents():
        for name in "ABC":
            read.append(name)
            yield name

    outcomes = extract(FakeEngine(), documents(), WORD_SCHEMA)
    assert read == []
    next(outcomes)
    assert read == ["A"]


def test_texts_paths_and_documents_are_taken(tmp_path):
    (tmp_path / "a.txt").write_text("Path")
    (tmp_path / "b.txt").write_bytes(b"\xff")
    documents = ["Text", tmp_path / "a.txt", tmp_path / "b.txt", Document("n", "Named"), tmp_path / "gone"]
    assert words(extract(FakeEngine(), documents, WORD_SCHEMA)) == ["Text", "Path", "-", "Named", "-"]


def test_a_failure_names_its_document_and_raises_its_error_when_asked_for_its_value():
    bad = BadDocument("b.txt", DocumentError("b.txt: no such file; check the path"))
    (outcome,) = extract(FakeEngine(), [bad], WORD_SCHEMA)
    assert isinstance(outcome, ExtractionError)
    assert (outcome.document, outcome.problem) == ("b.txt", "no such file; check the path")
    with pytest.raises(DocumentError, match=r"b\.txt"):
        _ = outcome.value


def test_a_document_beyond_the_context_is_refused_with_both_numbers_and_the_others_go_on():
    (outcome, other) = extract(FakeEngine(), ["word " * 4000, "B"], WORD_SCHEMA)
    with pytest.raises(ContextExceeded, match=r"a prompt of \d{4} tokens, but the model's context is 4000 tokens"):
        _ = outcome.value
    assert other.value == {"word": "B"}


def test_what_is_wrong_with_the_form_is_raised_before_any_document():
    with pytest.raises(FormError):
        extract(FakeEngine(), iter(()), {"type": "strnig"})


def test_a_budget_that_no_answer_fits_is_raised_before_any_document():
    with pytest.raises(BudgetTooSmall):
        extract(FakeEngine(), iter(()), WORD_SCHEMA, max_tokens=2)


def test_an_unknown_setting_is_raised_at_once():
    with pytest.raises(TypeError, match="gronding"):
        extract(FakeEngine(), iter(()), WORD_SCHEMA, gronding="free")


def test_every_document_has_random_numbers_of_its_own_also_when_a_run_is_resumed():
    engine = FakeEngine()
    form = as_form(WORD_SCHEMA)
    list(extract_rows(engine, ["A", "", "C"], form, Settings(seed=7)))
    list(extract_rows(engine, ["C"], form, Settings(seed=7), first_index=2))
    assert [(r.options["row_id"], r.options["seed"]) for r in engine.requests] == [(0, 7), (2, 7), (2, 7)]


def test_values_are_held_to_the_document_when_grounded():
    engine = FakeEngine()
    list(extract(engine, ["Alpha beta"], WORD_SCHEMA, grounding="verbatim"))
    list(extract(engine, ["Alpha beta"], WORD_SCHEMA, grounding="free"))
    grounded, free = (request.form for request in engine.requests)

    def accepts(form, text):
        from fillengine.fill import Constraint

        return Constraint(form, engine.tokenizer).accepts(text)

    assert accepts(grounded, '{"word": "beta"}')
    assert not accepts(grounded, '{"word": "gamma"}')
    assert accepts(free, '{"word": "gamma"}')

"""The decorator: a model that fills itself."""

from __future__ import annotations

import pytest
from fake_engine import FakeEngine
from pydantic import BaseModel, field_validator

from fillengine.errors import ContextExceeded, DocumentError
from fillengine.extraction import filled as module
from fillengine.extraction.extract import ExtractionError
from fillengine.extraction.filled import Filled, filled


@filled
class Word(BaseModel):
    word: str


class Mixed(Filled, BaseModel):
    word: str


@pytest.mark.parametrize("model", [Word, Mixed])
def test_fill_gives_an_object_of_the_model(model):
    assert model.fill("Alpha beta", engine=FakeEngine()) == model(word="Alpha")


@pytest.mark.parametrize("model", [Word, Mixed])
def test_fill_many_gives_one_object_a_document_in_order(model):
    found = list(model.fill_many(["A", "", "C"], engine=FakeEngine()))
    assert found[0] == model(word="A")
    assert isinstance(found[1], ExtractionError)
    assert found[2] == model(word="C")


def test_fill_raises_what_went_wrong():
    def answer(document):
        raise ContextExceeded("too long")

    with pytest.raises(ContextExceeded):
        Word.fill("text", engine=FakeEngine(answer))
    with pytest.raises(DocumentError):
        Word.fill(" ", engine=FakeEngine())


def test_what_the_model_s_own_validators_refuse_is_an_error_of_its_document():
    @filled
    class Lower(BaseModel):
        word: str

        @field_validator("word")
        @classmethod
        def is_lower(cls, word: str) -> str:
            if not word.islower():
                raise ValueError("must be lower case")
            return word

    first, second = Lower.fill_many(["Upper", "lower"], engine=FakeEngine())
    assert isinstance(first, ExtractionError)
    assert 'validators refuse the answer {"word": "Upper"}: 1 validation error' in first.problem
    assert second == Lower(word="lower")


def test_options_reach_the_engine():
    engine = FakeEngine()
    Word.fill("text", engine=engine, seed=3, fill="off")
    assert (engine.requests[0].options["seed"], engine.requests[0].options["fill"]) == (3, "off")


def test_the_decorated_class_stays_itself():
    assert Word(word="x").model_dump() == {"word": "x"}
    assert set(Word.model_json_schema()["properties"]) == {"word"}


def test_a_subclass_fills_objects_of_its_own():
    @filled
    class Longer(Word):
        pass

    assert type(Longer.fill("A", engine=FakeEngine())) is Longer
    assert type(Word.fill("A", engine=FakeEngine())) is Word


def test_the_default_engine_is_loaded_once_and_only_when_needed(monkeypatch):
    loaded = []
    monkeypatch.setattr(module, "_engines", [])

    def load():
        loaded.append(FakeEngine())
        return loaded[-1]

    monkeypatch.setattr("fillengine.extraction.engine.load", load)
    Word.fill("A")
    list(Word.fill_many(["B", "C"]))
    assert [request.document for request in loaded[0].requests] == ["A", "B", "C"]
    assert len(loaded) == 1


def test_a_name_that_is_taken_is_refused():
    class Cup(BaseModel):
        fill: float

    with pytest.raises(TypeError, match="Cup already has 'fill'"):
        filled(Cup)


def test_other_classes_are_refused():
    with pytest.raises(TypeError, match="is for pydantic models"):
        filled(dict)

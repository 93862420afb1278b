"""The contenders: ways of filling a form, ours and the peers', on one loaded model with the same prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fillengine.bench.records import Record
from fillengine.errors import FillError
from fillengine.extraction.documents import Document
from fillengine.extraction.engine import Engine
from fillengine.extraction.extract import request_of
from fillengine.extraction.settings import Fill, Grounding, Settings
from fillengine.fill.tokenizer import Tokenizer
from fillengine.generation.result import Result
from fillengine.templates import Form, compile
from fillengine.templates.grounding import grounded_text

if TYPE_CHECKING:
    from fillengine.generation.request import Request


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all contenders that are compared with each other.

    batch_size   texts at a time; num_records: of a turn (a contender has so many before the next one's turn)
    """

    batch_size: int = 1
    temperature: float = 0.0
    max_tokens: int = 768
    seed: int = 0
    num_records: int = 1

    @property
    def name(self) -> str:
        return f"batch {self.batch_size}, temperature {self.temperature:g}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a contender wrote for one record. Counts in tokens or forward passes.

    is_cut   the token limit ended the text
    """

    text: str
    token_ids: list[int]
    forwards: int
    is_cut: bool
    asserted: int = 0
    proposed: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """The answers to some records, in their order, and the seconds in which the model read prompts and wrote.

    rounds, stage_seconds: those of `RunStats`; none of a peer.

    What is neither of both (prompts to tokens, schemas to grammars, documents to passages) is in no figure here,
    but in the time that the whole turn took.
    """

    answers: list[Answer]
    prefill_seconds: float
    decode_seconds: float
    rounds: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)


class Contender(Protocol):
    """family: contenders of one family must write the same tokens. compared with nobody: a name of its own."""

    name: str
    family: str

    def run(self, records: Sequence[tuple[int, Record]]) -> Turn:
        """Answer the records. The number with each is its place among all: its noise depends on it."""


class Ours:
    """This engine, by way of filling and grounding. Its caches are its own, and empty at first."""

    def __init__(self, engine: Engine, fill: Fill, grounding: Grounding, setting: Setting) -> None:
        """engine: a new one, which nobody else uses."""
        self.name = f"{fill}, {grounding}"
        self.family = f"fillengine, {grounding}"
        self.engine = engine
        shared = self.engine.tokenizer
        self.engine.tokenizer = Tokenizer(shared.vocabulary, shared.encoder)
        self.settings = Settings(
            fill=fill,
            grounding=grounding,
            batch_size=setting.batch_size,
            max_tokens=setting.max_tokens,
            temperature=setting.temperature,
            seed=setting.seed,
        )
        self._forms: dict[int, tuple[dict[str, Any], Form]] = {}

    def request(self, index: int, record: Record) -> Request:
        return request_of(self.engine, Document(record.id, record.document), self._form(record), self.settings, index)

    def run(self, records: Sequence[tuple[int, Record]]) -> Turn:
        # Another contender of ours may just have had these documents.
        grounded_text.cache_clear()
        run = self.engine.run(self._requests(records), batch_size=self.settings.batch_size)
        answers = [_answer(records[place][1], outcome) for place, outcome in run]
        stats = run.stats
        return Turn(answers, stats.read_seconds, stats.round_seconds, stats.rounds, dict(stats.stage_seconds))

    def _requests(self, records: Iterable[tuple[int, Record]]) -> Iterator[Request]:
        for index, record in records:
            yield self.request(index, record)

    def _form(self, record: Record) -> Form:
        # The records of a kind share one schema object or equal ones; either way a kind has few of them.
        held = self._forms.get(id(record.schema))
        if held is None:
            known = next((form for schema, form in self._forms.values() if schema == record.schema), None)
            held = self._forms[id(record.schema)] = (record.schema, known or compile(record.schema))
        return held[1]


def _answer(record: Record, outcome: Result | FillError) -> Answer:
    if not isinstance(outcome, Result):
        raise FillError(f"record {record.id} was refused: {outcome}") from outcome
    stats = outcome.stats
    return Answer(
        text=outcome.text,
        token_ids=outcome.token_ids,
        forwards=stats.forwards,
        is_cut=outcome.finish_reason == "length",
        asserted=stats.asserted,
        proposed=stats.proposed,
        accepted=stats.accepted,
    )

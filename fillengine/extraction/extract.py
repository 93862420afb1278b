"""Extraction: documents in, results out, in the same order.

    for outcome in extract(engine, documents, form):
        outcome.value          the object of this document

A document that cannot be served (empty, not UTF-8, too long for the model) gives an `ExtractionError` in its
place, and the others go on. What is wrong with the form itself is raised at the call, before any document.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pydantic_core import to_jsonable_python

from fillengine.errors import ContextExceeded, DocumentError, FillError
from fillengine.extraction.documents import BadDocument, Document, Source, checked, read_text
from fillengine.extraction.prompt import build_messages, build_text_messages
from fillengine.extraction.settings import Fill, Settings
from fillengine.fill import Constraint
from fillengine.templates import Form, TextForm, compile

if TYPE_CHECKING:
    from fillengine.generation.engine import Request
    from fillengine.generation.result import Result


class Engine(Protocol):
    """What extraction needs of an engine (`generation.engine.Engine`, or a test's)."""

    context_length: int | None

    @property
    def tokenizer(self) -> Any: ...
    def request(
        self,
        prompt: Sequence[dict[str, str]],
        form: Any,
        *,
        max_tokens: int | None,
        temperature: float,
        seed: int,
        row_id: int | None,
        fill: Fill,
        source_text: str | None,
        logprobs: int | None,
    ) -> Request: ...
    def run(self, requests: Iterable[Request], *, batch_size: int) -> Iterator[tuple[int, Result | FillError]]: ...


@dataclass(frozen=True, slots=True)
class ExtractionError:
    """In place of a result: which document failed, and why. Asking for its value raises the error."""

    document: str
    error: FillError

    @property
    def problem(self) -> str:
        """The error's message without the document's name in front."""
        return str(self.error).removeprefix(f"{self.document}: ")

    @property
    def value(self) -> NoReturn:
        raise self.error

    @property
    def text(self) -> NoReturn:
        raise self.error


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one document.

    index    its place among all documents of the run, from 0
    json     the value as JSON, where the text that was written is none
    """

    index: int
    document: str
    outcome: Result | ExtractionError
    json: str | None = None


def extract(
    engine: Engine, documents: Iterable[str | Path | Source], form: Any, **settings: Any
) -> Iterator[Result | ExtractionError]:
    """Results in the order of the documents, each as soon as it and all before it are done.

    `documents`: texts, paths of text files, or what `documents.read_texts` and `read_rows` give.
    `form`: anything that `fillengine.compile` takes. `settings`: the fields of `Settings`.
    Raises FormError for the form, BudgetTooSmall for `max_tokens`, and TypeError for a setting that does not
    exist, all at once.
    """
    rows = extract_rows(engine, documents, as_form(form), Settings(**settings))
    return (row.outcome for row in rows)


def extract_rows(
    engine: Engine,
    documents: Iterable[str | Path | Source],
    form: Form,
    settings: Settings,
    *,
    first_index: int = 0,
) -> Iterator[Row]:
    """As `extract`, with the name of each document.

    `first_index` is the index of the first one: a resumed run gives each document the random numbers that it
    would have had in one go.
    """
    if settings.max_tokens is not None:
        Constraint(form, engine.tokenizer).session(max_tokens=settings.max_tokens)
    return _rows(engine, documents, form, settings, first_index)


def as_form(form: Any) -> Form:
    return form if isinstance(form, Form) else compile(form)


def _rows(
    engine: Engine,
    documents: Iterable[str | Path | Source],
    form: Form,
    settings: Settings,
    first_index: int,
) -> Iterator[Row]:
    # Documents that the engine has been given or that failed before it, and whose row is not out yet.
    waiting: deque[tuple[int, str, ExtractionError | None]] = deque()

    def requests() -> Iterator[Request]:
        for index, document in enumerate(documents, start=first_index):
            source = _as_source(document, index)
            try:
                request = request_of(engine, source, form, settings, index)
            except FillError as error:
                waiting.append((index, source.name, ExtractionError(source.name, error)))
            else:
                waiting.append((index, source.name, None))
                yield request

    def failed_rows() -> Iterator[Row]:
        while waiting and waiting[0][2] is not None:
            index, name, failure = waiting.popleft()
            if failure is not None:
                yield Row(index, name, failure)

    for _, outcome in engine.run(requests(), batch_size=settings.batch_size):
        yield from failed_rows()
        index, name, _ = waiting.popleft()
        checked_outcome = _checked_outcome(name, outcome)
        yield Row(index, name, checked_outcome, _as_json(form, checked_outcome))
    yield from failed_rows()


def _as_json(form: Form, outcome: Result | ExtractionError) -> str | None:
    """The value of a text form's text; None for an error, and where the text is JSON itself."""
    if form.schema is not None or isinstance(outcome, ExtractionError):
        return None
    return json.dumps(to_jsonable_python(outcome.value, fallback=str), ensure_ascii=False)


def _checked_outcome(name: str, outcome: Result | FillError) -> Result | ExtractionError:
    """A failure with its document's name. A pydantic model may also have validators that no schema shows."""
    if isinstance(outcome, FillError):
        return ExtractionError(name, outcome)
    try:
        _ = outcome.value
    except Exception as error:  # a validator may raise anything
        why = " ".join(str(error).split())
        refusal = FillError(f"{name}: the model's own validators refuse the answer {outcome.text}: {why}")
        refusal.__cause__ = error
        return ExtractionError(name, refusal)
    return outcome


def request_of(engine: Engine, source: Source, form: Form, settings: Settings, index: int) -> Request:
    """What the engine is asked for a document: prompt, grounded form, and what the settings say. Raises FillError."""
    if isinstance(source, BadDocument):
        raise source.error
    checked(source.name, source.text)
    request = engine.request(
        _messages(form, source.text, settings),
        form,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        row_id=index,
        fill=settings.fill,
        source_text=source.text,
        logprobs=settings.logprobs,
    )
    limit = engine.context_length
    if limit is not None and len(request.prompt) > limit:
        # Here and not by the engine: grounding a huge text first would take long.
        raise ContextExceeded(
            f"the document makes a prompt of {len(request.prompt)} tokens, but the model's context is {limit} "
            "tokens; shorten the document, or use a model with a longer context"
        )
    return replace(request, form=form.ground(source.text, settings.grounding))


def _messages(form: Form, document: str, settings: Settings) -> list[dict[str, str]]:
    said: dict[str, Any] = {"instructions": settings.instructions, "example": settings.example}
    if isinstance(form.source, TextForm):
        return build_text_messages(form.source.description, document, **said)
    return build_messages(form.schema, document, **said)


def _as_source(document: str | Path | Source, index: int) -> Source:
    if isinstance(document, str):
        return Document(f"document {index}", document)
    if isinstance(document, Path):
        try:
            return read_text(str(document))
        except DocumentError as error:
            return BadDocument(str(document), error)
    return document

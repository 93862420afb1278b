"""`@filled`: a pydantic model that can fill itself from a document.

    @filled
    class Invoice(BaseModel):
        number: str
        total: Decimal

    Invoice.fill(text)                  -> Invoice
    Invoice.fill_many(texts)            -> iterator of Invoice | ExtractionError

Not every type checker lets a decorator add methods; `class Invoice(Filled, BaseModel)` does the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from fillengine.extraction.documents import Source
from fillengine.extraction.extract import Engine, ExtractionError, extract

Model = TypeVar("Model", bound=BaseModel)
Self = TypeVar("Self", bound="Filled")

_lock = threading.Lock()
_engines: list[Engine] = []


def default_engine() -> Engine:
    """The engine of the default model, loaded at the first call and kept. Raises ModelError."""
    with _lock:
        if not _engines:
            # Here and not above: a module that only declares models need not load MLX.
            from fillengine.extraction.engine import load

            _engines.append(load())
        return _engines[0]


class Filled:
    """Adds `fill` and `fill_many` to a pydantic model."""

    @classmethod
    def fill(cls: type[Self], document: str | Path | Source, *, engine: Engine | None = None, **options: Any) -> Self:
        """The object that the document describes. `options` are those of `engine.extract`.

        Raises FillError: DocumentError, ContextExceeded, ModelError ...
        """
        (outcome,) = extract(engine or default_engine(), [document], cls, **options)
        return cast("Self", outcome.value)

    @classmethod
    def fill_many(
        cls: type[Self],
        documents: Iterable[str | Path | Source],
        *,
        engine: Engine | None = None,
        **options: Any,
    ) -> Iterator[Self | ExtractionError]:
        """One object a document, in their order; an ExtractionError in place of one that failed."""
        outcomes = extract(engine or default_engine(), documents, cls, **options)
        return (o if isinstance(o, ExtractionError) else cast("Self", o.value) for o in outcomes)


def filled(model: type[Model]) -> type[Model]:
    """Add `fill` and `fill_many` (see `Filled`) to a pydantic model, which is changed and returned.

    TypeError where the model has something else by these names.
    """
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"@filled is for pydantic models, not for {model!r}; derive the class from BaseModel")
    for name in ("fill", "fill_many"):
        ours = Filled.__dict__[name]
        there = getattr(model, name, None)
        if name in model.model_fields or getattr(there, "__func__", there) not in (None, ours.__func__):
            raise TypeError(f"@filled: {model.__name__} already has {name!r}; rename it, or use engine.extract")
        setattr(model, name, ours)
    return model

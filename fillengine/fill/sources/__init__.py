"""Sources of verify spans: text that is likely, offered to the model for checking. One set of sources a row."""

from __future__ import annotations

from typing import Any

from fillengine.fill.sources.begun import Begun
from fillengine.fill.sources.constants import Constants, defaults
from fillengine.fill.sources.cursor import Cursor, Hole, Value
from fillengine.fill.sources.echo import Echo
from fillengine.fill.sources.guess import INSIDE, Guess, Part, Source
from fillengine.fill.sources.own import OwnOutput
from fillengine.fill.sources.prediction import Prediction
from fillengine.fill.sources.rest import UnstableRest

__all__ = [
    "INSIDE", "Begun", "Constants", "Cursor", "Echo", "Guess", "Hole", "OwnOutput", "Part", "Prediction", "Source",
    "UnstableRest", "Value", "defaults", "usual_sources",
]  # fmt: skip


def usual_sources(
    *, source_text: str | None = None, prediction: str | None = None, schema: Any = None
) -> tuple[Source, ...]:
    """The sources of one row.

    source_text   what values may be taken from, the document of an extraction
    prediction    the text that the caller expects
    schema        a JSON Schema, whose defaults are proposed
    """
    sources: list[Source] = [UnstableRest(), Begun()]
    if prediction:
        sources.append(Prediction(prediction))
    sources.append(OwnOutput())
    if source_text:
        sources.append(Echo(source_text))
    if schema is not None and (values := defaults(schema)):
        sources.append(Constants(values))
    return tuple(sources)

"""The engine with extraction on top: what `fillengine.load` gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fillengine.extraction.extract import ExtractionError, extract
from fillengine.extraction.settings import DEFAULT_GROUNDING, Fill, Grounding
from fillengine.generation import engine as generation
from fillengine.generation.models import DEFAULT_MODEL
from fillengine.generation.result import Result

if TYPE_CHECKING:
    from fillengine.extraction.documents import Source
    from fillengine.extraction.prompt import Example


class Engine(generation.Engine):
    """A model that writes texts in given forms, and reads documents into them."""

    def extract(
        self,
        documents: Iterable[str | Path | Source],
        form: Any,
        *,
        instructions: str | None = None,
        example: Example | None = None,
        fill: Fill = "auto",
        grounding: Grounding = DEFAULT_GROUNDING,
        batch_size: int = 1,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        seed: int = 0,
        logprobs: int | None = None,
    ) -> Iterator[Result | ExtractionError]:
        """What each document says, in the given form: an iterator in the order of the documents.

        A document is a text, the path of a text file, or what `extraction.documents` reads. The options are
        explained at `extraction.settings.Settings`. A document that cannot be served gives an ExtractionError
        in its place; its `.value` raises.
        Raises FormError for the form and BudgetTooSmall for `max_tokens` at once.
        """
        return extract(
            self,
            documents,
            form,
            instructions=instructions,
            example=example,
            fill=fill,
            grounding=grounding,
            batch_size=batch_size,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            logprobs=logprobs,
        )


def load(name: str | Path = DEFAULT_MODEL) -> Engine:
    """The engine of a known model, a folder in mlx-lm's format, or a hub name. Raises ModelError."""
    return Engine.load(name)

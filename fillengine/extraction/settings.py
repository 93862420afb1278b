"""How the documents of a run are read. Light to import: the command line shows these defaults in its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fillengine.extraction.prompt import Example

Fill = Literal["auto", "assert", "off"]
Grounding = Literal["verbatim", "free"]

DEFAULT_GROUNDING: Grounding = "verbatim"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of all documents of a run.

    instructions   text for the model beside the schema
    example        a worked example, shown before the document
    fill           "auto": forced text is inserted, likely text checked in the same pass; "assert": forced
                   text only; "off": neither. The answer is the same.
    grounding      "verbatim": every string field holds what stands in the document; "free": only fields
                   that the form marks
    batch_size     documents that run together
    max_tokens     of an answer, which is whole and valid in any case (None: what the model's context leaves,
                   at most 1,024)
    temperature    0 takes the likeliest token each time; seed: of the random numbers above 0
    logprobs       how many of the likeliest tokens the results name at each place, besides the chosen one
                   (None: no logprobs)
    """

    instructions: str | None = None
    example: Example | None = None
    fill: Fill = "auto"
    grounding: Grounding = DEFAULT_GROUNDING
    batch_size: int = 1
    max_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    logprobs: int | None = None

"""A tiny model, records for it, and contenders that only pretend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import tiny  # isort: skip (an optimised BLAS, before mlx is imported)

from tiny_engine import tiny_tokenizer

from fillengine.bench.contenders import Answer, Turn
from fillengine.bench.records import Record
from fillengine.generation.models import LoadedModel

BUG = {
    "type": "object",
    "properties": {
        "package": {"type": "string", "minLength": 1},
        "closes": {"type": "array", "items": {"type": "integer", "minimum": 1}},
    },
    "required": ["package", "closes"],
    "additionalProperties": False,
}
PAGE = {
    "type": "object",
    "properties": {"mail": {"type": "string", "format": "email"}, "home": {"type": ["string", "null"]}},
    "required": ["mail", "home"],
    "additionalProperties": False,
}
RECORDS = [
    Record("one", "bug", BUG, "ab (1.2) closes 12 and 7.", {"package": "ab", "closes": [12, 7]}),
    Record("two", "bug", BUG, "cd is new.", {"package": "cd", "closes": []}),
    Record("three", "page", PAGE, "Write to a.b@c.example.org.", {"mail": "a.b@c.example.org", "home": None}),
    Record("four", "page", PAGE, "d@e.org, see f g", {"mail": "d@e.org", "home": "f g"}),
]


def tiny_loaded() -> LoadedModel:
    """Its vocabulary is padded, as many models' are."""
    tokenizer = tiny_tokenizer()
    model = tiny.tiny_llama(num_logits=len(tokenizer.get_vocab()) + 5)
    return LoadedModel(model, tokenizer, "tiny", None, 20_000, frozenset({tokenizer.eos_token_id}))


def answer(*token_ids: int, **fields) -> Answer:
    return replace(Answer("{}", list(token_ids), len(token_ids), is_cut=False), **fields)


@dataclass
class Pretender:
    """Answers every record with its number. `heard`: the places of the records of each turn."""

    name: str
    family: str = "pretenders"
    heard: list[list[int]] = field(default_factory=list)
    fails_at: int | None = None

    def run(self, records) -> Turn:
        places = [place for place, _ in records]
        if self.fails_at in places:
            raise KeyboardInterrupt
        self.heard.append(places)
        return Turn([answer(place, 1) for place in places], 0.25, 0.5)

"""Known answers in place of a model's own choices: what a right answer costs, whatever the weights.

A model with random weights tells what passes cost, but it writes nonsense, and no draft from a document is ever
right. So the passes are run, masked and chosen from as always, and then the true answer's token is taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fillengine.bench.records import Record
from fillengine.errors import TokenRejected
from fillengine.extraction.engine import Engine
from fillengine.fill import DEFAULT_GUARD, Constraint
from fillengine.fill.tokenizer import Tokenizer
from fillengine.generation.choices import Chooser
from fillengine.generation.models import LoadedModel
from fillengine.generation.sampling import Draw
from fillengine.templates import compile

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)

if TYPE_CHECKING:
    from fillengine.automata.mask import Mask
    from fillengine.extraction.settings import Grounding

# The tokens to write by the place of the record among all.
Script = Mapping[int, Sequence[int]]


def true_text(record: Record) -> str:
    """The true answer, as our usual style and `json.dumps` write it."""
    return json.dumps(record.truth, ensure_ascii=False)


def script_of(records: Sequence[Record], tokenizer: Tokenizer) -> Script:
    assert tokenizer.encoder is not None
    return {place: tokenizer.encoder.encode(true_text(record)) for place, record in enumerate(records)}


def writable(records: Sequence[Record], groundings: Sequence[Grounding], tokenizer: Tokenizer) -> list[Record]:
    """The records whose true answers a session over their forms, grounded in their documents, lets through."""
    return [
        record
        for record in records
        if all(
            _lets_through(Constraint(compile(record.schema).ground(record.document, grounding), tokenizer), record)
            for grounding in groundings
        )
    ]


def _lets_through(constraint: Constraint, record: Record) -> bool:
    session = constraint.session(guard=DEFAULT_GUARD)
    try:
        for token_id in script_of([record], constraint.tokenizer)[0]:
            session.advance(token_id)
    except TokenRejected:
        return False
    return session.is_complete


class ScriptedEngine(Engine):
    """An engine that writes what the script says. A row's number is its place in the script."""

    def __init__(self, loaded: LoadedModel, script: Script) -> None:
        super().__init__(loaded)
        self._chooser = _ScriptedChooser(self._chooser, script)


class _ScriptedChooser(Chooser):
    def __init__(self, chooser: Chooser, script: Script) -> None:
        super().__init__(chooser.model)
        self._script = script

    def choices(self, hidden: mx.array, masks: Sequence[Mask], draws: Sequence[Draw]) -> mx.array:
        return instead_of(
            super().choices(hidden, masks, draws),
            [token_at(self._script[draw.row_id], draw.position) for draw in draws],
        )


def instead_of(choices: mx.array, token_ids: Sequence[int]) -> mx.array:
    """`token_ids`, as soon as the choices are made: these are still computed. -1 (no number) goes through."""
    return mx.where(choices >= 0, mx.array(np.array(token_ids, np.int32)), choices.astype(mx.int32))


def token_at(token_ids: Sequence[int], position: int) -> int:
    """Past the end the last token again: a generator may ask for one more that it then throws away."""
    return token_ids[min(position, len(token_ids) - 1)]

"""The laws of the engine for one form, in one call.

    check_form(Person)                                        a random model over a small vocabulary
    check_form(Person, tokenizer="path/of/a/model")           over the vocabulary that it will be used with
    check_form(Person, model=fillengine.load("smollm2"))      a real model

Valid, same tokens, no dead end, always closes, aligned, isolated: see `docs/testing.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fillengine.fill.constraint import Constraint
from fillengine.generation.engine import Engine
from fillengine.templates import compile
from fillengine.testing.laws import LawViolation, check_walk
from fillengine.testing.models import RandomModel, ToyModel
from fillengine.testing.rows import Accounts, check_rows

WALKS = 2
"""Texts of each example that are written without a model."""


@dataclass(frozen=True)
class Report:
    """What a check came to when every law held.

    examples    each of them `walks` texts from random choices, and a batch of rows written in several ways
    rows, tokens, forwards, proposed, accepted     of all batches; a forward pass is counted for each row in it
    near_ties   rows that were compared no further, since two tokens were too close to each other
    refused     texts that the schema permits and the model's own validators refuse: nothing the engine can know
    unjudged    texts that jsonschema could not judge (recursion, more digits than a float has, multiples of fractions)
    """

    examples: int
    walks: int
    rows: int
    tokens: int
    forwards: int
    proposed: int
    accepted: int
    stopped: int
    near_ties: int
    refused: int
    unjudged: int

    def __str__(self) -> str:
        lines = [
            f"{self.examples} examples: every law held in {self.walks} random texts and {self.rows} rows",
            f"  {self.tokens} tokens in {self.forwards} forward passes, {self.accepted} of {self.proposed} proposed "
            f"tokens kept, {self.stopped} rows stopped on purpose",
        ]
        for number, what in (
            (self.refused, "texts fit the schema, and the model's own validators refuse them"),
            (self.unjudged, "texts could not be judged by jsonschema"),
            (self.near_ties, "rows were compared in part only, since two tokens were too close to each other"),
        ):
            if number:
                lines.append(f"  {number} {what}")
        return "\n".join(lines)


def check_form(
    form: Any,
    *,
    tokenizer: Any = None,
    model: str | Path | ToyModel | Engine = "random",
    examples: int = 100,
    seed: int = 0,
    example: int | None = None,
    **options: Any,
) -> Report:
    """Hold the engine to its laws for one form.

    form        anything that `fillengine.compile` takes; `options` are those of `compile`
    tokenizer   whose vocabulary to use (see `fillengine.Constraint`; None: a small one). Not with an engine.
    model       "random", a toy model, an Engine, or what `fillengine.load` takes
    examples    how many; all are drawn from `seed`. `example`: this one only, to see a violation again.

    Raises LawViolation, whose message is a report of the first one; FormError for the form, VocabularyError for
    the tokenizer.
    """
    compiled = compile(form, **options)
    engine = engine_of(model, tokenizer, seed)
    constraint = Constraint(compiled, engine.tokenizer)
    accounts = Accounts()
    numbers = range(examples) if example is None else [example]
    for number in numbers:
        random = Random(f"{seed} {number}")
        try:
            for _ in range(WALKS):
                check_walk(compiled, constraint, random, accounts.judgement)
            check_rows(engine, compiled, constraint, random, accounts)
        except LawViolation as violation:
            violation.seed, violation.example = seed, number
            raise
    return Report(
        examples=len(numbers),
        walks=len(numbers) * WALKS,
        rows=accounts.rows,
        tokens=accounts.tokens,
        forwards=accounts.forwards,
        proposed=accounts.proposed,
        accepted=accounts.accepted,
        stopped=accounts.stopped,
        near_ties=accounts.near_ties,
        refused=accounts.judgement.refused,
        unjudged=accounts.judgement.unjudged,
    )


def engine_of(model: str | Path | ToyModel | Engine, tokenizer: Any, seed: int) -> Engine:
    """The engine that `check_form` uses for these arguments."""
    if model == "random":
        return RandomModel(tokenizer, seed=seed).engine()
    if tokenizer is not None:
        raise ValueError("a tokenizer goes with model='random'; a model or an engine has its own")
    if isinstance(model, Engine):
        return model
    if isinstance(model, ToyModel):
        return model.engine()
    return Engine.load(model)

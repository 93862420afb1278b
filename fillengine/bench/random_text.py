"""One random text of a schema, and what became of it."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from random import Random
from typing import Any

from fillengine.errors import BudgetTooSmall, UnsatisfiableForm, UnsupportedForm
from fillengine.fill.constraint import Constraint
from fillengine.fill.guard import Guard
from fillengine.fill.session import Session
from fillengine.templates import Form, compile

DEEP = 100_000
"""Python's recursion limit while a text is judged: random texts nest deeper than people's."""

STACK_BYTES = 512 << 20
"""The stack on which it is judged."""

SHOWN = 300
"""Characters of a text that a row shows."""


class Outcome(str, Enum):
    """What became of a text. The first four are no faults: it is right, or an error says why there is none."""

    VALID = "valid"
    REFUSED = "refused"
    UNSATISFIABLE = "unsatisfiable"
    BUDGET_TOO_SMALL = "budget too small"
    INVALID = "invalid"
    DEAD_END = "dead end"
    OVER_BUDGET = "over budget"
    TOO_SLOW = "too slow"
    FAILED = "failed"

    @property
    def is_fine(self) -> bool:
        return self in (Outcome.VALID, Outcome.REFUSED, Outcome.UNSATISFIABLE, Outcome.BUDGET_TOO_SMALL)


@dataclass(frozen=True, slots=True)
class Walk:
    """`tokens` were written; `fewest` is the engine's bound on the shortest text; `seconds` is processor time."""

    outcome: Outcome
    tokens: int = 0
    fewest: int | None = None
    seconds: float = 0.0
    detail: str = ""

    def row(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome.value, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class Limits:
    """budget: tokens of a text; slack: tokens above the shortest text, in place of the budget."""

    budget: int = 2_000
    slack: int | None = None
    guard: Guard | None = None


def walk(schema: Any, tokenizer: Any, random: Random, limits: Limits, report: Callable[[str], None]) -> Walk:
    """Write one text of `schema`, each token drawn uniformly from those that are allowed, and judge it."""
    began = time.process_time()

    def came_to(outcome: Outcome, session: Session | None = None, detail: str = "") -> Walk:
        tokens = 0 if session is None else session.num_tokens
        return Walk(outcome, tokens, fewest, time.process_time() - began, detail)

    fewest: int | None = None
    report("compiling")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            form = compile(schema, additional="schema")
        constraint = Constraint(form, tokenizer)
        fewest = constraint.fewest_tokens
        budget = limits.budget if limits.slack is None else fewest + limits.slack
        session = constraint.session(max_tokens=budget, guard=limits.guard)
    except UnsatisfiableForm as error:
        return came_to(Outcome.UNSATISFIABLE, detail=str(error))
    except UnsupportedForm as error:
        return came_to(Outcome.REFUSED, detail=f"{error.pointer} {error.keyword}: {error.problem}")
    except BudgetTooSmall as error:
        return came_to(Outcome.BUDGET_TOO_SMALL, detail=str(error))
    size = constraint.vocabulary.size
    while not session.is_finished:
        if session.num_tokens % 50 == 0:
            report(f"{session.num_tokens} tokens: {session.data[-80:]!r}")
        mask = session.mask()
        token_id = mask.single
        if token_id is None:
            allowed = mask.token_ids(size)
            if not len(allowed):
                return came_to(Outcome.DEAD_END, session, f"after {session.data[-SHOWN:]!r}")
            token_id = int(allowed[random.randrange(len(allowed))])
        session.advance(token_id)
    if not session.is_complete:
        return came_to(Outcome.OVER_BUDGET, session, f"{session.data[-SHOWN:]!r}")
    report("judging")
    problem = judge(form, session.data)
    return came_to(Outcome.VALID if problem is None else Outcome.INVALID, session, problem or "")


def judge(form: Form, data: bytes) -> str | None:
    """What is wrong with a text; None where it parses and validates."""
    problems: list[str | None] = []

    def work() -> None:
        try:
            form.validate(data.decode("utf-8", errors="strict"))
            problems.append(None)
        except Exception as error:  # whatever a validator finds or stumbles over is what the row says
            place = "/".join(map(str, getattr(error, "absolute_path", ())))
            rule = "/".join(map(str, getattr(error, "absolute_schema_path", ())))
            said = str(error).splitlines()[0][:SHOWN]
            problems.append(f"{type(error).__name__} at /{place} by {rule}: {said} in {data[:SHOWN]!r}")

    # A thread can be given a stack as deep as the text, the main thread cannot.
    limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(DEEP)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    return problems[0]

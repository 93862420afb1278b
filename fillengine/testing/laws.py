"""The laws of a session, checked along one random text: masks are exact, no dead end, always closes, valid.

Nothing here looks at how masks or costs are found: a mask is compared with trying every token byte by byte, a text
with jsonschema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import jsonschema
import numpy as np
import pydantic

from fillengine.automata.leaf import INFINITE
from fillengine.automata.state import State
from fillengine.errors import TokenRejected
from fillengine.fill.constraint import Constraint
from fillengine.fill.guard import Guard
from fillengine.fill.session import Session
from fillengine.templates import Form

MAX_TRIED = 500
"""Tokens that are tried byte by byte at one place; of larger vocabularies that many are drawn."""

# A number of so many digits is not what json.loads reads, so that its bounds cannot be judged.
_TOO_PRECISE = re.compile(r"[0-9][0-9.]{15}|[0-9][eE]")


class LawViolation(AssertionError):
    """A law that does not hold. The message is the report.

    law         its name in `docs/testing.md`
    problem     what was found
    seed, example    what `check_form` must be given to find it again (`example=`)
    token_ids, text  what was written up to there
    pointer     where in the value, as far as the form says
    """

    def __init__(
        self, law: str, problem: str, *, token_ids: Sequence[int] = (), text: bytes = b"", pointer: str = ""
    ) -> None:
        self.law = law
        self.problem = problem
        self.token_ids = list(token_ids)
        self.text = text
        self.pointer = pointer
        self.seed: int | None = None
        self.example: int | None = None
        super().__init__(law, problem)

    def __str__(self) -> str:
        lines = [f"{self.law}: {self.problem}"]
        if self.seed is not None:
            lines.append(f"  again with  check_form(..., seed={self.seed}, example={self.example})")
        lines.append(f"  tokens      {self.token_ids}")
        lines.append(f"  text        {self.text!r}")
        if self.pointer:
            lines.append(f"  in          {self.pointer}")
        return "\n".join(lines)

    @classmethod
    def at(cls, session: Session, law: str, problem: str) -> LawViolation:
        """One that was found where this session stands."""
        labels = {getattr(spot.node, "label", "") for spot, _, _ in session.state.configurations}
        pointer = ", ".join(sorted(label for label in labels if label))
        return cls(law, problem, token_ids=session.token_ids, text=session.data, pointer=pointer)


@dataclass
class Judgement:
    """What could not be judged: `refused` by a model's own validators, `unjudged` where the judge gives up."""

    refused: int = 0
    unjudged: int = 0


def check_walk(form: Form, constraint: Constraint, random: Random, judgement: Judgement) -> Session:
    """Write one text from random choices and hold every place of it to the laws. Raises LawViolation."""
    budget = constraint.fewest_tokens + random.choice((0, 1, 3, 10, 40))
    guard = random.choice((None, Guard()))
    session = constraint.session(max_tokens=budget, guard=guard)
    places: list[bytes] = []
    while not session.is_finished:
        check_place(session, random)
        places.append(session.mask().bits.tobytes())
        _try_rejected(session, random)
        token_id = _next(session, random)
        try:
            session.advance(token_id)
        except (AssertionError, TokenRejected) as error:
            problem = f"the allowed token {_shown(constraint, token_id)} could not be written: {error!r}"
            raise LawViolation.at(session, "Masks are exact", problem) from error
    check_end(form, session, judgement, budget)
    _check_replay(constraint, session, budget, guard, places)
    return session


def check_place(session: Session, random: Random) -> None:
    """The mask of one place. Raises LawViolation."""
    constraint, state = session.constraint, session.state
    vocabulary, machine = constraint.vocabulary, constraint.machine
    of_state = constraint.masks.of(state).unpacked(vocabulary.size)
    tried = range(vocabulary.size)
    if vocabulary.size > MAX_TRIED:
        likely = np.flatnonzero(of_state).tolist()
        drawn = random.sample(tried, MAX_TRIED // 2)
        tried = sorted({*drawn, *random.sample(likely, min(len(likely), MAX_TRIED // 2))})  # type: ignore[assignment]
    for token_id in tried:
        can_come = _can_come(constraint, state, token_id)
        if can_come != of_state[token_id]:
            wrong = "forbids" if can_come else "allows"
            can = "can" if can_come else "cannot"
            problem = f"the mask {wrong} {_shown(constraint, token_id)}, which {can} be written here"
            raise LawViolation.at(session, "Masks are exact", problem)
    allowed = session.allowed()
    beyond = np.flatnonzero(allowed & ~of_state)
    if len(beyond):
        problem = f"the session allows {_shown(constraint, int(beyond[0]))}, which the form does not"
        raise LawViolation.at(session, "Masks are exact", problem)
    for token_id in tried:
        if session.allows(token_id) != allowed[token_id]:
            takes, says = ("refuses", "allows") if allowed[token_id] else ("takes", "forbids")
            problem = f"the session {takes} {_shown(constraint, token_id)}, which its mask {says}"
            raise LawViolation.at(session, "Masks are exact", problem)
    if not allowed.any():
        raise LawViolation.at(session, "No dead end", "no token is allowed, and the text is not finished")
    remaining = session.remaining
    if remaining is None:
        return
    for token_id in np.flatnonzero(allowed).tolist()[:MAX_TRIED]:
        text = vocabulary.tokens[token_id]
        after = None if text is None else machine.advance(state, text)
        if after is not None and machine.cost(after) > remaining - 1:
            problem = (
                f"{_shown(constraint, token_id)} is allowed, and behind it the text needs {machine.cost(after)} "
                f"tokens of the {remaining - 1} that are left"
            )
            raise LawViolation.at(session, "Always closes", problem)


def _can_come(constraint: Constraint, state: State, token_id: int) -> bool:
    vocabulary, machine = constraint.vocabulary, constraint.machine
    if token_id in vocabulary.eos_ids:
        return state.is_accepting
    text = vocabulary.tokens[token_id]
    after = None if text is None else machine.advance(state, text)
    return after is not None and machine.cost(after) < INFINITE


def _try_rejected(session: Session, random: Random) -> None:
    """A token that is not allowed is rejected, and changes nothing."""
    token_id = random.randrange(session.constraint.vocabulary.size)
    if session.mask().allows(token_id):
        return
    before = (session.token_ids, session.data, session.state, session.mask().bits.tobytes())
    try:
        session.advance(token_id)
    except TokenRejected:
        if before == (session.token_ids, session.data, session.state, session.mask().bits.tobytes()):
            return
        raise LawViolation.at(session, "Rejected", "a token that was rejected has changed the session") from None
    shown = _shown(session.constraint, token_id)
    raise LawViolation.at(session, "Rejected", f"{shown} was taken, which the mask forbids")


def _next(session: Session, random: Random) -> int:
    """An allowed token: any, or one of those that bring the end nearest."""
    allowed = session.mask().token_ids(session.constraint.vocabulary.size).tolist()
    if random.random() < 0.75:
        return int(random.choice(allowed))
    machine, tokens = session.constraint.machine, session.constraint.vocabulary.tokens

    def left(token_id: int) -> int:
        text = tokens[token_id]
        after = None if text is None else machine.advance(session.state, text)
        return 0 if after is None else machine.cost(after)

    drawn = random.sample(allowed, min(len(allowed), 12))
    return int(min(drawn, key=left))


def check_end(form: Form, session: Session, judgement: Judgement, budget: int | None = None) -> None:
    """A finished text is whole, within its budget, and valid. Raises LawViolation."""
    if not session.is_complete:
        raise LawViolation.at(session, "Always closes", f"the text ended unfinished, with a budget of {budget} tokens")
    if budget is not None and session.num_tokens > budget:
        problem = f"the text took {session.num_tokens} tokens, with a budget of {budget}"
        raise LawViolation.at(session, "Always closes", problem)
    try:
        text = session.data.decode()
    except UnicodeDecodeError as error:
        raise LawViolation.at(session, "Valid", f"the text is no UTF-8: {error}") from error
    if not session.constraint.machine.accepts(session.data):
        raise LawViolation.at(session, "Valid", "the text as a whole is not accepted")
    try:
        form.validate(text)
    except pydantic.ValidationError:
        judgement.refused += 1
    except RecursionError:
        judgement.unjudged += 1
    except Exception as error:  # whatever the judge says
        if _TOO_PRECISE.search(text) or _is_rounded(error) or not _is_judgement(error):
            judgement.unjudged += 1
            return
        problem = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        raise LawViolation.at(session, "Valid", problem) from error


def _is_judgement(error: Exception) -> bool:
    return isinstance(error, jsonschema.ValidationError | json.JSONDecodeError | AssertionError | ValueError)


def _is_rounded(error: Exception) -> bool:
    """jsonschema divides floats: 8.54 is no multiple of 0.01 to it, which JSON Schema says it is."""
    if not isinstance(error, jsonschema.ValidationError):
        return False
    if error.validator == "multipleOf":
        return Decimal(repr(error.instance)) % Decimal(repr(error.validator_value)) == 0
    return any(_is_rounded(inner) for inner in error.context or ())


def _check_replay(
    constraint: Constraint, session: Session, budget: int, guard: Guard | None, places: list[bytes]
) -> None:
    """The same tokens once more meet the same masks, whatever was looked at in between."""
    again = constraint.session(max_tokens=budget, guard=guard)
    for place, token_id in enumerate(session.token_ids):
        if again.mask().bits.tobytes() != places[place]:
            raise LawViolation.at(again, "Sessions depend on their tokens", "the mask is another one than before")
        again.advance(token_id)


def _shown(constraint: Constraint, token_id: int) -> str:
    text = constraint.vocabulary.tokens[token_id]
    kind = "the end of sequence" if token_id in constraint.vocabulary.eos_ids else repr(text)
    return f"token {token_id} ({kind})"

"""The laws of an engine, checked with a few rows of one form: same tokens, aligned, isolated, noise of their own.

What a row should say is found by hand: one pass of the model over the whole text without any cache, the session's
masks, and the rule of `Sampling` in numpy. Then the same rows are written with drafts that are wrong on purpose, in
another order and batch, while others are cancelled or fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from fillengine.errors import FillError, Stopped
from fillengine.fill import Fill
from fillengine.fill.constraint import Constraint
from fillengine.fill.session import Session
from fillengine.fill.sources import INSIDE, Cursor, Guess, Part
from fillengine.generation.engine import Engine
from fillengine.generation.job import Job
from fillengine.generation.request import Request
from fillengine.generation.result import Result
from fillengine.generation.sampling import Draw, Sampling, noise
from fillengine.generation.scheduler import Scheduler
from fillengine.templates import Form
from fillengine.testing.laws import Judgement, LawViolation, check_end

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)

SAMPLINGS = (Sampling(), Sampling(0.8), Sampling(1.5, top_p=0.9), Sampling(1.0, top_k=5, min_p=0.05), Sampling(1.3))
NEAR = 1e-3
"""Two scores so close to each other may change places by rounding: from there on a row is not compared."""
UNBELIEVABLE = math.log(1e-9)
"""Rows that draw for themselves agree by such a chance in no run."""
MAX_STEPS = 5_000

Array = npt.NDArray[Any]


@dataclass
class Agreement:
    """How rows agree that have all in common but their row id.

    log_chance: of all pairs together, as far as they agree; None once a pair has parted.
    """

    log_chance: float | None = 0.0

    def add(self, left: Sequence[int], right: Sequence[int], log_chance: float) -> None:
        if left != right:
            self.log_chance = None
        elif self.log_chance is not None:
            self.log_chance += log_chance


@dataclass
class Accounts:
    """What a check came to."""

    rows: int = 0
    tokens: int = 0
    forwards: int = 0
    proposed: int = 0
    accepted: int = 0
    near_ties: int = 0
    stopped: int = 0
    judgement: Judgement = field(default_factory=Judgement)
    agreement: Agreement = field(default_factory=Agreement)


class Adversary:
    """A source whose drafts are right as far as it likes, then wrong: allowed or not, beyond the value or the end."""

    name = "adversary"
    odds = {"begin": 0.95, INSIDE: 0.95}  # noqa: RUF012 (read only)

    def __init__(self, truth: bytes, seed: int) -> None:
        self._truth = truth
        self._random = Random(seed)

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        random, written = self._random, len(cursor.data)
        text = b""
        if self._truth.startswith(bytes(cursor.data)) and random.random() < 0.8:
            text = self._truth[written : written + random.choice((1, 4, 12, 60))]
        if random.random() < 0.7:
            text = text[: random.randrange(len(text) + 1)] + self._wrong(cursor, text)
        return [Guess(self, (Part(text, "begin"),))] if text else []

    def _wrong(self, cursor: Cursor, text: bytes) -> bytes:
        """Bytes that the form may allow behind `text`, or any."""
        machine, random = cursor.machine, self._random
        state, found = machine.advance(cursor.state, text), bytearray()
        while state is not None and len(found) < 12 and (following := state.next_bytes()):
            found.append(random.choice(following))
            state = machine.step(state, found[-1])
        return bytes(found) or bytes([random.randrange(32, 127)])


class Broken:
    """A source that fails."""

    name = "broken"
    odds: dict[str, float] = {}  # noqa: RUF012 (read only)

    def propose(self, _cursor: Cursor) -> Iterable[Guess]:
        raise RuntimeError("this source is broken")


def check_rows(engine: Engine, form: Form, constraint: Constraint, random: Random, accounts: Accounts) -> None:
    """Write a few rows in several ways and hold them to the laws. Raises LawViolation."""
    requests = _requests(engine, form, constraint, random)
    plain = [replace(request, fill=random.choice(("off", "assert"))) for request in requests]
    truths: list[tuple[int, ...] | None] = []
    log_chances: list[float] = []
    for index, outcome in engine.run(plain, batch_size=random.randrange(1, len(plain) + 1)):
        request = requests[index]
        result = _finished(outcome, constraint, "a row of its own")
        replayed = _replayed(constraint, request, result)
        check_end(form, replayed, accounts.judgement, request.max_tokens)
        is_sure, log_chance = _check_choices(engine, constraint, request, index, result.token_ids)
        accounts.near_ties += not is_sure
        accounts.rows += 1
        _count(accounts, result)
        truths.append(tuple(result.token_ids) if is_sure else None)
        log_chances.append(log_chance)
    first, second = truths[0], truths[1]
    if first is not None and second is not None:
        _check_own_noise(constraint, accounts, (first, second), log_chances[0])
    _check_adversity(engine, constraint, requests, truths, random, accounts)


def _requests(engine: Engine, form: Form, constraint: Constraint, random: Random) -> list[Request]:
    """The first two differ in nothing but their row id, and are drawn at a temperature."""
    common = "".join(random.choice("abc {}\"',.") for _ in range(random.choice((0, 20, 40))))
    found = []
    for number in range(random.randrange(3, 6)):
        own = "".join(random.choice("xyz 0") for _ in range(random.randrange(1, 12)))
        found.append(
            Request(
                engine.encode(common + own),
                form,
                random.choice(SAMPLINGS[1:] if number == 0 else SAMPLINGS),
                seed=random.randrange(3),
                max_tokens=constraint.fewest_tokens + random.choice((0, 2, 10, 30)),
                guard=None,
            )
        )
    found[0] = replace(found[0], max_tokens=constraint.fewest_tokens + 24, sampling=SAMPLINGS[-1])
    return [found[0], replace(found[0]), *found[1:]]


def _finished(outcome: Result | FillError, constraint: Constraint, what: str) -> Result:
    if isinstance(outcome, Result):
        return outcome
    problem = f"{what} failed: {type(outcome).__name__}: {outcome}"
    raise LawViolation("Always closes", problem, text=constraint.machine.start.next_bytes()[:0]) from outcome


def _replayed(constraint: Constraint, request: Request, result: Result) -> Session:
    session = constraint.session(max_tokens=request.max_tokens, guard=request.guard)
    for token_id in result.token_ids:
        if session.is_finished or not session.mask().allows(token_id):
            shown = constraint.vocabulary.tokens[token_id]
            raise LawViolation.at(session, "Valid", f"the engine wrote token {token_id} ({shown!r}) here")
        session.advance(token_id)
    if not session.is_finished and session.is_complete:
        # The end of sequence was chosen, which is not among the tokens of a result.
        session.advance(next(iter(constraint.vocabulary.eos_ids)))
    return session


def _check_choices(
    engine: Engine, constraint: Constraint, request: Request, row_id: int, token_ids: list[int]
) -> tuple[bool, float]:
    """Compare a row with what the model says of the whole text, without a cache.

    Returns whether all choices were clear, and the logarithm of the chance that another row makes the same ones.
    """
    tokens = [*request.prompt, *token_ids]
    logits = np.array(engine.loaded.model(mx.array([tokens], dtype=mx.int32))[0].astype(mx.float32))
    session = constraint.session(max_tokens=request.max_tokens, guard=request.guard)
    ends = constraint.vocabulary.eos_ids
    log_chance = 0.0
    for place in range(len(token_ids) + 1):
        if session.is_finished:
            break
        allowed = np.zeros(logits.shape[-1], bool)
        mask = session.allowed()[: logits.shape[-1]]
        allowed[: len(mask)] = mask
        scores = np.where(allowed, logits[len(request.prompt) + place - 1], -np.inf)
        draw = Draw(request.sampling, request.seed, row_id, place)
        expected, gap, chance = chosen_by_hand(scores, draw)
        written = token_ids[place] if place < len(token_ids) else None
        is_same = expected == written if written is not None else expected in ends
        if not is_same:
            if gap < NEAR * max(1.0, float(np.abs(scores[allowed]).max())):
                return False, log_chance
            said = "the end" if written is None else _named(constraint, written)
            problem = f"the engine wrote {said}, and the model alone says {_named(constraint, expected)}"
            raise LawViolation.at(session, "Same tokens", problem)
        log_chance += math.log(chance)
        if written is None:
            break
        session.advance(written)
    return True, log_chance


def chosen_by_hand(scores: Array, draw: Draw) -> tuple[int, float, float]:
    """The choice by the rules of `Sampling`, how far the next best was behind, and the chance that two draws agree.

    scores: float[num_logits], minus infinity where the mask forbids.
    """
    sampling = draw.sampling
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    if sampling.temperature == 0 or len(order) == 1:
        gap = float(scores[order[0]] - scores[order[1]]) if len(order) > 1 else math.inf
        return int(order[0]), gap, 1.0
    weights = np.exp((scores[order] - scores[order[0]]).astype(np.float64))
    weights /= weights.sum()
    edges = math.inf
    kept = np.ones(len(order), bool)
    if sampling.top_p < 1:
        before = np.cumsum(weights) - weights
        kept &= before < sampling.top_p
        edges = min(edges, float(np.abs(before - sampling.top_p).min()))
    if sampling.min_p > 0:
        kept &= weights >= sampling.min_p * weights[0]
        edges = min(edges, float(np.abs(weights / weights[0] - sampling.min_p).min()))
    if sampling.top_k and len(order) > sampling.top_k:
        edges = min(edges, abs(float(scores[order[sampling.top_k - 1]] - scores[order[sampling.top_k]])))
        kept[sampling.top_k :] = False
    ids = order[kept]
    drawn = scores[ids] / sampling.temperature
    chances = np.exp((drawn - drawn.max()).astype(np.float64))
    chances /= chances.sum()
    noisy = drawn + np.array(noise([draw], len(scores))[0])[ids]
    ranked = np.argsort(-noisy)
    gap = float(noisy[ranked[0]] - noisy[ranked[1]]) if len(ids) > 1 else math.inf
    return int(ids[ranked[0]]), min(gap, edges), float((chances**2).sum())


def _check_own_noise(
    constraint: Constraint, accounts: Accounts, pair: tuple[tuple[int, ...], tuple[int, ...]], log_chance: float
) -> None:
    """Two rows that differ in their row id only draw for themselves."""
    accounts.agreement.add(*pair, log_chance)
    together = accounts.agreement.log_chance
    agree = log_chance if pair[0] == pair[1] else 0.0
    if min(agree, 0.0 if together is None else together) < UNBELIEVABLE:
        text = b"".join(constraint.vocabulary.tokens[token_id] or b"" for token_id in pair[0])
        problem = (
            "rows with different row ids made the same random choices again and again "
            f"(by chance: 1 in {math.exp(-min(agree, together or 0.0)):.0e})"
        )
        raise LawViolation("Noise of its own", problem, token_ids=pair[0], text=text)


def _check_adversity(
    engine: Engine,
    constraint: Constraint,
    requests: list[Request],
    truths: list[tuple[int, ...] | None],
    random: Random,
    accounts: Accounts,
) -> None:
    """The same rows with drafts that are wrong, in another order, while some are cancelled or fail."""
    tokens = constraint.vocabulary.tokens
    jobs: dict[Job, int] = {}
    doomed: dict[Job, str] = {}
    scheduler = engine.scheduler(max_rows=random.randrange(1, 4), round_tokens=random.choice((1, 7, 64)))
    for index in random.sample(range(len(requests)), len(requests)):
        truth = b"".join(tokens[token_id] or b"" for token_id in truths[index] or ())
        sources: list[Any] = [Adversary(truth, random.randrange(2**31))]
        fate = random.choices(("", "cancelled", "broken"), (6, 1, 1))[0]
        if fate == "broken":
            sources = [Broken()]
        fill: Fill = "auto" if random.random() < 0.75 else "assert"
        request = replace(requests[index], fill=fill, sources=sources, row_id=index)
        job = Job.of(request, index)
        jobs[job] = index
        if fate == "cancelled" or (fate == "broken" and fill == "auto"):
            doomed[job] = fate
        scheduler.submit(job)
    for _ in range(MAX_STEPS):
        if scheduler.is_idle:
            break
        for job in doomed:
            if doomed[job] == "cancelled" and random.random() < 0.2:
                job.is_cancelled = True
        for job in scheduler.step():
            _check_outcome(constraint, job, truths[jobs[job]], doomed.get(job), accounts)
        check_aligned(scheduler, constraint)
    else:
        raise LawViolation("Always closes", f"the rows were not done after {MAX_STEPS} turns")


def _check_outcome(
    constraint: Constraint, job: Job, truth: tuple[int, ...] | None, fate: str | None, accounts: Accounts
) -> None:
    outcome = job.outcome
    if isinstance(outcome, Stopped) and job.is_cancelled:
        accounts.stopped += 1
        return
    if fate == "broken" and isinstance(outcome, FillError) and "this source is broken" in str(outcome):
        accounts.stopped += 1
        return
    if not isinstance(outcome, Result):
        raise LawViolation("Isolated", f"a row that nobody disturbed failed: {outcome}") from outcome
    accounts.rows += 1
    _count(accounts, outcome)
    if truth is None or tuple(outcome.token_ids) == truth:
        return
    common = 0
    while common < min(len(truth), len(outcome.token_ids)) and truth[common] == outcome.token_ids[common]:
        common += 1
    text = b"".join(constraint.vocabulary.tokens[token_id] or b"" for token_id in truth[:common])
    says = [_named(constraint, token_id) for token_id in outcome.token_ids[common : common + 1]] or ["the end"]
    alone = [_named(constraint, token_id) for token_id in truth[common : common + 1]] or ["the end"]
    problem = f"with drafts and beside others the row says {says[0]}, alone {alone[0]}"
    raise LawViolation("Same tokens", problem, token_ids=truth[:common], text=text)


def check_aligned(scheduler: Scheduler, constraint: Constraint) -> None:
    """The cache of each row holds as many tokens as were committed, and those are its prompt and its text."""
    batch = scheduler._batch
    for place, row in enumerate(batch.rows):
        if row is None:
            continue
        job = scheduler._writing[row]
        emitted = row.planner.token_ids
        text = b"".join(constraint.vocabulary.tokens[token_id] or b"" for token_id in emitted)
        num_held = int(batch.cache.layout.lengths[place])
        committed = row.held + row.again + row.pending
        if num_held != len(row.held) or committed != [*job.request.prompt, *emitted]:
            problem = f"the cache holds {num_held} tokens of a row that has committed {len(row.held)}"
            raise LawViolation("Aligned", problem, token_ids=emitted, text=text)


def _named(constraint: Constraint, token_id: int) -> str:
    tokens = constraint.vocabulary.tokens
    return f"token {token_id} ({tokens[token_id]!r})" if token_id < len(tokens) else f"token {token_id}"


def _count(accounts: Accounts, result: Result) -> None:
    stats = result.stats
    accounts.tokens += len(result.token_ids)
    accounts.forwards += stats.forwards
    accounts.proposed += stats.proposed
    accounts.accepted += stats.accepted

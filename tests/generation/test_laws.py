"""The laws of a batch, as a state machine: rows come, are cancelled and fail, and drafts are as wrong as can be.

Whatever happens, a row's tokens are those that mlx-lm with the same masks and noise writes for it alone, the cache
holds exactly the committed tokens, and the accounts add up.

FILLENGINE_EXAMPLES sets how many histories are tried.
"""

from __future__ import annotations

import functools
import os
import random
from collections import Counter
from dataclasses import dataclass

import tiny_engine  # noqa: F401  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mlx_lm.models.cache import make_prompt_cache
from tiny_engine import TinyForm, tiny_tokenizer
from tiny_models import tiny_model

from fillengine.errors import FillError, Stopped
from fillengine.fill import Constraint, Row
from fillengine.fill.draft import Drafted
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.generation.cache import RaggedCache
from fillengine.generation.choices import Chooser
from fillengine.generation.host_attention import Piece
from fillengine.generation.job import Job
from fillengine.generation.layout import Shapes
from fillengine.generation.memory import Footprint
from fillengine.generation.prompts import PromptReader
from fillengine.generation.request import Request
from fillengine.generation.result import Result
from fillengine.generation.sampling import Draw, Sampling, noise
from fillengine.generation.scheduler import Scheduler
from fillengine.generation.trunk import split
from fillengine.templates import compile

EXAMPLES = int(os.environ.get("FILLENGINE_EXAMPLES", "2000" if os.environ.get("CI") else "250"))
NUM_RECORDS = max(120, EXAMPLES // 8)

TOKENIZER = tiny_tokenizer()
NUM_LOGITS = len(TOKENIZER.get_vocab()) + 5
MODELS = ("llama", "gemma3_text", "lfm2")
SHAPES = (Shapes(packs=True), Shapes(max_length=3), Shapes(rounds_up=True, width_step=16, max_length=8))
SAMPLINGS = (Sampling(), Sampling(0.8), Sampling(1.5, top_p=0.9), Sampling(1.0, top_k=5, min_p=0.05))


@functools.cache
def model_of(name):
    return tiny_model(name, vocab_size=NUM_LOGITS, num_hidden_layers=3 if name == "gemma3_text" else 2)


@functools.cache
def chooser_of(name):
    return Chooser(split(model_of(name)))


@functools.cache
def pattern_of(name, shapes):
    return RaggedCache.for_model(model_of(name), 1, shapes)


def random_form(rng: random.Random):
    """A form of a few literals and holes, or a small schema."""
    if rng.random() < 0.5:
        holes = ["[a-d]{1,9}", "(on|off|once)", "[1-9][0-9]{0,3}", "(ab|abc|na)*!", " ?[x-z]{2}", '"[ -!#-Z]{0,6}"']
        parts = []
        for _ in range(rng.randrange(1, 5)):
            parts += [rng.choice([b'{"', b", ", b'": "', b"banana ", b"x", b'"'])] if rng.random() < 0.7 else []
            parts.append(rng.choice(holes))
        return TinyForm(*parts)
    kinds = [
        {"enum": ["red", "redder", "green"]},
        {"type": "integer", "minimum": -5, "maximum": 120},
        {"type": "boolean"},
        {"type": "string", "maxLength": 6},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
        {"const": "always the same"},
        {"type": "null"},
    ]
    names = rng.sample(["name", "a", "count", "items"], rng.randrange(1, 4))
    schema = {"type": "object", "properties": {name: rng.choice(kinds) for name in names}}
    return compile({**schema, "required": names[: rng.randrange(len(names) + 1)], "additionalProperties": False})


_rng = random.Random(11)
CONSTRAINTS = [(form, Constraint(form, TOKENIZER)) for form in (random_form(_rng) for _ in range(24))]
COMMON = [_rng.randrange(256) for _ in range(40)]


@dataclass(frozen=True)
class Record:
    """A request of which the tokens are known."""

    model: str
    form: int
    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    row_id: int
    max_tokens: int

    def session(self):
        return CONSTRAINTS[self.form][1].session(max_tokens=self.max_tokens)

    def request(self) -> Request:
        form = CONSTRAINTS[self.form][0]
        return Request(self.prompt, form, self.sampling, self.seed, self.row_id, self.max_tokens, guard=None)


@functools.cache
def record(number: int) -> Record:
    rng = random.Random(number)
    form = rng.randrange(len(CONSTRAINTS))
    prompt = COMMON[: rng.choice([0, 0, 3, 20, 40])] + [rng.randrange(256) for _ in range(rng.randrange(1, 9))]
    fewest = CONSTRAINTS[form][1].fewest_tokens
    return Record(
        MODELS[number % len(MODELS)],
        form,
        tuple(prompt),
        rng.choice(SAMPLINGS),
        rng.randrange(4),
        rng.randrange(1000),
        fewest + rng.choice([0, 1, 3, 20]),
    )


@functools.cache
def alone(number: int) -> tuple[int, ...] | None:
    """The record's tokens by mlx-lm, one at a time under the session's masks. None where two came too close."""
    one = record(number)
    model, session = model_of(one.model), one.session()
    caches = make_prompt_cache(model)
    feed = list(one.prompt)
    while not session.is_finished:
        logits = np.array(model(mx.array([feed]), cache=caches)[0, -1], dtype=np.float32)
        allowed = session.allowed()
        masked = np.where(
            np.resize(np.append(allowed, np.zeros(NUM_LOGITS - len(allowed), bool)), NUM_LOGITS), logits, -np.inf
        )
        draw = Draw(one.sampling, one.seed, one.row_id, session.num_tokens)
        chosen, gap = chosen_by_hand(masked, draw)
        if gap < 1e-3:
            return None
        session.advance(chosen)
        feed = [chosen]
    return tuple(session.token_ids)


def chosen_by_hand(masked, draw) -> tuple[int, float]:
    """The choice by the rules of `Sampling`, in numpy, and how far the next best was behind."""
    sampling = draw.sampling
    order = np.argsort(-masked, kind="stable")
    order = order[np.isfinite(masked[order])]
    if sampling.temperature == 0:
        return int(order[0]), float(masked[order[0]] - masked[order[1]]) if len(order) > 1 else np.inf
    weights = np.exp((masked[order] - masked[order[0]]).astype(np.float64))
    weights /= weights.sum()
    edges = np.inf
    kept = np.ones(len(order), bool)
    if sampling.top_p < 1:
        before = np.cumsum(weights) - weights
        kept &= before < sampling.top_p
        edges = min(edges, np.abs(before - sampling.top_p).min())
    if sampling.min_p > 0:
        kept &= weights >= sampling.min_p * weights[0]
        edges = min(edges, np.abs(weights / weights[0] - sampling.min_p).min())
    if sampling.top_k:
        edges = min(
            edges,
            abs(masked[order[sampling.top_k - 1]] - masked[order[sampling.top_k]])
            if len(order) > sampling.top_k
            else np.inf,
        )
        kept[sampling.top_k :] = False
    ids = order[kept]
    scores = masked[ids] / sampling.temperature + np.array(noise([draw], NUM_LOGITS)[0])[ids]
    ranked = np.argsort(-scores)
    gap = scores[ranked[0]] - scores[ranked[1]] if len(ids) > 1 else np.inf
    return int(ids[ranked[0]]), float(min(gap, edges))


_CLAIMS = {"source": "adversary", "kind": "inside", "label": "", "prior": 0.9}


class Adversary:
    """Drafts that are right as far as it likes, then wrong: allowed or not, beyond the value, beyond the end."""

    def __init__(self, truth, seed):
        self.truth = truth
        self.rng = random.Random(seed)

    def draft(self, session, num_known):
        rng = self.rng
        share_right = rng.choice([0, 0.5, 0.9, 1])
        ahead = session.fork()
        for _ in range(rng.choice([0, 1, 2, 5, 40])):
            place = ahead.num_tokens
            is_right = ahead.token_ids == list(self.truth[:place]) and rng.random() < share_right
            if is_right and place < len(self.truth):
                token_id = self.truth[place]
            elif rng.random() < 0.8 and not ahead.is_finished:
                token_id = int(rng.choice(np.flatnonzero(ahead.allowed())))
            else:
                token_id = rng.randrange(NUM_LOGITS - 5)
            yield Drafted(token_id, **_CLAIMS)
            if ahead.is_finished or not ahead.mask().allows(token_id):
                return
            ahead.advance(token_id)


class FailingRow(Row):
    """Fails in the middle of its text."""

    fail_after = 0

    def commit(self, planned, choices):
        if self.session.num_tokens >= self.fail_after:
            raise RuntimeError("the session failed")
        return super().commit(planned, choices)


class Histories(RuleBasedStateMachine):
    @initialize(
        model=st.sampled_from(MODELS),
        shapes=st.sampled_from(SHAPES),
        max_rows=st.integers(1, 4),
        round_tokens=st.sampled_from([1, 7, 64]),
    )
    def begin(self, model, shapes, max_rows, round_tokens):
        self.model = model
        chooser = chooser_of(model)
        reader = PromptReader(chooser.model, pattern_of(model, shapes))
        self.rows = {}
        self.done = []
        self.num_stopped = 0
        self.scheduler = Scheduler(
            plan=lambda request: self.rows[request](),
            chooser=chooser,
            reader=reader,
            footprint=Footprint(chooser.model, reader.pattern),
            tokens=read_tokenizer(TOKENIZER).vocabulary.tokens,
            max_rows=max_rows,
            round_tokens=round_tokens,
            memory_limit=10**9,
        )
        self.jobs = {}

    @rule(
        number=st.integers(0, NUM_RECORDS - 1),
        fill=st.sampled_from(["off", "assert", "auto", "auto"]),
        seed=st.integers(0, 2**16),
        fail_after=st.sampled_from([None, None, None, None, 0, 4]),
    )
    def submit(self, number, fill, seed, fail_after):
        number += (MODELS.index(self.model) - number) % len(MODELS)
        truth = alone(number)
        if truth is None:
            return
        one = record(number)
        request = one.request()

        def row():
            kind = Row if fail_after is None else FailingRow
            planner = kind(one.session(), fill=fill)
            planner._drafter = Adversary(truth, seed)
            if fail_after is not None:
                planner.fail_after = fail_after
            return planner

        self.rows[request] = row
        job = Job.of(request, 0)
        self.jobs[job] = (truth, fail_after)
        self.scheduler.submit(job)

    @precondition(lambda self: self.jobs)
    @rule(which=st.integers(0, 99))
    def cancel(self, which):
        open_jobs = [job for job in self.jobs if job.outcome is None]
        if open_jobs and which % 3 == 0:
            open_jobs[which % len(open_jobs)].is_cancelled = True

    @rule(num=st.integers(1, 6))
    def step(self, num):
        for _ in range(num):
            self.take(self.scheduler.step())

    def take(self, done):
        for job in done:
            truth, fail_after = self.jobs[job]
            self.done.append(job)
            if isinstance(job.outcome, Result):
                assert tuple(job.outcome.token_ids) == truth
                job.outcome.value  # noqa: B018 (it is parsed and checked)
            elif isinstance(job.outcome, Stopped):
                assert job.is_cancelled
            else:
                assert isinstance(job.outcome, FillError)
                assert fail_after is not None, job.outcome
                assert "the session failed" in str(job.outcome)

    @invariant()
    def the_cache_holds_the_committed_tokens(self):
        if not hasattr(self, "scheduler"):
            return
        batch = self.scheduler._batch
        for place, row in enumerate(batch.rows):
            if row is None:
                assert batch.cache.layout.lengths[place] == 0
                continue
            job = self.scheduler._writing[row]
            truth, _ = self.jobs[job]
            emitted = row.planner.token_ids
            assert tuple(emitted) == truth[: len(emitted)]
            assert batch.cache.layout.lengths[place] == len(row.held)
            committed = row.held + row.again + row.pending
            assert committed == [*job.request.prompt, *emitted][: len(committed)]
            assert len(committed) == len(job.request.prompt) + len(emitted)

    @invariant()
    def every_kept_prefix_is_what_the_model_reads_there(self):
        if not hasattr(self, "scheduler"):
            return
        for head, kept in self.scheduler._reader.prefixes._kept.items():
            assert int(kept.cache.layout.lengths[0]) == len(head)

    @precondition(lambda self: self.model == "llama" and self.scheduler._writing)
    @rule(which=st.integers(0, 3))
    def look_into_a_row(self, which):
        batch = self.scheduler._batch
        places = [place for place, row in enumerate(batch.rows) if row is not None]
        place = places[which % len(places)]
        assert_holds(self.model, batch.cache, place, batch.rows[place].held)

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        scheduler = self.scheduler
        for _ in range(3000):
            if scheduler.is_idle:
                break
            self.take(scheduler.step())
        assert len(self.done) == len(set(self.done)) == len(self.jobs)
        stats = scheduler.stats
        assert stats.rows == len(self.jobs) == stats.finished + stats.stopped + stats.failed
        each = [job.stats for job in self.done if job.stats is not None]
        for name in ("forwards", "projected", "asserted", "sampled", "thrown_away", "rollbacks", "dropped", "replayed"):
            assert getattr(stats, name) == sum(getattr(one, name) for one in each)
        assert stats.accepted_by == sum((Counter(one.accepted_by) for one in each), Counter())
        if self.model == "llama":
            for head, kept in list(scheduler._reader.prefixes._kept.items())[:1]:
                assert_holds(self.model, kept.cache, 0, list(head))


def assert_holds(name, cache, row, tokens):
    if not tokens:
        return
    caches = make_prompt_cache(model_of(name))
    mx.eval(model_of(name)(mx.array([tokens]), cache=caches))
    for layer, expected in zip(cache.layers, caches, strict=True):
        own = layer.held(row) if cache.is_packed else Piece(np.array(layer.keys[row]), np.array(layer.values[row]))
        for held, wanted in ((own.keys, expected.keys), (own.values, expected.values)):
            np.testing.assert_allclose(
                held[:, : len(tokens)], np.array(wanted[0, :, : len(tokens)]), atol=2e-3, rtol=1e-3
            )


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)

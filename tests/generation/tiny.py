"""A tiny llama with random weights, plain decoding with it, and a row that follows a script."""

from __future__ import annotations

import random
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache
from mlx_lm.models.llama import Model, ModelArgs

from fillengine.fill import Round
from fillengine.generation.cache import RaggedCache
from fillengine.generation.choices import Chooser
from fillengine.generation.layout import Shapes
from fillengine.generation.prompts import PromptReader
from fillengine.generation.rounds import Batch, BatchRow
from fillengine.generation.sampling import GREEDY, Draw, noise
from fillengine.generation.trunk import split

VOCABULARY = 70
# The model's logits are wider than the vocabulary, as in padded models.
NUM_LOGITS = 75
EXACT = Shapes()
PACKED = Shapes(packs=True)
ROUNDED = Shapes(rounds_up=True, width_step=16, max_length=8)


def tiny_llama(*, num_logits: int = NUM_LOGITS, tied: bool = True, seed: int = 3, head_dim: int | None = None) -> Model:
    """Random weights, larger than usual, so that the likeliest tokens vary and are no near-ties."""
    args = ModelArgs(
        model_type="llama",
        hidden_size=32,
        num_hidden_layers=2,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=num_logits,
        tie_word_embeddings=tied,
        head_dim=head_dim,
    )
    model = Model(args)
    key = mx.random.key(seed)
    weights = []
    for name, value in _flat(model.parameters()):
        key, own = mx.random.split(key)
        scale = 1.0 if "embed" in name else 0.3
        noisy = mx.random.normal(value.shape, key=own) * scale
        weights.append((name, noisy if value.ndim > 1 else value))
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model


def _flat(tree):
    from mlx.utils import tree_flatten

    return tree_flatten(tree)


def ragged_rounds(trunk, cache: RaggedCache, seed: int = 0, num_rounds: int = 12) -> list[np.ndarray]:
    """What the trunk says in rounds of ragged feeds, of which some tokens are taken back."""
    drawn = np.random.default_rng(seed)
    found = []
    for _ in range(num_rounds):
        feeds = {
            row: drawn.integers(0, VOCABULARY, drawn.integers(1, 6)).tolist()
            for row in range(cache.num_rows)
            if drawn.random() < 0.8
        } or {0: [1]}
        wanted = [(row, index) for row, tokens in feeds.items() for index in range(len(tokens))]
        found.append(np.array(cache.feed(trunk, feeds, wanted).astype(mx.float32)))
        cache.settle({row: int(drawn.integers(1, len(tokens) + 1)) for row, tokens in feeds.items()})
    return found


@dataclass(frozen=True, eq=False)
class Mask:
    """What a batch needs of a `fillengine.automata.mask.Mask`."""

    bits: np.ndarray
    single: int | None

    def allows(self, token_id):
        return bool(int(self.bits[token_id // 32]) >> (token_id % 32) & 1)


def mask_of(token_ids, vocabulary=VOCABULARY) -> Mask:
    bits = np.zeros(-(-vocabulary // 32), np.uint32)
    for token_id in token_ids:
        bits[token_id // 32] |= np.uint32(1 << (token_id % 32))
    return Mask(bits, token_ids[0] if len(token_ids) == 1 else None)


_rng = random.Random(7)
# Wide, narrow and single ones.
MASKS = [mask_of(sorted(_rng.sample(range(VOCABULARY), size))) for size in (VOCABULARY, 40, 9, 3, 2, 1, 1)]


def mask_after(tokens) -> Mask:
    """The constraint of all tests here: what is allowed depends on all tokens so far."""
    return MASKS[(sum(tokens) + 3 * len(tokens)) % len(MASKS)]


def allowed_ids(mask) -> list[int]:
    return np.flatnonzero(np.unpackbits(mask.bits.view(np.uint8), bitorder="little")).tolist()


def plain_decode(model, prompt, num_tokens, *, mask_after=mask_after, sampling=GREEDY, seed=0, row_id=0):
    """One token at a time with mlx-lm's own cache; returns the tokens and the caches."""
    caches = [KVCache() for _ in model.layers]
    tokens: list[int] = []
    feed = list(prompt)
    while len(tokens) < num_tokens:
        logits = np.array(model(mx.array([feed]), cache=caches)[0, -1], dtype=np.float32)
        allowed = allowed_ids(mask_after(tokens))
        scores = np.full_like(logits, -np.inf)
        scores[allowed] = logits[allowed]
        if sampling.temperature > 0:
            draw = Draw(sampling, seed, row_id, len(tokens))
            scores = scores / sampling.temperature + np.array(noise([draw], len(logits))[0])
        tokens.append(int(scores.argmax()))
        feed = [tokens[-1]]
    return tokens, caches


class Place:
    """The mask is known beforehand, and says itself whether one token alone may come."""

    def __init__(self, mask):
        self.mask = mask
        self.single = mask.single


class Done:
    def __init__(self, keep, pending):
        self.keep, self.pending = keep, pending


class ScriptedRow:
    """Emits `num_tokens` tokens, each under `mask_after(tokens so far)`.

    `guess(tokens)` proposes the next token of a draft, `num_drafted()` says how many. `asserts`: tokens whose
    mask allows just them are asserted, not chosen.
    """

    def __init__(self, num_tokens, *, guess=None, num_drafted=lambda: 0, asserts=False, mask_after=mask_after):
        self.num_tokens = num_tokens
        self.guess = guess
        self.num_drafted = num_drafted
        self.asserts = asserts
        self.mask_after = mask_after
        self.tokens: list[int] = []
        self.num_plans = 0

    @property
    def is_finished(self):
        return len(self.tokens) == self.num_tokens

    def plan(self, pending):
        assert pending
        self.num_plans += 1
        feed = list(pending)
        while self.asserts and not self.is_finished and self.mask_after(self.tokens).single is not None:
            self.tokens.append(self.mask_after(self.tokens).single)
            feed.append(self.tokens[-1])
        if self.is_finished:
            return None
        num_known = len(feed)
        project, places = [num_known - 1], [Place(self.mask_after(self.tokens))]
        ahead = list(self.tokens)
        for _ in range(min(self.num_drafted(), self.num_tokens - len(ahead) - 1)):
            ahead.append(self.guess(ahead))
            project.append(len(feed))
            feed.append(ahead[-1])
            places.append(Place(self.mask_after(ahead)))
        positions = [len(self.tokens) + place for place in range(len(project))]
        return Round(feed, project, places, positions, num_known, feed[num_known:])

    def commit(self, round, choices):
        assert len(choices) == len(round.project)
        keep = round.num_known
        for choice in choices:
            self.tokens.append(choice)
            if self.is_finished:
                return Done(keep, [])
            if keep == len(round.feed) or round.feed[keep] != choice:
                return Done(keep, [choice])
            keep += 1
        return Done(keep, [])


class Bench:
    """A model with everything that a batch needs."""

    def __init__(self, model, shapes=EXACT, **options):
        self.model = split(model)
        self.cache = RaggedCache.for_model(model, 1, shapes, **options)
        self.reader = PromptReader(self.model, self.cache)

    def batch(self) -> Batch:
        return Batch(Chooser(self.model, max_narrow=9), self.cache.empty_like(1))

    def row(self, planner, prompt, *, sampling=GREEDY, seed=0, row_id=0):
        read = self.reader.read(prompt)
        return BatchRow(planner, sampling, seed, row_id, [read.last_token]), read.cache

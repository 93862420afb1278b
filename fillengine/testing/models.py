"""Tiny deterministic models for tests, without weights to fetch.

    RandomModel()                       says anything that the form permits, a function of its seed and the tokens
    ScriptedModel('{"name": "Ada"}')    says what a test wants it to say
    EchoModel()                         goes on like its prompt does

Each has a KV cache of one attention layer, and what it says depends on every position that the cache holds: a cache
that lacks a token, holds one too many or has one at a wrong place makes it say something else. All numbers are small
integers (or a power of two of them), so that sums are exact in float32 in every order and every batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import fillengine.generation  # noqa: F401  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import numpy.typing as npt

from fillengine.extraction.engine import Engine
from fillengine.fill.economics import CostCurve
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.generation.models import LoadedModel
from fillengine.testing.tokenizer import ToyTokenizer, toy_tokenizer

if TYPE_CHECKING:
    from fillengine.generation.engine import Messages
    from fillengine.templates import Form

CONTEXT_LENGTH = 8192
# Logits behind the vocabulary's, as padded models have. The first of them stands behind a prompt: no text has it.
NUM_PADDING = 3

# A pass over more tokens costs hardly more, as on a GPU, so that drafts are long and many of them are wrong.
FLAT_CURVE = CostCurve({1: 1.0, 64: 1.5})

# Numbers that a position gives to the sum over all positions, each of so many bits: 2 ** 11 * 8192 = 2 ** 24.
NUM_SUMS, SUM_BITS = 4, 11
NUM_HIDDEN = 16
SCALE = 2.0**-13

Array = npt.NDArray[Any]
Answer = str | bytes | Sequence[int]


class ToyEngine(Engine):
    """An engine of a toy model. Behind each prompt stands a token that no text has, so that the model knows where
    its answer begins; what passes cost is not measured but given, so that drafts are the same on every machine."""

    def encode(self, prompt: str | Messages, form: Form | None = None) -> list[int]:
        return [*super().encode(prompt, form), self.loaded.model.mark]

    def curve(self, num_rows: int) -> CostCurve:
        return FLAT_CURVE


class ToyModel(nn.Module):  # type: ignore[misc]
    """What the toy models share: a tokenizer, logits beyond it, and the way to an engine.

    `tokenizer` None is `toy_tokenizer()`. A tokenizer without a chat template gets a plain one.
    """

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        self._tokenizer = _with_template(toy_tokenizer() if tokenizer is None else tokenizer)
        self._vocabulary = read_tokenizer(self._tokenizer).vocabulary
        self.mark = self._vocabulary.size
        self.num_logits = self._vocabulary.size + NUM_PADDING

    @property
    def layers(self) -> list[None]:
        """As many entries as KV caches are needed."""
        return [None]

    def loaded(self) -> LoadedModel:
        """What `fillengine.Engine` takes."""
        eos_ids = frozenset(self._vocabulary.eos_ids)
        return LoadedModel(self, self._tokenizer, type(self).__name__, None, CONTEXT_LENGTH, eos_ids)

    def engine(self, **options: Any) -> ToyEngine:
        """A `fillengine.Engine` of this model. options: those of `fillengine.Engine`."""
        return ToyEngine(self.loaded(), **options)


def _with_template(tokenizer: Any) -> Any:
    has_template = getattr(tokenizer, "chat_template", None) is not None or hasattr(tokenizer, "has_chat_template")
    return tokenizer if has_template and hasattr(tokenizer, "encode") else ToyTokenizer.of(tokenizer)


class RandomModel(ToyModel):
    """Logits as good as random (standard deviation about 2.7): a function of `seed` and of all tokens so far."""

    def __init__(self, tokenizer: Any = None, *, seed: int = 0) -> None:
        super().__init__(tokenizer)
        self.model = _Sums(seed)
        self.lm_head = nn.Linear(NUM_HIDDEN, self.num_logits, bias=False)
        weight = np.random.default_rng(seed).integers(-127, 128, (self.num_logits, NUM_HIDDEN))
        self.lm_head.weight = mx.array(weight.astype(np.float32))

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        """ids int32[rows, tokens] -> logits float32[rows, tokens, num_logits]"""
        logits: mx.array = self.lm_head(self.model(ids, cache))
        return logits


class _Sums(nn.Module):  # type: ignore[misc]
    """The trunk of RandomModel: each position gives a few numbers that depend on its token and its place; a query
    adds up those of all positions that it sees, and mixes the sums."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = (seed * 0x2545F491 + 0x9E3779B9) & 0xFFFFFFFF

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        """[rows, tokens] -> float32[rows, tokens, NUM_HIDDEN]"""
        layer = None if cache is None else cache[0]
        positions = _positions(ids, layer)
        code = ids.astype(mx.uint32) * 0x85EBCA6B + positions.astype(mx.uint32) * 0xC2B2AE35 + self._seed
        lanes = mx.arange(NUM_SUMS, dtype=mx.uint32) * 0x27D4EB2F
        given = (_mixed(code[..., None] + lanes) >> (32 - SUM_BITS)).astype(mx.float32)
        sees, seen = _attended(given[:, None], layer)
        sums = (seen if sees is None else mx.matmul(sees.astype(mx.float32), seen)).astype(mx.uint32)
        if sees is None:
            sums = sums.sum(axis=2, keepdims=True)
        odd = mx.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], dtype=mx.uint32)
        state = _mixed((sums[:, 0] * odd).sum(axis=-1))
        hidden = _mixed(state[..., None] + mx.arange(NUM_HIDDEN, dtype=mx.uint32) * 0x165667B1) >> 24
        return (hidden.astype(mx.float32) - 128) * SCALE


class SpokenModel(ToyModel):
    """A model whose logits plain Python says, from the tokens that the cache holds."""

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        """ids int32[rows, tokens] -> logits float32[rows, tokens, num_logits]. NaN where the cache does not hold
        exactly the tokens before a position, so that a misaligned cache is never taken for an answer."""
        layer = None if cache is None else cache[0]
        positions = _positions(ids, layer)
        given = mx.stack([ids, mx.broadcast_to(positions, ids.shape)], axis=-1).astype(mx.float32)[:, None]
        sees, seen = _attended(given, layer)
        held = np.array(seen, copy=False)[:, 0].astype(np.int64)
        rows, num_tokens = ids.shape
        is_seen = np.ones((rows, 1, num_tokens, held.shape[1]), bool)
        is_seen &= True if sees is None else np.array(sees)
        logits = np.full((rows, num_tokens, self.num_logits), np.nan, np.float32)
        for row in range(rows):
            for query in range(num_tokens):
                tokens, places = held[row, is_seen[row, 0, query]].T
                if np.array_equal(places, np.arange(len(places))):
                    logits[row, query] = self._logits(tokens.tolist())
        return mx.array(logits)

    def _logits(self, tokens: list[int]) -> Array:
        """float32[num_logits] behind these tokens."""
        begin = len(tokens) - 1
        while begin >= 0 and tokens[begin] != self.mark:
            begin -= 1
        if begin < 0:
            # Not behind a prompt of an engine: a probe of the model.
            return np.arange(self.num_logits, dtype=np.float32) / self.num_logits + len(tokens) / 64
        return self.say(tokens[:begin], tokens[begin + 1 :])

    @abstractmethod
    def say(self, prompt: list[int], answer: list[int]) -> Array:
        """Logits, float32[num_logits], behind the tokens of a prompt and those of the answer so far."""

    def bytes_of(self, token_ids: Sequence[int]) -> bytes:
        """The text of tokens; those without text are left out."""
        tokens = self._vocabulary.tokens
        return b"".join(tokens[token_id] or b"" for token_id in token_ids if token_id < len(tokens))

    def along(self, text: bytes) -> Array:
        """Logits of a model that wants to write `text`, with tokens as long as the constraint allows."""
        logits = np.zeros(self.num_logits, np.float32)
        node = self._vocabulary.trie.root
        for length, byte in enumerate(text, start=1):
            below = node.child(byte)
            if below is None:
                break
            node = below
            logits[list(node.ids)] = 8 + length
        return logits

    def ending(self) -> Array:
        """Logits of a model that wants to end: the end of sequence, else what closes a string, a list, an object."""
        logits = np.zeros(self.num_logits, np.float32)
        for byte in b'}]"':
            node = self._vocabulary.trie.root.child(byte)
            logits[[] if node is None else list(node.ids)] = 8
        logits[list(self._vocabulary.eos_ids)] = 16
        return logits


class ScriptedModel(SpokenModel):
    """Says `answer`: a text, token ids, or a function from the prompt's text to one of them.

    Where the form does not permit the answer, or asserts something else, it wants only to end from there on.
    A text may be written with any tokens; token ids are said one by one.
    """

    def __init__(self, answer: Answer | Callable[[str], Answer], tokenizer: Any = None) -> None:
        super().__init__(tokenizer)
        self._answer = answer

    def say(self, prompt: list[int], answer: list[int]) -> Array:
        wanted: Any = self._answer
        if callable(wanted):
            wanted = wanted(self.bytes_of(prompt).decode(errors="replace"))
        if isinstance(wanted, str | bytes):
            script, written = wanted.encode() if isinstance(wanted, str) else wanted, self.bytes_of(answer)
            return self.along(script[len(written) :]) if _goes_on(script, written) else self.ending()
        if list(wanted[: len(answer)]) != answer or len(wanted) == len(answer):
            return self.ending()
        logits = np.zeros(self.num_logits, np.float32)
        logits[wanted[len(answer)]] = 8
        return logits


def _goes_on(script: bytes, written: bytes) -> bool:
    return len(script) > len(written) and script.startswith(written)


class EchoModel(SpokenModel):
    """Goes on like its prompt: finds where the end of the text so far stands in the prompt, the longest such end at
    its last place, and says what follows there. Where nothing is found it wants to end."""

    def say(self, prompt: list[int], answer: list[int]) -> Array:
        source, written = self.bytes_of(prompt), self.bytes_of(answer)
        for begin in range(max(0, len(written) - 64), len(written)):
            place = source.rfind(written[begin:], 0, len(source) - 1)
            if place >= 0:
                return self.along(source[place + len(written) - begin :])
        return self.ending() if written else self.along(source)


def _positions(ids: mx.array, layer: Any) -> mx.array:
    """The place of each token in its row's text: int32[rows or 1, tokens]."""
    offset = 0 if layer is None else layer.offset
    begin = offset[:, None] if isinstance(offset, mx.array) else mx.array([[offset]], dtype=mx.int32)
    return begin + mx.arange(ids.shape[1], dtype=mx.int32)


def _attended(given: mx.array, layer: Any) -> tuple[mx.array | None, mx.array]:
    """What the positions of this pass see, bool[rows or 1, 1, tokens, slots] (None: the one query sees all), and
    what the slots hold. given: [rows, 1, tokens, n], written to the cache `layer`, if there is one."""
    num_tokens = given.shape[2]
    if layer is None:
        return mx.tri(num_tokens, dtype=mx.float32)[None, None] > 0, given
    mask = layer.make_mask(num_tokens, return_array=True, window_size=None)
    _, seen = layer.update_and_fetch(mx.zeros((*given.shape[:3], 1)), given)
    if mask is not None and mask.ndim == 2:
        mask = mask[None, None]
    return mask, seen


def _mixed(words: mx.array) -> mx.array:
    """uint32 -> uint32: the finalizer of MurmurHash3; close inputs, unrelated outputs."""
    words = (words ^ (words >> 16)) * 0x85EBCA6B
    words = (words ^ (words >> 13)) * 0xC2B2AE35
    return words ^ (words >> 16)

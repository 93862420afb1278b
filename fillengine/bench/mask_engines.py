"""Engines that say which tokens may come next in a JSON Schema's instance, behind one interface."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fillengine.bench.bitmask import num_words
from fillengine.bench.guides import LLGUIDANCE_STYLE
from fillengine.errors import ModelError, UnsupportedForm, VocabularyError
from fillengine.fill import Constraint
from fillengine.fill.session import Session
from fillengine.fill.tokenizer import Tokenizer
from fillengine.templates import compile


class Refused(Exception):
    """The engine says that it cannot honour the schema."""


class Walk(Protocol):
    """One text in the making."""

    def mask(self) -> None:
        """Find out what may come next: packed bits, as a device would get them."""

    def advance(self, token_id: int) -> bool:
        """Take the next token. False where the last mask did not have it."""

    @property
    def is_complete(self) -> bool: ...


class MaskEngine(Protocol):
    name: str

    def compile(self, schema: Any) -> Callable[[], Walk]:
        """What begins a text of the schema. Raises Refused."""


class _OurWalk:
    def __init__(self, session: Session) -> None:
        self._session = session

    def mask(self) -> None:
        _ = self._session.mask().bits

    def advance(self, token_id: int) -> bool:
        if not self._session.mask().allows(token_id):
            return False
        self._session.advance(token_id)
        return True

    @property
    def is_complete(self) -> bool:
        return self._session.is_complete


class OurMasks:
    """fillengine, with properties that a schema does not name as JSON Schema has them (`additional="schema"`)."""

    name = "fillengine"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def compile(self, schema: Any) -> Callable[[], Walk]:
        try:
            form = compile(schema, additional="schema")
        except UnsupportedForm as error:
            raise Refused(str(error)) from error
        constraint = Constraint(form, self._tokenizer)
        return lambda: _OurWalk(constraint.session())


class _LlguidanceWalk:
    def __init__(self, matcher: Any, bits: Any, fill: Callable[..., None]) -> None:
        self._matcher, self._bits, self._fill = matcher, bits, fill

    def mask(self) -> None:
        self._fill(self._matcher, self._bits, 0)

    def advance(self, token_id: int) -> bool:
        if not int(self._bits[0, token_id >> 5]) >> (token_id & 31) & 1:
            return False
        self._matcher.consume_token(token_id)
        return True

    @property
    def is_complete(self) -> bool:
        return bool(self._matcher.is_accepting() or self._matcher.is_stopped())


class LlguidanceMasks:
    """llguidance, writing as `json.dumps` does, as we do."""

    name = "llguidance"

    def __init__(self, inner: Any) -> None:
        """inner: a fast tokenizer of transformers."""
        import llguidance.hf
        import llguidance.numpy

        self._inner = llguidance.hf.from_tokenizer(inner)
        self._fill = llguidance.numpy.fill_next_token_bitmask

    def compile(self, schema: Any) -> Callable[[], Walk]:
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=LLGUIDANCE_STYLE)
        first = LLMatcher(self._inner, grammar)
        if first.is_error():
            raise Refused(first.get_error())
        bits = np.full((1, num_words(self._inner.vocab_size)), -1, np.int32)
        return lambda: _LlguidanceWalk(first.deep_copy(), bits, self._fill)


def mask_engines(names: tuple[str, ...], fast_tokenizer: Any, tokenizer: Tokenizer) -> list[MaskEngine]:
    """Ours, and the peers of these names. Raises ModelError."""
    if tokenizer.encoder is None:
        raise VocabularyError("this tokenizer cannot encode texts; give another model")
    engines: list[MaskEngine] = [OurMasks(tokenizer)]
    for name in names:
        if name != LlguidanceMasks.name:
            raise ModelError(f"there is no peer {name}; there is {LlguidanceMasks.name}")
        try:
            engines.append(LlguidanceMasks(fast_tokenizer))
        except ImportError as error:
            raise ModelError(f"the peer {name} is not installed ({error}); pip install 'fillengine[bench]'") from None
    return engines

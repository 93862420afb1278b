"""A vocabulary: what each token id writes, as bytes.

    Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])

A token without text (`None`: unused ids) is never allowed; neither is an empty one. A control token (see `control`)
is allowed where a form asks for it by its name, and nowhere as text. End-of-sequence ids are allowed exactly where the
text is whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from fillengine.automata.control import MARK, control, is_control
from fillengine.automata.leaf import INFINITE
from fillengine.automata.trie import Trie, TrieNode
from fillengine.errors import VocabularyError


class Vocabulary:
    """`tokens[id]` is the text of a token, or None. `size` is the number of ids.

    Raises VocabularyError where no token has any text, or an end-of-sequence id is outside.
    """

    def __init__(self, tokens: Sequence[bytes | None], *, eos_ids: Iterable[int] = ()) -> None:
        self.eos_ids = tuple(sorted(set(eos_ids)))
        self.size = len(tokens)
        outside = [token_id for token_id in self.eos_ids if not 0 <= token_id < self.size]
        if outside:
            raise VocabularyError(
                f"end-of-sequence id {outside[0]} is outside the vocabulary of {self.size} tokens; "
                "check eos_token_id in the model's configuration"
            )
        ends = set(self.eos_ids)
        self.tokens: tuple[bytes | None, ...] = tuple(
            (text or None) if token_id not in ends and not _is_broken(text) else None
            for token_id, text in enumerate(tokens)
        )
        self._texts = tuple(text for text in self.tokens if text and not is_control(text))
        if not self._texts:
            raise VocabularyError("no token of the vocabulary has any text; is this the right tokenizer?")

    def __reduce__(self) -> tuple[Any, ...]:
        # What was found out about it since is not sent along.
        return partial(Vocabulary, eos_ids=self.eos_ids), (self.tokens,)

    @cached_property
    def trie(self) -> Trie:
        return Trie(self.tokens)

    @cached_property
    def reach(self) -> int:
        """Bytes of the longest token with text."""
        return max(map(len, self._texts))

    @cached_property
    def num_words(self) -> int:
        """32-bit words of a packed mask."""
        return (self.size + 31) // 32

    @cached_property
    def eos_bits(self) -> np.ndarray:
        """uint32[num_words]: the end-of-sequence ids."""
        bits = np.zeros(self.num_words, dtype=np.uint32)
        for token_id in self.eos_ids:
            bits[token_id >> 5] |= np.uint32(1 << (token_id & 31))
        return bits

    @cached_property
    def alphabet(self) -> bytes:
        """The bytes that can be written one at a time, sorted.

        A byte-level or byte-fallback vocabulary has every byte that well-formed UTF-8 can hold; the others
        (0xC0, 0xC1, 0xF5 to 0xFF) are never written, so having them or not makes no difference.
        """
        single = {text[0] for text in self._texts if len(text) == 1}
        never = {0xC0, 0xC1, *range(0xF5, 0x100)}
        return bytes(range(256)) if len(single | never) == 256 else bytes(sorted(single))

    def literal(self, text: bytes) -> Sequence[int]:
        """For each offset 0..len(text): the fewest tokens that write the rest of `text` exactly."""
        return _literal_costs(self, text)

    def spells(self, text: bytes) -> bool:
        """Whether each byte of `text` stands alone as a token."""
        return MARK not in text and not text.translate(None, self.alphabet)

    def begins(self, text: bytes) -> bool:
        """Whether some token begins with `text`."""
        node: TrieNode | None = self.trie.root
        for byte in text:
            node = node.child(byte) if node is not None else None
            if node is None:
                return False
        return True

    def holds(self, text: bytes) -> bool:
        """Whether `text` stands in some token."""
        return _holds(self, text)

    @cached_property
    def _blob(self) -> bytes:
        # 0xFF stands in no token that can be written, so nothing is found across two.
        return b"\xff".join(self._texts)


def _is_broken(text: bytes | None) -> bool:
    """Whether a token holds the byte that marks control tokens, and is none. No text holds it."""
    return text is not None and MARK in text and text != control(text[1:-1].decode(errors="replace"))


@lru_cache(maxsize=20_000)
def _holds(vocabulary: Vocabulary, text: bytes) -> bool:
    return len(text) <= vocabulary.reach and text in vocabulary._blob


@lru_cache(maxsize=20_000)
def _literal_costs(vocabulary: Vocabulary, text: bytes) -> Sequence[int]:
    costs = array("q", bytes(8 * (len(text) + 1)))
    root = vocabulary.trie.root
    for offset in range(len(text) - 1, -1, -1):
        best = INFINITE
        node = root
        for end in range(offset, len(text)):
            below = node.child(text[end])
            if below is None:
                break
            node = below
            if costs[end + 1] < best and node.has_tokens:
                best = costs[end + 1]
        costs[offset] = min(INFINITE, best + 1)
    return costs

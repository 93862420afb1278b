"""Small vocabularies written by hand, and tokenizers made of them."""

from __future__ import annotations

from fillengine.automata.vocabulary import Vocabulary
from fillengine.testing.tokenizer import WithEnd, byte_level_tokenizer
from fillengine.testing.vocabulary import PARTS, PIECES

__all__ = ["PIECES", "WithEnd", "byte_level_tokenizer", "byte_vocabulary"]


def byte_vocabulary() -> Vocabulary:
    """All single bytes, tokens that cross quotes or characters, and one end-of-sequence token, the last."""
    pieces: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), *PIECES, *PARTS, None]
    return Vocabulary(pieces, eos_ids=[len(pieces) - 1])

"""Small tokenizers without a model: of tokens given as bytes, and a byte-level one that is ready for use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from fillengine.automata.vocabulary import Vocabulary
from fillengine.errors import VocabularyError
from fillengine.fill.tokenizer import Encoder, Tokenizer, read_tokenizer


class ToyTokenizer(Tokenizer):
    """A tokenizer that a constraint and an engine can use: vocabulary, encoder, and a chat template of one line
    for each message."""

    bos_token: str | None = None
    has_chat_template = True

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text. Raises VocabularyError where there is no encoder."""
        if self.encoder is None:
            raise VocabularyError("this tokenizer has no encoder; give the prompt as token ids")
        return self.encoder.encode(text)

    def decode(self, token_ids: Iterable[int]) -> str:
        tokens = self.vocabulary.tokens
        return b"".join(tokens[token_id] or b"" for token_id in token_ids).decode(errors="replace")

    def apply_chat_template(self, messages: Iterable[dict[str, str]], **_options: object) -> list[int]:
        """`role: content` in lines, and the beginning of the assistant's."""
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode("".join(lines) + "assistant: ")

    @classmethod
    def of_pieces(cls, pieces: Sequence[bytes | None], *, eos_ids: Iterable[int] = ()) -> ToyTokenizer:
        """A tokenizer of these tokens (None: a token without text), which always takes the longest one.

        Of equal tokens the first is taken.
        """
        vocabulary = Vocabulary(pieces, eos_ids=eos_ids)
        return cls(vocabulary, LongestMatch(vocabulary))

    @classmethod
    def of(cls, source: Any) -> ToyTokenizer:
        """The same tokens as another tokenizer has (see `fillengine.Constraint` for what is read)."""
        if isinstance(source, cls):
            return source
        read = read_tokenizer(source)
        return cls(read.vocabulary, read.encoder)


class LongestMatch:
    """Encodes by the longest token that fits, from left to right. It never cuts a text into pieces first. A byte
    that no token writes is left out, as BPE without an unknown token does."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids: dict[bytes, int] = {}
        for token_id, text in enumerate(vocabulary.tokens):
            if text is not None:
                self._ids.setdefault(text, token_id)
        self._reach = vocabulary.reach

    def encode(self, text: str) -> list[int]:
        data = text.encode()
        found: list[int] = []
        position = 0
        while position < len(data):
            for length in range(min(self._reach, len(data) - position), 0, -1):
                token_id = self._ids.get(data[position : position + length])
                if token_id is not None:
                    found.append(token_id)
                    position += length
                    break
            else:
                position += 1
        return found

    def encode_cut(self, text: str) -> tuple[list[int], int | None]:
        return self.encode(text), None

    def cut(self, text: str) -> list[str] | None:
        return None


class Bytewise:
    """Encodes each byte by itself: the token of a byte is its number."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_cut(self, text: str) -> tuple[list[int], int | None]:
        token_ids = self.encode(text)
        return token_ids, len(token_ids) - len(text[-1:].encode()) if text else None

    def cut(self, text: str) -> list[str] | None:
        return list(text)


@cache
def byte_tokenizer() -> ToyTokenizer:
    """The 256 bytes, and the end of sequence (256)."""
    encoder: Encoder = Bytewise()
    return ToyTokenizer(Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256]), encoder)


MERGES = [
    ('"', ":"), ('"', ","), ("Ġ", '"'), ("a", "b"), ("ab", "c"), ("Ġ", "ab"), ("n", "a"), ("m", "e"),
    ("na", "me"), ("{", '"'), ('"', "}"), ("Ġ", "t"), ("r", "u"), ("ru", "e"), ("Ġt", "rue"), ("1", "2"),
    ("Ġ", "1"), ('"', "]"), ("Ġ", "["), ("Ġ[", '"'), ("\\", "n"), ("-", "1"), ("Ġ", "-"), ("Ã", "©"),
]  # fmt: skip
"""Merges of a byte-level BPE tokenizer whose tokens cross quotes, as those of real ones do."""


def byte_level_tokenizer(merges: Sequence[tuple[str, str]] = MERGES) -> Any:
    """A byte-level BPE `tokenizers.Tokenizer` with GPT-2's cutting expression; its added token is `<eos>`."""
    import tokenizers

    vocab = {character: index for index, character in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=list(merges)))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens([tokenizers.AddedToken("<eos>", special=True)])
    return inner


class WithEnd:
    """A tokenizer that declares its end of sequence, as wrappers of `tokenizers.Tokenizer` do."""

    def __init__(self, inner: Any, end: str = "<eos>") -> None:
        self._tokenizer = inner
        self.eos_token_ids = {inner.token_to_id(end)}


@cache
def toy_tokenizer() -> ToyTokenizer:
    """The tokenizer of tests that name none: byte-level BPE with a few merges, and an end of sequence."""
    return ToyTokenizer.of(WithEnd(byte_level_tokenizer()))

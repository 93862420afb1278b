"""Small vocabularies written by hand, and tokenizers made of them."""

from __future__ import annotations

import tokenizers

from fillengine.automata.vocabulary import Vocabulary

EOS = b"<eos>"

PIECES: list[bytes] = [
    *(bytes([byte]) for byte in range(256)),
    b'{"', b'": "', b'": ', b'", "', b'", ', b'"}', b'"]', b'",', b"}, ", b', "', b": ", b", ", b' "', b": [",
    b"ab", b"abc", b"a b", b'a"', b'ab"', b'c", "', b"12", b"123", b"1,", b"0]", b"true", b"false", b"null", b" true",
    b"aaaa", b"bb", b"  ", b"\n  ", b"\\n", b"\\u00", "é".encode(), "é".encode()[:1] + b"", "😀".encode(),
    b"name", b'"name"', b"[[", b"]]", b"]}", b"}}", b"[]", b"{}", b'""',
]  # fmt: skip
"""All single bytes, and tokens that cross quotes, end inside an escape or hold several closings."""


def byte_vocabulary() -> Vocabulary:
    """`PIECES` and one end-of-sequence token, the last."""
    pieces: list[bytes | None] = [*PIECES, None]
    return Vocabulary(pieces, eos_ids=[len(PIECES)])


def byte_level_tokenizer(merges: list[tuple[str, str]] | None = None) -> tokenizers.Tokenizer:
    """A byte-level BPE tokenizer with a few merges and GPT-2's cutting expression; its added token is `<eos>`."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {character: index for index, character in enumerate(alphabet)}
    chosen = merges if merges is not None else MERGES
    for left, right in chosen:
        vocab.setdefault(left + right, len(vocab))
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=chosen))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens([tokenizers.AddedToken("<eos>", special=True)])
    return inner


class WithEnd:
    """A tokenizer that declares its end of sequence, as wrappers of `tokenizers.Tokenizer` do."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._tokenizer = inner
        self.eos_token_ids = {inner.token_to_id("<eos>")}


MERGES = [
    ('"', ":"), ('"', ","), ("Ġ", '"'), ("a", "b"), ("ab", "c"), ("Ġ", "ab"), ("n", "a"), ("m", "e"),
    ("na", "me"), ("{", '"'), ('"', "}"), ("Ġ", "t"), ("r", "u"), ("ru", "e"), ("Ġt", "rue"), ("1", "2"),
    ("Ġ", "1"), ('"', "]"), ("Ġ", "["), ("Ġ[", '"'), ("\\", "n"), ("-", "1"), ("Ġ", "-"), ("Ã", "©"),
]  # fmt: skip

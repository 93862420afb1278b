"""Small vocabularies as a hypothesis strategy: byte-level, SentencePiece-like, and hostile ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import tokenizers as hf
from hypothesis import strategies as st

from fillengine.testing.tokenizer import MERGES, ToyTokenizer, WithEnd, byte_level_tokenizer

PIECES: tuple[bytes, ...] = (
    b'{"', b'": "', b'": ', b'", "', b'", ', b'"}', b'"]', b'",', b"}, ", b'", "', b": ", b", ", b' "', b": [", b" {",
    b"ab", b"abc", b"a b", b'a"', b'ab"', b'c", "', b"12", b"123", b"1,", b"0]", b"true", b"false", b"null", b" true",
    b"aaaa", b"bb", b"  ", b"\n  ", b"\\n", b"\\u00", b"\\", b'\\"', "é".encode(), "😀".encode(), b"name", b'"name"',
    b"[[", b"]]", b"]}", b"}}", b"[]", b"{}", b'""', b'"a": ', b"-", b"-1", b".5", b"e1", b"null, ", b"[1, ",
)  # fmt: skip
"""Tokens that cross quotes, end inside an escape, or hold several closings."""

PARTS: tuple[bytes, ...] = ("é".encode()[:1], "é".encode()[1:], "😀".encode()[:2], "😀".encode()[2:], b'\xa9"')
"""Tokens that begin or end inside a character."""

# What JSON's own signs, and a few letters and digits, need: with less than that hardly any form can be written.
JSON_BYTES = b'{}[]",: -0123456789.eE+\\/aflnrstubcdkmoxy'


def vocabularies(*, hostile: bool = True) -> st.SearchStrategy[ToyTokenizer]:
    """A strategy of small tokenizers (under 400 tokens) that `fillengine.Constraint` and the toy models take.

    byte-level       BPE of the 256 bytes with a few merges, cut into pieces by GPT-2's expression
    SentencePiece    BPE of characters with U+2581 for the space, and a token for each byte: some texts are written
                     by two tokens of equal bytes
    hostile          tokens across quotes and inside characters, duplicates, empty tokens, padding, several ends of
                     sequence or one among the ordinary tokens, missing bytes. A form may need what it cannot write.
    """
    kinds = [byte_level_vocabularies(), sentence_piece_vocabularies()]
    return st.one_of(*kinds, hostile_vocabularies()) if hostile else st.one_of(*kinds)


def byte_level_vocabularies() -> st.SearchStrategy[ToyTokenizer]:
    """Byte-level BPE: some of `MERGES`, each with those that it is made of."""
    return st.sets(st.integers(0, len(MERGES) - 1)).map(
        lambda chosen: ToyTokenizer.of(WithEnd(byte_level_tokenizer(_closed(sorted(chosen)))))
    )


def _closed(chosen: Sequence[int]) -> list[tuple[str, str]]:
    """The merges, and those that make their parts."""
    wanted: set[int] = set()
    makes = {left + right: index for index, (left, right) in enumerate(MERGES)}

    def add(index: int) -> None:
        if index not in wanted:
            wanted.add(index)
            for part in MERGES[index]:
                if part in makes:
                    add(makes[part])

    for index in chosen:
        add(index)
    return [MERGES[index] for index in sorted(wanted)]


_SPACE = "\u2581"
_CHARACTERS = f'{_SPACE}{{}}[]",:abcdefghijklmnopqrstuvwxyz0123456789.-\\é'
_JOINED = [
    ('"', ","), ('"', ":"), (_SPACE, '"'), (_SPACE, "a"), ("a", "b"), ("1", "2"), (_SPACE, "["), ("{", '"'),
    ('"', "}"), (_SPACE, _SPACE), ("t", "r"), ("tr", "u"), ("tru", "e"), (_SPACE, "true"), ("n", "a"),
]  # fmt: skip


def sentence_piece_vocabularies() -> st.SearchStrategy[ToyTokenizer]:
    """BPE of characters with byte fallback, as Llama's first tokenizers are."""
    return st.integers(0, len(_JOINED)).map(lambda number: ToyTokenizer.of(WithEnd(_sentence_piece(number), "</s>")))


def _sentence_piece(num_merges: int) -> Any:
    vocab = {"<unk>": 0, "</s>": 1}
    for token in [*(f"<0x{byte:02X}>" for byte in range(256)), *_CHARACTERS]:
        vocab.setdefault(token, len(vocab))
    merges = _JOINED[:num_merges]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    inner = hf.Tokenizer(hf.models.BPE(vocab=vocab, merges=merges, byte_fallback=True, unk_token="<unk>"))
    inner.normalizer = hf.normalizers.Replace(" ", _SPACE)
    decoders = [hf.decoders.Replace(_SPACE, " "), hf.decoders.ByteFallback(), hf.decoders.Fuse()]
    inner.decoder = hf.decoders.Sequence(decoders)
    inner.add_special_tokens([hf.AddedToken(token, special=True) for token in ("<unk>", "</s>")])
    return inner


@st.composite
def hostile_vocabularies(draw: st.DrawFn) -> ToyTokenizer:
    """Whatever a tokenizer file may hold. All tokens in one order or another, the end of sequence anywhere."""
    missing = draw(st.sets(st.sampled_from(list(range(256))), max_size=6) | st.just(set(range(256)) - set(JSON_BYTES)))
    singles = [bytes([byte]) for byte in range(256) if byte not in missing]
    pieces: list[bytes | None] = [*singles, *draw(st.lists(st.sampled_from(PIECES + PARTS), max_size=24))]
    pieces += draw(st.lists(st.sampled_from([b"", None, b"a", b'"', b"<unused>"]), max_size=6))
    pieces += draw(st.lists(st.binary(min_size=2, max_size=5), max_size=6))
    pieces = Random(draw(st.integers(0, 2**16))).sample(pieces, len(pieces))
    eos_ids = draw(st.sets(st.integers(0, len(pieces)), min_size=1, max_size=2))
    # At its end: an end of sequence without text. Elsewhere: one of the ordinary tokens, which is then no text.
    return ToyTokenizer.of_pieces([*pieces, None], eos_ids=eos_ids)

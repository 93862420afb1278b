"""What the fill session needs of a tokenizer: its vocabulary, how it encodes, and where it cuts texts first.

Reads Hugging Face fast tokenizers (`tokenizers.Tokenizer`, transformers' and mlx-lm's wrappers of it) and model
folders. Byte-level vocabularies (GPT-2's alphabet), SentencePiece-like ones (U+2581 for a space, <0xNN> for
bytes) and plain ones are told apart by the decoder that the tokenizer declares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from fillengine.automata.control import control
from fillengine.automata.leaf_mask import LeafMasks
from fillengine.automata.vocabulary import Vocabulary
from fillengine.errors import VocabularyError


class Encoder(Protocol):
    """Text to token ids, without special tokens around it."""

    def encode(self, text: str) -> list[int]: ...

    def encode_cut(self, text: str) -> tuple[list[int], int | None]:
        """The token ids, and where among them the last piece of `cut(text)` begins (None: there is no cut)."""

    def cut(self, text: str) -> list[str] | None:
        """The pieces that are encoded one by one, whatever stands beside them; None where there is no such cut."""


class Tokenizer:
    """A vocabulary with its encoder. One object for one tokenizer, since masks are kept with it."""

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder | None) -> None:
        self.vocabulary = vocabulary
        self.encoder = encoder
        self.leaf_masks = LeafMasks(vocabulary)
        self.stable_pieces: dict[tuple[str, bytes], bool] = {}
        """Whether a piece of text stays a piece of its own before each of these bytes (see fill.canonical)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.vocabulary, self.encoder)

    def within(self, num_logits: int) -> Tokenizer:
        """The tokenizer as a model with so many logits can use it: tokens beyond them have no text."""
        vocabulary = self.vocabulary
        if vocabulary.size <= num_logits:
            return self
        tokens = [text if token_id < num_logits else None for token_id, text in enumerate(vocabulary.tokens)]
        ends = [token_id for token_id in vocabulary.eos_ids if token_id < num_logits]
        return Tokenizer(Vocabulary(tokens, eos_ids=ends), self.encoder)


class FastEncoder:
    """The encoder of a `tokenizers.Tokenizer`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        # A normalizer changes the text, so the pieces of a cut would not be pieces of it.
        self._cuts = inner.pre_tokenizer is not None and inner.normalizer is None

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        return ids

    def encode_cut(self, text: str) -> tuple[list[int], int | None]:
        # Encoding and cutting in one call: what it says of words are the pieces.
        encoding = self._inner.encode(text, add_special_tokens=False)
        words = encoding.word_ids
        last = words.index(words[-1]) if self._cuts and words and words[-1] is not None else None
        return encoding.ids, last

    def cut(self, text: str) -> list[str] | None:
        if not self._cuts:
            return None
        pieces = [text[first:last] for _, (first, last) in self._inner.pre_tokenizer.pre_tokenize_str(text)]
        return pieces if sum(map(len, pieces)) == len(text) else None


_known: dict[Any, Tokenizer] = {}


def read_tokenizer(source: Any) -> Tokenizer:
    """The tokenizer behind `source`: a Tokenizer, a model folder, a Hugging Face fast tokenizer or mlx-lm's wrapper.

    The same source gives the same object. Raises VocabularyError where it cannot be read.
    """
    if isinstance(source, Tokenizer):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            key: Any = (str(file.resolve()), file.stat().st_mtime_ns)
        except OSError as error:
            raise VocabularyError(
                f"{file}: no tokenizer there ({error.strerror}); give a model folder that has a tokenizer.json"
            ) from None
        if key not in _known:
            _known[key] = _from_folder(file)
        return _known[key]
    inner, eos_ids = _unwrap(source)
    # The key holds on to the tokenizer, so that its id is not given to another.
    key = id(inner)
    if key not in _known:
        _known[key] = _from_fast(inner, eos_ids)
        _alive.append(inner)
    return _known[key]


_alive: list[Any] = []


def _unwrap(source: Any) -> tuple[Any, set[int]]:
    """The `tokenizers.Tokenizer` inside, and the end-of-sequence ids that the wrappers name."""
    eos_ids: set[int] = set()
    current = source
    for _ in range(4):
        many = getattr(current, "eos_token_ids", None)
        if many is not None and not callable(many):
            eos_ids.update([many] if isinstance(many, int) else many)
        one = getattr(current, "eos_token_id", None)
        if isinstance(one, int):
            eos_ids.add(one)
        if hasattr(current, "get_vocab") and hasattr(current, "to_str") and hasattr(current, "pre_tokenizer"):
            return current, eos_ids
        for name in ("backend_tokenizer", "_tokenizer"):
            inner = getattr(current, name, None)
            if inner is not None:
                current = inner
                break
        else:
            break
    raise VocabularyError(
        f"cannot read a vocabulary from {type(source).__name__}; "
        "give a model folder, a fast Hugging Face tokenizer or mlx-lm's TokenizerWrapper"
    )


def _from_folder(file: Path) -> Tokenizer:
    import tokenizers

    try:
        inner = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception for every malformed file
        raise VocabularyError(f"{file}: not a readable tokenizer.json ({error})") from None
    return _from_fast(inner, _declared_ends(file.parent, inner))


def _declared_ends(folder: Path, inner: Any) -> set[int]:
    """Every end-of-sequence id that the files of a model folder declare."""
    ends: set[int] = set()
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        try:
            content = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        declared = content.get("eos_token_id")
        ends.update([declared] if isinstance(declared, int) else declared or [])
        token = content.get("eos_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str):
            token_id = inner.token_to_id(token)
            if token_id is not None:
                ends.add(token_id)
    return ends


def _from_fast(inner: Any, eos_ids: Iterable[int]) -> Tokenizer:
    described = json.loads(inner.to_str())
    vocab: dict[str, int] = inner.get_vocab(with_added_tokens=True)
    size = max(vocab.values()) + 1
    # An added token is control, whether or not it is marked special: the encoder takes it out of running text,
    # so a text that spells it out would not come back as it was written. Forms ask for it by its name.
    added = {token["id"] for token in described.get("added_tokens", [])}
    text_of = _text_of(described)
    tokens: list[bytes | None] = [None] * size
    for token, token_id in vocab.items():
        tokens[token_id] = control(token) if token_id in added else text_of(token)
    known_ends = {token_id for token_id in eos_ids if token_id < size}
    return Tokenizer(Vocabulary(tokens, eos_ids=known_ends), FastEncoder(inner))


def _text_of(described: dict[str, Any]) -> Callable[[str], bytes | None]:
    kinds = _kinds(described.get("decoder")) | _kinds(described.get("pre_tokenizer"))
    if "ByteLevel" in kinds:
        alphabet = _byte_alphabet()

        def byte_level(token: str) -> bytes | None:
            try:
                return bytes(alphabet[character] for character in token)
            except KeyError:
                return None

        return byte_level
    if "Metaspace" in kinds or "ByteFallback" in kinds:
        fallback = re.compile(r"<0x([0-9A-Fa-f]{2})>")

        def sentence_piece(token: str) -> bytes | None:
            match = fallback.fullmatch(token)
            return bytes([int(match[1], 16)]) if match else token.replace("\u2581", " ").encode()

        return sentence_piece
    return lambda token: token.encode()


def _kinds(part: dict[str, Any] | None) -> set[str]:
    if part is None:
        return set()
    found = {part["type"]}
    for inner in part.get("decoders", []) + part.get("pretokenizers", []):
        found |= _kinds(inner)
    return found


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: printable ones stand for themselves, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet

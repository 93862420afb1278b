"""Models without weights, and a row that is written with one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from vocabularies import WithEnd, byte_level_tokenizer

from fillengine.automata.control import visible
from fillengine.automata.mask import Mask
from fillengine.fill import Row
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer

TOKENIZER = read_tokenizer(WithEnd(byte_level_tokenizer()))


class Model(Protocol):
    def choose(self, context: Sequence[int], mask: Mask) -> int:
        """A token that `mask` allows behind the tokens `context`, of which the first is the prompt."""


class HashModel:
    """Chooses by a hash of everything in the cache: a misaligned cache is noticed."""

    def __init__(self, seed: int, tokenizer: Tokenizer = TOKENIZER) -> None:
        self.seed, self.size = seed, tokenizer.vocabulary.size

    def choose(self, context: Sequence[int], mask: Mask) -> int:
        digest = hashlib.blake2b(repr((self.seed, list(context))).encode(), digest_size=8).digest()
        allowed = mask.token_ids(self.size)
        return int(allowed[int.from_bytes(digest, "little") % len(allowed)])


class FollowingModel:
    """Writes the tokens of one text, then the end."""

    def __init__(self, token_ids: Sequence[int], eos_id: int) -> None:
        self.token_ids, self.eos_id = list(token_ids), eos_id

    def choose(self, context: Sequence[int], mask: Mask) -> int:
        place = len(context) - 1
        wanted = self.token_ids[place] if place < len(self.token_ids) else self.eos_id
        # Behind a draft that is wrong anything may be asked; what is chosen there is thrown away.
        assert mask.allows(wanted) or list(context[1:]) != self.token_ids[:place]
        return wanted


class WantingModel:
    """Writes `target` (bytes of a template) by the tokens that the tokenizer gives for it, as far as it may."""

    def __init__(self, tokenizer: Tokenizer, target: bytes) -> None:
        self.tokens = tokenizer.vocabulary.tokens
        self.ends = tokenizer.vocabulary.eos_ids
        self.by_text = {piece: token_id for token_id, piece in enumerate(self.tokens) if piece}
        self.target = target
        assert tokenizer.encoder is not None
        self.at: dict[int, int] = {}
        offset = 0
        for token_id in tokenizer.encoder.encode(visible(target).decode()):
            piece = self.tokens[token_id] or b""
            if not target.startswith(piece, offset):
                break  # a text that spells out a control token
            self.at[offset] = token_id
            offset += len(piece)

    def choose(self, context: Sequence[int], mask: Mask) -> int:
        # The first token is the prompt's.
        written = b"".join(self.tokens[token_id] or b"" for token_id in context[1:])
        if not self.target.startswith(written):
            return int(mask.token_ids(len(self.tokens))[0])  # behind a draft that was rejected
        if written == self.target:
            return self.ends[0]
        wanted = self.at.get(len(written))
        if wanted is not None and mask.allows(wanted):
            return wanted
        rest = self.target[len(written) :]
        for length in range(min(len(rest), 40), 0, -1):
            token_id = self.by_text.get(rest[:length])
            if token_id is not None and mask.allows(token_id):
                return token_id
        raise AssertionError(f"nothing goes on from {written[-40:]!r} to {rest[:40]!r}")


def run(row: Row, model: Model) -> list[int]:
    """The tokens that `model` writes. Its cache holds what was fed and kept."""
    pending = [0]
    cache: list[int] = []
    while not row.is_finished:
        planned = row.plan(pending)
        if planned is None:
            break
        base = len(cache)
        cache += planned.feed
        choices = [
            model.choose(cache[: base + index + 1], mask)
            for index, mask in zip(planned.project, planned.masks, strict=True)
        ]
        commit = row.commit(planned, choices)
        del cache[base + commit.keep :]
        assert cache[1:] + commit.pending == row.token_ids[: len(cache) - 1 + len(commit.pending)]
        pending = commit.pending
    return row.token_ids

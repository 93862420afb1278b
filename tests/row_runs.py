"""Models without weights, and a row that is written with one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from vocabularies import WithEnd, byte_level_tokenizer

from fillengine.automata.mask import Mask
from fillengine.fill import Row
from fillengine.fill.tokenizer import read_tokenizer

TOKENIZER = read_tokenizer(WithEnd(byte_level_tokenizer()))


class Model(Protocol):
    def choose(self, context: Sequence[int], mask: Mask) -> int:
        """A token that `mask` allows behind the tokens `context`, of which the first is the prompt."""


class HashModel:
    """Chooses by a hash of everything in the cache: a misaligned cache is noticed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose(self, context: Sequence[int], mask: Mask) -> int:
        digest = hashlib.blake2b(repr((self.seed, list(context))).encode(), digest_size=8).digest()
        allowed = mask.token_ids(TOKENIZER.vocabulary.size)
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

"""Reading prompts into a cache, and not reading twice what two texts begin with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from fillengine.generation.cache import RaggedCache
from fillengine.generation.trunk import SplitModel

# Texts whose keys and values are kept, and the tokens that these may hold together. SmolLM2-135M in float32
# takes 46 KB a token.
MAX_PROMPTS = 16
MAX_TOKENS = 16_384
# A shorter common beginning is not worth a copy.
MIN_REUSED = 16
# A pass over fewer tokens than this costs more for each of them, so short prompts are read together: on a CPU a
# product of 64 rows is at full speed, a GPU wants more.
FULL_PASS = 64
FULL_PASS_ROUNDED = 512
# Of a pass over several prompts at least this share must not be padding.
MIN_USED = 0.75

Head = tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Kept:
    tokens: npt.NDArray[np.int64]
    cache: RaggedCache
    num_bytes: int


class Prefixes:
    """What the model has read before, in caches of one row, the least recently used ones dropped.

    Each is kept under exactly the tokens that its cache holds. Caches in here are never written to.
    """

    def __init__(self, pattern: RaggedCache, *, max_kept: int = MAX_PROMPTS, max_tokens: int = MAX_TOKENS) -> None:
        self.max_kept = max_kept
        self.max_tokens = max_tokens
        self._pattern = pattern
        self._kept: OrderedDict[Head, _Kept] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(kept.num_bytes for kept in self._kept.values())

    def heads(self) -> Iterable[Head]:
        """The token sequences that are kept."""
        return self._kept.keys()

    def longest(self, head: Head) -> tuple[RaggedCache | None, int]:
        """The cache to begin with, and how many of its tokens; (None, 0) where nothing is worth it."""
        wanted = np.array(head, np.int64)
        best, most = None, MIN_REUSED - 1
        for key, kept in self._kept.items():
            num_common = _num_common(kept.tokens, wanted)
            if num_common > most:
                num_common = kept.cache.longest_prefix(num_common)
            if num_common > most:
                best, most = key, num_common
        if best is None:
            return None, 0
        self._kept.move_to_end(best)
        return self._kept[best].cache, most

    def most_common(self, head: Head) -> int:
        """The most tokens that `head` and something kept begin with, usable or not."""
        wanted = np.array(head, np.int64)
        return max((_num_common(kept.tokens, wanted) for kept in self._kept.values()), default=0)

    def put(self, tokens: Sequence[int], cache: RaggedCache) -> None:
        """Keep a cache whose only row holds exactly `tokens`, if they are worth it.

        What it makes superfluous is dropped.
        """
        head = tuple(tokens)
        if int(cache.layout.lengths[0]) != len(head):
            raise ValueError(
                f"the cache holds {cache.layout.lengths[0]} tokens, not the {len(head)} that it is said to"
            )
        if len(head) < MIN_REUSED:
            return
        array = np.array(head, np.int64)
        for key, kept in list(self._kept.items()):
            num = len(kept.tokens)
            if num <= len(head) and _num_common(kept.tokens, array) == num and cache.longest_prefix(num) == num:
                del self._kept[key]
        self._kept[head] = _Kept(array, cache, cache.nbytes)
        self._evict()

    def put_row(self, tokens: Sequence[int], cache: RaggedCache, row: int) -> None:
        """Keep a copy of a row that holds exactly `tokens`."""
        if not MIN_REUSED <= len(tokens) <= self.max_tokens or cache.longest_prefix(len(tokens), row=row) != len(
            tokens
        ):
            return
        own = self._pattern.empty_like(1)
        own.copy_row(0, cache, len(tokens), source_row=row)
        mx.eval(own.state)
        self.put(tokens, own)

    def discard(self, tokens: Sequence[int]) -> None:
        """Forget these tokens, and whatever was read behind them."""
        head = tuple(tokens)
        for key in [key for key in self._kept if key[: len(head)] == head]:
            del self._kept[key]

    def make_room(self, num_bytes: int) -> None:
        """Drop the least recently used ones until all take `num_bytes` at most."""
        while self._kept and self.nbytes > num_bytes:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        self._kept.clear()

    def _evict(self) -> None:
        while len(self._kept) > self.max_kept or sum(map(len, self._kept)) > self.max_tokens:
            self._kept.popitem(last=False)


class Reading:
    """Prompts that are being read together, each into its row of `cache`. All but their last tokens are read.

    num_reused: by prompt, the tokens that were read before and copied.
    """

    def __init__(self, reader: PromptReader, prompts: Sequence[Sequence[int]], *, stops: Sequence[int] = ()) -> None:
        """`stops`: lengths at which a copy is kept, since the cache cannot give a part of what it holds later."""
        self.heads: list[Head] = [tuple(prompt[:-1]) for prompt in prompts]
        self.cache = reader.pattern.empty_like(len(prompts))
        self.num_reused = [reader.begin(self.cache, row, head) for row, head in enumerate(self.heads)]
        self._reader = reader
        self._done = list(self.num_reused)
        self._given_up: set[int] = set()
        self._stops = sorted(stop for stop in stops if stop > self._done[0])

    def give_up(self, number: int) -> None:
        """Nobody wants this prompt any more. What is read of it is given to nobody."""
        self._given_up.add(number)

    @property
    def is_done(self) -> bool:
        return all(done == len(head) for done, head in zip(self._done, self.heads, strict=True))

    def read(self, max_tokens: int) -> int:
        """Read about so many tokens more, one a prompt at least. Returns how many it were."""
        num_each = max(1, max_tokens // len(self.heads))
        if self._stops:
            num_each = min(num_each, self._stops[0] - self._done[0])
        chunks = {
            row: head[done : done + num_each]
            for row, (done, head) in enumerate(zip(self._done, self.heads, strict=True))
            if done < len(head)
        }
        if not chunks:
            return 0
        self.cache.feed(self._reader.trunk, chunks)
        self.cache.settle({})
        mx.eval(self.cache.state)
        for row, chunk in chunks.items():
            self._done[row] += len(chunk)
        if self._stops and self._done[0] == self._stops[0]:
            self._reader.prefixes.put_row(self.heads[0][: self._stops.pop(0)], self.cache, 0)
        if self.is_done:
            self._finish()
        return sum(map(len, chunks.values()))

    def _finish(self) -> None:
        if not self.cache.layout.shapes.rounds_up:
            # What a chunk needed is far larger than what a round will. CUDA takes long to give memory anew.
            mx.clear_cache()
        prefixes = self._reader.prefixes
        for row, head in enumerate(self.heads):
            if row in self._given_up:
                continue
            if len(self.heads) == 1:
                prefixes.put(head, self.cache)
            else:
                prefixes.put_row(head, self.cache, row)


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt in a cache of one row, all but its last token, which the first round feeds.

    num_reused: how many of its tokens an earlier text had in common and were not read again.
    """

    cache: RaggedCache
    last_token: int
    num_reused: int


class PromptReader:
    """Reads prompts. A new one starts from the longest beginning that it shares with what is kept.

    num_passes: forward passes that prompts took so far.
    """

    def __init__(self, model: SplitModel, cache: RaggedCache, *, prefixes: Prefixes | None = None) -> None:
        self.model = model
        # Never written to; new caches are made after it.
        self.pattern = cache
        self.prefixes = Prefixes(cache) if prefixes is None else prefixes
        self.num_passes = 0
        self.full_pass = FULL_PASS_ROUNDED if cache.layout.shapes.rounds_up else FULL_PASS

    def trunk(self, ids: mx.array, *, cache: Any) -> mx.array:
        self.num_passes += 1
        return self.model.trunk(ids, cache=cache)

    def read(self, prompt: Sequence[int]) -> ReadPrompt:
        """`prompt`: at least one token id."""
        reading = Reading(self, [prompt])
        while not reading.is_done:
            reading.read(self.pattern.layout.shapes.max_length)
        return ReadPrompt(reading.cache, prompt[-1], reading.num_reused[0])

    def begin(self, cache: RaggedCache, row: int, head: Head) -> int:
        """Copy what is known of `head` into a row. Returns how many tokens that is."""
        source, num_reused = self.prefixes.longest(head)
        if source is not None:
            cache.copy_row(row, source, num_reused)
        return num_reused

    def start(self, waiting: Sequence[Sequence[int]]) -> tuple[Reading, list[int]]:
        """Begin with the first of the waiting prompts, and with others that it pays to read with it.

        Returns the reading, and the places of its prompts in `waiting`. A prompt that shares a beginning with
        one that is read now is left for later: it will find it kept.
        """
        first = tuple(waiting[0][:-1])
        if not self.pattern.can_trim or self.pattern.is_solo:
            return Reading(self, waiting[:1], stops=self._stops(first, waiting)), [0]
        chosen, heads = [0], [first]
        num_tokens = len(first) - self.prefixes.longest(first)[1]
        for place, prompt in enumerate(waiting[1:], start=1):
            if num_tokens * len(chosen) >= self.full_pass or num_tokens == 0:
                break
            head = tuple(prompt[:-1])
            num_known = self.prefixes.longest(head)[1]
            num_own = len(head) - num_known
            if not MIN_USED * num_tokens <= num_own <= num_tokens / MIN_USED:
                continue
            num_shared = max(_num_common(np.array(head), np.array(other)) for other in heads)
            if num_shared < num_known + MIN_REUSED:
                chosen.append(place)
                heads.append(head)
                num_tokens = max(num_tokens, num_own)
        return Reading(self, [waiting[place] for place in chosen]), chosen

    def _stops(self, head: Head, waiting: Sequence[Sequence[int]]) -> list[int]:
        """Where `head` parts from what others begin with: what a cache that cannot be cut must be kept at."""
        array = np.array(head, np.int64)
        others = [_num_common(array, np.array(prompt[:-1], np.int64)) for prompt in waiting[1:]]
        found = {self.prefixes.most_common(head), *others}
        return [stop for stop in found if MIN_REUSED <= stop < len(head)]


def _num_common(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> int:
    """Tokens that both begin with."""
    num = min(len(left), len(right))
    differing = np.flatnonzero(left[:num] != right[:num])
    return int(differing[0]) if len(differing) else num

"""Token masks on the device: each is uploaded once, and a round then names its masks by number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fillengine.automata.mask import Mask

FIRST_CAPACITY = 64
# A mask of at most so many tokens is narrow.
MAX_NARROW = 256
# Device memory that the masks may take. Of a vocabulary of 49,152 tokens it holds 10,922 masks.
MAX_BYTES = 64 * 2**20
# Of small vocabularies no more than this: each is also an object here.
MAX_MASKS = 16_384


class MaskBank:
    """Bit-packed masks, uint32[capacity, ceil(num_logits / 32)], the least recently used ones replaced.

    `num_logits` may be more than the vocabulary's size (models pad it): what is beyond is never allowed.
    """

    def __init__(self, num_logits: int, *, max_bytes: int = MAX_BYTES, max_narrow: int = MAX_NARROW) -> None:
        self.num_logits = num_logits
        self.max_narrow = max_narrow
        self.num_words = -(-num_logits // 32)
        self.max_masks = max(1, min(max_bytes // (4 * self.num_words), MAX_MASKS))
        capacity = min(FIRST_CAPACITY, self.max_masks)
        self._bits = mx.zeros((capacity, self.num_words), dtype=mx.uint32)
        # Since MLX 0.31.2 only the thread that began a computation can finish it, and another may use the bank.
        mx.eval(self._bits)
        self._free = list(range(capacity))
        # By identity of the mask, least recently used first. The mask is kept, so that its id stays its own.
        self._held: OrderedDict[int, tuple[Mask, int]] = OrderedDict()
        self._narrow: OrderedDict[int, tuple[Mask, npt.NDArray[np.int32] | None]] = OrderedDict()

    @property
    def num_masks(self) -> int:
        return len(self._held)

    def numbers(self, masks: Sequence[Mask]) -> mx.array:
        """Where the masks stand in the bank, int32[len(masks)]; new ones are uploaded."""
        wanted = {id(mask): mask for mask in masks}
        new = []
        for key, mask in wanted.items():
            if key in self._held:
                self._held.move_to_end(key)
            else:
                new.append(mask)
        if new:
            self._make_room(len(new), max(self.max_masks, len(wanted)))
            self._upload(new)
        return mx.array([self._held[id(mask)][1] for mask in masks], dtype=mx.int32)

    def allowed(self, masks: Sequence[Mask]) -> mx.array:
        """bool[len(masks), num_logits]"""
        numbers = self.numbers(masks)  # first, since it may replace the array
        bits = self._bits[numbers]
        shifts = mx.arange(32, dtype=mx.uint32)
        flags = ((bits[..., None] >> shifts) & 1).astype(mx.bool_)
        return flags.reshape(len(masks), -1)[:, : self.num_logits]

    def narrow(self, mask: Mask) -> npt.NDArray[np.int32] | None:
        """The allowed tokens, ascending, where they are at most `max_narrow`; else None."""
        held = self._narrow.get(id(mask))
        if held is None:
            held = (mask, self._few(mask.bits))
            self._narrow[id(mask)] = held
            if len(self._narrow) > self.max_masks:
                self._narrow.popitem(last=False)
        return held[1]

    def _few(self, bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32] | None:
        words = bits.nonzero()[0]
        if len(words) > self.max_narrow:
            return None
        flags = np.unpackbits(bits[words].view(np.uint8), bitorder="little").nonzero()[0]
        token_ids = (words[flags >> 5] * 32 + (flags & 31)).astype(np.int32)
        token_ids = token_ids[token_ids < self.num_logits]
        return token_ids if len(token_ids) <= self.max_narrow else None

    def _make_room(self, num_new: int, num_places: int) -> None:
        while len(self._held) + num_new > num_places:
            _, (_, place) = self._held.popitem(last=False)
            self._free.append(place)
        capacity = self._bits.shape[0]
        missing = num_new - len(self._free)
        if missing > 0:
            more = max(missing, min(capacity, self.max_masks - capacity))
            self._bits = mx.concatenate([self._bits, mx.zeros((more, self.num_words), dtype=mx.uint32)])
            self._free.extend(range(capacity, capacity + more))

    def _upload(self, new: list[Mask]) -> None:
        rows = np.zeros((len(new), self.num_words), np.uint32)
        places = [self._free.pop() for _ in new]
        for row, place, mask in zip(rows, places, new, strict=True):
            bits = mask.bits[: self.num_words]
            row[: len(bits)] = bits
            self._held[id(mask)] = (mask, place)
        self._bits[mx.array(places, dtype=mx.int32)] = mx.array(rows)

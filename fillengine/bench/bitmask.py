"""Token masks as bits, put on logits by whatever is fastest here: no peer is to be slowed by our glue."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

import fillengine.generation  # noqa: F401 (puts an optimised BLAS in place)

import mlx.core as mx  # isort: skip (behind what puts an optimised BLAS in place)

# uint32[rows, words]: bit i of word w is token 32 w + i.
Bits = npt.NDArray[np.uint32]
Apply = Callable[[mx.array, Bits], mx.array]

NUM_TRIES = 5


def num_words(num_logits: int) -> int:
    return -(-num_logits // 32)


def unpacked_by_numpy(logits: mx.array, bits: Bits) -> mx.array:
    """logits float[rows, num_logits]; minus infinity where a token's bit is not set."""
    allowed = np.unpackbits(bits.view(np.uint8), axis=-1, bitorder="little", count=logits.shape[-1])
    return mx.where(mx.array(allowed.view(np.bool_)), logits, -mx.inf)


def unpacked_on_device(logits: mx.array, bits: Bits) -> mx.array:
    """The same; an eighth of the bytes goes to the device, and the operations are one there."""
    return _masked(logits, mx.array(bits))


@partial(mx.compile, shapeless=False)
def _masked(logits: mx.array, bits: mx.array) -> mx.array:
    allowed = (bits[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1
    allowed = allowed.reshape(bits.shape[0], -1)[:, : logits.shape[-1]]
    return mx.where(allowed.astype(mx.bool_), logits, -mx.inf)


def unpacked_by_llguidance(logits: mx.array, bits: Bits) -> mx.array:
    """The same by llguidance's own kernel, which Metal has."""
    from llguidance.mlx import apply_token_bitmask

    masked: mx.array = apply_token_bitmask(logits, bits.view(np.int32))
    return masked


def candidates() -> list[Apply]:
    """The ways that this device has."""
    found: list[Apply] = [unpacked_by_numpy, unpacked_on_device]
    if mx.metal.is_available() and mx.default_device().type == mx.DeviceType.gpu:
        found.append(unpacked_by_llguidance)
    return found


class Bitmask:
    """Puts bits on logits; the way is chosen by a measurement at the first use of a number of rows."""

    def __init__(self) -> None:
        self._chosen: dict[int, Apply] = {}

    def apply(self, logits: mx.array, bits: Bits) -> mx.array:
        rows = logits.shape[0]
        if rows not in self._chosen:
            self._chosen[rows] = min(candidates(), key=lambda way: _seconds(way, logits.shape, logits.dtype))
        return self._chosen[rows](logits, bits)

    def names(self) -> dict[int, str]:
        """The chosen way by the number of rows."""
        return {rows: getattr(way, "__name__", str(way)) for rows, way in self._chosen.items()}


def _seconds(way: Apply, shape: tuple[int, ...], dtype: mx.Dtype) -> float:
    logits = mx.zeros(shape, dtype=dtype)
    bits = np.full((shape[0], num_words(shape[1])), 0x55555555, np.uint32)
    mx.eval(mx.argmax(way(logits, bits), axis=-1))
    times = []
    for _ in range(NUM_TRIES):
        begun = time.perf_counter()
        mx.eval(mx.argmax(way(logits, bits), axis=-1))
        times.append(time.perf_counter() - begun)
    return min(times)

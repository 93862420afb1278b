"""Token masks as bits, put on logits by whatever is fastest here: no peer is to be slowed by our glue."""

from __future__ import annotations

import time
from collections.abc import Callable

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
    """The same; an eighth of the bytes goes to the device, which looks each byte up.

    Not compiled: on a CPU `mx.compile` calls the C++ compiler for each number of rows, which takes seconds.
    """
    allowed = _OF_BYTE[mx.array(bits.view(np.uint8))].reshape(bits.shape[0], -1)
    return mx.where(allowed[:, : logits.shape[-1]], logits, -mx.inf)


# bool[256, 8]: the bits of a byte, the lowest first.
_OF_BYTE = mx.array(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_))


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
    """Puts bits on logits; the way is chosen by a measurement at the first use."""

    def __init__(self) -> None:
        self.way: Apply | None = None

    def apply(self, logits: mx.array, bits: Bits) -> mx.array:
        if self.way is None:
            self.way = min(candidates(), key=lambda way: _seconds(way, logits.shape, logits.dtype))
        return self.way(logits, bits)


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

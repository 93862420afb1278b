"""Attention of a short pass in one kernel, on CUDA.

MLX's own kernel there takes one query of a row and no mask. With more, or with rows of different lengths, its attention
is six to eight operations and a mask, and in passes of a small model their launches are what the time goes into.
"""

from __future__ import annotations

import functools

import mlx.core as mx

from fillengine.generation.attention import AttentionCache
from fillengine.generation.cuda_kernel import cuda_kernel
from fillengine.generation.layout import Layout
from fillengine.generation.own_attention import plain_attention

# What the kernel is written for.
HEAD_SIZES = (64, 128)
DTYPES = (mx.bfloat16, mx.float16)
# Tokens of a row in a pass up to which it is the faster way (those of prompts are more).
MAX_TOKENS = 64
# Queries and warps of a block.
QUERIES = 16
WARPS = 8


class FusedCache(AttentionCache):
    """Keys and values of one layer all of whose positions are seen, with the attention of short passes."""

    def empty_like(self, layout: Layout) -> FusedCache:
        return FusedCache(layout)

    @property
    def ignores_width(self) -> bool:
        """So it is where attention is the kernel's, which reads a row as far as it goes."""
        return self.layout.num_tokens <= MAX_TOKENS and all(
            held.dtype in DTYPES and held.shape[3] in HEAD_SIZES for held in self.state
        )

    def attend(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        scale: float,
        mask: mx.array | str | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """See `own_attention.Attends`. What the kernel has no way for, is done by MLX."""
        if (
            self.keys is not None
            and self.values is not None
            and self._fetched is not None
            and keys is self._fetched[0]
            and values is self._fetched[1]
            and self.ignores_width
            and queries.dtype == self.keys.dtype == self.values.dtype
            and queries.shape[3] == self.keys.shape[3] == self.values.shape[3]
            and self.layout.is_full(mask)
            and sinks is None
        ):
            return ragged_attention(queries, self.keys, self.values, self.layout.offsets, scale)
        found: mx.array = plain_attention(queries, keys, values, self, scale=scale, mask=mask, sinks=sinks)
        return found


def ragged_attention(queries: mx.array, keys: mx.array, values: mx.array, offsets: mx.array, scale: float) -> mx.array:
    """What each query sees of its row's keys and values, read where they are.

    queries [rows, heads, tokens, head size], keys and values [rows, kv heads, slots, head size], contiguous, all of the
    same of `DTYPES`; offsets int32[rows]. Query t of a row sees the slots up to offset + t. Sums are float32.
    Returns [rows, heads, tokens, head size]. On CUDA only.
    """
    num_rows, num_heads, num_tokens, size = queries.shape
    num_kv_heads = keys.shape[1]
    num_blocks = -(-num_heads // num_kv_heads * num_tokens // QUERIES)
    kernel = cuda_kernel("ragged_attention", ("queries", "keys", "values", "offsets", "scale"), copies_strided=False)
    (found,) = kernel(
        inputs=[queries, keys, values, offsets, _number(scale)],
        template=[("T", queries.dtype), ("D", size), ("WARPS", WARPS)],
        grid=(num_blocks * 32 * WARPS, num_kv_heads, num_rows),
        threadgroup=(32 * WARPS, 1, 1),
        output_shapes=[(num_rows, num_tokens, num_heads, size)],
        output_dtypes=[queries.dtype],
    )
    out: mx.array = found.transpose(0, 2, 1, 3)
    return out


@functools.cache
def _number(value: float) -> mx.array:
    """A kernel takes arrays only; made once, it is not sent to the device again."""
    return mx.array(value, dtype=mx.float32)

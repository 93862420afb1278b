"""The ragged KV cache: rows of different lengths that take one forward pass together.

It plugs into unmodified mlx-lm models, which ask a layer's cache for `offset`, `update_and_fetch` and
`make_mask`. There is one class for each kind of layer, and all layers share one `Layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache, make_prompt_cache

from fillengine.errors import ModelError
from fillengine.generation.layout import Layout, Shapes

# Slots by which the buffers grow (mlx-lm's own step).
GROWTH = 256


class AttentionCache:
    """Keys and values of one full-attention layer: [rows, kv heads, slots, head size], the model's dtype."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.keys: mx.array | None = None
        self.values: mx.array | None = None

    # What mlx-lm's models ask for.

    @property
    def offset(self) -> int | mx.array:
        return self.layout.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write the pass's keys and values; return those of all slots that its queries may see."""
        layout = self.layout
        held_keys = self._reserved(self.keys, keys)
        held_values = self._reserved(self.values, values)
        if layout.start is not None:
            end = layout.start + layout.num_tokens
            held_keys[..., layout.start : end, :] = keys
            held_values[..., layout.start : end, :] = values
        else:
            held_keys = mx.put_along_axis(held_keys, layout.slots, keys, axis=2)
            held_values = mx.put_along_axis(held_values, layout.slots, values, axis=2)
        self.keys, self.values = held_keys, held_values
        return held_keys[..., : layout.width, :], held_values[..., : layout.width, :]

    def make_mask(
        self,
        N: int,  # noqa: N803 (mlx-lm's name)
        *,
        return_array: bool = False,
        window_size: int | None = None,
    ) -> mx.array | str | None:
        if self.layout.num_tokens != N:
            raise ValueError(f"the pass was set up for {self.layout.num_tokens} tokens, the model takes {N}")
        return self.layout.mask(window_size, as_array=return_array)

    def _reserved(self, held: mx.array | None, new: mx.array) -> mx.array:
        """`held` with room for every slot that this pass writes or attention sees."""
        layout = self.layout
        needed = max(layout.width, int(layout.lengths.max()) + layout.num_tokens)
        if held is None:
            rows, heads, _, size = new.shape
            return mx.zeros((rows, heads, _round_up(needed), size), new.dtype)
        return _with_slots(held, _round_up(needed))

    # What a batch does with its rows.

    @property
    def state(self) -> list[mx.array]:
        return [held for held in (self.keys, self.values) if held is not None]

    def copy_row(self, row: int, source: AttentionCache, source_row: int, num_tokens: int) -> None:
        """Let `row` begin with the first `num_tokens` slots of a row of another cache of this layer."""
        self.keys = self._with_row(self.keys, row, source.keys, source_row, num_tokens)
        self.values = self._with_row(self.values, row, source.values, source_row, num_tokens)

    def _with_row(
        self, held: mx.array | None, row: int, source: mx.array | None, source_row: int, num_tokens: int
    ) -> mx.array | None:
        if source is None or num_tokens == 0:
            return held
        if held is None:
            _, heads, _, size = source.shape
            held = mx.zeros((self.layout.num_rows, heads, _round_up(num_tokens), size), source.dtype)
        held = _with_slots(held, _round_up(num_tokens))
        held[row, :, :num_tokens] = source[source_row, :, :num_tokens]
        return held

    def clear_row(self, row: int) -> None:
        """Overwrite a row whose numbers may not be finite: a weight of 0 times NaN would be NaN."""
        if self.keys is not None and self.values is not None:
            self.keys[row] = 0
            self.values[row] = 0

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        """Hold these rows, in this order, and behind them empty ones up to `num_rows`."""
        if self.keys is not None and self.values is not None:
            order = mx.array(list(kept), dtype=mx.int32)
            self.keys = _with_rows(self.keys[order], num_rows)
            self.values = _with_rows(self.values[order], num_rows)


# The kinds of layer state that can be rolled back, by mlx-lm's class for them.
LAYER_KINDS: dict[type, type[AttentionCache]] = {KVCache: AttentionCache}


class RaggedCache:
    """The caches of all layers of a model, for `num_rows` rows. `layers` is what the model is called with."""

    def __init__(self, layers: list[AttentionCache], layout: Layout) -> None:
        self.layers = layers
        self.layout = layout

    @classmethod
    def for_model(cls, model: Any, num_rows: int, shapes: Shapes) -> RaggedCache:
        """Raises ModelError naming the first layer whose kind of cache is not supported."""
        layout = Layout(num_rows, shapes)
        layers = []
        for number, plain in enumerate(make_prompt_cache(model)):
            kind = LAYER_KINDS.get(type(plain))
            if kind is None:
                raise ModelError(
                    f"layer {number} of the model keeps its state in a {type(plain).__name__}, which "
                    f"fillengine cannot roll back yet; use a model whose layers all have full attention"
                )
            layers.append(kind(layout))
        return cls(layers, layout)

    def empty_like(self, num_rows: int) -> RaggedCache:
        """A new cache of the same model."""
        layout = Layout(num_rows, self.layout.shapes)
        return RaggedCache([type(layer)(layout) for layer in self.layers], layout)

    @property
    def num_rows(self) -> int:
        return self.layout.num_rows

    @property
    def state(self) -> list[mx.array]:
        return [array for layer in self.layers for array in layer.state]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.state)

    def copy_row(self, row: int, source: RaggedCache, num_tokens: int, *, source_row: int = 0) -> None:
        """Let `row` be the first `num_tokens` of a row of another cache of this model."""
        for layer, other in zip(self.layers, source.layers, strict=True):
            layer.copy_row(row, other, source_row, num_tokens)
        self.layout.lengths[row] = num_tokens

    def vacate(self, row: int) -> None:
        self.layout.lengths[row] = 0

    def clear_row(self, row: int) -> None:
        """Vacate a row whose numbers may not be finite."""
        self.vacate(row)
        for layer in self.layers:
            layer.clear_row(row)

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        """Hold these rows, in this order, and behind them empty ones up to `num_rows`."""
        for layer in self.layers:
            layer.keep_rows(kept, num_rows)
        lengths = np.zeros(num_rows, np.int32)
        lengths[: len(kept)] = self.layout.lengths[list(kept)]
        self.layout.lengths = lengths


def _round_up(num_slots: int) -> int:
    return -(-num_slots // GROWTH) * GROWTH


def _with_slots(held: mx.array, num_slots: int) -> mx.array:
    rows, heads, slots, size = held.shape
    if slots >= num_slots:
        return held
    return mx.concatenate([held, mx.zeros((rows, heads, num_slots - slots, size), held.dtype)], axis=2)


def _with_rows(held: mx.array, num_rows: int) -> mx.array:
    missing = num_rows - held.shape[0]
    if missing == 0:
        return held
    return mx.concatenate([held, mx.zeros((missing, *held.shape[1:]), held.dtype)], axis=0)

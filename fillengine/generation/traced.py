"""A trunk whose graph is kept for shapes that come often, by `mx.compile`, instead of built for each pass.

On a GPU a pass of a small model takes a few milliseconds, and Python needs nearly as long to build its graph: some
20 operations for each of 30 layers. Where all layers keep plain keys and values, a pass is a function of its
tokens, where each row's begin, and these keys and values, so that the graph can be kept.

    (ids [rows, tokens], offsets [rows], keys and values of each layer) -> (hidden [rows, tokens, n], the same, written)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx

from fillengine.generation.attention import AttentionCache
from fillengine.generation.layout import Layout, Shapes

# Longer passes are those of prompts: each shape of them comes seldom.
MAX_TRACED = 64
# A graph is kept from this pass of a shape on. Making it took 60 to 70 ms on an H200's host, and saves 1 to 4 in each
# later pass: many shapes never come so often.
TRACED_FROM = 20
# Shapes that are known at a time.
MAX_SHAPES = 512

Trunk = Callable[..., mx.array]
# Rows, tokens, slots that attention sees, slots that there are.
_Key = tuple[int, int, int, int, Shapes]


@dataclass(slots=True)
class _Seen:
    """Passes of a shape, and what runs its graph."""

    num_passes: int = 0
    run: Callable[..., tuple[mx.array, list[mx.array]]] | None = None


class TracedTrunk:
    """Takes and gives what `trunk` does, in the same numbers but for the rounding of what `mx.compile` fuses."""

    def __init__(self, trunk: Trunk) -> None:
        self._trunk = trunk
        self._seen: dict[_Key, _Seen] = {}
        self._is_traceable = True

    def __call__(self, ids: mx.array, cache: Sequence[Any] | None = None) -> mx.array:
        layers = [] if cache is None else [layer for layer in cache if isinstance(layer, AttentionCache)]
        if cache is None or len(layers) < len(cache) or not self._suits(layers):
            return self._trunk(ids, cache=cache)
        layout = layers[0].layout
        # Slots that attention sees: all that there are, where they cost nothing, so that there are fewer shapes.
        ignores_width = all(layer.ignores_width for layer in layers)
        width = layers[0].num_reserved if ignores_width else layout.width
        seen = self._count(layout, width, layers[0].num_reserved)
        if seen.num_passes < TRACED_FROM:
            return self._trunk(ids, cache=cache)
        if seen.run is None:
            kinds = [type(layer) for layer in layers]
            seen.run = mx.compile(partial(self._run, kinds, layout.num_tokens, width, layout.shapes))
        held = [array for layer in layers for array in layer.reserved()]
        # Whoever else holds an array keeps it from being written in place.
        for layer in layers:
            layer.keys = layer.values = None
        written = held
        try:
            hidden, written = seen.run(ids, layout.offsets, held)
        except Exception:  # whatever it is, it says only that this trunk is no such function
            self._is_traceable = False
        finally:
            for number, layer in enumerate(layers):
                layer.keys, layer.values = written[2 * number : 2 * number + 2]
        return hidden if self._is_traceable else self._trunk(ids, cache=cache)

    def _count(self, layout: Layout, width: int, num_reserved: int) -> _Seen:
        """Note a pass of this shape."""
        key = (layout.num_rows, layout.num_tokens, width, num_reserved, layout.shapes)
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= MAX_SHAPES:
                self._seen.clear()
            seen = self._seen[key] = _Seen()
        seen.num_passes += 1
        return seen

    def _suits(self, layers: Sequence[AttentionCache]) -> bool:
        if not self._is_traceable or not layers:
            return False
        layout = layers[0].layout
        # One query that sees all slots is cheaper as it is: attention has a kernel for it that takes no mask.
        is_masked = layout.start is None or layout.num_tokens > 1
        return (
            is_masked
            and layout.shapes.rounds_up
            and layout.num_tokens <= MAX_TRACED
            and all(layer.keys is not None and layer.ring is None for layer in layers)
        )

    def _run(
        self,
        kinds: Sequence[type[AttentionCache]],
        num_tokens: int,
        width: int,
        shapes: Shapes,
        ids: mx.array,
        offsets: mx.array,
        held: list[mx.array],
    ) -> tuple[mx.array, list[mx.array]]:
        layout = Layout.placed(shapes, offsets, num_tokens, width)
        layers = []
        for kind, keys, values in zip(kinds, held[::2], held[1::2], strict=True):
            layer = kind(layout)
            layer.keys, layer.values = keys, values
            layers.append(layer)
        hidden = self._trunk(ids, cache=layers)
        return hidden, [array for layer in layers for array in layer.state]

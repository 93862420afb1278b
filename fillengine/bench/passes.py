"""What forward passes a model makes, whoever makes them: how many, and how many in a shape that is new.

On CUDA in half precision MLX builds an attention plan for every new shape of a pass with more than one query; in
the steady state there must be none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fillengine.generation.blas import use_threads
from fillengine.generation.traced import TracedTrunk


@dataclass(frozen=True, slots=True)
class Shape:
    """rows, tokens: of a pass, padding included. width: the slots that attention sees."""

    rows: int
    tokens: int
    width: int


@dataclass(slots=True)
class PassLog:
    """Passes since `begin`. `seen`: the shapes that a contender had before, and those that it meets; `new`: these."""

    seen: set[Shape] = field(default_factory=set)
    num_passes: int = 0
    new: list[Shape] = field(default_factory=list)

    def begin(self, seen: set[Shape]) -> None:
        self.seen, self.num_passes, self.new = seen, 0, []

    def note(self, shape: Shape) -> None:
        """A pass has been made."""
        self.num_passes += 1
        if shape.tokens > 1 and shape not in self.seen:
            self.seen.add(shape)
            self.new.append(shape)


def watch(model: Any) -> PassLog:
    """Note every pass of an mlx-lm model from now on: a log that is kept up to date.

    The trunk (`model.model`), or the model itself where it has none, gets a class of its own that notes its calls;
    who calls it sees no difference, but that the BLAS threads are set by the size of the pass, as our engine does: on a
    CPU mlx-lm's own passes would otherwise run with what our last pass had set.
    """
    log = PassLog()
    trunk = getattr(model, "model", model)
    kind = type(trunk)
    call: Callable[..., Any] = kind.__call__

    def noted(self: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        cache = options.get("cache", next((arg for arg in args if isinstance(arg, (list, tuple))), None))
        # Before the call: a layer's cache grows during it.
        use_threads(inputs.size)
        log.note(Shape(inputs.shape[0], inputs.shape[1], _width(cache, inputs.shape[1])))
        return call(self, inputs, *args, **options)

    trunk.__class__ = type(kind.__name__, (kind,), {"__call__": noted})
    return log


def watch_traced(trunk: TracedTrunk, log: PassLog) -> None:
    """Let `log`, which watches the model of this trunk, note the passes too in which its kept graphs stand for it."""

    def noted(self: Any, ids: Any, cache: Any = None) -> Any:
        num_passes = log.num_passes
        hidden = TracedTrunk.__call__(self, ids, cache=cache)
        if log.num_passes == num_passes:
            log.note(Shape(ids.shape[0], ids.shape[1], _width(cache, ids.shape[1])))
        return hidden

    trunk.__class__ = type(TracedTrunk.__name__, (TracedTrunk,), {"__call__": noted})


def _width(cache: Any, num_tokens: int) -> int:
    first = next((layer for layer in cache or () if layer is not None), None)
    if first is None:
        return num_tokens
    layout = getattr(first, "layout", None)
    if layout is not None:
        return int(layout.width)
    # mlx-lm's: of one row its offset, of a batch the slot that it writes next.
    held = getattr(first, "_idx", None) if hasattr(first, "left_padding") else getattr(first, "offset", 0)
    return int(held or 0) + num_tokens

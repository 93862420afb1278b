"""What a layer's state must be able to do for a batch, whatever kind it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import mlx.core as mx

from fillengine.generation.layout import Layout


class LayerState(ABC):
    """The state of one layer for all rows. What mlx-lm's models ask of it is up to each kind.

    A round is one or more passes. `begin_round` comes before its first pass; in it the `layout` is set up for
    each pass; then lengths are set back to what is kept, or `rewind` is called; and `end_round` comes last.
    """

    # Whether a part of a round can be taken back by `Layout.trim` alone. If not, `rewind` takes back all of it.
    can_trim: ClassVar[bool] = True

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def max_append(self) -> int | None:
        """Tokens that one pass may append to a row at most. None: any number."""
        return None

    @property
    def max_rollback(self) -> int | None:
        """Tokens that `Layout.trim` may take back at most. None: any number."""
        return None

    @property
    @abstractmethod
    def state(self) -> list[mx.array]: ...

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return sum(array.nbytes for array in self.state)

    @abstractmethod
    def empty_like(self, layout: Layout) -> LayerState:
        """A new one for the same layer."""

    @abstractmethod
    def copy_row(self, row: int, source: Any, source_row: int, num_tokens: int) -> None:
        """Let `row` begin with the first `num_tokens` of a row of another state of this layer.

        `num_tokens` is one that the source's `longest_prefix` gives.
        """

    def vacate_row(self, row: int) -> None:  # noqa: B027
        """The row's text has ended: what it held need not be kept, and it is empty when it is fed next."""

    @abstractmethod
    def clear_row(self, row: int) -> None:
        """Overwrite a row whose numbers may not be finite: a weight of 0 times NaN would be NaN."""

    @abstractmethod
    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        """Hold these rows, in this order, and behind them empty ones up to `num_rows`."""

    def longest_prefix(self, row: int, num_tokens: int) -> int:
        """The most tokens, `num_tokens` at most, from which another row could go on."""
        return num_tokens

    def room(self, row: int) -> int | None:
        """Tokens that a pass may append to `row` before its state changes its kind. None: it never does."""
        return None

    def begin_round(self, rows: Collection[int]) -> None:  # noqa: B027 (most kinds have nothing to do)
        """These rows are about to be fed: remember what `rewind` needs."""

    def end_pass(self) -> None:  # noqa: B027
        """Called when the pass is through, before the layout is."""

    def rewind(self, rows: Sequence[int]) -> None:
        """Set rows back to before the round."""
        raise NotImplementedError

    def end_round(self) -> None:  # noqa: B027
        """The rows' lengths are what is kept: let go of what was needed to go back further."""


def with_rows(held: mx.array, num_rows: int) -> mx.array:
    """`held` with rows of zeros behind it up to `num_rows`."""
    missing = num_rows - held.shape[0]
    if missing == 0:
        return held
    return mx.concatenate([held, mx.zeros((missing, *held.shape[1:]), held.dtype)], axis=0)

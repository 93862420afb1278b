"""What is allowed at one place of a text.

    place.single       the token that the form determines there, where the tokenizer says so
    place.mask         all that is allowed, found when it is first asked for

A round can be planned, and its forward pass be begun, before the masks of its places are made.
"""

from __future__ import annotations

from fillengine.automata.mask import Mask, Masks
from fillengine.automata.state import State


class Place:
    """`state` with `budget` more tokens (None: any number); `single` where only that token may come."""

    __slots__ = ("_mask", "_masks", "budget", "single", "state")

    def __init__(self, masks: Masks, state: State, budget: int | None, single: int | None) -> None:
        self._masks = masks
        self._mask: Mask | None = None
        self.state = state
        self.budget = budget
        self.single = single

    @property
    def mask(self) -> Mask:
        if self._mask is None:
            if self.single is not None:
                self._mask = self._masks.single(self.single)
            else:
                self._mask = self._masks.within(self.state, self.budget)
        return self._mask

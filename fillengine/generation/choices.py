"""From what the trunk says at some positions to the tokens chosen there: project, mask, choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from fillengine.generation.mask_bank import MAX_NARROW, MaskBank
from fillengine.generation.sampling import Columns, Draw, choose
from fillengine.generation.trunk import SplitModel

if TYPE_CHECKING:
    from fillengine.automata.mask import Mask


class Chooser:
    """Chooses under masks.

    Where a mask allows few tokens, only their logits are computed, if the model lets them be (`SplitModel.weight`).
    The mask alone decides that, so that a position's numbers are the same in every batch and with any draft.
    """

    def __init__(self, model: SplitModel, *, max_narrow: int = MAX_NARROW) -> None:
        self.model = model
        self.bank = MaskBank(model.num_logits, max_narrow=max_narrow)

    def choices(self, hidden: mx.array, masks: Sequence[Mask], draws: Sequence[Draw]) -> mx.array:
        """int32[positions], -1 where the model's numbers are unusable. hidden: float[positions, n]."""
        few: list[tuple[int, npt.NDArray[np.int32]]] = []
        many: list[int] = []
        for number, mask in enumerate(masks):
            token_ids = None if self.model.weight is None else self.bank.narrow(mask)
            if token_ids is None:
                many.append(number)
            else:
                few.append((number, token_ids))
        if not few:
            return self._among_many(hidden, masks, draws)
        if not many:
            return self._among_few(hidden, [token_ids for _, token_ids in few], draws)
        few_numbers = [number for number, _ in few]
        found = [
            self._among_many(
                hidden[mx.array(many)], [masks[number] for number in many], [draws[number] for number in many]
            ),
            self._among_few(
                hidden[mx.array(few_numbers)],
                [token_ids for _, token_ids in few],
                [draws[number] for number in few_numbers],
            ),
        ]
        places = np.argsort(many + few_numbers)
        return mx.concatenate(found)[mx.array(places.astype(np.int32))]

    def _among_many(self, hidden: mx.array, masks: Sequence[Mask], draws: Sequence[Draw]) -> mx.array:
        return choose(self.model.head(hidden), self.bank.allowed(masks), draws)

    def _among_few(self, hidden: mx.array, narrow: Sequence[npt.NDArray[np.int32]], draws: Sequence[Draw]) -> mx.array:
        sizes = np.array([len(token_ids) for token_ids in narrow])
        token_ids = np.zeros((len(narrow), sizes.max()), np.int32)
        for row, ids in zip(token_ids, narrow, strict=True):
            row[: len(ids)] = ids
        allowed = np.arange(token_ids.shape[1]) < sizes[:, None]
        columns = Columns(mx.array(token_ids), self.model.num_logits)
        return choose(self.model.logits_of(hidden, columns.token_ids), mx.array(allowed), draws, columns)

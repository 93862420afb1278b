"""The ragged cache: rows of different lengths that take one forward pass together.

It plugs into unmodified mlx-lm models. Each layer has a state of its own kind (`layer.LayerState`), and all layers
share one `Layout`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from fillengine.errors import ModelError
from fillengine.generation.attention import AttentionCache
from fillengine.generation.blas import use_threads
from fillengine.generation.host_attention import one_thread_each
from fillengine.generation.layer import LayerState
from fillengine.generation.layout import Layout, Shapes
from fillengine.generation.own_attention import let_caches_attend
from fillengine.generation.packed import PackedCache
from fillengine.generation.quantized import FULL_PRECISION, QuantizedCache, Storage
from fillengine.generation.ragged_attention import FusedCache
from fillengine.generation.recurrent import RecurrentCache
from fillengine.generation.solo import SoloCache

# Tokens of a row that are fed again because its state could not be trimmed. With more than that waiting, a round
# goes without a draft, so that it is kept whole.
MAX_REPLAY = 16

# Tokens of a round's passes that are set up before MLX is made to compute them, which frees what they need meanwhile.
MAX_WAITING = 256

# A layer's place in `RaggedCache.layers`, or those of its parts where a layer has several states.
Place = int | tuple["Place", ...]
Trunk = Callable[..., mx.array]


class RaggedCache:
    """The states of all layers of a model, for all rows of a batch.

    layers      one state each, in the order of the model's
    places      how the model wants them: one entry for each of its layers
    pads        False: the model takes no account of padding, and all rows of a pass must have equally many tokens
    max_append  tokens that one pass may append to a row at most (None: what the shapes allow)
    """

    def __init__(
        self,
        layers: Sequence[LayerState],
        places: Sequence[Place],
        layout: Layout,
        *,
        pads: bool = True,
        max_append: int | None = None,
    ) -> None:
        self.layers = list(layers)
        self.places = tuple(places)
        self.layout = layout
        self.pads = pads
        caps = [max_append, *(layer.max_append for layer in layers)]
        self.max_append = min((cap for cap in caps if cap is not None), default=None)
        self.is_packed = any(isinstance(layer, PackedCache) for layer in self.layers)
        self.is_solo = any(isinstance(layer, SoloCache) for layer in self.layers)
        self.can_trim = all(layer.can_trim for layer in self.layers)
        # One storage for all layers, so the first that changes its kind speaks for all.
        self._changing = next((layer for layer in self.layers if type(layer).room is not LayerState.room), None)
        # Tokens of each row that this round has fed. None: between two rounds.
        self._fed: dict[int, int] | None = None

    @classmethod
    def for_model(
        cls,
        model: Any,
        num_rows: int,
        shapes: Shapes,
        *,
        storage: Storage = FULL_PRECISION,
        append_chunk: int | None = None,
    ) -> RaggedCache:
        """The first of four ways that a probe shows to be right. `mode` says which.

        Before the second, on CUDA, it is tried with the attention of short passes in one kernel.

        packed    all rows in one pass, their tokens one behind the other (where `shapes` say so: on a CPU)
        batched   all rows in one pass, the shorter feeds padded
        unpadded  all rows in one pass, as many tokens of each: the model takes no account of padding
        solo      each row alone, with mlx-lm's own cache: a layer's kind is not known here, or is used in a way
                  that this cache does not allow for

        append_chunk: how many positions one forward pass may append to a row (1: single-step arithmetic). The
        model may have a smaller one of its own (an attribute of that name).
        Raises ModelError where the storage does not suit the model.
        """
        from fillengine.generation.probe import check_runs, is_exact

        if append_chunk is not None and append_chunk < 1:
            raise ModelError(f"append_chunk is {append_chunk}; it must be 1 or more")
        caps = [append_chunk, getattr(model, "append_chunk", None)]
        max_append = min((cap for cap in caps if cap is not None), default=None)
        if (shapes.packs or shapes.fuses) and storage.kv_bits is None:
            let_caches_attend(model)
            found = cls._batched(model, num_rows, shapes, storage, max_append)
            if found is not None and is_exact(model, found):
                return found
        shapes = replace(shapes, packs=False, fuses=False)
        found = cls._batched(model, num_rows, shapes, FULL_PRECISION, max_append)
        for pads in (True, False):
            if found is None or (found.can_trim and not pads):
                break
            found.pads = pads
            if is_exact(model, found):
                if storage.kv_bits is None:
                    return found
                packed = cls._batched(model, num_rows, shapes, storage, max_append)
                if packed is not None:
                    packed.pads = pads
                    check_runs(model, packed)
                    return packed
        plain = make_prompt_cache(model)
        if storage.kv_bits is not None:
            kinds = ", ".join(sorted({type(cache).__name__ for cache in plain}))
            raise ModelError(f"this model's keys and values ({kinds}) cannot be kept in few bits; leave kv_bits out")
        layout = Layout(num_rows, shapes)
        layers = [SoloCache(layout, cache) for cache in plain]
        return cls(layers, range(len(layers)), layout, pads=False, max_append=max_append)

    @classmethod
    def _batched(
        cls, model: Any, num_rows: int, shapes: Shapes, storage: Storage, max_append: int | None
    ) -> RaggedCache | None:
        """Its layers' states, as `shapes` and the storage want them; None where a layer has no such state."""
        layout = Layout(num_rows, shapes)
        layers: list[LayerState] = []

        def place_of(plain: Any) -> Place | None:
            if type(plain) is CacheList:
                parts = [place_of(part) for part in plain.caches]
                found = tuple(part for part in parts if part is not None)
                return found if len(found) == len(parts) else None
            layer = _layer_for(plain, layout, storage)
            if layer is None:
                return None
            layers.append(layer)
            return len(layers) - 1

        places = [place_of(plain) for plain in make_prompt_cache(model)]
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            return None
        return cls(layers, known, layout, max_append=max_append)

    def empty_like(self, num_rows: int) -> RaggedCache:
        """A new cache of the same model."""
        layout = Layout(num_rows, self.layout.shapes)
        layers = [layer.empty_like(layout) for layer in self.layers]
        return RaggedCache(layers, self.places, layout, pads=self.pads, max_append=self.max_append)

    @property
    def mode(self) -> Literal["packed", "batched", "unpadded", "solo"]:
        """How rows are fed (see `for_model`): packed, padded, with as many tokens each, or each alone."""
        if self.is_packed:
            return "packed"
        return "solo" if self.is_solo else "batched" if self.pads else "unpadded"

    @property
    def num_rows(self) -> int:
        return self.layout.num_rows

    @property
    def state(self) -> list[mx.array]:
        return [array for layer in self.layers for array in layer.state]

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)

    # A round: `feed`, then `settle`.

    def max_draft(self, num_pending: int) -> int | None:
        """Tokens that a row's next draft may have, if it feeds `num_pending` known to it already. None: any."""
        if not self.can_trim and num_pending > MAX_REPLAY:
            return 0
        caps = [layer.max_rollback for layer in self.layers]
        return min((cap for cap in caps if cap is not None), default=None)

    def feed(
        self,
        trunk: Trunk,
        feeds: Mapping[int, Sequence[int]],
        wanted: Sequence[tuple[int, int]] = (),
    ) -> mx.array | None:
        """Append tokens to rows, in one pass or as many as the caps ask for.

        feeds: by row; rows that are not named stay as they are. wanted: (row, index into its feed).
        Returns what the trunk says there, [len(wanted), n]; None where nothing is wanted.
        """
        for layer in self.layers:
            layer.begin_round(feeds)
        fed = self._fed = dict.fromkeys(feeds, 0)
        found: list[mx.array] = []
        order: list[int] = []
        num_waiting = 0
        while counts := self._next_counts(feeds):
            numbers = [
                number
                for number, (row, index) in enumerate(wanted)
                if row in counts and 0 <= index - fed[row] < counts[row]
            ]
            places = [(wanted[number][0], wanted[number][1] - fed[wanted[number][0]]) for number in numbers]
            tokens = {row: feeds[row][fed[row] : fed[row] + count] for row, count in counts.items()}
            hidden = self._pass_alone(trunk, tokens, places) if self.is_solo else self._pass(trunk, tokens, places)
            found += hidden
            order += numbers
            for row, count in counts.items():
                fed[row] += count
            num_waiting += sum(counts.values())
            if num_waiting >= MAX_WAITING and any(fed[row] < len(tokens) for row, tokens in feeds.items()):
                mx.eval(self.state, found)
                num_waiting = 0
        if not found:
            return None
        joined = found[0] if len(found) == 1 else mx.concatenate(found)
        if order == sorted(order):
            return joined
        return joined[mx.array(np.argsort(order).astype(np.int32))]

    def settle(self, kept: Mapping[int, int]) -> dict[int, int]:
        """End the round: of what was fed, row `row` keeps the first `kept[row]` tokens (rows not named: all).

        Returns by row how many of these must be fed once more, in front of what comes next: all of them where
        the row's state could not be trimmed, else none.
        """
        fed, self._fed = self._fed or {}, None
        cut = {row: num_fed - kept.get(row, num_fed) for row, num_fed in fed.items()}
        rejected = [row for row, num_cut in cut.items() if num_cut]
        again = dict.fromkeys(fed, 0)
        if rejected and not self.can_trim:
            for layer in self.layers:
                if not layer.can_trim:
                    layer.rewind(rejected)
            for row in rejected:
                again[row], cut[row] = kept[row], fed[row]
        for row in rejected:
            self.layout.trim(row, cut[row])
            for layer in self.layers:
                if isinstance(layer, SoloCache):
                    layer.trim_row(row, cut[row])
        for layer in self.layers:
            layer.end_round()
        return again

    def _next_counts(self, feeds: Mapping[int, Sequence[int]]) -> dict[int, int]:
        """Tokens of each row in the next pass; rows without any are left out."""
        fed = self._fed or {}
        caps = [self.layout.shapes.max_length]
        caps += [] if self.max_append is None else [self.max_append]
        counts = {}
        for row, tokens in feeds.items():
            room = None if self._changing is None else self._changing.room(row)
            count = min(len(tokens) - fed[row], *caps, *([] if room is None else [room]))
            if count > 0:
                counts[row] = count
        if counts and not self.pads and not self.is_solo:
            counts = dict.fromkeys(counts, min(counts.values()))
        return counts

    def _pass(
        self, trunk: Trunk, tokens: Mapping[int, Sequence[int]], places: Sequence[tuple[int, int]]
    ) -> list[mx.array]:
        layout = self.layout
        longest = max(map(len, tokens.values()))
        counts = np.zeros(layout.num_rows, np.int32)
        for row, own in tokens.items():
            counts[row] = len(own)
        if self.is_packed:
            num_tokens, firsts = 1, np.cumsum(counts) - counts
            ids = np.zeros((int(counts.sum()), 1), np.int32)
        else:
            num_tokens = layout.shapes.length(longest) if self.pads else longest
            firsts = np.arange(layout.num_rows) * num_tokens
            ids = np.zeros((layout.num_rows, num_tokens), np.int32)
        for row, own in tokens.items():
            ids.reshape(-1)[firsts[row] : firsts[row] + len(own)] = own
        layout.begin(counts, max(longest, num_tokens))
        use_threads(ids.size)
        with one_thread_each() if self.is_packed else contextlib.nullcontext():
            output = trunk(mx.array(ids), cache=[self._for_model(place) for place in self.places])
        for layer in self.layers:
            layer.end_pass()
        layout.end()
        if not places:
            return []
        flat = [int(firsts[row]) + index for row, index in places]
        return [output.reshape(-1, output.shape[-1])[mx.array(flat, dtype=mx.int32)]]

    def _pass_alone(
        self, trunk: Trunk, tokens: Mapping[int, Sequence[int]], places: Sequence[tuple[int, int]]
    ) -> list[mx.array]:
        outputs = {}
        for row, own in tokens.items():
            use_threads(len(own))
            caches = [layer.rows[row] for layer in self.layers if isinstance(layer, SoloCache)]
            outputs[row] = trunk(mx.array([list(own)], dtype=mx.int32), cache=caches)[0]
            self.layout.lengths[row] += len(own)
        return [outputs[row][index : index + 1] for row, index in places]

    def _for_model(self, place: Place) -> Any:
        return self.layers[place] if isinstance(place, int) else tuple(map(self._for_model, place))

    # Rows come and go, between two rounds.

    def longest_prefix(self, num_tokens: int, *, row: int = 0) -> int:
        """The most tokens, `num_tokens` at most, that `copy_row` can take from a row: those, or none."""
        return min((layer.longest_prefix(row, num_tokens) for layer in self.layers), default=num_tokens)

    def copy_row(self, row: int, source: RaggedCache, num_tokens: int, *, source_row: int = 0) -> None:
        """Let `row` be the first `num_tokens` (see `longest_prefix`) of a row of another cache of this model."""
        for layer, other in zip(self.layers, source.layers, strict=True):
            layer.copy_row(row, other, source_row, num_tokens)
        self.layout.lengths[row] = num_tokens

    def vacate(self, row: int) -> None:
        self.layout.lengths[row] = 0
        for layer in self.layers:
            layer.vacate_row(row)

    def clear_row(self, row: int) -> None:
        """Vacate a row whose numbers may not be finite."""
        self.layout.lengths[row] = 0
        for layer in self.layers:
            layer.clear_row(row)

    def keep_rows(self, kept: Sequence[int], num_rows: int) -> None:
        """Hold these rows, in this order, and behind them empty ones up to `num_rows`."""
        for layer in self.layers:
            layer.keep_rows(kept, num_rows)
        lengths = np.zeros(num_rows, np.int32)
        lengths[: len(kept)] = self.layout.lengths[list(kept)]
        self.layout.lengths = lengths


def _layer_for(plain: Any, layout: Layout, storage: Storage) -> LayerState | None:
    """The batch's state for what mlx-lm keeps of one layer; None for kinds that only mlx-lm knows.

    Where the tokens of a pass are packed, None for all kinds that cannot be.
    """
    if layout.shapes.packs:
        return PackedCache(layout) if type(plain) is KVCache else None
    if type(plain) is KVCache and storage.kv_bits is not None:
        return QuantizedCache(layout, storage)
    if type(plain) is KVCache:
        return FusedCache(layout) if layout.shapes.fuses else AttentionCache(layout)
    if type(plain) is RotatingKVCache and plain.keep == 0:
        return AttentionCache(layout, window=plain.max_size)
    if type(plain) is ArraysCache:
        return RecurrentCache(layout, len(plain.cache))
    return None

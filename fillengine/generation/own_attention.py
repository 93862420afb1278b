"""Attention done by a layer's cache, in unmodified mlx-lm models."""

from __future__ import annotations

import sys
from typing import Any, Protocol, runtime_checkable

import mlx.core as mx
from mlx_lm.models import base

plain_attention = base.scaled_dot_product_attention


@runtime_checkable
class Attends(Protocol):
    """A layer's cache that does the attention of its layer."""

    def attend(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        scale: float,
        mask: mx.array | str | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """queries: [rows, heads, tokens, head size]; keys, values: what `update_and_fetch` returned.

        Returns the weighted values, in the shape and dtype of the queries.
        """


def let_caches_attend(model: Any) -> None:
    """Let attention in the modules of `model` be done by its cache, where that is one that does.

    mlx-lm's models call one function of `mlx_lm.models.base` with their cache among the arguments. Its name is bound
    anew in the modules of this model's classes; with all other caches it does what it did.
    """
    for module in model.modules():
        code = sys.modules[type(module).__module__]
        if getattr(code, "scaled_dot_product_attention", None) is plain_attention:
            code.scaled_dot_product_attention = _attention  # type: ignore[attr-defined]


def _attention(queries: mx.array, keys: mx.array, values: mx.array, cache: Any, *others: Any, **named: Any) -> mx.array:
    if isinstance(cache, Attends):
        return cache.attend(queries, keys, values, *others, **named)
    found: mx.array = plain_attention(queries, keys, values, cache, *others, **named)
    return found

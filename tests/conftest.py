"""Shared by all tests: where the data beside the checkout is, and a real model's tokenizer where it is cached."""

from __future__ import annotations

from pathlib import Path

import pytest

import fillengine.generation  # noqa: F401 - puts the optimised BLAS in place before any test imports mlx

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The data folder beside the checkout; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no folder `shared` beside the checkout: its data sets are not here")
    return SHARED

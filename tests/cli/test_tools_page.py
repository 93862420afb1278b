"""docs/tools.md prints what its examples print."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.model
def test_the_examples_of_the_page_print_what_it_says(monkeypatch):
    import mlx.core as mx

    if mx.default_device() != mx.Device(mx.cpu):
        pytest.skip("the page shows what the default model answers on a CPU")
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "run_examples.py"))["run"](text) == text

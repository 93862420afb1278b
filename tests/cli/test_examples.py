"""What the pages of the documentation print is what their examples print."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
RUN = runpy.run_path(str(DOCS / "run_examples.py"))["run"]


def test_what_an_example_prints_is_put_behind_it() -> None:
    page = "Text.\n\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n\n```\n3\n```\n\n```sh\nls\n```\n"
    assert RUN(page) == page.replace("3", "2")
    assert RUN(RUN(page)) == RUN(page)


@pytest.mark.model
@pytest.mark.parametrize("page", ["forms.md"])
def test_examples_print_what_the_page_says(page: str) -> None:
    import mlx.core as mx

    if mx.default_device() != mx.Device(mx.cpu):
        pytest.skip("the pages show what the default model answers on a CPU")
    text = (DOCS / page).read_text(encoding="utf-8")
    assert RUN(text) == text

"""The pytest plugin: the engine's laws as a mark, a model without weights as a fixture.

    @pytest.mark.fillengine(form=Person)
    def test_people_are_read(fill_model): ...

The laws of `check_form` are held for the form before the test runs; `fill_model` is an engine that says anything the
form permits. `--fill-seed` draws all of it from another seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fillengine.generation.engine import Engine

# What the plugin needs is imported when a test asks for it, so that other test runs do not load MLX.

MARK = "fillengine"
ARGUMENTS = ("form", "tokenizer", "model", "examples", "example", "style", "order", "additional")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("fillengine").addoption(
        "--fill-seed", type=int, default=0, metavar="N", help="what the checks and models of fillengine are drawn from"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "fillengine(form, tokenizer=None, model='random', examples=100): hold fillengine's laws for this form first "
        "(see fillengine.testing.check_form)",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--fill-seed")
    return f"fillengine: --fill-seed={seed}" if seed else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    arguments = _arguments(item)
    if arguments is None or "form" not in arguments:
        return
    from fillengine.testing.check import check_form
    from fillengine.testing.laws import LawViolation

    seed = item.config.getoption("--fill-seed")
    try:
        check_form(**{"seed": seed, **arguments})
    except LawViolation as violation:
        pytest.fail(str(violation), pytrace=False)


@pytest.fixture
def fill_model(request: pytest.FixtureRequest) -> Engine:
    """An engine of the mark's model and tokenizer; without a mark, of a random model over a small vocabulary."""
    from fillengine.testing.check import engine_of

    arguments = _arguments(request.node) or {}
    seed = request.config.getoption("--fill-seed")
    return engine_of(arguments.get("model", "random"), arguments.get("tokenizer"), seed)


def _arguments(item: Any) -> dict[str, Any] | None:
    """What the mark of a test says; None without one."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    unknown = sorted(set(mark.kwargs) - set(ARGUMENTS))
    if mark.args or unknown:
        what = f"takes no {unknown[0]}" if unknown else "takes named arguments only"
        pytest.fail(f"the mark fillengine {what}; it takes {', '.join(ARGUMENTS)}", pytrace=False)
    return dict(mark.kwargs)

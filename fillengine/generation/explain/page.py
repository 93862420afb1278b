"""An explanation as one HTML page: style inside, no script, nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

import jinja2

from fillengine.generation.explain.colours import REJECTED, colours

if TYPE_CHECKING:
    from fillengine.generation.explanation import Explanation, Token


def rendered(explanations: Sequence[tuple[str, Explanation]], title: str) -> str:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shown"] = _shown
    environment.globals["note"] = _note
    source = resources.files("fillengine.generation.explain").joinpath("page.html.jinja").read_text(encoding="utf-8")
    names = {token.origin for _, each in explanations for token in each.tokens}
    names |= {origin.name for _, each in explanations for origin in each.origins}
    return environment.from_string(source).render(
        explanations=explanations,
        title=title or "How this text came about",
        rejected=REJECTED,
        colours={name: colours(name) for name in sorted(names)},
    )


def _shown(text: str) -> str:
    return text.replace("\n", "⏎\n").replace("\t", "⇥")


def _note(token: Token) -> str:
    """What is said of a token that is pointed at."""
    likely = "" if token.logprob is None else f", {math.exp(token.logprob):.1%}"
    return f"{token.origin}{likely}"

"""An explanation on the terminal. Each colour has its own background, so that it is legible on any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fillengine.generation.explain.colours import REJECTED, colours
from fillengine.generation.explanation import END, SAMPLED

if TYPE_CHECKING:
    from fillengine.generation.explanation import Explanation

PASS = "▏"
_STRUCK = f"strike {REJECTED.light[0]} on {REJECTED.light[1]}"


def rendered(explanation: Explanation) -> RenderableType:
    return Group(_headline(explanation), Text(), _tokens(explanation), Text(), *_tables(explanation))


def _headline(explanation: Explanation) -> Text:
    saved = explanation.num_without - explanation.num_forwards
    return Text.assemble(
        (f"{explanation.num_forwards} forward passes", "bold"),
        f" for {explanation.num_tokens} tokens; ",
        (f"{saved} saved", "bold"),
        f" of {explanation.num_without}",
    )


def _tokens(explanation: Explanation) -> Text:
    text = Text()
    for token in explanation.tokens:
        if token.is_first:
            text.append(PASS, "dim")
        for rejected, _ in token.rejected:
            text.append(_shown(rejected), _STRUCK)
        if token.origin != END:
            text.append(_shown(token.text), _style(token.origin))
    return text


def _tables(explanation: Explanation) -> list[RenderableType]:
    origins = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in (("", "left"), ("tokens", "right"), ("rejected", "right"), ("", "left")):
        origins.add_column(name, justify=justify)  # type: ignore[arg-type]
    for origin in explanation.origins:
        rejected = str(origin.num_rejected) if origin.num_rejected else ""
        label = Text(f" {origin.name} ", _style(origin.name))
        origins.add_row(label, str(origin.num_tokens), rejected, Text(origin.meaning, "dim"))
    legend = Text.assemble((PASS, "dim"), " a forward pass   ", ("rejected", _STRUCK), " a draft that was not kept")
    tables: list[RenderableType] = [origins, Text(), legend]
    if explanation.fields:
        fields = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, justify in (
            ("field", "left"),
            ("probability", "right"),
            ("least likely token", "left"),
            ("value", "left"),
        ):
            fields.add_column(name, justify=justify, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]
        for field in explanation.fields:
            least = (
                Text.assemble(f"{field.least:.0%} ", (_in_line(field.least_text), "bold")) if field.num_open else Text()
            )
            chance = f"{field.probability:.1%}" if field.num_open else "determined"
            fields.add_row(field.pointer, chance, least, _in_line(field.text))
        tables += [Text(), fields]
    return tables


def _style(origin: str) -> str:
    ink, paper = colours(origin).light
    return "bold" if origin == SAMPLED else f"{ink} on {paper}"


def _in_line(text: str) -> str:
    return text.replace("\n", "⏎").replace("\t", "⇥")


def _shown(text: str) -> str:
    return "".join("⏎\n" if sign == "\n" else "⇥" if sign == "\t" else sign for sign in text)

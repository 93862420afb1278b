"""`Regex`: a text that a regular expression matches from start to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fillengine.automata import dfa as automata
from fillengine.automata.dfa import Dfa
from fillengine.automata.nodes import Pattern, Template
from fillengine.errors import AutomatonTooLarge, InvalidForm, UnsatisfiableForm
from fillengine.templates.form import Form
from fillengine.templates.holes import Ground
from fillengine.templates.regex import fullmatch
from fillengine.templates.text_form import Compile, Matcher, TextForm


@dataclass(frozen=True, slots=True)
class Regex(TextForm):
    r"""`Regex(r"[A-Z]{2}-\d{4}")`: a text that the pattern (ECMA-262, with Unicode) matches as a whole.

    The value is the text. Held to a document, it is a passage of it where some passage matches.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise InvalidForm(
                f"a pattern is a str, this is {type(self.pattern).__name__}",
                remedy="pass the text of a regular expression (ECMA-262)",
            )

    @property
    def description(self) -> str:
        return f"a text that matches the regular expression {self.pattern}"

    def keywords(self) -> dict[str, Any]:
        return {"pattern": f"^(?:{self.pattern})$"}

    def form(self, compiled: Compile) -> Form:
        dfa = fullmatch(self.pattern)
        if dfa.is_empty:
            raise UnsatisfiableForm(f"no text matches the pattern {self.pattern!r}", keyword="pattern")
        free = Template(Pattern(dfa))
        matcher = Matcher(free)

        def read(text: str) -> str:
            matcher.check(text, f"match of {self.pattern!r}")
            return text

        return Form(free, source=self, read=read, hold=lambda ground: _held(dfa, ground))


def _held(dfa: Dfa, ground: Ground) -> Template:
    if ground.default == "free":
        return Template(Pattern(dfa))
    try:
        passages = automata.intersection(ground.text, dfa)
    except AutomatonTooLarge:
        return Template(Pattern(dfa))
    return Template(Pattern(dfa if passages.is_empty else passages))

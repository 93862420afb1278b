"""How a text came about: where each of its tokens came from, and what that saved.

explanation = result.explain()
explanation.print()                     on the terminal
explanation.save("explained.html")      one page that needs nothing else
"""

from __future__ import annotations

import codecs
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fillengine.automata.control import visible
from fillengine.errors import FillError
from fillengine.fill.draft import FORCED

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from fillengine.generation.result import Result

ASSERTED, SAMPLED, END = "asserted", "sampled", "end"

# What an origin is, for people. The names of sources are those of `fill.sources`.
MEANINGS = {
    ASSERTED: "determined by the form",
    FORCED: "determined by the form, in a draft",
    "rest": "draft: the end of a determined text",
    "begun": "draft: what had begun",
    "own": "draft: copied from the text itself",
    "echo": "draft: copied from the document",
    "prediction": "draft: from the prediction",
    "constant": "draft: the schema's default",
    SAMPLED: "chosen by the model",
}
_ORDER = list(MEANINGS)


@dataclass(frozen=True, slots=True)
class Token:
    """text        what it adds to the text; empty within a character of several tokens
    origin      "asserted", "sampled", "end" (of the text), or the source of the draft
    is_first    it is the first that its forward pass has settled
    rejected    (text, source) of the draft tokens in front of it that the model did not agree with
    logprob     where it is known
    """

    text: str
    origin: str
    is_first: bool = False
    rejected: tuple[tuple[str, str], ...] = ()
    logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A value. probability: of its tokens that the form left open, together; least: of the least likely one."""

    pointer: str
    text: str
    num_tokens: int
    num_open: int
    probability: float
    least: float
    least_text: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Tokens of one origin: those in the text, and drafts that were rejected."""

    name: str
    num_tokens: int
    num_rejected: int

    @property
    def meaning(self) -> str:
        return MEANINGS.get(self.name, f"draft: {self.name}")

    @property
    def saves(self) -> bool:
        return self.name != SAMPLED


class Explanation:
    """What `Result.explain` gives."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @property
    def num_tokens(self) -> int:
        return len(self._result.token_ids)

    @property
    def num_forwards(self) -> int:
        return self._result.stats.forwards

    @property
    def num_without(self) -> int:
        """Forward passes without spans: one for each token, but none for a last one that the form determines, and
        one for the end where the model chose it."""
        last = self.tokens[-1].origin if self.tokens else END
        if last == END:
            return self.num_tokens + 1
        is_determined = last in (ASSERTED, FORCED) or not self._result.trace.rounds[-1].is_pass
        return self.num_tokens - is_determined

    @cached_property
    def tokens(self) -> list[Token]:
        return list(self._traced())

    @cached_property
    def origins(self) -> list[Origin]:
        """Where the tokens came from, in a fixed order."""
        kept = Counter(token.origin for token in self.tokens)
        rejected = Counter(source for token in self.tokens for _, source in token.rejected)
        del kept[END]
        names = sorted({*kept, *rejected}, key=lambda name: (name not in MEANINGS, _rank(name), name))
        return [Origin(name, kept[name], rejected[name]) for name in names]

    @cached_property
    def fields(self) -> list[Field]:
        """The values with their probabilities; empty without logprobs."""
        result = self._result
        if result.logprobs is None:
            return []
        ends: list[int] = []
        offset = 0
        for token_id in result.token_ids:
            offset += len(self._bytes_of(token_id))
            ends.append(offset)
        fields = []
        for place in result.form.places(result.raw):
            begin, end = (
                len(result.raw[:offset].encode("utf-8", "surrogateescape")) for offset in (place.begin, place.end)
            )
            inside = [
                number
                for number, token_end in enumerate(ends)
                if token_end > begin and (ends[number - 1] if number else 0) < end
            ]
            known = [(logprob.logprob, number) for number in inside if (logprob := result.logprobs[number]) is not None]
            least, number = min(known, default=(0.0, -1))
            fields.append(
                Field(
                    place.pointer or "/",
                    result.raw[place.begin : place.end].replace("\udcff", ""),
                    len(inside),
                    len(known),
                    math.exp(sum(logprob for logprob, _ in known)),
                    math.exp(least),
                    self.tokens[number].text if number >= 0 else "",
                )
            )
        return fields

    def print(self, console: Console | None = None) -> None:
        """Show it on the terminal."""
        from rich.console import Console

        (console or Console()).print(self.__rich__())

    def html(self) -> str:
        """One page that needs nothing else. Light or dark as the reader's system is."""
        return page([("", self)])

    def save(self, path: str | Path) -> None:
        """Write the page. Raises FillError where the file cannot be written."""
        save_page(path, [("", self)])

    def __rich__(self) -> RenderableType:
        from fillengine.generation.explain.terminal import rendered

        return rendered(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self.html())}" style="width:100%;height:32em;border:0"></iframe>'

    def _traced(self) -> Iterator[Token]:
        """The tokens in their order, from the rounds that wrote them."""
        result = self._result
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        logprobs = result.logprobs
        position = 0

        def token(origin: str, **more: Any) -> Token:
            nonlocal position
            data = self._bytes_of(result.token_ids[position])
            logprob = logprobs[position] if logprobs is not None else None
            position += 1
            known = None if logprob is None else logprob.logprob
            return Token(decoder.decode(visible(data)), origin, logprob=known, **more)

        for one in result.trace.rounds:
            for _ in range(one.num_asserted):
                yield token(ASSERTED)
            for number, drafted in enumerate(one.draft[: one.num_accepted]):
                yield token(drafted.source, is_first=one.is_pass and number == 0)
            rejected = tuple(
                (visible(self._bytes_of(drafted.token_id)).decode(errors="replace"), drafted.source)
                for drafted in one.draft[one.num_accepted :]
            )
            if one.choice is None:
                continue
            is_first = one.is_pass and one.num_accepted == 0
            if position < len(result.token_ids):
                yield token(SAMPLED, is_first=is_first, rejected=rejected)
            else:
                yield Token("", END, is_first, rejected)

    def _bytes_of(self, token_id: int) -> bytes:
        return self._result.trace.tokens[token_id] or b""


def page(explanations: Sequence[tuple[str, Explanation]], *, title: str = "") -> str:
    """One HTML page of several explanations, each with its name."""
    from fillengine.generation.explain.page import rendered

    return rendered(explanations, title)


def save_page(path: str | Path, explanations: Iterable[tuple[str, Explanation]], *, title: str = "") -> None:
    """Write `page` to a file. Raises FillError where it cannot be written."""
    text = page(list(explanations), title=title)
    try:
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise FillError(f"{path}: cannot be written ({error.strerror or error}); choose another file") from None


def _rank(name: str) -> int:
    return _ORDER.index(name) if name in MEANINGS else len(_ORDER)

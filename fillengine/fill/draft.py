"""Drafts: what the sources propose behind a row's text, as tokens, as many as pay.

bytes     the cursor goes ahead of the text; at each place the likeliest guess of all sources is written
tokens    the tokenizer's own for the text in its context, never of a fragment alone
length    by expected gain (`economics`)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from fillengine.automata.control import visible
from fillengine.fill.canonical import CONTEXT_BYTES
from fillengine.fill.economics import Ledger, best_length
from fillengine.fill.session import Session
from fillengine.fill.sources import INSIDE, Cursor, Guess, Source
from fillengine.fill.sources.rest import REST

MAX_DRAFT = 32
"""Tokens of one draft, forced ones behind a proposal included. Longer drafts are seldom kept to their end."""

MAX_BYTES = 160
"""Bytes of one draft: `MAX_DRAFT` tokens are rarely more."""

REACH_FOR_COST = 1.6
MIN_REACH, MAX_REACH = 0.4, 0.5
"""A draft goes no further where its tokens are less likely to be reached and right than so many times what one
more token costs, within these bounds. What is left out now is proposed in a later round with better odds, so the
bound lies above the cost itself."""

FORCED = "forced"


class Drafted(NamedTuple):
    """A proposed token. `source` is "forced" where the form determines it, the tokens before it given.

    `prior` are the odds that the source gives its kind.
    """

    token_id: int
    source: str
    kind: str
    label: str
    prior: float

    def settled(self, *, is_determined: bool) -> Drafted:
        """The same, now that its mask says whether the form determines it."""
        if is_determined:
            return self._replace(source=FORCED)
        return self._replace(source=REST) if self.source == FORCED else self


class _Mark(NamedTuple):
    """Bytes begin..end of a draft, and where they come from."""

    begin: int
    end: int
    source: Source
    kind: str
    label: str


class Drafter:
    """Drafts of one row."""

    def __init__(self, session: Session, sources: Sequence[Source], ledger: Ledger) -> None:
        self._sources = sources
        self._ledger = ledger
        self._tokens = session.constraint.vocabulary.tokens
        self._encoder = session.constraint.tokenizer.encoder
        self._cursor = Cursor(session.constraint.machine)
        self._ends: list[int] = []
        slope = (ledger.curve.cost(9) - ledger.curve.cost(1)) / 8
        self._min_reach = min(max(REACH_FOR_COST * slope, MIN_REACH), MAX_REACH)

    def draft(self, session: Session, num_known: int) -> list[Drafted]:
        """Proposed tokens behind the session's text; each is one that the session may allow."""
        if self._encoder is None:
            return []
        self._follow(session)
        text, marks, is_whole = self._composed(session.num_tokens)
        if not text:
            return []
        tokens = self._spelled(text, is_whole=is_whole)
        chances: list[float | None] = []
        drafted: list[Drafted] = []
        begin = index = 0
        for token_id in tokens[:MAX_DRAFT]:
            end = begin + len(self._tokens[token_id] or b"")
            while marks[index].end <= begin:
                index += 1
            chance, mark, kind = self._chance(marks, index, begin, end)
            chances.append(chance)
            source = mark.source
            name = FORCED if chance is None else source.name
            drafted.append(Drafted(token_id, name, kind, mark.label, source.odds[kind]))
            begin = end
        return drafted[: best_length(self._ledger.curve, num_known, chances)]

    def _follow(self, session: Session) -> None:
        """Bring the cursor to the session's place."""
        num_seen = len(self._ends)
        if session.num_tokens == num_seen:
            return
        for token_id in session.token_ids[num_seen:]:
            self._cursor.advance(self._tokens[token_id] or b"")
            self._ends.append(len(self._cursor.data))

    def _composed(self, position: int) -> tuple[bytes, list[_Mark], bool]:
        """The likeliest text, where its bytes come from, and whether it ends where its last guess does."""
        ledger = self._ledger
        sources = [source for source in self._sources if not ledger.is_rested(source.name, None, position)]
        ahead = self._cursor.copy()
        origin = len(ahead.data)
        marks: list[_Mark] = []
        reach = 1.0
        while True:
            label = self._label(ahead)
            guess = self._likeliest(sources, ahead, label, position)
            if guess is None:
                break
            for part in guess.parts:
                if not part.text:
                    continue
                reach *= ledger.odds(guess.source.name, part.kind, label, guess.source.odds[part.kind])
                if reach < self._min_reach:
                    return bytes(ahead.data[origin:]), marks, True
                begin = len(ahead.data) - origin
                num_written = ahead.advance(part.text[: MAX_BYTES - begin])
                if num_written:
                    marks.append(_Mark(begin, begin + num_written, guess.source, part.kind, label))
                if num_written < len(part.text):
                    return bytes(ahead.data[origin:]), marks, False
        return bytes(ahead.data[origin:]), marks, True

    def _likeliest(self, sources: Sequence[Source], ahead: Cursor, label: str, position: int) -> Guess | None:
        best: Guess | None = None
        best_odds = 0.0
        for source in sources:
            for guess in source.propose(ahead):
                first = next((part for part in guess.parts if part.text), None)
                if first is None or self._ledger.is_rested(source.name, first.kind, position):
                    continue
                if first.kind == REST:
                    return guess
                odds = self._ledger.odds(source.name, first.kind, label, source.odds[first.kind])
                if odds > best_odds:
                    best, best_odds = guess, odds
        return best

    @staticmethod
    def _label(cursor: Cursor) -> str:
        holes = cursor.holes
        if holes:
            return holes[0].label
        return cursor.values[-1].label if cursor.values else ""

    def _spelled(self, text: bytes, *, is_whole: bool) -> list[int]:
        """The tokenizer's tokens for `text` behind what is written."""
        written = self._cursor.data
        context = bytes(written[self._boundary() :])
        found = self._encoded(context + text, len(context))
        if found is None:
            # The tokenizer would have joined the last token with what follows, but the model has cut here.
            found = self._encoded(text, 0) or []
        if not is_whole:
            del found[-1:]
        return found

    def _encoded(self, data: bytes, start: int) -> list[int] | None:
        """The tokens of data[start:] within `data`; None where no token begins at `start`."""
        assert self._encoder is not None
        try:
            decoded = visible(data).decode()
        except UnicodeDecodeError:
            return None
        found: list[int] = []
        position = 0
        for token_id in self._encoder.encode(decoded):
            if position > start and not found:
                return None
            piece = self._tokens[token_id]
            if piece is None or not data.startswith(piece, position):
                break
            if position >= start:
                found.append(token_id)
            position += len(piece)
        return found or None

    def _boundary(self) -> int:
        """The offset of a token's end at which the context begins: before a character, if there is one."""
        data, ends = self._cursor.data, self._ends
        first = len(data) - CONTEXT_BYTES
        if first <= 0:
            return 0
        index = bisect_left(ends, first)
        while index < len(ends) - 1 and data[ends[index]] & 0xC0 == 0x80:
            index += 1
        return ends[index]

    def _chance(self, marks: list[_Mark], index: int, begin: int, end: int) -> tuple[float | None, _Mark, str]:
        """How likely the token over begin..end is, given those before it; the mark and the kind that decide it.

        None for the chance where the form determines the token.
        """
        ledger = self._ledger
        mark = marks[index]
        if mark.kind == REST and end <= mark.end:
            # The last bytes of what is forced are those that a token of what follows could join.
            if end < mark.end - 1 or mark.begin < begin < mark.end - 2:
                return None, mark, REST
            return ledger.odds(REST, REST, mark.label, mark.source.odds[REST]), mark, REST
        chance, least, decisive, kind = 1.0, 2.0, mark, INSIDE
        if mark.begin < begin:
            chance = least = ledger.odds(mark.source.name, INSIDE, mark.label, mark.source.odds[INSIDE])
            index += 1
            if index < len(marks) and marks[index].begin < end and marks[index].kind != REST:
                least = 2.0
                chance = 1.0
        while index < len(marks) and marks[index].begin < end:
            mark = marks[index]
            if mark.kind != REST:
                odds = ledger.odds(mark.source.name, mark.kind, mark.label, mark.source.odds[mark.kind])
                chance *= odds
                if odds < least:
                    least, decisive, kind = odds, mark, mark.kind
            index += 1
        return chance, decisive, kind

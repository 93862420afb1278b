"""Canonical tokens: the token ids of text that the form determines.

A forced byte span does not force its token ids. The engine emits the tokens that the tokenizer itself gives for
that text in this context, and only as far as they are stable: whatever may follow, the same tokens would come out.

    written so far   {"name": "Ada"        forced   , "age":␣        a digit or a minus may follow
    cut by the tokenizer     ,   ␣"   age   ":   ␣
    stable                   ,   ␣"   age   ":               ␣ is left open: `␣-` is one piece, `␣7` is two

A tokenizer that cuts the text into pieces first (byte-level BPE: a regular expression) encodes each piece by
itself, so everything up to the last cut is stable, and the end is one too where each class of byte that may
follow leaves the last piece as it is. For a tokenizer without such a cut the common beginning of several
encodings is taken, one for each class of byte that may follow.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from fillengine.automata.control import MARK, visible
from fillengine.automata.machine import Machine
from fillengine.automata.state import State
from fillengine.fill.tokenizer import Tokenizer

CONTEXT_BYTES = 48
"""How much of the text before a forced span is encoded with it. Longer than the longest piece that a tokenizer
could join with the span; a longer context would cost time and change nothing."""

MAX_SPANS = 4_096
"""Spans that one form remembers."""

_LETTERS = "astrmlvdAZ"
_WIDE = ("é", "Я", "中", "“", "–", "\u00a0", "\u0301", "😀")
_TAILS = ("a", "1", " ", '"', "e1")


@dataclass(frozen=True, slots=True)
class Span:
    """`token_ids` must come now. `rest` are the tokens that the tokenizer would give for what is forced behind
    them, if nothing joined it: likely, not certain."""

    token_ids: tuple[int, ...]
    rest: tuple[int, ...]


_EMPTY = Span((), ())


class Canonical:
    """The canonical tokens of one machine's forced spans."""

    def __init__(self, machine: Machine, tokenizer: Tokenizer) -> None:
        self._machine = machine
        self._tokens = tokenizer.vocabulary.tokens
        self._encoder = tokenizer.encoder
        self._spans: OrderedDict[tuple[State, bytes], Span] = OrderedDict()
        self._is_stable = tokenizer.stable_pieces

    def span(self, state: State, written: bytearray, boundary: int) -> Span:
        """The forced span at `state`.

        `written` is the text so far, `boundary` the offset of a token boundary in it, at most CONTEXT_BYTES
        from the end where the text is that long: what stands behind it is the context.
        """
        if self._encoder is None:
            return _EMPTY
        forced, end = self._machine.forced(state)
        if not forced:
            return _EMPTY
        key = (state, bytes(written[boundary:]))
        span = self._spans.get(key)
        if span is None:
            span = self._find(key[1], forced, end)
            self._spans[key] = span
            if len(self._spans) > MAX_SPANS:
                self._spans.popitem(last=False)
        else:
            self._spans.move_to_end(key)
        return span

    def _find(self, context: bytes, forced: bytes, end: State) -> Span:
        encoder = self._encoder
        assert encoder is not None
        start = _first_character(context)
        data = context[start:] + forced
        data = data[: _last_character(data)]
        text = visible(data).decode("utf-8", errors="replace")
        token_ids, last_piece = encoder.encode_cut(text)
        ends: list[int] = []
        position = 0
        for token_id in token_ids:
            piece = self._tokens[token_id]
            if piece is None:
                return _EMPTY
            if not data.startswith(piece, position):
                # The tokenizer changes the text, or it is not text: leave all to the mask.
                return _EMPTY
            position += len(piece)
            ends.append(position)
        if position != len(data):
            return _EMPTY
        written = len(context) - start
        if written and written not in ends:
            # The tokenizer would not have cut here; the mask writes on to its next boundary.
            return _EMPTY
        first = ends.index(written) + 1 if written else 0
        is_whole = len(data) == written + len(forced)
        begin = None if last_piece is None else ends[last_piece - 1] if last_piece else 0
        stable = self._stable(data, begin, end) if is_whole else 0
        if stable is None:
            last = self._common(text, token_ids, end)
        else:
            last = first
            while last < len(ends) and ends[last] <= stable:
                last += 1
        last = max(last, first)
        return Span(tuple(token_ids[first:last]), tuple(token_ids[last:]))

    def _stable(self, data: bytes, begin: int | None, end: State) -> int | None:
        """The offset up to which no continuation changes the tokens; None where the tokenizer shows no cut.

        `begin` is where the last piece of `data` begins.
        """
        assert self._encoder is not None
        # A control token is cut off from what stands beside it.
        if end.is_final or data.endswith(MARK):
            return len(data)
        if begin is None:
            return None
        # Single digits are cut from one another, so a run of them is looked at from its beginning.
        last = data[begin:].decode("utf-8", errors="replace")
        follow = end.next_bytes()
        key = (last, follow)
        is_stable = self._is_stable.get(key)
        if is_stable is None:
            if len(self._is_stable) >= MAX_SPANS:
                self._is_stable.clear()
            is_stable = self._is_stable[key] = all(
                (cut := self._encoder.cut(last + probe)) is not None and cut[0] == last for probe in _probes(follow)
            )
        return len(data) if is_stable else begin

    def _common(self, text: str, token_ids: list[int], end: State) -> int:
        assert self._encoder is not None
        common = len(token_ids)
        for probe in _probes(end.next_bytes()):
            for tail in _TAILS:
                other = self._encoder.encode(text + probe + tail)
                agreed = 0
                while agreed < min(common, len(other)) and other[agreed] == token_ids[agreed]:
                    agreed += 1
                common = agreed
        return common


def _probes(follow: bytes) -> list[str]:
    """One text for each class of byte that may follow."""
    allowed = set(follow)
    probes = [character for character in _LETTERS if ord(character) in allowed]
    if not probes:
        probes = [chr(byte) for byte in follow if chr(byte).isascii() and chr(byte).isalpha()][:4]
    probes += [chr(byte) for byte in follow if 0x30 <= byte <= 0x39][:1]
    probes += [chr(byte) for byte in follow if byte < 0x80 and not chr(byte).isalnum()]
    probes += [character for character in _WIDE if character.encode()[0] in allowed]
    if any(byte >= 0x80 for byte in follow) and not any(ord(probe) >= 0x80 for probe in probes):
        probes.append("é")
    return probes


def _first_character(data: bytes) -> int:
    """The offset of the first byte that begins a character."""
    start = 0
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return start


def _last_character(data: bytes) -> int:
    """The length of `data` without a character that is cut off at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80 or byte == MARK[0]:
            return len(data)
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back == width else len(data) - back
    return len(data)

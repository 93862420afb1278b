"""The guard against runaway values.

Small models fall into loops: a string that repeats itself, an array that goes on listing the same items. The guard
closes such a value: from then on only tokens that bring its end nearer are allowed, so that what the form still
demands is written and nothing else. It looks at the tokens so far only, so drafts and batches change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """When a value counts as running away.

    repeats    a stretch of text that is seen this many times in a row, at the end of the value
    min_bytes  and that makes up at least this many bytes in total
    share      or the value has used this share of the token budget
    """

    repeats: int = 4
    min_bytes: int = 24
    share: float = 0.5

    def reason(self, text: bytes, num_tokens: int, max_tokens: int | None) -> str | None:
        """Why a value with this text so far, of this many tokens, is to be closed; None: it is not."""
        if max_tokens is not None and num_tokens > self.share * max_tokens:
            return "share"
        if len(text) >= self.min_bytes and self._cycles(text):
            return "cycle"
        return None

    def _cycles(self, text: bytes) -> bool:
        # Only the end of the text can have become a cycle by the last token; the unit is found by where the
        # last few bytes stood before.
        tail = text[-512:]
        probe = tail[-4:]
        at = tail.rfind(probe, 0, len(tail) - 1)
        while at >= 0:
            unit = len(tail) - 4 - at
            length = max(unit * self.repeats, self.min_bytes)
            if length > len(tail):
                return False
            if tail[-length:-unit] == tail[-length + unit :]:
                return True
            at = tail.rfind(probe, 0, at + 3)
        return False


DEFAULT_GUARD = Guard()

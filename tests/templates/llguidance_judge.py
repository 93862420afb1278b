"""llguidance as a second opinion on whether a grammar takes a text."""

from __future__ import annotations

import llguidance


class Judge:
    """A grammar in llguidance's own notation (Lark), over single bytes."""

    _tokenizer = llguidance.LLTokenizer("byte")

    def __init__(self, lark: str) -> None:
        self._matcher = llguidance.LLMatcher(self._tokenizer, lark)
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())

    def accepts(self, text: str) -> bool:
        self._matcher.reset()
        tokens = list(text.encode())
        return self._matcher.try_consume_tokens(tokens) == len(tokens) and self._matcher.is_accepting()

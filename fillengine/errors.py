"""Everything that fillengine raises on purpose.

    FillError
     ├── UnsupportedForm      the form is readable, but part of it cannot be honoured
     │    └── UnsatisfiableForm    no text at all fits the form
     ├── InvalidForm          the form itself is wrong (not JSON, not a schema, bad grammar text)
     ├── AutomatonTooLarge    a constraint needs more automaton states than the limit
     ├── TokenRejected        a token that the session does not allow now
     ├── BudgetTooSmall       the token budget is under the shortest completion
     ├── ContextExceeded      prompt and budget do not fit the model's context
     ├── VocabularyError      the tokenizer cannot write what the form needs
     ├── ModelError           a model cannot be found, fetched, read or used
     ├── Stopped              a text was stopped before its end: cancelled, or out of time
     └── DocumentError        a document cannot be read

A message says what was wrong, where (JSON pointer, line and column, file) and what to do.
"""

from __future__ import annotations

from typing import Any


class FillError(Exception):
    """Base of all errors that fillengine raises on purpose. They can be pickled, as other processes raise them too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[FillError], args: tuple[Any, ...], fields: dict[str, Any]) -> FillError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class FormError(FillError):
    """Something about a form. `pointer` is a JSON pointer into it ("" is the root)."""

    def __init__(self, problem: str, *, pointer: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.pointer = pointer
        self.remedy = remedy
        where = f"at {pointer}: " if pointer else ""
        super().__init__(f"{where}{problem}{f'; {remedy}' if remedy else ''}")


class UnsupportedForm(FormError):
    """Part of the form cannot be honoured. `keyword` names it."""

    def __init__(self, problem: str, *, keyword: str, pointer: str = "", remedy: str = "") -> None:
        self.keyword = keyword
        super().__init__(problem, pointer=pointer, remedy=remedy)


class UnsatisfiableForm(UnsupportedForm):
    """No text at all fits the form. `keyword` is "" where that is known of the form as a whole only."""


class InvalidForm(FormError):
    """The form itself is wrong: not JSON, not a schema, a grammar that does not parse."""


class AutomatonTooLarge(FillError):
    """A constraint needs more automaton states than the limit. Both numbers are attributes."""

    remedy = "use smaller bounds, a simpler pattern, or fewer constraints on one value"

    def __init__(self, states: int, limit: int) -> None:
        self.states = states
        self.limit = limit
        self.problem = f"a constraint needs {states} automaton states or more, the limit is {limit}"
        super().__init__(f"{self.problem}; {self.remedy}")


class TokenRejected(FillError):
    """The session does not allow this token now. The session is unchanged."""

    def __init__(self, token_id: int, problem: str) -> None:
        self.token_id = token_id
        super().__init__(problem)


class BudgetTooSmall(FillError):
    """The token budget is under the shortest completion. Both numbers are attributes."""

    def __init__(self, budget: int, needed: int) -> None:
        self.budget = budget
        self.needed = needed
        super().__init__(
            f"max_tokens is {budget}, but the shortest text of this form may take {needed} tokens; "
            f"set max_tokens to {needed} or more"
        )


class ContextExceeded(FillError):
    """Prompt and budget together do not fit the model's context."""


class VocabularyError(FillError):
    """The tokenizer cannot write what the form needs, or cannot be read."""


class ModelError(FillError):
    """A model cannot be found, fetched, read or used."""


class Stopped(FillError):
    """A text was stopped before its end. `reason` is "cancelled" or "time", `text` what was written so far."""

    def __init__(self, problem: str, *, reason: str, text: str = "") -> None:
        self.reason = reason
        self.text = text
        super().__init__(problem)


class DocumentError(FillError):
    """A document cannot be read."""

"""A constraint: one template over one tokenizer. Sessions are started from it; it holds what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fillengine.automata.machine import Machine
from fillengine.automata.mask import Masks
from fillengine.automata.nodes import Pattern, Template, walk
from fillengine.fill.canonical import Canonical
from fillengine.fill.guard import Guard
from fillengine.fill.tokenizer import read_tokenizer

if TYPE_CHECKING:
    from fillengine.fill.session import Session


class Constraint:
    """`template` is an automata Template or anything that carries one as `.template` (what `fe.compile` gives).

    `tokenizer` is an mlx-lm TokenizerWrapper, a Hugging Face fast tokenizer or a model folder.
    Raises UnsatisfiableForm where no text fits the template, VocabularyError where the tokenizer cannot be read.
    """

    def __init__(self, template: Any, tokenizer: Any) -> None:
        nodes = template if isinstance(template, Template) else template.template
        self.tokenizer = read_tokenizer(tokenizer)
        self.vocabulary = self.tokenizer.vocabulary
        self.machine = Machine(nodes, self.vocabulary)
        self.masks = Masks(self.machine, self.tokenizer.leaf_masks)
        self.canonical = Canonical(self.machine, self.tokenizer)
        self.has_limits = any(isinstance(node, Pattern) and node.max_tokens is not None for node in walk(nodes))
        """Whether some value may take so many tokens and no more."""

    def session(self, *, max_tokens: int | None = None, guard: Guard | None = None) -> Session:
        """A new session at the beginning of the text.

        `max_tokens` is the budget of the whole text; BudgetTooSmall is raised where it is under the shortest
        completion. `guard` closes runaway values (None: never).
        """
        from fillengine.fill.session import Session

        return Session(self, max_tokens=max_tokens, guard=guard)

    @property
    def fewest_tokens(self) -> int:
        """Upper bound on the tokens of the shortest text."""
        return self.machine.cost(self.machine.start)

    def accepts(self, text: str) -> bool:
        """Whether `text` is a whole text of the form."""
        return self.machine.accepts(text.encode())

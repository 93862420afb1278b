"""A constraint: one template over one tokenizer. Sessions are started from it; it holds what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fillengine.automata.machine import Machine
from fillengine.automata.mask import Masks
from fillengine.automata.nodes import Pattern, Template, walk
from fillengine.automata.state import State
from fillengine.automata.vocabulary import Vocabulary
from fillengine.errors import UnsatisfiableForm, VocabularyError
from fillengine.fill.canonical import Canonical
from fillengine.fill.guard import Guard
from fillengine.fill.tokenizer import read_tokenizer

if TYPE_CHECKING:
    from fillengine.fill.session import Session


class Constraint:
    """`template` is an automata Template or anything that carries one as `.template` (what `fe.compile` gives).

    `tokenizer` is an mlx-lm TokenizerWrapper, a Hugging Face fast tokenizer or a model folder.
    Raises UnsatisfiableForm where no text fits the template, VocabularyError where the tokenizer cannot be read, or
    cannot write any text of the template.
    """

    def __init__(self, template: Any, tokenizer: Any) -> None:
        nodes = template if isinstance(template, Template) else template.template
        self.tokenizer = read_tokenizer(tokenizer)
        self.vocabulary = self.tokenizer.vocabulary
        try:
            self.machine = Machine(nodes, self.vocabulary)
        except UnsatisfiableForm:
            raise _unwritable(Machine(nodes), self.vocabulary) from None
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


def _unwritable(machine: Machine, vocabulary: Vocabulary) -> VocabularyError:
    """Why a vocabulary cannot write a form that has texts: the first byte of its shortest text without a token."""
    state, text = machine.start, bytearray()
    while not state.is_accepting and (byte := _nearest(machine, state)) in vocabulary.alphabet:
        text.append(byte)
        following = machine.step(state, byte)
        assert following is not None
        state = following
    what = (
        f"its shortest text goes on with the byte 0x{byte:02x} behind {bytes(text[-40:])!r}, which no token is"
        if not state.is_accepting
        else f"not even {bytes(text[:40])!r}"
    )
    return VocabularyError(
        f"the tokenizer cannot write any text of this form: {what}; use another tokenizer, or a form without it"
    )


def _nearest(machine: Machine, state: State) -> int:
    """The byte that brings the end nearest."""

    def left(byte: int) -> int:
        after = machine.step(state, byte)
        assert after is not None
        return machine.cost(after)

    return min(state.next_bytes(), key=left)

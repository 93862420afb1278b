"""`Thinking`: a form behind a section in which the model may write what it likes.

Thinking(Answer)                          the markers are those of the model's chat template
Thinking(Answer, end="</think>")          the section is closed by this text (or control token)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fillengine.automata import nodes
from fillengine.automata.nodes import Node, Template
from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.chat import ChatForm, ChatTemplate, TemplateRefused
from fillengine.templates.form import Form
from fillengine.templates.json_places import Place
from fillengine.templates.nesting import nested
from fillengine.templates.raw_text import core, until
from fillengine.templates.style import sequence
from fillengine.templates.text_form import Compile

THINKING = "/thinking"
"""The label of the section."""

# What messages call it: there is no standard.
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_QUESTION, _THOUGHT, _ANSWER = "What is the weather like?", "They ask for the weather.", "The weather is fine today."


class Thinking(ChatForm):
    """form      what comes behind the section; anything that `compile` takes
    end       what closes it; the text cannot hold its first word. None: as the model's chat template has it
    start     what opens it, where the prompt does not
    max_tokens  tokens after which it is closed; what closes it, and a character that was begun, come on top.
                None: the guard and the budget of the answer decide
    chat_template   the text of a chat template, in place of the model's own

    Raises InvalidForm for an empty end, or a max_tokens below 0.
    """

    def __init__(
        self,
        form: Any,
        *,
        end: str | None = None,
        start: str | None = None,
        max_tokens: int | None = None,
        chat_template: str | ChatTemplate | None = None,
    ) -> None:
        if end is not None and not end.strip():
            raise InvalidForm("nothing closes the section", remedy='give what does: end="</think>"')
        if max_tokens is not None and max_tokens < 0:
            raise InvalidForm(f"max_tokens is {max_tokens}; it must be 0 or more")
        self.inner, self.end, self.start, self.max_tokens = form, end, start, max_tokens
        self.chat_template = chat_template

    def __repr__(self) -> str:
        return f"Thinking({self.inner!r})"

    @property
    def description(self) -> str:
        return "an answer behind a section for thinking"

    def bound(self, tokenizer: Any) -> Thinking:
        text = self.chat_template
        if self.end is not None and text is None:
            text = ""  # nothing is learnt from it
        chat = text if isinstance(text, ChatTemplate) else ChatTemplate.of(tokenizer, text=text)
        inner = self.inner.bound(tokenizer) if isinstance(self.inner, ChatForm) else self.inner
        return Thinking(inner, end=self.end, start=self.start, max_tokens=self.max_tokens, chat_template=chat)

    def form(self, compiled: Compile) -> Form:
        from fillengine.templates import compile

        inner = compile(self.inner)
        chat = self.chat_template if isinstance(self.chat_template, ChatTemplate) else ChatTemplate("")
        if self.end is not None:
            start, end = chat.folded(self.start or ""), chat.folded(self.end)
        else:
            start, end = _learnt(chat)
        section = _Section(chat.marked(start), chat.marked(end), self.max_tokens)
        return Form(
            section.template(inner.template),
            source=self,
            read=section.behind(inner.read),
            places=section.places(inner.places),
            prompt=inner.prompt,
            thoughts=section.thoughts,
        )


class _Section:
    def __init__(self, start: bytes, end: bytes, max_tokens: int | None) -> None:
        self._marked_start, self._marked_end, self._max_tokens = start, end, max_tokens
        self._start = start.decode("utf-8", "surrogateescape")
        self._end = end.decode("utf-8", "surrogateescape")

    def template(self, inner: Template) -> Template:
        rules: dict[str, Node] = {}
        root = nested(inner, "", rules, name="answer")
        marker = core(self._marked_end)
        dfa = until([] if marker is None else [marker], [] if marker is None else [self._marked_end])
        text = nodes.Pattern(dfa, label=THINKING, max_tokens=self._max_tokens)
        return Template(sequence((self._marked_start, text, self._marked_end, root)), rules)

    def thoughts(self, text: str) -> str:
        return text[len(self._start) : self._close(text)].replace("\udcff", "")

    def behind(self, read: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda text: read(text[self._close(text) + len(self._end) :])

    def places(self, inner: Callable[[str], list[Place]]) -> Callable[[str], list[Place]]:
        def found(text: str) -> list[Place]:
            begin = self._close(text) + len(self._end)
            return [Place(one.pointer, one.begin + begin, one.end + begin) for one in inner(text[begin:])]

        return found

    def _close(self, text: str) -> int:
        place = text.find(self._end, len(self._start))
        if place < 0:
            raise ValueError(f"nothing closes the section that was to end in {self._end!r}")
        return place


def _learnt(chat: ChatTemplate) -> tuple[str, str]:
    """What opens and what closes the section, from a conversation that has one."""
    user = {"role": "user", "content": _QUESTION}
    try:
        prompt = chat.folded(chat.render([user], add_generation_prompt=True))
        for field in _FIELDS:
            message = {"role": "assistant", "content": _ANSWER, field: _THOUGHT}
            whole = chat.folded(chat.render([user, message], add_generation_prompt=False))
            if not whole.startswith(prompt):
                continue
            start, found, behind = whole[len(prompt) :].partition(_THOUGHT)
            end, answered, _ = behind.partition(_ANSWER)
            if found and answered and end.strip():
                return start, end
    except TemplateRefused as error:
        raise UnsupportedForm(str(error), keyword="thinking", remedy='say what closes it: end="</think>"') from error
    raise UnsupportedForm(
        "the chat template does not write what the assistant has thought",
        keyword="thinking",
        remedy='say what closes it: end="</think>"',
    )

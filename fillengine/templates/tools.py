"""`Tools`: an answer that calls tools, in the format of the model's own chat template.

tools = Tools([weather, search], choice="auto")
result = engine.generate("How is the weather in Oslo?", tools)
result.calls          (Call(name="weather", arguments={"city": "Oslo"}),)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fillengine.automata import dfa as automata
from fillengine.automata import nodes
from fillengine.automata.nodes import Node, Template
from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.call_arguments import ArgumentsReader, JsonObject, MemberList
from fillengine.templates.chat import ChatForm, ChatTemplate
from fillengine.templates.form import Form
from fillengine.templates.json_places import Place
from fillengine.templates.raw_text import core, not_beginning, until
from fillengine.templates.style import Piece, sequence
from fillengine.templates.text_form import Compile
from fillengine.templates.tool import Tool
from fillengine.templates.wire import CALL_ID, CallWire, JsonArguments, Wire, common_prefix, learn

TEXT = "/text"
"""The label of the text in front of calls."""


@dataclass(frozen=True, slots=True)
class Call:
    """arguments    as JSON values
    id           the call's own, where the format has one
    value        the arguments as what the tool takes: an object of the pydantic model, a dict of the parameters of
                 the function. Raises pydantic.ValidationError for what a schema cannot say.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None
    read: Callable[[dict[str, Any]], Any] = field(default=dict, repr=False, compare=False)

    @property
    def value(self) -> Any:
        return self.read(self.arguments)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What was said, and the calls behind it."""

    text: str
    calls: tuple[Call, ...]


class Tools(ChatForm):
    """tools     dicts as chat servers take them, pydantic models, or functions with type hints
    choice    "auto": a text, calls, or both; "required": calls; the name of a tool: calls of this one
    parallel  several calls in one answer: True, False, or None: as the chat template has it (one call where
              `choice` names a tool)
    chat_template   the text of a chat template, in place of the model's own

    Raises InvalidForm: no tools, two of one name, a choice that is none.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        choice: str = "auto",
        *,
        parallel: bool | None = None,
        chat_template: str | ChatTemplate | None = None,
    ) -> None:
        self.tools = tuple(Tool.of(tool, f"/{number}") for number, tool in enumerate(tools))
        self.choice, self.parallel, self.chat_template = choice, parallel, chat_template
        if not self.tools:
            raise InvalidForm("there are no tools", remedy="give one at least")
        names = [tool.name for tool in self.tools]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise InvalidForm(f"two tools are called {name!r}", pointer=f"/{number}", remedy="rename one")
        if choice not in ("auto", "required", *names):
            raise InvalidForm(
                f'choice is "auto", "required" or one of {", ".join(map(repr, names))}, not {choice!r}',
            )

    def __repr__(self) -> str:
        return f"Tools([{', '.join(tool.name for tool in self.tools)}], {self.choice!r})"

    @property
    def description(self) -> str:
        return f"calls of {', '.join(tool.name for tool in self.tools)}"

    def bound(self, tokenizer: Any) -> Tools:
        if isinstance(self.chat_template, ChatTemplate):
            return self
        template = ChatTemplate.of(tokenizer, text=self.chat_template)
        return Tools(self.tools, self.choice, parallel=self.parallel, chat_template=template)

    def form(self, compiled: Compile) -> Form:
        template = self.chat_template
        if not isinstance(template, ChatTemplate):
            raise InvalidForm(
                "how calls are written is said by the chat template of a model",
                remedy="give the tools to engine.generate or engine.compile, or bind them: Tools(...).bound(tokenizer)",
            )
        wire = learn(template, self.tools)
        if self.parallel and wire.separator is None:
            raise UnsupportedForm(
                "this model's chat template writes one call in an answer", keyword="parallel", remedy="leave it out"
            )
        is_parallel = self.choice in ("auto", "required") if self.parallel is None else self.parallel
        answer = _Answer(wire, template, self.choice, is_parallel=is_parallel and wire.separator is not None)
        return Form(answer.template, source=self, read=answer.read, places=answer.places, prompt=self._prompt(template))

    def _prompt(self, template: ChatTemplate) -> Callable[[Sequence[Mapping[str, Any]]], str]:
        specs = [tool.spec for tool in self.tools]
        return lambda messages: template.render(messages, tools=specs, add_generation_prompt=True)


@dataclass(frozen=True, slots=True)
class _CallForm:
    """The calls of one tool. `open` and `close` match what stands around the arguments."""

    tool: Tool
    node: Node
    open: re.Pattern[str]
    close: re.Pattern[str]
    arguments: ArgumentsReader


class _Answer:
    """An answer's template, and its reading. Texts are those of the template, with "surrogateescape"."""

    def __init__(self, wire: Wire, chat: ChatTemplate, choice: str, *, is_parallel: bool) -> None:
        self._marked = chat.marked
        rules: dict[str, Node] = {}
        chosen = [call for call in wire.calls if choice in ("auto", "required", call.tool.name)]
        self._calls = [self._call(call, rules) for call in chosen]
        self._lead, self._tail = self._text(wire.lead), self._text(wire.tail)
        self._separator = self._text(wire.separator or "")
        self._joint = None if wire.joint is None else self._text(wire.joint)
        opens = [wire.lead + call.open for call in chosen]
        heads = [self._marked(head) for head in opens]
        self._markers = self._found_markers(opens)
        self._is_auto = choice == "auto"
        call_node = self._calls[0].node if len(chosen) == 1 else nodes.Choice(tuple(call.node for call in self._calls))
        repeated: Node = call_node
        if is_parallel:
            repeated = nodes.Repeat(call_node, 1, None, nodes.Literal(self._marked(wire.separator or "")), "/calls")
        root: Node = sequence((self._marked(wire.lead), repeated, self._marked(wire.tail)))
        if choice == "auto" and self._joint is not None:
            text = nodes.Pattern(until(self._markers, heads if self._markers else ()), label=TEXT)
            root = sequence((text, nodes.Choice((nodes.Literal(b""), root))))
        elif choice == "auto":
            text = nodes.Pattern(not_beginning(self._markers or heads), label=TEXT)
            root = nodes.Choice((text, root))
        self.template = Template(root, rules)

    def read(self, text: str) -> ToolAnswer:
        """Raises ValueError for a text that is none of the template's."""
        if not self._is_auto:
            return ToolAnswer("", self._all_calls(text, 0)[0])
        begin = self._begin(text)
        if begin is None:
            return ToolAnswer(_shown(text), ())
        said = text[:begin]
        if self._joint and said.endswith(self._joint):
            said = said[: -len(self._joint)]
        return ToolAnswer(_shown(said), self._all_calls(text, begin)[0])

    def places(self, text: str) -> list[Place]:
        """Where the values of the arguments stand: "/0/city" is of the first call."""
        begin = self._begin(text) if self._is_auto else 0
        return [] if begin is None else self._all_calls(text, begin)[1]

    def _begin(self, text: str) -> int | None:
        """Where the calls begin; None where there are none."""
        heads = [re.compile(re.escape(self._lead) + call.open.pattern) for call in self._calls]
        if self._joint is None:
            return 0 if any(head.match(text) for head in heads) else None
        found = [match.start() for head in heads if (match := head.search(text)) is not None]
        return min(found, default=None)

    def _all_calls(self, text: str, begin: int) -> tuple[tuple[Call, ...], list[Place]]:
        if not text.startswith(self._lead, begin):
            raise ValueError(f"no call stands at character {begin} of the answer")
        calls: list[Call] = []
        places: list[Place] = []
        place = begin + len(self._lead)
        while True:
            call, inside, place = self._one_call(text, place)
            places += [one._replace(pointer=f"/{len(calls)}{one.pointer}") for one in inside]
            calls.append(call)
            if text[place:] == self._tail:
                return tuple(calls), places
            if not text.startswith(self._separator, place):
                raise ValueError(f"what follows a call at character {place} of the answer is none")
            place += len(self._separator)

    def _one_call(self, text: str, begin: int) -> tuple[Call, list[Place], int]:
        for form in self._calls:
            head = form.open.match(text, begin)
            if head is None:
                continue
            try:
                arguments, places, end = form.arguments.read(text, head.end())
            except ValueError:
                continue
            behind = form.close.match(text, end)
            if behind is None:
                continue
            call_id = head.groupdict().get("id") or behind.groupdict().get("id")
            return Call(form.tool.name, arguments, call_id, form.tool.read), places, behind.end()
        raise ValueError(f"no call stands at character {begin} of the answer")

    def _call(self, call: CallWire, rules: dict[str, Node]) -> _CallForm:
        arguments: ArgumentsReader
        if isinstance(call.arguments, JsonArguments):
            arguments = JsonObject(call.tool, call.arguments.style, rules)
        else:
            arguments = MemberList(call.tool, call.arguments, self._marked, rules)
        node = sequence((*self._pieces(call.open), arguments.node, *self._pieces(call.close)))
        return _CallForm(call.tool, node, self._pattern(call.open), self._pattern(call.close), arguments)

    def _pieces(self, text: str) -> Iterator[Piece]:
        """A text with the holes of ids."""
        for number, part in enumerate(text.split(CALL_ID)):
            if number:
                yield nodes.Pattern(automata.from_regex(f"[0-9A-Za-z]{{{len(CALL_ID)}}}"), label="/id")
            yield self._marked(part)

    def _pattern(self, text: str) -> re.Pattern[str]:
        first, *others = (re.escape(self._text(part)) for part in text.split(CALL_ID))
        hole = f"[0-9A-Za-z]{{{len(CALL_ID)}}}"
        for number, other in enumerate(others):
            first += (f"(?P<id>{hole})" if number == 0 else hole) + other
        return re.compile(first)

    def _found_markers(self, opens: Sequence[str]) -> list[bytes]:
        """What tells the beginning of a call from a text; nothing where control tokens do."""
        common = common_prefix(opens)
        found = [core(self._marked(head)) for head in ([common] if common.strip() else opens)]
        return sorted({marker for marker in found if marker is not None})

    def _text(self, folded: str) -> str:
        return self._marked(folded).decode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    return text.replace("\udcff", "")

"""How a model writes calls of tools, learnt from its own chat template.

The template renders real conversations (the given tools, their own names and keys), and the renderings are
compared. What the model is to write is what stands behind the prompt that it is given:

    prompt                <|im_start|>assistant⏎
    one call              <tool_call>⏎{"name": "weather", "arguments": {"city": "Oslo"}}⏎</tool_call><|im_end|>⏎
    one call and another  <tool_call>⏎{"name": …}}⏎</tool_call>⏎<tool_call>⏎{"name": …}}⏎</tool_call><|im_end|>⏎
    a text                The weather is fine.<|im_end|>⏎

    end        what closes the turn, and is no part of the call       <|im_end|>⏎
    open       in front of the arguments        <tool_call>⏎{"name": "weather", "arguments":
    close      behind them                      }⏎</tool_call>
    separator  between two calls                ⏎

No format is named here: a format that cannot be told apart like this is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fillengine.errors import UnsupportedForm
from fillengine.templates.chat import ChatTemplate, TemplateRefused
from fillengine.templates.style import Style, spelled
from fillengine.templates.tool import Tool

CALL_ID = "aB3dE5gH7"
"""The id of a call in renderings, where a format has one: nine letters and digits, which is all that some templates
take."""

Arguments = Mapping[str, Any]
Calls = Sequence[tuple[Tool, Arguments]]

_QUESTION = "What is the weather like?"
_ANSWERS = ("The weather is fine today.", "Nobody knows")
_STRINGS = ("Oslo", "Bergen 12", 'a "b" \\ c')
_STYLES: tuple[Style, ...] = ("spaced", "compact", "indented")


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """The arguments are one JSON object."""

    style: Style


@dataclass(frozen=True, slots=True)
class Values:
    """How single arguments are written. Numbers are written as in JSON.

    true, …    these constants
    style      of arrays and objects, which are JSON; None: the template writes something else
    is_raw     strings stand as they are, without quotes
    """

    true: str
    false: str
    null: str
    style: Style | None
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """The arguments stand one by one: for each name what stands before and behind its value."""

    values: Values
    around: Mapping[str, tuple[str, str]]
    separator: str


@dataclass(frozen=True, slots=True)
class CallWire:
    """One tool's calls. `open` and `close` hold `CALL_ID` where the id of a call is written."""

    tool: Tool
    open: str
    close: str
    arguments: JsonArguments | Members


@dataclass(frozen=True, slots=True)
class Wire:
    """The format of all calls; texts are folded (see `ChatTemplate.folded`).

    lead, tail    around all calls of an answer
    separator     between two of them; None: there is one only
    joint         between a text and the calls behind it; None: there is no text where calls are
    """

    calls: tuple[CallWire, ...]
    lead: str
    separator: str | None
    tail: str
    joint: str | None


def learn(template: ChatTemplate, tools: Sequence[Tool]) -> Wire:
    """The format in which `template` writes calls of `tools`. Raises UnsupportedForm where none is found."""
    problems: list[str] = []
    # OpenAI's arguments are a JSON text, those of most templates an object.
    spellings: tuple[Callable[[Arguments], Any], ...] = (dict, lambda arguments: json.dumps(dict(arguments)))
    for spelling in spellings:
        try:
            return _Learner(_Scribe(template, tools, spelling), tools).wire()
        except (TemplateRefused, _NotUnderstood) as error:
            problems.append(str(error))
    raise UnsupportedForm(
        f"the chat template's way of writing calls cannot be learnt: {problems[0]}",
        keyword="tools",
        remedy="give another template: Tools(..., chat_template=TEXT)",
    )


class _NotUnderstood(Exception):
    pass


class _Scribe:
    """Renders what the assistant says, without the prompt in front and the end of the turn behind."""

    def __init__(self, template: ChatTemplate, tools: Sequence[Tool], spelling: Callable[[Arguments], Any]) -> None:
        self._template, self._spelling = template, spelling
        self._specs = [tool.spec for tool in tools]
        self._user = {"role": "user", "content": _QUESTION}
        self._prompt = self._render([self._user], add_generation_prompt=True)
        lead, self._end = self._around(_ANSWERS[0])
        if (lead, self._end) != self._around(_ANSWERS[1]):
            raise _NotUnderstood("it writes one answer otherwise than another")
        self._lead = lead if lead.strip() else ""
        self._eos = template.folded(template.tokens.get("eos_token", ""))

    def called(self, calls: Calls, content: str = "") -> str:
        """What the assistant writes that calls tools."""
        written = [
            {
                "id": CALL_ID,
                "type": "function",
                "function": {"name": tool.name, "arguments": self._spelling(arguments)},
            }
            for tool, arguments in calls
        ]
        body = self._said({"role": "assistant", "content": content, "tool_calls": written})
        if calls[0][0].name not in body:
            raise _NotUnderstood(f"it does not write the call of {calls[0][0].name!r}")
        body = body.removeprefix(self._lead)
        if self._end and body.endswith(self._end):
            return body[: -len(self._end)]
        if self._eos and self._eos in body:
            return body[: body.rindex(self._eos)]
        if not self._end:
            return body
        raise _NotUnderstood(f"a call does not end as a text does, in {self._end!r}, but in {body[-20:]!r}")

    def _said(self, message: Mapping[str, Any]) -> str:
        text = self._render([self._user, message], add_generation_prompt=False)
        if not text.startswith(self._prompt):
            raise _NotUnderstood("what the assistant has said does not begin where its prompt ends")
        return text[len(self._prompt) :]

    def _around(self, answer: str) -> tuple[str, str]:
        before, found, behind = self._said({"role": "assistant", "content": answer}).partition(answer)
        if not found:
            raise _NotUnderstood("it does not write what the assistant has said")
        return before, behind

    def _render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool) -> str:
        text = self._template.render(messages, tools=self._specs, add_generation_prompt=add_generation_prompt)
        return self._template.folded(text)


@dataclass(frozen=True, slots=True)
class _Example:
    """A call that was rendered alone: open, arguments as they are written, close."""

    call: CallWire
    arguments: Arguments
    written: str


class _Learner:
    def __init__(self, scribe: _Scribe, tools: Sequence[Tool]) -> None:
        self._scribe, self._tools = scribe, tools
        self._values: Values | None = None

    def wire(self) -> Wire:
        examples = [self._json(tool) or self._members(tool) for tool in self._tools]
        wire = self._together(examples)
        for example in examples:
            self._check_text(wire, example)
        return wire

    def _json(self, tool: Tool) -> _Example | None:
        """The arguments as a JSON object; None where there is none in the call."""
        arguments = tool.example
        body = self._scribe.called([(tool, arguments)])
        place = _find_json(body, arguments)
        if place is None:
            return None
        begin, end = place
        style: Style | None = "spaced"
        if arguments:
            name = next(iter(arguments))
            nested = {name: [7, {name: "Oslo"}, []]}
            body_of_nested = self._scribe.called([(tool, nested)])
            style = _style_of(body_of_nested[begin : len(body_of_nested) - len(body) + end], nested)
        if style is None:
            raise _NotUnderstood(f"the arguments of {tool.name!r} are JSON in the one call and not in the other")
        return _Example(CallWire(tool, body[:begin], body[end:], JsonArguments(style)), arguments, body[begin:end])

    def _members(self, tool: Tool) -> _Example:
        """The arguments one by one."""
        bare = self._scribe.called([(tool, {})])
        names = list(tool.example)
        if not names:
            # Where the arguments would stand is anywhere behind the name.
            end = bare.index(tool.name) + len(tool.name)
            values = self._values or Values("true", "false", "null", None)
            return _Example(CallWire(tool, bare[:end], bare[end:], Members(values, {}, "")), {}, "")
        bodies = {name: [self._scribe.called([(tool, {name: text})]) for text in _STRINGS] for name in names}
        open_ = common_prefix([bare, *(body for some in bodies.values() for body in some)])
        close = bare[len(open_) :]

        def inside(body: str) -> str:
            if len(body) < len(bare) or not body.startswith(open_) or not body.endswith(close):
                raise _NotUnderstood(f"the arguments of {tool.name!r} cannot be told from what stands around them")
            return body[len(open_) : len(body) - len(close)]

        around: dict[str, tuple[str, str]] = {}
        is_raw = True
        for name, some in bodies.items():
            first, second, quoted = map(inside, some)
            before, behind = common_prefix([first, second]), _common_suffix([first, second])
            if quoted != before + _STRINGS[2] + behind:
                is_raw = False
                if quoted != before[:-1] + json.dumps(_STRINGS[2]) + behind[1:] or before[-1:] != '"':
                    raise _NotUnderstood(f"the text of the argument {name!r} of {tool.name!r} is changed")
                before, behind = before[:-1], behind[1:]
            if first != before + _spelled_string(_STRINGS[0], is_raw=is_raw) + behind:
                raise _NotUnderstood(f"the argument {name!r} of {tool.name!r} is not found in the call")
            if is_raw and not behind:
                raise _NotUnderstood(f"nothing closes the argument {name!r} of {tool.name!r}")
            around[name] = (before, behind)
        separator = ""
        if len(names) > 1:
            one, two = names[0], names[1]
            both = inside(self._scribe.called([(tool, {one: _STRINGS[0], two: _STRINGS[0]})]))
            first, second = inside(bodies[one][0]), inside(bodies[two][0])
            if not both.startswith(first) or not both.endswith(second) or len(both) < len(first) + len(second):
                raise _NotUnderstood(f"two arguments of {tool.name!r} are written otherwise than one")
            separator = both[len(first) : len(both) - len(second)]
        if self._values is None:
            before, behind = around[names[0]]

            def written(value: Any) -> str:
                text = inside(self._scribe.called([(tool, {names[0]: value})]))
                return text[len(before) : len(text) - len(behind)]

            self._values = _values_of(written, is_raw=is_raw)
        arguments = {name: value for name, value in tool.example.items() if _is_plain(value)}
        call = CallWire(tool, open_, close, Members(self._values, around, separator))
        return _Example(call, arguments, inside(self._scribe.called([(tool, arguments)])))

    def _together(self, examples: Sequence[_Example]) -> Wire:
        """Several calls in one answer, and a text in front of them."""
        first = examples[0]
        pairs = [(first, other) for other in examples] + [(other, first) for other in examples[1:]]
        between: list[tuple[_Example, _Example, str]] = []
        for one, other in pairs:
            middle = self._between(one, other)
            if middle is None:
                calls = tuple(example.call for example in examples)
                return self._with_text(Wire(calls, "", None, "", None), first)
            between.append((one, other, middle))
        closes: dict[int, str] = {}
        opens: dict[int, str] = {}
        for one, _, middle in between:
            close = common_prefix([one.call.close, middle])
            known = closes.setdefault(id(one), close)
            closes[id(one)] = min(known, close, key=len)
        for one, other, middle in between:
            open_ = _common_suffix([other.call.open, middle[len(closes[id(one)]) :]])
            known = opens.setdefault(id(other), open_)
            opens[id(other)] = min(known, open_, key=len)
        leads, tails, separators = set(), set(), set()
        for one, other, middle in between:
            leads.add(other.call.open[: len(other.call.open) - len(opens[id(other)])])
            tails.add(one.call.close[len(closes[id(one)]) :])
            separators.add(middle[len(closes[id(one)]) : len(middle) - len(opens[id(other)])])
        if len(leads) != 1 or len(tails) != 1 or len(separators) != 1:
            raise _NotUnderstood("several calls are put together in more than one way")
        calls = tuple(
            CallWire(each.call.tool, opens[id(each)], closes[id(each)], each.call.arguments) for each in examples
        )
        return self._with_text(Wire(calls, leads.pop(), separators.pop(), tails.pop(), None), first)

    def _between(self, one: _Example, other: _Example) -> str | None:
        """What stands between the arguments of two calls; None where the template does not write two."""
        try:
            body = self._scribe.called([(one.call.tool, one.arguments), (other.call.tool, other.arguments)])
        except TemplateRefused:
            return None
        before, behind = one.call.open + one.written, other.written + other.call.close
        if len(body) < len(before) + len(behind) or not body.startswith(before) or not body.endswith(behind):
            return None
        return body[len(before) : len(body) - len(behind)]

    def _with_text(self, wire: Wire, example: _Example) -> Wire:
        alone = example.call.open + example.written + example.call.close
        try:
            body = self._scribe.called([(example.call.tool, example.arguments)], _ANSWERS[0])
        except TemplateRefused:
            return wire
        before, found, behind = body.partition(_ANSWERS[0])
        if not found or before.strip() or not behind.endswith(alone):
            return wire
        return Wire(wire.calls, wire.lead, wire.separator, wire.tail, behind[: -len(alone)])

    def _check_text(self, wire: Wire, example: _Example) -> None:
        """Three calls must be put together as two are."""
        if wire.separator is None:
            return
        call = next(call for call in wire.calls if call.tool is example.call.tool)
        one = call.open + example.written + call.close
        body = self._scribe.called([(call.tool, example.arguments)] * 3)
        if body != wire.lead + wire.separator.join([one] * 3) + wire.tail:
            raise _NotUnderstood("three calls are put together otherwise than two")


def _values_of(written: Callable[[Any], str], *, is_raw: bool) -> Values:
    for number in (7, -1.5):
        if written(number) != json.dumps(number):
            raise _NotUnderstood(f"the number {number} is written as {written(number)!r}")
    nested = [7, {"a": "Oslo"}, []]
    true, false, null = map(written, (True, False, None))
    return Values(true, false, null, _style_of(written(nested), nested), is_raw=is_raw)


def _style_of(text: str, value: Any) -> Style | None:
    """The style in which a JSON value is written; None where it is no JSON."""
    for style in _STYLES:
        if text == spelled(value, style, 0).decode():
            return style
    try:
        return "any" if json.loads(text) == value else None
    except ValueError:
        return None


def _find_json(body: str, arguments: Arguments) -> tuple[int, int] | None:
    """Where these arguments stand as a JSON object."""
    decoder = json.JSONDecoder()
    begin = body.find("{")
    while begin >= 0:
        try:
            value, end = decoder.raw_decode(body, begin)
        except ValueError:
            pass
        else:
            if value == arguments:
                return begin, end
        begin = body.find("{", begin + 1)
    return None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str)


def _spelled_string(text: str, *, is_raw: bool) -> str:
    return text if is_raw else json.dumps(text)


def common_prefix(texts: Iterable[str]) -> str:
    """What all texts begin with."""
    some = list(texts)
    first, last = min(some), max(some)
    size = next((place for place, sign in enumerate(first) if last[place] != sign), len(first))
    return first[:size]


def _common_suffix(texts: Iterable[str]) -> str:
    return common_prefix([text[::-1] for text in texts])[::-1]

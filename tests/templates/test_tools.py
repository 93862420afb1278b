"""The format of calls is learnt from the chat template; what the template renders is read back as it was."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
import pytest
from chat_templates import ALL, BARE_JSON, MARKED_LIST, TAGGED_JSON, TAGGED_MEMBERS, TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.automata.machine import Machine
from fillengine.errors import FormError, InvalidForm, UnsupportedForm
from fillengine.templates import Tools, compile
from fillengine.templates.chat import ChatTemplate

CONTROLS = frozenset(["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]"])
# A call of another model family, one argument behind the other, as in a programming language.
PYTHON_LIKE = """\
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- '<user>' + message.content + '<assistant>' }}
    {%- elif message.tool_calls %}
        {{- '[' }}
        {%- for call in message.tool_calls %}
            {{- call.function.name + '(' }}
            {%- for name, value in call.function.arguments | items %}
                {{- name + '=' + (value | tojson) }}
                {%- if not loop.last %}{{- ', ' }}{%- endif %}
            {%- endfor %}
            {{- ')' }}
            {%- if not loop.last %}{{- ', ' }}{%- endif %}
        {%- endfor %}
        {{- ']<end>' }}
    {%- else %}{{- message.content + '<end>' }}
    {%- endif %}
{%- endfor %}
"""
EVERY = {**ALL, "python-like": PYTHON_LIKE}


def tool(name: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    tool("look", {"where": TEXT, "depth": {"type": "integer"}, "all": {"type": "boolean"}}, ("where",)),
    tool("look_up", {"words": {"type": "array", "items": TEXT}, "in": {"type": ["string", "null"]}}),
    tool("stop", {}),
]
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n<>/"{}=[] ,'), max_size=12
)
arguments = {
    "look": st.fixed_dictionaries({"where": texts}, optional={"depth": st.integers(), "all": st.booleans()}),
    "look_up": st.fixed_dictionaries({}, optional={"words": st.lists(texts, max_size=3), "in": texts | st.none()}),
    "stop": st.just({}),
}
ORDER = ("where", "depth", "all", "words", "in")
calls = st.sampled_from(sorted(arguments)).flatmap(lambda name: arguments[name].map(lambda given: (name, given)))


def chat(text: str) -> ChatTemplate:
    return ChatTemplate(text, TOKENS, CONTROLS)


def rendered(template: ChatTemplate, written: list[tuple[str, dict[str, Any]]]) -> bytes:
    tool_calls = [
        {"id": "Abc123xyz", "type": "function", "function": {"name": name, "arguments": given}}
        for name, given in written
    ]
    user = {"role": "user", "content": "Go on"}
    message = {"role": "assistant", "content": "", "tool_calls": tool_calls}
    whole = template.render([user, message], tools=TOOLS, add_generation_prompt=False)
    whole = whole[len(template.render([user], tools=TOOLS, add_generation_prompt=True)) :]
    for end in ("<|im_end|>\n", "<|eot_id|>", "</s>", "<end>"):
        whole = whole.removesuffix(end)
    return template.marked(template.folded(whole))


@settings(max_examples=50, deadline=None)
@given(name=st.sampled_from(sorted(EVERY)), written=st.lists(calls, min_size=1, max_size=3))
def test_what_the_template_renders_is_accepted_and_read_back(
    name: str, written: list[tuple[str, dict[str, Any]]]
) -> None:
    template = chat(EVERY[name])
    if name == "bare json":
        written = written[:1]
    written = [(each, {key: given[key] for key in ORDER if key in given}) for each, given in written]
    form = FORMS[name]
    data = rendered(template, written)
    if name == "tagged members" and any(_is_lost(given) for _, given in written):
        return  # without quotes, such a text is another value
    assert MACHINES[name].accepts(data)
    answer = form.parse(data.decode("utf-8", "surrogateescape"))
    assert [(call.name, call.arguments) for call in answer.calls] == written
    assert form.places(data.decode("utf-8", "surrogateescape")) is not None


def _is_lost(given: dict[str, Any]) -> bool:
    texts = [value for value in given.values() if isinstance(value, str)]
    return any("</parameter>" in text for text in texts) or given.get("in") == "None"


FORMS = {name: compile(Tools(TOOLS, "required", chat_template=chat(text))) for name, text in EVERY.items()}
MACHINES = {name: Machine(form.template) for name, form in FORMS.items()}


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (TAGGED_JSON, '{tool_call}\n{"name": "look", "arguments": {"where": "x", "depth": "3"}}\n{/tool_call}'),
        (TAGGED_JSON, '{tool_call}\n{"name": "lo", "arguments": {"where": "x"}}\n{/tool_call}'),
        (TAGGED_JSON, '{tool_call}\n{"name": "look", "arguments": {}}\n{/tool_call}'),
        (TAGGED_JSON, '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>'),
        (TAGGED_MEMBERS, "{tool_call}\n<function=look>\n<parameter=depth>\n3\n</parameter>\n</function>\n{/tool_call}"),
        (TAGGED_MEMBERS, "{tool_call}\n<function=stop>\n</function>"),
        (BARE_JSON, '{"name": "stop", "parameters": {}}{"name": "stop", "parameters": {}}'),
        (MARKED_LIST, '{[TOOL_CALLS]} [{"name": "stop", "arguments": {}, "id": "short"}]'),
    ],
)
def test_what_is_no_call_is_refused(text: str, call: str) -> None:
    data = call.encode()
    for name in CONTROLS:
        data = data.replace(b"{" + name.strip("<>").encode() + b"}", b"\xff" + name.encode() + b"\xff")
    form = compile(Tools(TOOLS, "required", chat_template=chat(text)))
    assert not Machine(form.template).accepts(data)


def test_an_argument_without_quotes_keeps_to_its_schema() -> None:
    code = tool("buy", {"code": {"type": "string", "pattern": "^[A-Z]+$", "minLength": 2, "maxLength": 3}}, ("code",))
    size = tool("size", {"size": {"enum": ["S", "M", 3, None, True]}}, ("size",))
    form = compile(Tools([code, size], "required", chat_template=chat(TAGGED_MEMBERS)))
    machine = Machine(form.template)

    def accepts(name: str, key: str, value: str) -> bool:
        inner = f"<function={name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>"
        return machine.accepts(b"\xff<tool_call>\xff\n" + inner.encode() + b"\n\xff</tool_call>\xff")

    assert [value for value in ("A", "AB", "ABC", "ABCD", "ab", "") if accepts("buy", "code", value)] == ["AB", "ABC"]
    fits = [
        value
        for value in ("S", "M", "L", "3", "None", "null", "True", "False", '"S"')
        if accepts("size", "size", value)
    ]
    assert fits == ["S", "M", "3", "None", "True"]


class Weather(pydantic.BaseModel):
    """Look up the weather.

    Nobody reads this part.
    """

    city: str
    unit: Literal["C", "F"] = "C"


def add(first: int, second: Annotated[int, pydantic.Field(ge=0)] = 0) -> int:
    """Add two numbers."""
    return first + second


def test_models_and_functions_are_tools() -> None:
    tools = Tools([Weather, add], chat_template=chat(TAGGED_JSON))
    assert [(each.name, each.description) for each in tools.tools] == [
        ("Weather", "Look up the weather."),
        ("add", "Add two numbers."),
    ]
    form = compile(tools)
    answer = form.parse(rendered(chat(TAGGED_JSON), [("Weather", {"city": "Oslo"})]).decode("utf-8", "surrogateescape"))
    assert answer.calls[0].value == Weather(city="Oslo")
    answer = form.parse(rendered(chat(TAGGED_JSON), [("add", {"first": 2})]).decode("utf-8", "surrogateescape"))
    assert add(**answer.calls[0].value) == 2
    assert not Machine(form.template).accepts(rendered(chat(TAGGED_JSON), [("add", {"first": 2, "second": -1})]))


def test_ids_of_calls_are_read() -> None:
    data = rendered(chat(MARKED_LIST), [("stop", {})])
    answer = FORMS["marked list"].parse(data.decode("utf-8", "surrogateescape"))
    assert answer.calls[0].id == "Abc123xyz"
    assert (
        FORMS["tagged json"]
        .parse(rendered(chat(TAGGED_JSON), [("stop", {})]).decode("utf-8", "surrogateescape"))
        .calls[0]
        .id
        is None
    )


def _untyped(city):
    return city


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tools([]), "there are no tools"),
        (lambda: Tools([TOOLS[0], TOOLS[0]]), "at /1: two tools are called 'look'"),
        (lambda: Tools(TOOLS, "write"), '"auto", "required" or one of \'look\''),
        (lambda: Tools([{"type": "function", "function": {}}]), "at /0/function: the tool has no name"),
        (lambda: Tools([3]), "at /0: a tool is a dict, a pydantic model or a function, this is int"),
        (lambda: Tools([_untyped]), "the parameter city of _untyped has no type hint"),
        (lambda: Tools([{"name": "a", "parameters": {"type": "array"}}]), "the arguments of a tool are an object"),
        (lambda: compile(Tools(TOOLS)), "how calls are written is said by the chat template"),
        (lambda: compile(Tools(TOOLS, chat_template=ChatTemplate("{{ messages[0].content }}"))), "cannot be learnt"),
        (lambda: ChatTemplate("{% if %}"), "no jinja template: line 1"),
        (lambda: Tools(TOOLS).bound(object()), "the tokenizer has no chat template"),
        (lambda: compile(Tools(TOOLS, parallel=True, chat_template=chat(BARE_JSON))), "one call in an answer"),
        (
            lambda: compile(Tools([tool("a", {"b": {"pattern": "("}})], chat_template=chat(BARE_JSON))),
            "tool a, parameters/properties/b",
        ),
        (
            lambda: compile(
                Tools([{"name": "a", "parameters": {"properties": {"b": TEXT}, "minProperties": 1}}],
                      chat_template=chat(TAGGED_MEMBERS))
            ),
            "minProperties cannot be held",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_tools_is_said(make: Any, message: str) -> None:
    with pytest.raises(FormError) as caught:
        make()
    assert message in str(caught.value)
    assert isinstance(caught.value, InvalidForm | UnsupportedForm)


def test_a_template_cannot_reach_what_the_sandbox_hides() -> None:
    template = ChatTemplate("{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(Exception, match="SecurityError"):
        template.render([{"role": "user", "content": "x"}])


def test_a_template_has_the_helpers_of_transformers() -> None:
    text = (
        "{% for m in messages %}{% if m.skip %}{% continue %}{% endif %}{{ m.content | tojson }}"
        "{% generation %}!{% endgeneration %}{% endfor %}{{ strftime_now('%Y') | length }}"
    )
    shown = ChatTemplate(text).render([{"content": "<é>"}, {"content": "x", "skip": True}])
    assert shown == '"<é>"!4'

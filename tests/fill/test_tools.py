"""Calls of tools over the default model's own vocabulary: what is asserted, what is read back."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import pytest
import tokenizers
from chat_templates import ALL, BARE_JSON, TAGGED_JSON, TAGGED_MEMBERS, TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st
from row_runs import HashModel, WantingModel, run
from vocabularies import WithEnd, byte_level_tokenizer

from fillengine.automata.control import visible
from fillengine.fill import DEFAULT_GUARD, Constraint, Row
from fillengine.fill.sources import usual_sources
from fillengine.fill.tokenizer import Tokenizer, read_tokenizer
from fillengine.templates import Form, Tools, compile
from fillengine.templates.chat import ChatTemplate

MARKERS = ("<tool_call>", "</tool_call>", "[TOOL_CALLS]")


def function(name: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": f"The {name}.", "parameters": parameters}}


TOOLS = [
    function(
        "get_weather",
        ["city", "unit"],
        city={"type": "string"},
        unit={"enum": ["celsius", "fahrenheit"]},
        days={"type": "integer", "minimum": 1, "maximum": 14},
    ),
    function(
        "get", ["url"], url={"type": "string"}, headers={"type": "object", "additionalProperties": {"type": "string"}}
    ),
    function(
        "send_mail",
        ["to", "subject", "body"],
        to={"type": "array", "items": {"type": "string"}},
        subject={"type": "string"},
        body={"type": "string"},
        urgent={"type": "boolean"},
    ),
]
WANTED: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "Reykjavík", "unit": "celsius", "days": 3}),
    ("get", {"url": "https://example.org/a?b=</tool_call>&c=[TOOL_CALLS]", "headers": {"Accept": "text/html"}}),
    (
        "send_mail",
        {
            "to": ["ann@example.org", "bob@example.org"],
            "subject": 'About "<tool_call>" and </function>',
            "body": 'Dear Ann,\n\n{"name": "get"} is how a call begins.\n</div>\n\nYours',
            "urgent": True,
        },
    ),
]
SAID = 'A call looks like `{"name": "get"` here, I think.\nLet me look.'


@cache
def real_tokenizer(*, has_markers: bool) -> Tokenizer:
    from fillengine.generation.models import model_folder

    folder = model_folder("smollm2")
    if not has_markers:
        return read_tokenizer(folder)
    inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    inner.add_special_tokens([tokenizers.AddedToken(marker, special=True) for marker in MARKERS])

    class Wrapped:
        _tokenizer = inner
        eos_token_ids = (inner.token_to_id("<|im_end|>"),)

    return read_tokenizer(Wrapped())


def chat(text: str, *, has_markers: bool) -> ChatTemplate:
    controls = frozenset(MARKERS if has_markers else ())
    return ChatTemplate(text, TOKENS, controls | {"<|im_start|>", "<|im_end|>"})


def rendered(template: ChatTemplate, calls: list[tuple[str, dict[str, Any]]], content: str = "") -> bytes:
    """What the model is to write, by the template itself."""
    written = [
        {"id": "Zz0123456", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in calls
    ]
    user = {"role": "user", "content": "Hello"}
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if written:
        message["tool_calls"] = written
    whole = template.render([user, message], tools=TOOLS, add_generation_prompt=False)
    whole = whole[len(template.render([user], tools=TOOLS, add_generation_prompt=True)) :]
    for end in ("<|im_end|>\n", "<|eot_id|>", "</s>"):
        whole = whole.removesuffix(end)
    # Only the markers around calls are control tokens; inside of arguments they are spelled out.
    marked = template.marked(template.folded(whole))
    for _, arguments in calls:
        for value in arguments.values():
            for inner in value if isinstance(value, list) else [value]:
                for text in (inner, json.dumps(inner, ensure_ascii=False)[1:-1]) if isinstance(inner, str) else ():
                    inside = template.marked(template.folded(text))
                    marked = marked.replace(inside, visible(inside))
    return marked


def written(form: Form, tokenizer: Tokenizer, target: bytes, fill: Any = "auto") -> Row:
    row = Row(Constraint(form, tokenizer).session(max_tokens=600), fill=fill, sources=usual_sources())
    run(row, WantingModel(tokenizer, target))
    return row


def scaffold_share(form: Form, row: Row, tokenizer: Tokenizer) -> tuple[int, int]:
    """(asserted or accepted, all) tokens that hold a byte of neither a value nor a name nor a text."""
    raw = row.session.raw
    data = row.session.data
    free = [(place.begin, place.end) for place in form.places(raw)]
    begin = 0
    for call in form.parse(raw).calls:
        begin = raw.index(call.name, begin)
        free.append((begin, begin + len(call.name)))
        begin = min((first for first, last in free if first > begin), default=begin)
        if call.id:
            at = raw.index(call.id)
            free.append((at, at + len(call.id)))
    is_free = bytearray(len(data))
    for first, last in free:
        offset = len(raw[:first].encode("utf-8", "surrogateescape"))
        end = len(raw[:last].encode("utf-8", "surrogateescape"))
        is_free[offset:end] = b"\x01" * (end - offset)
    ways: list[bool] = []
    for one in row.trace:
        ways += [True] * (one.num_asserted + one.num_accepted) + [False] * (one.choice is not None)
    won = total = offset = 0
    for token_id, way in zip(row.token_ids, ways, strict=False):
        end = offset + len(tokenizer.vocabulary.tokens[token_id] or b"")
        if not any(is_free[offset:end]):
            total += 1
            won += way
        offset = end
    return won, total


@pytest.mark.model
@pytest.mark.parametrize("has_markers", [False, True])
def test_calls_are_what_was_asked_and_their_scaffold_is_not_sampled(*, has_markers: bool) -> None:
    tokenizer = real_tokenizer(has_markers=has_markers)
    all_won = all_total = 0
    for name, text in ALL.items():
        template = chat(text, has_markers=has_markers)
        form = compile(Tools(TOOLS, "required", chat_template=template))
        won = total = 0
        for wanted in [[one] for one in WANTED] + ([WANTED] if name != "bare json" else []):
            target = rendered(template, wanted)
            row = written(form, tokenizer, target)
            assert row.session.data == target
            assert [(call.name, call.arguments) for call in form.parse(row.session.raw).calls] == wanted
            assert row.stats.asserted > 0
            share = scaffold_share(form, row, tokenizer)
            won, total = won + share[0], total + share[1]
        assert written(form, tokenizer, target, "off").token_ids == row.token_ids
        print(f"{name}{' with control tokens' if has_markers else ''}: {won} of {total} scaffold tokens not sampled")  # noqa: T201
        assert won >= 0.88 * total
        all_won, all_total = all_won + won, all_total + total
    assert all_won >= 0.9 * all_total


@pytest.mark.model
@pytest.mark.parametrize("has_markers", [False, True])
@pytest.mark.parametrize("text", [TAGGED_JSON, TAGGED_MEMBERS], ids=["json", "members"])
def test_a_text_stands_before_calls_and_may_quote_one(text: str, *, has_markers: bool) -> None:
    tokenizer = real_tokenizer(has_markers=has_markers)
    template = chat(text, has_markers=has_markers)
    form = compile(Tools(TOOLS, chat_template=template))
    target = rendered(template, WANTED[:2], SAID)
    row = written(form, tokenizer, target)
    answer = form.parse(row.session.raw)
    assert answer.text == SAID
    assert [(call.name, call.arguments) for call in answer.calls] == WANTED[:2]
    alone = written(form, tokenizer, SAID.encode())
    assert form.parse(alone.session.raw).text == SAID
    assert form.parse(alone.session.raw).calls == ()


def test_a_marker_that_is_a_control_token_can_be_spelled_out_in_a_text() -> None:
    tokenizer = byte_tokenizer(TAGGED_JSON)
    template = chat(TAGGED_JSON, has_markers=True)
    form = compile(Tools(TOOLS, chat_template=template))
    quoted = rendered(template, WANTED[:1])
    said = "It is written " + visible(quoted).decode()
    row = written(form, tokenizer, said.encode() + b"\n" + quoted)
    answer = form.parse(row.session.raw)
    assert answer.text == said
    assert [(call.name, call.arguments) for call in answer.calls] == WANTED[:1]
    assert row.session.text == said + "\n" + visible(quoted).decode()


def test_a_marker_that_is_none_begins_a_call_wherever_it_stands() -> None:
    constraint = Constraint(
        compile(Tools(TOOLS, chat_template=chat(TAGGED_JSON, has_markers=False))), byte_tokenizer("")
    )
    call = rendered(chat(TAGGED_JSON, has_markers=False), WANTED[:1]).decode()
    assert constraint.accepts("See <tool_ call>, and: " + call)
    assert not constraint.accepts("See <tool_call>, and: " + call)
    assert not constraint.accepts(call + " as you see")


def test_an_answer_of_bare_json_is_a_call_only_where_it_begins_as_one() -> None:
    form = compile(Tools(TOOLS, chat_template=chat(BARE_JSON, has_markers=False)))
    call = rendered(chat(BARE_JSON, has_markers=False), WANTED[1:2]).decode()
    constraint = Constraint(form, byte_tokenizer(""))
    assert constraint.accepts(call)
    assert constraint.accepts("One writes " + call)
    assert form.parse("One writes " + call).calls == ()
    assert form.parse(call).calls[0].name == "get"
    assert not constraint.accepts('{"name": "nothing", "parameters": {}}')


def test_the_name_of_a_tool_may_begin_that_of_another() -> None:
    for name, text in ALL.items():
        template = chat(text, has_markers=True)
        form = compile(Tools(TOOLS, "get_weather", chat_template=template))
        constraint = Constraint(form, byte_tokenizer(text))
        assert constraint.machine.accepts(rendered(template, WANTED[:1])), name
        assert not constraint.machine.accepts(rendered(template, WANTED[1:2])), name
        short = Constraint(compile(Tools(TOOLS, "get", chat_template=template)), byte_tokenizer(text))
        assert short.machine.accepts(rendered(template, WANTED[1:2])), name
        assert not short.machine.accepts(rendered(template, WANTED[:1])), name


@cache
def byte_tokenizer(text: str) -> Tokenizer:
    """A few merges, and those markers that the template writes as control tokens."""
    inner = byte_level_tokenizer()
    inner.add_special_tokens([tokenizers.AddedToken(marker, special=True) for marker in MARKERS if marker in text])
    return read_tokenizer(WithEnd(inner))


SMALL = [
    function("get", ["a"], a={"type": "boolean"}),
    function("get_b", [], b={"enum": ["x", "</parameter>", "no"]}, c={"type": ["string", "null"], "maxLength": 3}),
    function("now", []),
]


@cache
def small_form(name: str, choice: str, *, is_parallel: bool) -> tuple[Form, Constraint]:
    template = chat(ALL[name], has_markers=True)
    parallel = None if is_parallel and name != "bare json" else False
    form = compile(Tools(SMALL, choice, parallel=parallel, chat_template=template))
    return form, Constraint(form, byte_tokenizer(ALL[name]))


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(ALL)),
    choice=st.sampled_from(["auto", "required", "get", "get_b"]),
    is_parallel=st.booleans(),
    seed=st.integers(0, 1000),
    extra=st.integers(0, 40),
)
def test_calls_close_are_valid_and_have_the_same_tokens_however_filled(
    name: str, choice: str, seed: int, extra: int, *, is_parallel: bool
) -> None:
    form, constraint = small_form(name, choice, is_parallel=is_parallel)
    tokenizer = constraint.tokenizer

    def row(fill: Any) -> Row:
        session = constraint.session(max_tokens=constraint.fewest_tokens + extra, guard=DEFAULT_GUARD)
        return Row(session, fill=fill, sources=usual_sources())

    plain = row("off")
    expected = run(plain, HashModel(seed, tokenizer))
    assert constraint.machine.accepts(plain.session.data)
    answer = form.parse(plain.session.raw)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in SMALL}
    for call in answer.calls:
        jsonschema.validate(call.arguments, schemas[call.name])
    if choice != "auto":
        assert answer.calls
        assert choice == "required" or {call.name for call in answer.calls} == {choice}
    if not is_parallel:
        assert len(answer.calls) <= 1
    for fill in ("assert", "auto"):
        filled = row(fill)
        assert run(filled, HashModel(seed, tokenizer)) == expected
        traced = sum(one.num_asserted + one.num_accepted + (one.choice is not None) for one in filled.trace)
        assert traced - len(expected) in (0, 1)  # the end of the text is a choice, and no token of it

"""An engine writes calls as its model's chat template has them."""

from __future__ import annotations

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import pytest
from chat_templates import MARKED_LIST, TAGGED_JSON

from fillengine.errors import UnsupportedForm
from fillengine.fill import Guard
from fillengine.generation.service import Service
from fillengine.templates import Tools

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}
    for name, parameters in {
        "turn": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
        "turn_up": {"type": "object", "properties": {"by": {"enum": ["a", "b"]}}, "required": ["by"]},
        "wait": {"type": "object", "properties": {}},
    }.items()
]
MESSAGES = [{"role": "user", "content": "Turn it on"}]


@pytest.mark.parametrize("text", [TAGGED_JSON, MARKED_LIST], ids=["tagged", "list"])
def test_calls_are_the_same_however_filled_and_served(text: str) -> None:
    engine = tiny_engine.tiny_engine(context_length=4000)
    tools = engine.compile(Tools(TOOLS, "required", chat_template=text))
    options = {"max_tokens": 150, "guard": Guard(share=0.4)}
    result = engine.generate(MESSAGES, tools, **options)
    assert result.calls
    assert result.calls == result.value.calls
    assert {call.name for call in result.calls} <= {"turn", "turn_up", "wait"}
    for fill in ("off", "assert"):
        assert engine.generate(MESSAGES, tools, fill=fill, **options).token_ids == result.token_ids
    assert result.stats.asserted > 0
    with Service(engine) as service:
        assert service.submit(engine.request(MESSAGES, tools, **options)).result().calls == result.calls


def test_the_prompt_shows_the_tools() -> None:
    engine = tiny_engine.tiny_engine(context_length=4000)
    request = engine.request(MESSAGES, Tools(TOOLS, chat_template=TAGGED_JSON), max_tokens=60)
    shown = engine.loaded.tokenizer.decode(request.prompt)
    assert '"name": "turn_up"' in shown
    assert shown.endswith("<|im_start|>user\nTurn it on<|im_end|>\n<|im_start|>assistant\n")


def test_a_chat_template_that_knows_no_tools_is_refused() -> None:
    engine = tiny_engine.tiny_engine()
    with pytest.raises(UnsupportedForm, match="cannot be learnt"):
        engine.generate(MESSAGES, Tools(TOOLS))
    assert engine.generate(MESSAGES, {"type": "boolean"}, max_tokens=9).calls == ()

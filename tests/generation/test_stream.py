"""A text on its way: its pieces, the value so far, and what of it is finished."""

from __future__ import annotations

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import asyncio
import itertools

import pydantic
import pytest

from fillengine.generation.service import Service
from fillengine.templates import Tools, compile


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=5)
    age: int = pydantic.Field(ge=10, le=99)
    tags: list[bool] = pydantic.Field(max_length=2)


FORM = compile(Person)
OPTIONS = {"max_tokens": 60, "temperature": 1.0, "seed": 4, "row_id": 0}


@pytest.fixture(scope="module")
def engine():
    return tiny_engine.tiny_engine(context_length=4000)


def test_the_value_so_far_is_one_of_the_form_at_any_time(engine):
    stream = engine.stream("a person:", FORM, **OPTIONS)
    seen = []
    for piece in stream:
        assert isinstance(stream.partial, Person)
        assert stream.text.endswith(piece)
        seen.append((stream.finished, stream.partial))
    assert len(seen) > 3
    assert stream.result.value == stream.partial == seen[-1][1]
    assert {"/name", "/age"} <= set(seen[-1][0])
    for (finished, partial), (later, value) in itertools.pairwise(seen):
        assert set(finished) <= set(later)
        for name in ("name", "age"):
            if f"/{name}" in finished:
                assert getattr(partial, name) == getattr(value, name)


def test_tickets_and_asyncio_see_the_same(engine):
    request = engine.request("a person:", FORM, **OPTIONS)
    alone = engine.stream("a person:", FORM, **OPTIONS)
    expected = [(piece, alone.partial, alone.finished) for piece in alone]

    async def main(service):
        stream = service.stream(request)
        return [(piece, stream.partial, stream.finished) async for piece in stream]

    with Service(engine) as service:
        ticket = service.submit(request)
        found = [(piece, ticket.partial, ticket.finished) for piece in ticket]
        served = asyncio.run(main(service))
    for pieces in (found, served):
        assert "".join(piece for piece, _, _ in pieces) == alone.text
        # Pieces may be cut otherwise: what was seen at the same place is the same.
        at = {}
        text = ""
        for piece, partial, finished in expected:
            text += piece
            at[text] = (partial, finished)
        text = ""
        for piece, partial, finished in pieces:
            text += piece
            assert at.get(text, (partial, finished)) == (partial, finished)


def test_calls_on_their_way_are_calls(engine):
    from chat_templates import TAGGED_JSON
    from test_engine_tools import MESSAGES, TOOLS

    stream = engine.stream(MESSAGES, Tools(TOOLS, "required", chat_template=TAGGED_JSON), max_tokens=150)
    for _ in stream:
        assert stream.partial.calls
    assert stream.partial.calls == stream.result.calls


def test_what_goes_wrong_is_raised_while_iterating(engine):
    from fillengine.errors import BudgetTooSmall

    with pytest.raises(BudgetTooSmall):
        _ = engine.stream("a person:", FORM, max_tokens=2).result

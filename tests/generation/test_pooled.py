"""An engine with planner processes writes what it writes without them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import pytest
from tiny_engine import FORM, PLAIN, TinyForm, outcomes

from fillengine.errors import BudgetTooSmall, FillError, Stopped
from fillengine.fill import Guard
from fillengine.fill.economics import FLAT_CURVE
from fillengine.fill.sources import UnstableRest
from fillengine.generation.engine import Request
from fillengine.generation.logprobs import Logprobs
from fillengine.generation.result import Result
from fillengine.generation.sampling import Sampling
from fillengine.generation.service import Service

TIMES = {"waiting_seconds", "prefill_seconds", "decode_seconds", "rollback_seconds"}


def engine_with(planner_processes):
    engine = tiny_engine.tiny_engine(planner_processes=planner_processes)
    # What is measured differs from time to time, and drafts with it.
    engine.curve = lambda num_rows: FLAT_CURVE
    return engine


@pytest.fixture(scope="module")
def here():
    return engine_with(0)


@pytest.fixture(scope="module")
def there():
    return engine_with(2)


class OwnGuard(Guard):
    """A guard that another process could not read."""


def request(number, **options):
    form = FORM if number % 3 else PLAIN
    return Request(
        list(b"a text, the number of which is %d" % number), form, row_id=number, **{"max_tokens": 80, **options}
    )


def accounts(result):
    return {name: value for name, value in asdict(result.stats).items() if name not in TIMES}


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, Result):
        assert (found.text, found.raw, found.token_ids) == (expected.text, expected.raw, expected.token_ids)
        assert (found.finish_reason, found.value) == (expected.finish_reason, expected.value)
        assert found.trace.rounds == expected.trace.rounds
        assert accounts(found) == accounts(expected)
    else:
        assert str(found) == str(expected)


@pytest.mark.parametrize("fill", ["off", "assert", "auto"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_texts_accounts_and_traces_are_the_same(here, there, fill, temperature, batch_size):
    wanted = [
        request(number, fill=fill, sampling=Sampling(temperature), source_text="once ab na on 12, off 7")
        for number in range(12)
    ]
    found, expected = outcomes(there, wanted, batch_size), outcomes(here, wanted, batch_size)
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)


def test_rows_that_are_watched_or_have_something_of_their_own_are_planned_here_beside_the_others(here, there):
    heard: list[str] = []
    wanted = [
        request(0, on_text=heard.append, logprobs=Logprobs(1)),
        request(1, logprobs=Logprobs(1)),
        request(2, sources=[UnstableRest()]),
        request(4, guard=OwnGuard()),
        request(5, guard=None),
        request(7),
    ]
    expected = outcomes(here, wanted, 3)
    heard.clear()
    found = outcomes(there, wanted, 3)
    assert "".join(heard) == found[0].text
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)


def test_a_service_that_is_asked_by_many_streams_the_texts_of_a_run(here, there):
    wanted = [request(number, fill=("auto", "off", "assert")[number % 3]) for number in range(12)]
    expected = [result.text for result in outcomes(here, wanted, 4)]
    with Service(there, max_rows=4) as service, ThreadPoolExecutor(6) as threads:
        tickets = list(threads.map(service.submit, wanted))
        assert ["".join(ticket) for ticket in tickets] == expected
        assert [ticket.result(60).text for ticket in tickets] == expected


def test_a_text_is_heard_in_pieces_while_it_is_written(there):
    heard: list[str] = []
    (result,) = outcomes(there, [request(1, on_text=heard.append, fill="off")], 1)
    assert len(heard) > 2
    assert "".join(heard) == result.text


def test_what_fails_fails_alone_and_alike(here, there):
    wanted = [request(number) for number in range(1, 6)]
    wanted[1] = replace(wanted[1], form=FORM, max_tokens=3)
    wanted[3] = replace(wanted[3], prompt=[])
    found, expected = outcomes(there, wanted, 4), outcomes(here, wanted, 4)
    assert isinstance(found[1], BudgetTooSmall)
    assert isinstance(found[3], FillError)
    for ours, theirs in zip(found, expected, strict=True):
        assert_same(ours, theirs)


def test_a_row_that_is_cancelled_says_what_it_had(there):
    wanted = [request(1), replace(request(2), form=TinyForm("[a-z]{150}"), max_tokens=150), request(4), request(5)]
    run = there.run(wanted, batch_size=2)
    next(run)
    run.cancel(1)
    rest = dict(run)
    assert isinstance(rest[1], Stopped)
    assert rest[1].text
    assert (run.stats.rows, run.stats.finished, run.stats.stopped) == (4, 3, 1)


def test_by_itself_an_engine_on_a_cpu_starts_no_process(here):
    engine = tiny_engine.tiny_engine()
    outcomes(engine, [request(number) for number in range(9)], 9)
    assert engine._planners is None

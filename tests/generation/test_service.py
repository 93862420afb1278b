"""The service: any thread and any event loop hands requests in, and one thread writes them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import pytest
from tiny_engine import FORM, PLAIN, TinyForm, outcomes

from fillengine.errors import BudgetTooSmall, FillError, Stopped
from fillengine.generation.engine import Request
from fillengine.generation.sampling import Sampling
from fillengine.generation.service import Service

LONG = TinyForm("[a-z]{150}")


@pytest.fixture(scope="module")
def engine():
    return tiny_engine.tiny_engine()


def requests(num):
    return [
        Request(list(b"text %d" % number), FORM, Sampling(0.8 * (number % 2)), row_id=number, max_tokens=80)
        for number in range(num)
    ]


def test_many_threads_get_what_a_run_alone_gives(engine):
    wanted = requests(12)
    expected = [result.token_ids for result in outcomes(engine, wanted, 1)]
    with Service(engine, max_rows=3) as service, ThreadPoolExecutor(6) as threads:
        tickets = list(threads.map(service.submit, wanted))
        assert [ticket.result(30).token_ids for ticket in tickets] == expected
        assert service.stats.finished == 12
        assert service.num_open == 0


def test_the_pieces_of_a_text_are_the_text(engine):
    with Service(engine) as service:
        ticket = service.submit(requests(1)[0])
        pieces = list(ticket)
        assert len(pieces) > 2
        assert "".join(pieces) == ticket.result().text
        assert ticket.is_done
        assert list(ticket) == []


def test_a_character_of_several_bytes_comes_in_one_piece(engine):
    form = TinyForm("äöü€".encode(), "[a-b]{2}", "😀".encode())
    with Service(engine) as service:
        ticket = service.submit(Request([5], form, fill="off", max_tokens=60))
        pieces = list(ticket)
    assert "".join(pieces) == ticket.result().text
    assert not any("\ufffd" in piece for piece in pieces)
    assert pieces[0] == "ä"


def test_a_cancelled_text_ends_and_leaves_the_others_alone(engine):
    other = requests(1)[0]
    (expected,) = outcomes(engine, [other], 1)
    with Service(engine, max_rows=2) as service:
        ticket = service.submit(Request([7], LONG, max_tokens=190))
        beside = service.submit(other)
        next(iter(ticket))
        ticket.cancel()
        with pytest.raises(Stopped, match="cancelled after") as caught:
            ticket.result(30)
        assert caught.value.reason == "cancelled"
        assert 0 < len(caught.value.text) < 150
        assert beside.result(30).token_ids == expected.token_ids
        assert (service.stats.stopped, service.stats.finished) == (1, 1)


def test_a_request_that_fails_raises_for_its_own_ticket_only(engine):
    good = requests(1)[0]

    def complain(piece):
        raise RuntimeError("I do not like this text")

    with Service(engine, max_rows=3) as service:
        small = service.submit(replace(good, max_tokens=3))
        disliked = service.submit(replace(good, on_text=complain))
        fine = service.submit(good)
        with pytest.raises(BudgetTooSmall):
            small.result(30)
        with pytest.raises(BudgetTooSmall):
            list(small)
        with pytest.raises(FillError, match="I do not like"):
            disliked.result(30)
        assert fine.result(30).text


def test_a_text_that_takes_too_long_is_stopped(engine):
    with Service(engine) as service:
        ticket = service.submit(Request([7], LONG, max_tokens=190, time_limit=0.01))
        with pytest.raises(Stopped, match=r"limit is 0\.01 s") as caught:
            ticket.result(30)
        assert caught.value.reason == "time"
        with pytest.raises(TimeoutError):
            service.submit(Request([7], LONG, max_tokens=190)).result(0.001)


def test_more_requests_than_may_wait_are_refused(engine):
    hold = threading.Event()
    with Service(engine, max_rows=1, max_waiting=1) as service:
        slow = service.submit(replace(requests(1)[0], on_text=lambda _: hold.wait(30)))
        waiting = service.submit(requests(1)[0])
        with pytest.raises(FillError, match="2 requests are open"):
            service.submit(requests(1)[0])
        hold.set()
        assert slow.result(30).text
        assert waiting.result(30).text
        assert service.submit(requests(1)[0]).result(30).text


def test_a_closed_service_finishes_what_it_has_and_takes_no_more(engine):
    service = Service(engine)
    ticket = service.submit(requests(1)[0])
    service.close()
    assert ticket.result(0).text
    with pytest.raises(FillError, match="closed"):
        service.submit(requests(1)[0])
    service.close()


def test_a_service_that_is_left_by_an_error_cancels_what_is_open(engine):
    tickets = []

    def leave():
        with Service(engine) as service:
            tickets.append(service.submit(Request([7], LONG, max_tokens=190)))
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    with pytest.raises(Stopped):
        tickets[0].result(0)


def test_an_event_loop_streams_several_texts_side_by_side(engine):
    wanted = requests(4)
    expected = [result.text for result in outcomes(engine, wanted, 1)]

    async def collect(service, request):
        return "".join([piece async for piece in service.stream(request)])

    async def main(service):
        return await asyncio.gather(*(collect(service, request) for request in wanted))

    with Service(engine, max_rows=2) as service:
        assert asyncio.run(main(service)) == expected
        assert asyncio.run(service.generate(wanted[0])).text == expected[0]
        with pytest.raises(BudgetTooSmall):
            asyncio.run(collect(service, replace(wanted[0], max_tokens=3)))
        with pytest.raises(BudgetTooSmall):
            asyncio.run(service.generate(replace(wanted[0], max_tokens=3)))


def test_a_stream_that_nobody_reads_any_more_is_cancelled(engine):
    async def leave(service):
        stream = service.stream(Request([7], LONG, max_tokens=190))
        async for _ in stream:
            break
        await stream.aclose()
        task = asyncio.ensure_future(service.generate(Request([7], LONG, max_tokens=190)))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Service(engine) as service:
        asyncio.run(leave(service))
        until = time.monotonic() + 30
        while service.num_open and time.monotonic() < until:
            time.sleep(0.01)
        assert service.stats.stopped == 2


def test_a_fault_of_the_scheduler_reaches_every_ticket_and_the_service_goes_on(engine, monkeypatch):
    with Service(engine, max_rows=2) as service:
        scheduler = service._scheduler
        step = scheduler.step
        monkeypatch.setattr(scheduler, "step", lambda: 1 / 0)
        tickets = [service.submit(request) for request in requests(3)]
        for ticket in tickets:
            with pytest.raises(FillError, match="ZeroDivisionError"):
                ticket.result(30)
        monkeypatch.setattr(scheduler, "step", step)
        assert service.submit(requests(1)[0]).result(30).text


def test_a_process_that_leaves_a_service_open_ends_cleanly():
    code = (
        "import tiny_engine\n"
        "from fillengine.generation.engine import Request\n"
        "from fillengine.generation.service import Service\n"
        "form = tiny_engine.TinyForm('[a-z]{150}')\n"
        "ticket = Service(tiny_engine.tiny_engine()).submit(Request([7], form, max_tokens=190))\n"
        "assert next(iter(ticket))\n"
    )
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1])])
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_plain_requests_get_their_number_as_row_id(engine):
    wanted = [Request([9], PLAIN, Sampling(1.5), max_tokens=20) for _ in range(3)]
    expected = [result.text for result in outcomes(engine, wanted, 3)]
    with Service(engine, max_rows=1) as service:
        assert [ticket.result(30).text for ticket in [service.submit(request) for request in wanted]] == expected

"""Control of a run: who is stopped, who waits for memory, and what is refused."""

from __future__ import annotations

import time
from dataclasses import replace

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import mlx.core as mx
import pytest
from tiny_engine import FORM, PLAIN, TinyForm, outcomes

from fillengine.errors import BudgetTooSmall, FillError, ModelError, Stopped
from fillengine.generation import memory
from fillengine.generation.engine import Request
from fillengine.generation.job import Job
from fillengine.generation.memory import SHARE, DeviceMemory, default_limit
from fillengine.generation.result import Result

LONG = TinyForm("[a-z]{150}")


@pytest.fixture
def engine():
    return tiny_engine.tiny_engine()


def request(number, **options):
    return Request(list(b"a text, the number of which is %d" % number), FORM, row_id=number, max_tokens=80, **options)


def test_a_row_of_a_run_can_be_cancelled_and_the_others_do_not_notice(engine):
    wanted = [request(number) for number in range(4)]
    expected = outcomes(engine, wanted, 1)
    wanted[1] = replace(wanted[1], form=LONG, max_tokens=150)
    run = engine.run(wanted, batch_size=3)
    _, first = next(run)
    run.cancel(1)
    run.cancel(99)
    run.cancel(3)
    rest = dict(run)
    assert isinstance(rest[1], Stopped)
    assert rest[1].reason == "cancelled"
    assert rest[1].text
    assert isinstance(rest[3], Stopped)
    assert [first.token_ids, rest[2].token_ids] == [expected[number].token_ids for number in (0, 2)]
    assert (run.stats.rows, run.stats.finished, run.stats.stopped, run.stats.failed) == (4, 2, 2, 0)


def test_a_run_that_is_out_of_time_stops_every_text_that_is_left(engine):
    wanted = [replace(request(number), form=LONG, max_tokens=150) for number in range(5)]
    begun = time.monotonic()
    found = outcomes(engine, wanted, 2, time_limit=0.05)
    assert time.monotonic() - begun < 5
    assert len(found) == 5
    assert all(isinstance(outcome, Stopped) and outcome.reason == "time" for outcome in found)
    with pytest.raises(FillError, match="time_limit"):
        engine.run([], batch_size=1, time_limit=0)
    with pytest.raises(FillError, match="time_limit"):
        request(0, time_limit=-1)


def test_a_text_has_a_time_limit_of_its_own(engine):
    wanted = [request(0), replace(request(1), form=LONG, max_tokens=150, time_limit=1e-6), request(2)]
    found = outcomes(engine, wanted, 3)
    assert [type(outcome) for outcome in found] == [Result, Stopped, Result]


def test_a_listener_hears_the_text_and_may_end_it(engine):
    heard = []
    (result,) = outcomes(engine, [request(0, on_text=heard.append)], 1)
    assert "".join(heard) == result.text
    assert len(heard) > 2

    def stop(piece):
        raise Stopped("enough", reason="cancelled", text=piece)

    found = outcomes(engine, [request(0, on_text=stop), request(1)], 2)
    assert isinstance(found[0], Stopped)
    assert isinstance(found[1], Result)


def test_one_text_can_be_had_in_pieces(engine):
    form = {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 3, "maxItems": 3}
    pieces = list(engine.stream("some text", form, max_tokens=60))
    assert len(pieces) > 1
    assert "".join(pieces) == engine.generate("some text", form, max_tokens=60).text
    with pytest.raises(BudgetTooSmall):
        list(engine.stream("some text", form, max_tokens=2))


def test_prompts_read_in_small_chunks_between_rounds_change_no_token(engine):
    wanted = [replace(request(number), prompt=list(b"word %d " % number * 6)) for number in range(5)]
    expected = [result.token_ids for result in outcomes(engine, wanted, 1)]
    for round_tokens in (1, 5, 30):
        fresh = tiny_engine.tiny_engine()
        assert [result.token_ids for result in outcomes(fresh, wanted, 3, round_tokens=round_tokens)] == expected


def test_a_long_prompt_does_not_hold_up_those_who_are_being_written(engine):
    heard = []
    short = request(0, on_text=lambda piece: heard.append(("text", piece)))
    long = replace(request(1), prompt=[5] * 110)
    trunk = engine._reader.trunk

    def watched(ids, *, cache):
        heard.append(("prompt", ids.size))
        return trunk(ids, cache=cache)

    engine._reader.trunk = watched
    outcomes(engine, [short, long], 2, round_tokens=10)
    kinds = [kind for kind, _ in heard]
    first, last = kinds.index("text"), len(kinds) - kinds[::-1].index("text")
    assert kinds[first:last].count("prompt") > 3
    assert max(size for kind, size in heard if kind == "prompt") <= 40


def test_short_prompts_are_read_together_and_long_ones_are_not(engine):
    wanted = [Request([number, 7, 7, 9, 100 + number], PLAIN, max_tokens=20) for number in range(6)]
    expected = [result.token_ids for result in outcomes(tiny_engine.tiny_engine(), wanted, 1)]
    run = engine.run(wanted, batch_size=6)
    assert [result.token_ids for _, result in run] == expected
    assert run.stats.read_passes == 1
    assert run.stats.read_tokens == 24
    run = engine.run([Request([number] * 90, PLAIN, max_tokens=20) for number in range(3)], batch_size=3)
    list(run)
    assert run.stats.read_passes == 3


def test_prompts_that_begin_alike_are_not_read_side_by_side(engine):
    wanted = [Request([*range(60), number], PLAIN, max_tokens=20) for number in range(100, 104)]
    run = engine.run(wanted, batch_size=4)
    assert [result.stats.reused_prompt_tokens for _, result in run] == [0, 60, 60, 60]
    assert run.stats.read_tokens == 60
    assert run.stats.reused_prompt_tokens == 180


def test_a_text_can_be_gone_on_with_from_what_the_cache_holds_of_it(engine):
    (first,) = outcomes(engine, [request(0)], 1)
    turn = [*request(0).prompt, *first.token_ids]
    (second,) = outcomes(engine, [replace(request(1), prompt=[*turn, 10, 11])], 1)
    # What the form determines at the end of a text need not have been fed, nor the last choice.
    assert len(turn) - 3 <= second.stats.reused_prompt_tokens <= len(turn)
    (fresh,) = outcomes(tiny_engine.tiny_engine(), [replace(request(1), prompt=[*turn, 10, 11])], 1)
    assert fresh.token_ids == second.token_ids
    assert fresh.stats.reused_prompt_tokens == 0


def test_what_was_written_before_a_text_was_cancelled_is_given_to_nobody(engine):
    def end(piece):
        if len(piece) == 1:
            raise RuntimeError("stop here")

    one = replace(request(0), form=LONG, max_tokens=150)
    outcomes(engine, [replace(one, on_text=end)], 1)
    run = engine.run([one, request(1, on_text=lambda _: run.cancel(0))], batch_size=2)
    assert [type(outcome) for _, outcome in run] == [Stopped, Result]
    for head in engine._reader.prefixes.heads():
        assert len(head) < len(one.prompt) or head[: len(one.prompt)] == tuple(request(1).prompt)


def test_a_prompt_that_is_read_with_others_can_be_cancelled_alone(engine):
    scheduler = engine.scheduler(max_rows=3, round_tokens=6)
    jobs = [Job.of(Request([number] * 22, PLAIN, max_tokens=20), number) for number in range(3)]
    for job in jobs:
        scheduler.submit(job)
    scheduler.step()
    assert len(scheduler._reading[1]) == 3
    jobs[1].is_cancelled = True
    done = []
    while not scheduler.is_idle:
        done += scheduler.step()
    assert {job.row_id: type(job.outcome) for job in done} == {0: Result, 1: Stopped, 2: Result}
    assert {head[0] for head in engine._reader.prefixes.heads()} == {0, 2}
    assert scheduler.stats.rows == 3
    for job in jobs[:2]:
        scheduler.submit(Job.of(job.request, 0))
    scheduler.step()
    for job in scheduler._active():
        job.is_cancelled = True
    assert len(scheduler.step()) == 2
    assert scheduler.is_idle


def test_what_a_model_read_into_numbers_that_are_none_is_not_kept(engine):
    weight = engine.loaded.model.model.embed_tokens.weight
    weight[255] = float("nan")
    mx.eval(weight)
    bad, good = replace(request(0), prompt=[1, 255, *range(30)]), request(1)
    found = outcomes(engine, [bad, good], 2)
    assert isinstance(found[0], ModelError)
    assert all(255 not in head for head in engine._reader.prefixes.heads())
    assert [type(outcome) for outcome in outcomes(engine, [good, bad], 1)] == [type(found[1]), ModelError]


def test_rows_that_do_not_fit_the_memory_wait_and_what_never_fits_is_refused():
    engine = tiny_engine.tiny_engine(context_length=2000)
    bytes_of = engine._footprint.bytes_of
    wanted = [request(number) for number in range(5)]
    expected = [result.token_ids for result in outcomes(engine, wanted, 1)]
    # Two rows, and the reading of one prompt.
    small = tiny_engine.tiny_engine(context_length=2000, memory_limit=2 * bytes_of(256) + bytes_of(256))
    most = []

    def count(_):
        most.append(scheduler.num_active)

    run = small.run([replace(one, on_text=count) for one in wanted], batch_size=5)
    scheduler = run._scheduler
    assert [result.token_ids for _, result in run] == expected
    assert max(most) == 2
    found = outcomes(small, [wanted[0], replace(wanted[1], max_tokens=1500), wanted[2]], 2)
    assert [type(outcome) for outcome in found] == [Result, FillError, Result]
    assert "max_tokens is 1500" in str(found[1])
    assert "0.2 MB are allowed" in str(found[1])


def test_a_footprint_is_what_a_cache_takes():
    engine = tiny_engine.tiny_engine(context_length=5000)
    for num_tokens in (5, 300, 700):
        cache = engine._reader.pattern.empty_like(1)
        cache.feed(engine._model.trunk, {0: [3] * num_tokens})
        cache.settle({})
        assert engine._footprint.bytes_of(num_tokens) == cache.nbytes
    # 2 layers, keys and values, 2 heads of 8 numbers, 4 bytes each.
    assert engine._footprint.bytes_per_token == 2 * 2 * 2 * 8 * 4


def test_a_failing_device_ends_the_rows_of_the_batch_and_nobody_else(engine):
    expected = [result.token_ids for result in outcomes(engine, [request(number) for number in range(3)], 1)]
    trunk, calls = engine._chooser.choices, []

    def failing(*args):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return trunk(*args)

    engine._chooser.choices = failing
    found = outcomes(engine, [request(number) for number in (0, 1, 2)], 2)
    assert [type(outcome) for outcome in found] == [FillError, FillError, Result]
    assert "out of memory" in str(found[0])
    assert found[2].token_ids == expected[2]


def test_a_prompt_of_other_tokens_than_the_model_has_is_refused(engine):
    (found,) = outcomes(engine, [Request([3, 9999], PLAIN)], 1)
    assert "token id 9999" in str(found)


@pytest.mark.parametrize("options", [{"append_chunk": 1}, {"append_chunk": 3}])
def test_short_passes_change_no_token(engine, options):
    wanted = [request(number) for number in range(3)]
    expected = [result.token_ids for result in outcomes(engine, wanted, 1)]
    run = tiny_engine.tiny_engine(**options).run(wanted, batch_size=2)
    assert [result.token_ids for _, result in run] == expected
    assert run.stats.passes > run.stats.rounds


def device_memory(monkeypatch, *, free, active, cached):
    """A GPU of 1,000 bytes."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    monkeypatch.setattr(mx, "device_info", lambda: {"total_memory": 1000, "free_memory": free})
    monkeypatch.setattr(mx, "get_active_memory", lambda: active)
    monkeypatch.setattr(mx, "get_cache_memory", lambda: cached)


def test_what_is_held_for_later_arrays_is_there_for_the_caches_of_a_run(monkeypatch):
    held = DeviceMemory()
    device_memory(monkeypatch, free=700, active=150, cached=50)  # others hold 100
    assert held.available() == 750
    # MLX has given up 500 bytes; CUDA keeps 400 of them, and the device calls all 400 taken.
    device_memory(monkeypatch, free=300, active=150, cached=50)
    assert held.available() == 750


def test_what_other_programs_hold_is_not_there(monkeypatch):
    device_memory(monkeypatch, free=100, active=200, cached=0)
    assert DeviceMemory().available() == 100


def test_the_limit_is_a_share_of_what_the_device_has_left(monkeypatch):
    monkeypatch.setattr(memory, "_device", DeviceMemory())
    device_memory(monkeypatch, free=700, active=200, cached=0)
    assert default_limit() == int(SHARE * 700)

"""Rows that another process plans: the rounds, the masks and the reports of rows that are planned here."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from row_runs import TOKENIZER
from templates_strategy import templates

from fillengine.automata.nodes import Literal, Pattern, Template
from fillengine.automata.regex import from_regex
from fillengine.errors import BudgetTooSmall, FillError, FormError, UnsatisfiableForm, UnsupportedForm
from fillengine.fill import DEFAULT_GUARD, Constraint, Fill, Planner, Row
from fillengine.fill.economics import FLAT_CURVE
from fillengine.fill.messages import Begin, Choices, Failed, Finished, Forget, Planned
from fillengine.fill.pool import PlannerPool, _KnownMasks
from fillengine.fill.sources import usual_sources
from fillengine.fill.worker import Worker, portable
from fillengine.templates import FormWarning, compile

FORM = compile(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "count": {"type": "integer"},
            "ok": {"default": True},
        },
        "required": ["name", "count"],
        "additionalProperties": False,
    }
)
OPEN = Template(Pattern(from_regex("[a-d]{2,9}")))
PENDING = [3]


@pytest.fixture(scope="module")
def pool() -> Iterator[PlannerPool]:
    pool = PlannerPool(TOKENIZER, 2)
    yield pool
    pool.close()


def options(fill: Fill = "auto", budget: int = 60, source: str | None = None) -> dict[str, Any]:
    return {"max_tokens": budget, "guard": DEFAULT_GUARD, "fill": fill, "source_text": source}


def here(template: Template, *, fill: Fill, max_tokens: int, source_text: str | None, **_: Any) -> Row:
    session = Constraint(template, TOKENIZER).session(max_tokens=max_tokens, guard=DEFAULT_GUARD)
    sources = usual_sources(source_text=source_text) if fill == "auto" else None
    return Row(session, fill=fill, sources=sources, curve=FLAT_CURVE)


def there(pool: PlannerPool, template: Template, **how: Any) -> Planner:
    return pool.row(template, curve=FLAT_CURVE, pending=PENDING, **how)


def advance(row: Planner, pending: list[int], seed: int, *, cuts: bool) -> tuple[Any, list[int]] | None:
    """One round with choices by a seed: what there is to see of it, and what is pending then."""
    planned = row.plan(pending)
    if planned is None:
        return None
    noise = random.Random(seed)
    if cuts and len(planned.places) > 1 and noise.random() < 0.3:
        planned = planned.cut(noise.randrange(len(planned.places) - 1))
    choices, seen = [], []
    for number, place in enumerate(planned.places):
        mask = place.mask
        assert place.single is None or place.single == mask.single
        allowed = np.flatnonzero(np.unpackbits(mask.bits.view(np.uint8), bitorder="little")).tolist()
        drafted = planned.draft[number].token_id if number < len(planned.draft) else None
        choices.append(drafted if drafted in allowed and noise.random() < 0.8 else noise.choice(allowed))
        seen.append((place.single, mask.single, allowed))
    commit = row.commit(planned, choices)
    what = (planned.feed, planned.project, planned.positions, planned.num_known, planned.num_asserted, planned.draft)
    return (what, seen, commit.keep), commit.pending


@settings(max_examples=150, deadline=None)
@given(
    template=templates(),
    seed=st.integers(0, 10_000),
    extra=st.integers(0, 20),
    fill=st.sampled_from(["off", "assert", "auto"]),
    source=st.sampled_from([None, "", 'ab "12" é true [1, 2]']),
    cuts=st.booleans(),
)
def test_a_pooled_row_has_the_rounds_and_the_report_of_a_row(
    pool: PlannerPool, template: Template, seed: int, extra: int, fill: Fill, source: str | None, cuts: bool
) -> None:
    try:
        budget = Constraint(template, TOKENIZER).fewest_tokens + extra
    except UnsatisfiableForm:
        reject()
    how = options(fill, budget, source)
    row, other = here(template, **how), there(pool, template, **how)
    assert other.max_tokens == row.max_tokens
    pending = list(PENDING)
    number = 0
    while True:
        ours = None if row.is_finished else advance(row, pending, seed + number, cuts=cuts)
        theirs = None if other.is_finished else advance(other, pending, seed + number, cuts=cuts)
        if ours is None:
            break
        assert theirs is not None
        assert theirs[0] == ours[0]
        if number % 3 == 0 and not other.is_finished:
            # As for a row that is stopped here, or streamed. (What the form determines to the end has been planned.)
            assert other.data == row.data
            assert other.report() == row.report()
        pending = ours[1]
        number += 1
    assert other.is_finished
    assert other.data == row.data
    assert other.report() == row.report()
    assert (other.token_ids, other.data) == (row.token_ids, row.data)


def test_a_row_that_is_still_written_reports_what_its_process_knows(pool: PlannerPool) -> None:
    row = there(pool, FORM.template, **options())
    assert row.plan(PENDING) is not None
    assert row.data.decode() == row.report().text == ""
    assert not row.is_finished


def test_what_is_wrong_with_a_row_is_raised_by_its_plan_and_ends_no_other(pool: PlannerPool) -> None:
    beside = there(pool, FORM.template, **options())
    bad = there(pool, FORM.template, **options(budget=2))
    assert not bad.is_finished
    with pytest.raises(BudgetTooSmall) as caught:
        bad.plan(PENDING)
    assert caught.value.budget == 2
    assert bad.report().token_ids == []
    assert beside.plan(PENDING) is not None


def test_a_choice_that_is_not_allowed_ends_its_row_with_what_it_had(pool: PlannerPool) -> None:
    row = there(pool, FORM.template, **options("off"))
    planned = row.plan(PENDING)
    assert planned is not None
    wrong = next(token for token in range(TOKENIZER.vocabulary.size) if not planned.places[0].mask.allows(token))
    row.commit(planned, [wrong])
    assert not row.is_finished
    with pytest.raises(FillError, match="not allowed"):
        row.plan([wrong])
    assert row.report().stats.forwards == 1


def test_a_process_that_dies_ends_its_own_rows_and_another_takes_its_place() -> None:
    pool = PlannerPool(TOKENIZER, 1)
    try:
        row = there(pool, FORM.template, **options("off"))
        planned = row.plan(PENDING)
        assert planned is not None
        (process,) = pool._processes
        os.kill(process._popen.pid, signal.SIGKILL)
        process._popen.wait()
        row.commit(planned, [0])
        with pytest.raises(FillError, match="planner process ended unexpectedly"):
            row.plan([0])
        assert row.report().token_ids == []
        assert there(pool, FORM.template, **options()).plan(PENDING) is not None
    finally:
        pool.close()


def test_an_interruption_in_the_middle_of_an_answer_leaves_nothing_to_be_misread() -> None:
    class Interrupted:
        def recv(self) -> None:
            raise KeyboardInterrupt

    pool = PlannerPool(TOKENIZER, 1)
    try:
        row = there(pool, FORM.template, **options())
        (process,) = pool._processes
        process._receiving = Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            row.plan(PENDING)
        assert not process.is_alive
        assert there(pool, FORM.template, **options()).plan(PENDING) is not None
    finally:
        pool.close()


def test_a_message_that_cannot_be_read_ends_the_process_and_nobody_waits_for_ever() -> None:
    pool = PlannerPool(TOKENIZER, 1)
    try:
        row = there(pool, FORM.template, **options("off"))
        planned = row.plan(PENDING)
        assert planned is not None
        (process,) = pool._processes
        process._sending.send_bytes(b"no pickle")
        row.commit(planned, [0])
        with pytest.raises(FillError, match="ended unexpectedly"):
            row.plan([0])
    finally:
        pool.close()


def test_a_closed_pool_leaves_no_process_and_fails_the_rows_that_are_left() -> None:
    pool = PlannerPool(TOKENIZER, 2)
    rows = [there(pool, FORM.template, **options("off")) for _ in range(2)]
    processes = list(pool._processes)
    rounds = [row.plan(PENDING) for row in rows]
    pool.close()
    assert [process._popen.returncode is not None for process in processes] == [True, True]
    for row, planned in zip(rows, rounds, strict=True):
        assert planned is not None
        row.commit(planned, [0])
        with pytest.raises(FillError, match="ended"):
            row.plan([0])


def test_rows_nobody_holds_are_forgotten(pool: PlannerPool) -> None:
    row = there(pool, FORM.template, **options())
    process, number = row._process, row._number  # type: ignore[attr-defined]
    del row
    assert number in process.left
    assert number not in process.rows


def test_more_is_written_at_once_than_a_pipe_holds_and_nobody_waits_for_ever(pool: PlannerPool) -> None:
    large = Template(Literal(b"ab" * 400_000))
    done = threading.Event()

    def run() -> None:
        rows = [there(pool, large, **options("off", 10_000_000)) for _ in range(6)]
        assert all(row.plan(PENDING) is not None for row in rows)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(120)


def begin(number: int) -> Begin:
    return Begin(number, pickle.dumps(OPEN), 60, DEFAULT_GUARD, "off", None, None, None, FLAT_CURVE, PENDING)


def test_masks_of_a_round_that_is_over_are_not_made() -> None:
    worker = Worker(TOKENIZER)
    (planned,) = worker.answers(begin(1))
    assert isinstance(planned, Planned)
    assert worker.has_masks_to_make
    row = worker._rows[1]
    allowed = row.row.session.mask().token_ids(TOKENIZER.vocabulary.size)
    (following,) = worker.answers(Choices(1, [int(allowed[0])]))
    assert isinstance(following, Planned | Finished)
    assert list(worker.next_masks()) == []


def test_a_mask_is_sent_once_for_a_row() -> None:
    worker = Worker(TOKENIZER)
    list(worker.answers(begin(1)))
    (made,) = worker.next_masks()
    numbers = [(number, bits is not None) for single, number, bits in made.masks if single is None]  # type: ignore[union-attr]
    worker._without_masks.append((1, worker._rows[1].round))
    (again,) = worker.next_masks()
    assert [number for number, _ in numbers] == [number for single, number, _ in again.masks if single is None]  # type: ignore[union-attr]
    assert all(bits is None for _, _, bits in again.masks)  # type: ignore[union-attr]


def test_equal_masks_of_several_rows_are_one(pool: PlannerPool) -> None:
    rows = [pool.row(OPEN, curve=FLAT_CURVE, pending=PENDING, **options("off")) for _ in range(4)]
    rounds = [row.plan(PENDING) for row in rows]
    masks = [planned.places[0].mask for planned in rounds if planned is not None]
    assert len(masks) == 4
    assert all(mask is masks[0] for mask in masks)


def test_few_masks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fillengine.fill.pool.MAX_MASKS", 2)
    known = _KnownMasks()
    first = known.of(bytes(4))
    for number in range(3):
        known.of(bytes([1, number, 0, 0]))
        assert len(known._known) <= 2
    assert known.of(bytes(4)) is not first


def test_forgotten_and_unknown_rows_get_no_answer() -> None:
    worker = Worker(TOKENIZER)
    list(worker.answers(begin(1)))
    assert list(worker.answers(Forget([1, 2]))) == []
    assert list(worker.answers(Choices(1, [0]))) == []
    assert list(worker.next_masks()) == []


def test_a_mask_that_cannot_be_made_fails_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(TOKENIZER)
    list(worker.answers(begin(1)))

    def broken(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("fillengine.automata.mask.Masks.within", broken)
    (failed,) = worker.next_masks()
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, MemoryError)


@pytest.mark.parametrize(
    "error",
    [
        FormError("no", pointer="/a", remedy="do this"),
        UnsupportedForm("no", keyword="x", pointer="/a"),
        BudgetTooSmall(3, 9),
        ValueError("plain"),
    ],
)
def test_errors_travel_with_their_words(error: Exception) -> None:
    sent = pickle.loads(pickle.dumps(portable(error)))
    assert (type(sent), str(sent), vars(sent)) == (type(error), str(error), vars(error))


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    class Own(Exception):
        pass

    assert str(portable(Own("what happened"))) == "Own: what happened"


def test_a_pool_without_processes_is_refused() -> None:
    with pytest.raises(FillError, match="num_workers"):
        PlannerPool(TOKENIZER, 0)


def test_a_form_held_to_a_document_is_written_by_the_process_that_plans_it(pool: PlannerPool) -> None:
    schema = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
    form = compile(schema).ground("It was Ada who wrote it.")
    row = pool.row(form, curve=FLAT_CURVE, pending=PENDING, **options("off"))
    other = here(compile(schema).ground("It was Ada who wrote it.").template, **options("off"))
    pending = list(PENDING)
    for number in range(200):
        ours, theirs = (
            None if each.is_finished else advance(each, pending, number, cuts=False) for each in (other, row)
        )
        if ours is None or theirs is None:
            break
        assert ours[0] == theirs[0]
        pending = ours[1]
    assert ours is theirs is None
    assert "template" not in vars(form)


def test_a_process_repeats_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    schema = {"type": "object", "properties": {"who": {"type": "string", "format": "nickname"}}, "required": ["who"]}
    with pytest.warns(FormWarning, match="nickname"):
        form = compile(schema)
    pool = PlannerPool(TOKENIZER, 1)
    try:
        row = pool.row(form.ground("It was Ada."), curve=FLAT_CURVE, pending=PENDING, **options("off"))
        assert row.plan(PENDING) is not None
    finally:
        pool.close()
    assert capfd.readouterr().err == ""


def test_a_form_whose_recipe_cannot_travel_is_sent_as_a_template(pool: PlannerPool) -> None:
    class Own:
        template = OPEN
        recipe = staticmethod(lambda: OPEN)

    planned = pool.row(Own(), curve=FLAT_CURVE, pending=PENDING, **options("off")).plan(PENDING)
    assert planned is not None
    assert sum(planned.places[0].mask.allows(token) for token in range(TOKENIZER.vocabulary.size)) > 1

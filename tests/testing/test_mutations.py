"""The harness finds faults that are put into the engine: each within 200 examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fillengine.automata.mask import Mask, Masks
from fillengine.fill.place import Place
from fillengine.fill.session import Session
from fillengine.generation import sampling
from fillengine.generation.attention import AttentionCache
from fillengine.generation.layout import Layout
from fillengine.testing import LawViolation, check_form
from fillengine.testing.tokenizer import byte_tokenizer

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "state": {"enum": ["open", "once", "closed"]},
        "counts": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
    },
    "required": ["name", "state"],
}
EXAMPLES = 200


def violation(**options: Any) -> LawViolation:
    with pytest.raises(LawViolation) as caught:
        check_form(SCHEMA, examples=EXAMPLES, **options)
    return caught.value


def test_what_the_judge_rounds_is_not_held_against_the_engine() -> None:
    """jsonschema divides floats, and finds that 8.54 is no multiple of 0.01."""
    report = check_form({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 99}, examples=6)
    assert report.unjudged > 0


def test_without_a_fault_every_law_holds() -> None:
    report = check_form(SCHEMA, examples=12)
    assert report.rows > 60
    assert 0 < report.accepted < report.proposed
    assert report.stopped > 0


@pytest.mark.parametrize("is_set", [False, True])
def test_a_mask_with_one_wrong_bit_is_found(monkeypatch: pytest.MonkeyPatch, is_set: bool) -> None:
    right = Masks._compute

    def wrong(self: Masks, state: Any) -> Any:
        found = right(self, state)
        mask = found.mask
        flags = mask.unpacked(self.vocabulary.size)
        if flags.sum() < 40:
            return found
        bits = mask.bits.copy()
        token_id = int(np.flatnonzero(~flags if is_set else flags)[-1])
        bits[token_id >> 5] ^= np.uint32(1 << (token_id & 31))
        return found._replace(mask=Mask(bits, None, self.vocabulary.num_words))

    monkeypatch.setattr(Masks, "_compute", wrong)
    found = violation()
    assert found.law == "Masks are exact"
    assert ("allows" if is_set else "forbids") in found.problem


@pytest.mark.parametrize(("is_taken", "problem"), [(True, "takes token"), (False, "refuses token")])
def test_a_session_that_does_not_take_what_its_mask_allows_is_found(
    monkeypatch: pytest.MonkeyPatch, is_taken: bool, problem: str
) -> None:
    right = Session._after

    def wrong(self: Session, token_id: int) -> Any:
        after = right(self, token_id)
        if token_id != ord("o"):
            return after
        return (after or self.state) if is_taken else None

    monkeypatch.setattr(Session, "_after", wrong)
    found = violation(tokenizer=byte_tokenizer())
    assert found.law == "Masks are exact"
    assert problem in found.problem


def test_a_cache_slot_that_is_not_rolled_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Layout.trim

    def wrong(self: Layout, row: int, num_tokens: int) -> None:
        right(self, row, max(0, num_tokens - 1))

    monkeypatch.setattr(Layout, "trim", wrong)
    assert violation().law == "Aligned"


def test_a_slot_that_is_written_to_the_wrong_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths are right, contents are not: only what the model says shows it."""
    right = AttentionCache.copy_row

    def wrong(self: AttentionCache, row: int, source: Any, source_row: int, num_tokens: int) -> None:
        right(self, row, source, source_row, num_tokens)
        if self.values is not None and num_tokens > 1:
            self.values[row, :, 0] = self.values[row, :, 1]

    monkeypatch.setattr(AttentionCache, "copy_row", wrong)
    assert violation().law == "Same tokens"


def test_a_seed_that_rows_share_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sampling.noise_key
    monkeypatch.setattr(sampling, "noise_key", lambda seed, row_id, position: right(seed, 0, position))
    found = violation()
    assert found.law == "Noise of its own"
    assert "different row ids" in found.problem


def test_noise_that_depends_on_the_place_in_a_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sampling.noise

    def wrong(draws: Any, num_logits: int) -> Any:
        found = right(draws, num_logits)
        return found[::-1] if len(draws) > 1 else found

    monkeypatch.setattr(sampling, "noise", wrong)
    assert violation().law == "Same tokens"


def without_budget(session: Session) -> Place:
    return Place(session.constraint.masks, session.state, None, None)


def test_a_budget_that_is_not_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_find_place", without_budget)
    assert violation().law == "Always closes"


def test_a_violation_is_found_again_by_its_numbers_and_reads_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_find_place", without_budget)
    first = violation(seed=3)
    again = violation(seed=3, example=first.example)
    assert (again.problem, again.token_ids, again.text) == (first.problem, first.token_ids, first.text)
    lines = str(first).splitlines()
    assert lines[0] == f"Always closes: {first.problem}"
    assert lines[1] == f"  again with  check_form(..., seed=3, example={first.example})"
    assert lines[2] == f"  tokens      {first.token_ids}"
    assert lines[3] == f"  text        {first.text!r}"

from __future__ import annotations

import pytest
from bench_tiny import RECORDS, Pretender, answer

from fillengine.bench.contenders import Setting
from fillengine.bench.figures import SameTokens, against, figures
from fillengine.bench.turns import TurnLog, TurnRow
from fillengine.generation.rounds import STAGES

SETTING = Setting()


def _turn(contender, first, seconds, answers, *, new_shapes=(), **rounds):
    ids = [RECORDS[first + place].id for place in range(len(answers))]
    return TurnRow(
        SETTING.name, contender, first, ids, seconds, seconds / 4, seconds / 2, 10, list(new_shapes), answers, **rounds
    )


def _log(*rows):
    return TurnLog({}, rows)


def test_ratios_are_of_the_same_turn_and_quartiles_of_these():
    fast = [_turn("A", place, 1.0, [answer(1, 2)]) for place in range(4)]
    slow = [_turn("B", place, seconds, [answer(1, 2, 3, 4)]) for place, seconds in enumerate([1.0, 2.0, 3.0, 4.0])]
    found = against(fast, slow)
    assert found["documents"] == {"total": 2.5, "median": 2.5, "quartiles": [1.75, 3.25], "pairs": 4}
    # The slow one writes twice as many tokens.
    assert found["tokens"]["total"] == pytest.approx(1.25)
    assert against(fast, slow[:1])["documents"]["pairs"] == 1
    assert against(fast, []) == {"documents": None, "decoding": None, "tokens": None}


def test_figures_add_up_over_the_turns():
    good = answer(1, 2, 3, text='{"package": "ab", "closes": [12, 7]}', asserted=1, proposed=4, accepted=1)
    bad = answer(1, text="{", is_cut=True)
    log = _log(_turn("A", 0, 2.0, [good], new_shapes=[(1, 2, 3)]), _turn("A", 1, 2.0, [bad], new_shapes=[(1, 4, 3)]))
    found = figures(SETTING.name, "A", RECORDS, log, has_truth=True)
    assert (found["records"], found["valid"], found["cut"]) == (2, 1, 1)
    assert found["accuracy"] == {"bug": 0.5}
    assert (found["tokens"], found["accepted_share"]) == (4, 0.25)
    assert (found["seconds"], found["prefill_seconds"], found["decode_seconds"], found["other_seconds"]) == (4, 1, 2, 1)
    assert (found["documents_per_second"], found["decode_tokens_per_second"]) == (0.5, 2.0)
    assert (found["new_shapes"], found["new_shapes_in_second_half"]) == (2, [(1, 4, 3)])
    assert found["round_milliseconds"] is None


def test_the_time_of_a_round_is_the_mean_of_all_rounds_by_stage():
    turns = [
        _turn("A", 0, 1.0, [answer(1)], rounds=3, stage_seconds=dict.fromkeys(STAGES, 0.3)),
        _turn("A", 1, 1.0, [answer(1)], rounds=1, stage_seconds={"planning": 0.1}),
    ]
    found = figures(SETTING.name, "A", RECORDS, _log(*turns), has_truth=True)
    assert found["rounds"] == 4
    assert found["round_milliseconds"] == dict.fromkeys(STAGES, 75.0) | {"planning": 100.0}
    assert list(found["round_milliseconds"]) == list(STAGES)


def test_records_with_other_documents_have_no_accuracy():
    found = figures(SETTING.name, "A", RECORDS, _log(_turn("A", 0, 1.0, [answer(1)])), has_truth=False)
    assert found["accuracy"] is None
    assert found["accuracy_mean_of_kinds"] is None


def test_tokens_are_held_against_the_first_of_the_family_in_any_batch():
    same = SameTokens(RECORDS)
    log = _log(
        _turn("A", 0, 1.0, [answer(1, 2), answer(3)]),
        _turn("B", 0, 1.0, [answer(1, 2), answer(3, 4)]),
        _turn("C", 0, 1.0, [answer(9), answer(9)]),
    )
    assert same.compare(SETTING, Pretender("A"), log)["same"] == 2
    found = same.compare(SETTING, Pretender("B"), log)
    assert (found["reference"], found["same"], found["different"]) == ("A (batch 1, temperature 0)", 1, 1)
    assert found["divergences"] == [{"contender": "B (batch 1, temperature 0)", "id": "two", "position": 1}]
    assert same.compare(SETTING, Pretender("C", family="others"), log)["different"] == 0


def test_a_peers_noise_is_not_ours_and_so_not_compared():
    log = TurnLog({}, [TurnRow("batch 1, temperature 1", "A", 0, ["one"], 1.0, 0.1, 0.5, 1, [], [answer(1)])])
    assert SameTokens(RECORDS).compare(Setting(temperature=1.0), Pretender("A"), log) is None

"""Failures that users of constrained decoding have reported (see `field_cases`): those that need a model to show."""

from __future__ import annotations

from fillengine.testing import RandomModel, ScriptedModel, ToyTokenizer  # isort: skip (before mlx)

import json
from typing import Any

import numpy as np
import pytest
from chat_templates import TAGGED_JSON
from field_cases import case
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import ModelError
from fillengine.generation.job import Job
from fillengine.generation.result import Result
from fillengine.templates import Call, Regex, Thinking, Tools, compile
from fillengine.templates.completion import Partial
from fillengine.testing.models import SpokenModel
from fillengine.testing.tokenizer import WithEnd, byte_level_tokenizer

FILLS: tuple[Any, ...] = ("off", "assert", "auto")
ANYTHING = Regex(r"[\s\S]*")


def merged(*words: str) -> Any:
    """A byte-level tokenizer that has these words as tokens."""
    merges = []
    for word in words:
        letters = [*word.replace(" ", "Ġ")]
        for length in range(1, len(letters)):
            pair = ("".join(letters[:length]), letters[length])
            if pair not in merges:
                merges.append(pair)
    return WithEnd(byte_level_tokenizer(merges))


@pytest.mark.parametrize("style", ["spaced", "compact"])
def test_forced_text_changes_no_choice_behind_its_seams(style: Any) -> None:
    form = compile(case("fc-030")["input"]["schema"], style=style)
    # Tokens across both seams: `": 2` and `"Paris"`.
    tokenizer = merged('": 2', '":2', '"Par', "is", "ation", "165")
    scripted = ScriptedModel(
        '{"name": "Paris", "population": 2102650}'.replace(" ", " " * (style == "spaced")), tokenizer
    )
    values = [scripted.engine().generate("Paris?", form, fill=fill).value for fill in FILLS]
    assert values == [{"name": "Paris", "population": 2102650}] * 3
    for seed in range(8):
        engine = RandomModel(tokenizer, seed=seed).engine()
        results = [engine.generate("Paris?", form, fill=fill, max_tokens=60) for fill in FILLS]
        assert len({tuple(result.token_ids) for result in results}) == 1
        assert len({result.text for result in results}) == 1


def test_a_constraint_stays_with_its_row_when_others_come_and_go() -> None:
    given = case("fc-031")["input"]
    engine = RandomModel(seed=3).engine()
    forms = {row["id"]: row["constraint"] or ANYTHING for row in given["rows"]} | {"u3": {"const": 1}}
    requests = {
        name: engine.request(f"the prompt of {name}", form, max_tokens={"u0": 6, "u1": 40}.get(name), row_id=number)
        for number, (name, form) in enumerate(forms.items())
    }
    alone = {name: engine.run([request], batch_size=1) for name, request in requests.items()}
    expected = {name: next(iter(run))[1].text for name, run in alone.items()}
    scheduler = engine.scheduler(max_rows=3, round_tokens=512)
    jobs = {name: Job.of(request, number) for number, (name, request) in enumerate(requests.items())}
    for name in ("u0", "u1"):
        scheduler.submit(jobs[name])
    for _ in range(3):
        scheduler.step()
    scheduler.submit(jobs["u2"])
    while jobs["u0"].outcome is None:
        scheduler.step()
    assert jobs["u1"].outcome is None
    scheduler.submit(jobs["u3"])
    while not scheduler.is_idle:
        scheduler.step()
    texts = {name: job.outcome.text for name, job in jobs.items() if isinstance(job.outcome, Result)}
    assert texts == expected
    assert json.loads(texts["u2"]) in ("yes", "no")
    assert texts["u3"] == "1"


def test_of_a_draft_that_breaks_the_form_its_beginning_is_verified_and_the_rest_dropped() -> None:
    given = case("fc-032")["input"]
    pieces = [given["prefix"], *given["draft"], *given["model_choice"][:2]]
    text = case("fc-032")["accept"][0]
    distinct = list(dict.fromkeys(piece.encode() for piece in pieces))
    tokenizer = ToyTokenizer.of_pieces(
        [*(bytes([byte]) for byte in range(256)), *distinct, None], eos_ids=[256 + len(distinct)]
    )
    engine = ScriptedModel(text, tokenizer).engine()
    form = compile(given["schema"], style="compact")
    draft = given["prefix"] + "".join(given["draft"])
    plain = engine.generate("a", form, fill="off")
    drafted = engine.generate("a", form, prediction=draft)
    assert plain.text == drafted.text == text
    assert plain.token_ids == drafted.token_ids
    assert drafted.stats.accepted > 0
    assert drafted.stats.forwards < plain.stats.forwards


def test_what_is_thought_is_free_and_the_answer_behind_it_is_held() -> None:
    given = case("fc-033")["input"]
    form = Thinking(given["schema"], end="</think>")
    script = 'It is {"answer": no}, I think. </think>{"answer": "yes"}'
    for fill in FILLS:
        result = ScriptedModel(script).engine().generate("Well? " + given["prompt_ends_with"], form, fill=fill)
        assert result.thinking == 'It is {"answer": no}, I think. '
        assert result.value == {"answer": "yes"}
    at_once = ScriptedModel(script).engine().generate("Well?", given["schema"])
    assert list(at_once.value) == ["answer"]
    assert at_once.thinking is None


class Fixed(SpokenModel):
    """The same logits everywhere; those beyond the given ones are 0."""

    def __init__(self, logits: list[float], tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._given = logits

    def say(self, prompt: list[int], answer: list[int]) -> Any:
        logits = np.zeros(self.num_logits, np.float32)
        logits[: len(self._given)] = self._given
        return logits


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 1}])
def test_where_no_allowed_token_has_any_mass_an_allowed_one_comes(options: dict[str, Any]) -> None:
    given = case("fc-034")["input"]
    pieces = [piece.encode() for piece in given["toy_vocab"][:3]]
    tokenizer = ToyTokenizer.of_pieces([*pieces, None], eos_ids=[3])
    form = Regex(given["regex"])
    engine = Fixed([float(logit) for logit in given["logits"]], tokenizer).engine()
    result = engine.generate("a", form, logprobs=0, **options)
    assert result.text in ("b", "c")
    assert result.logprobs is not None
    assert not any(one is None or np.isnan(one.logprob) for one in result.logprobs)
    # The token that the filters would keep is not allowed.
    engine = Fixed([9.0, 1.0, 2.0, 3.0], tokenizer).engine()
    assert engine.generate("a", form, **options).text in ("b", "c")


def test_allowed_tokens_whose_logits_are_no_numbers_end_the_text_with_an_error() -> None:
    given = case("fc-034")["input"]
    tokenizer = ToyTokenizer.of_pieces([piece.encode() for piece in given["toy_vocab"][:3]] + [None], eos_ids=[3])
    engine = Fixed([0.0, float("nan"), float("nan"), 1.0], tokenizer).engine()
    with pytest.raises(ModelError, match="is not a number"):
        engine.generate("a", Regex(given["regex"]))


def test_required_is_one_valid_call_where_several_are_not_wanted() -> None:
    row = case("fc-040")
    tools = [{"type": "function", "function": tool} for tool in row["input"]["tools"]]
    calls = [
        '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>',
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
    ]
    for wanted, expected in ((calls, row["accept"][0]), (calls[::-1], row["accept"][1])):
        for script in ("\n".join(wanted), "Let me see. " + "\n".join(wanted)):
            engine = ScriptedModel(script).engine()
            form = Tools(tools, row["input"]["tool_choice"], parallel=False, chat_template=TAGGED_JSON)
            result = engine.generate([{"role": "user", "content": "Do it"}], form, max_tokens=120)
            assert len(result.calls) == 1
            assert result.value.text == ""
            assert result.finish_reason == "stop"
            if script == "\n".join(wanted):
                assert result.calls == tuple(Call(one["name"], one["arguments"]) for one in json.loads(expected))


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_a_value_on_its_way_is_valid_and_a_number_is_finished_by_what_follows(data: st.DataObject) -> None:
    given = case("fc-041")["input"]
    form = compile(given["schema"], style="compact")
    text = "".join(given["chunks"])
    chunks = given["chunks"] if data.draw(st.booleans()) else [*text]
    partial = Partial(form)
    seen = []
    for chunk in chunks:
        partial.feed(chunk)
        form.validate(partial.completed)
        assert partial.value["n"] >= 10
        seen.append((partial.raw, partial.finished))
    for raw, finished in seen:
        assert ("/name" in finished) == raw.startswith('{"name":"Alice"')
        assert ("/n" in finished) == (raw == text)
    assert partial.value == {"name": "Alice", "n": 12}


@pytest.mark.parametrize("fill", FILLS)
def test_there_is_one_logprob_for_each_token_however_it_came(fill: Any) -> None:
    form = compile(case("fc-042")["input"]["schema"], style="compact")
    engine = RandomModel(seed=1).engine()
    result = engine.generate("a", form, fill=fill, logprobs=0)
    assert result.logprobs is not None
    assert len(result.logprobs) == len(result.token_ids)
    # A token that the form determines is marked by None, the free choice has the model's own value.
    free = [one for one in result.logprobs if one is not None]
    assert len(free) == 1
    assert engine.tokenizer.vocabulary.tokens[free[0].token_id] in (b"1", b"2")
    for one, token_id in zip(result.logprobs, result.token_ids, strict=True):
        assert one is None or one.token_id == token_id
    whole = engine.generate("a", form, fill=fill, logprobs=0, logprobs_of_determined=True).logprobs
    assert whole is not None
    assert [one.token_id for one in whole if one is not None] == result.token_ids
    assert free[0] in whole

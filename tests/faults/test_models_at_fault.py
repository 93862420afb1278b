"""Models and tokenizers at fault: what is said, and that nobody else is disturbed."""

from __future__ import annotations

from fillengine.testing import RandomModel, ScriptedModel, ToyTokenizer, check_form  # isort: skip (before mlx)

import threading

import mlx.core as mx
import pytest
import tokenizers
import transformers
from mlx_lm.tokenizer_utils import TokenizerWrapper

from fillengine.errors import ModelError, VocabularyError
from fillengine.fill import Constraint
from fillengine.generation.result import Result
from fillengine.generation.service import Service
from fillengine.testing.models import NUM_PADDING
from fillengine.testing.tokenizer import WithEnd, byte_level_tokenizer, byte_tokenizer

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "kind": {"enum": ["on", "off"]}},
    "required": ["name", "kind"],
}
BYTES = [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_end_their_row_alone(number):
    engine = RandomModel(byte_tokenizer()).engine()
    requests = [engine.request(prompt, FORM, max_tokens=60) for prompt in ("a", "b!", "c")]
    expected = [outcome.token_ids for _, outcome in engine.run(requests, batch_size=1)]
    right = engine._chooser.choices

    def faulty(hidden, masks, draws):
        rows = mx.array([draw.row_id for draw in draws])
        return right(mx.where((rows == 1)[:, None], number, hidden), masks, draws)

    engine._chooser.choices = faulty
    outcomes = [outcome for _, outcome in engine.run(requests, batch_size=3)]
    assert isinstance(outcomes[1], ModelError)
    assert str(outcomes[1]) == (
        "the model's output is not a number (NaN or infinite); its weights may be damaged, or the numbers overflow "
        "in their precision"
    )
    for index in (0, 2):
        assert outcomes[index].token_ids == expected[index]


def test_a_vocabulary_that_lacks_a_byte_of_the_form_is_named_with_the_byte():
    tokenizer = ToyTokenizer.of_pieces([piece for piece in BYTES if piece != b":"] + [None], eos_ids=[255])
    with pytest.raises(VocabularyError) as caught:
        Constraint_of(FORM, tokenizer)
    assert str(caught.value) == (
        "the tokenizer cannot write any text of this form: its shortest text goes on with the byte 0x3a behind "
        "b'{\"name\"', which no token is; use another tokenizer, or a form without it"
    )


def test_members_that_a_vocabulary_cannot_write_are_left_out_and_the_others_come():
    tokenizer = ToyTokenizer.of_pieces([piece for piece in BYTES if piece != b"f"] + [None], eos_ids=[255])
    report = check_form(FORM, tokenizer=tokenizer, examples=2)
    assert report.rows > 0
    assert not Constraint_of({"enum": ["on", "off"]}, tokenizer).session().mask().allows(BYTES.index(b"f") - 1)


def Constraint_of(schema, tokenizer):  # noqa: N802
    import fillengine

    return Constraint(fillengine.compile(schema), tokenizer)


class Narrow(RandomModel):
    """Fewer logits than its tokenizer has tokens: the last ones cannot be said."""

    def __init__(self, tokenizer, num_missing):
        super().__init__(tokenizer)
        num_logits = self._vocabulary.size - num_missing
        self.lm_head.weight = self.lm_head.weight[:num_logits]
        self.mark = 0
        self.num_logits = num_logits


def test_a_vocabulary_larger_than_the_logits_is_used_as_far_as_they_go():
    pieces = [*BYTES, None, b'{"name": "', b"on", b'", "kind": "']
    tokenizer = ToyTokenizer.of_pieces(pieces, eos_ids=[256])
    report = check_form(FORM, model=Narrow(tokenizer, 3), examples=3)
    assert report.rows > 0
    engine = Narrow(tokenizer, 3).engine()
    assert max(engine.generate("a", FORM, max_tokens=60).token_ids) < 257


def test_logits_beyond_the_vocabulary_are_never_chosen():
    model = RandomModel(byte_tokenizer())
    # The model would like best what is no token.
    model.lm_head.weight[-NUM_PADDING:] = 1000.0
    result = model.engine().generate("a", FORM, max_tokens=60)
    assert max(result.token_ids) < 256
    assert check_form(FORM, model=model, examples=2).rows > 0


def test_two_tokens_of_the_same_text_may_both_come():
    tokenizer = ToyTokenizer.of_pieces([*BYTES, *BYTES, b'"on"', b'"on"', None], eos_ids=[514])
    assert check_form(FORM, tokenizer=tokenizer, examples=3).rows > 0
    allowed = Constraint_of({"enum": ["on", "off"]}, tokenizer).session()
    assert [allowed.mask().allows(token_id) for token_id in (34, 34 + 256)] == [True, True]


def test_added_tokens_are_no_text_whatever_they_spell():
    inner = byte_level_tokenizer()
    inner.add_tokens([tokenizers.AddedToken("name"), tokenizers.AddedToken('"on"', special=True)])
    tokenizer = WithEnd(inner)
    session = Constraint_of({"enum": ["name", "on"]}, tokenizer).session()
    for token_id in (inner.token_to_id("name"), inner.token_to_id('"on"')):
        assert not session.mask().allows(token_id)
    assert check_form(FORM, tokenizer=tokenizer, examples=2).rows > 0


def test_an_end_of_sequence_among_the_ordinary_tokens_is_no_text():
    # The end is the letter n: "on" cannot be written any more.
    tokenizer = ToyTokenizer.of_pieces(BYTES, eos_ids=[ord("n"), ord("z")])
    assert check_form({"type": "string", "maxLength": 4}, tokenizer=tokenizer, examples=3).rows > 0
    engine = RandomModel(tokenizer).engine()
    assert engine.generate("a", {"enum": ["on", "off"]}).value == "off"


@pytest.mark.parametrize("loop", ["la ", "x"])
def test_a_model_that_never_closes_a_string_is_closed_by_the_guard(loop):
    engine = ScriptedModel('{"name": "' + loop * 2000).engine()
    result = engine.generate("a", FORM)
    assert result.stats.closed == ("/name: cycle",)
    assert result.value["kind"] in ("on", "off")
    assert len(result.token_ids) < 100


def test_without_a_guard_the_budget_closes_what_a_model_would_go_on_with():
    engine = ScriptedModel('{"name": "' + "la " * 2000).engine()
    result = engine.generate("a", FORM, guard=None, max_tokens=120)
    assert result.value["kind"] in ("on", "off")
    assert len(result.token_ids) <= 120


def test_a_thousand_threads_are_all_served():
    engine = RandomModel().engine()
    expected = engine.generate("a", {"type": "boolean"}).text
    outcomes = []
    with Service(engine, max_rows=32) as service:

        def submit():
            outcomes.append(service.submit(engine.request("a", {"type": "boolean"})).result(600))

        threads = [threading.Thread(target=submit) for _ in range(1_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 1_000
    assert all(isinstance(outcome, Result) and outcome.text == expected for outcome in outcomes)


def with_template(template):
    inner = byte_level_tokenizer()
    return TokenizerWrapper(
        transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", chat_template=template)
    )


def test_a_chat_template_runs_in_a_sandbox():
    engine = RandomModel(with_template("{{ ''.__class__.__mro__[1].__subclasses__() }}")).engine()
    with pytest.raises(ModelError) as caught:
        engine.generate([{"role": "user", "content": "a"}], FORM)
    assert str(caught.value) == (
        "the chat template of RandomModel fails on these messages (SecurityError: access to attribute '__class__' of "
        "'str' object is unsafe.); give the prompt as text, or messages that the template takes"
    )


def test_a_chat_template_that_refuses_the_messages_is_told_with_its_own_words():
    engine = RandomModel(with_template("{{ raise_exception('no system role') }}")).engine()
    with pytest.raises(ModelError) as caught:
        engine.encode([{"role": "system", "content": "a"}])
    assert str(caught.value) == (
        "the chat template of RandomModel fails on these messages (TemplateError: no system role); give the prompt as "
        "text, or messages that the template takes"
    )

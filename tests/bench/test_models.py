from __future__ import annotations

import bench_tiny
import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.llama import ModelArgs

from fillengine.bench import models
from fillengine.bench.models import Choice, describe, is_quantized, load, num_logits, random_model
from fillengine.errors import ModelError


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    """The tiny tokenizer in place of the default model's, and a shape that fits it."""
    tokenizer = bench_tiny.tiny_loaded().tokenizer
    monkeypatch.setattr(models, "load_tokenizer", lambda folder: tokenizer)
    monkeypatch.setattr(models, "model_folder", lambda name: name)
    shape = ModelArgs(
        model_type="llama",
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=128,
        num_attention_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=320,
        tie_word_embeddings=False,
        max_position_embeddings=512,
    )
    monkeypatch.setitem(models.SHAPES, "tiny", shape)


def test_a_random_model_has_the_padded_vocabulary_of_its_shape():
    loaded = random_model("tiny")
    assert num_logits(loaded.model) == 320 > len(loaded.tokenizer.vocab)
    assert loaded.context_length == 512
    assert loaded.eos_ids == frozenset(loaded.tokenizer.eos_token_ids)


def test_a_random_model_is_quantized_where_that_is_asked():
    loaded = random_model("tiny", dtype="bfloat16", bits=4)
    assert is_quantized(loaded.model)
    dtypes = {value.dtype for _, value in tree_flatten(loaded.model.parameters())}
    assert dtypes == {mx.uint32, mx.bfloat16}
    assert mx.isfinite(loaded.model(mx.array([[1, 2, 3]]))).all()


def test_the_bits_of_a_model_are_those_of_most_of_its_weights():
    loaded = random_model("tiny", dtype="bfloat16", bits=4)
    assert describe(loaded)["bits"] == 4
    first = loaded.model.model.layers[0].mlp
    first.up_proj = nn.QuantizedLinear(first.up_proj.weight.shape[1] * 8, first.up_proj.weight.shape[0], bits=8)
    assert describe(loaded)["bits"] == 4
    assert describe(random_model("tiny"))["bits"] is None


def test_random_weights_are_the_same_each_time():
    one, other = (random_model("tiny").model(mx.array([[1, 2]])) for _ in range(2))
    assert mx.array_equal(one, other)


def test_what_cannot_be_made_is_refused(monkeypatch):
    with pytest.raises(ModelError, match="the shapes are llama-8b, tiny"):
        load(Choice(random_shape="llama-9b"))
    with pytest.raises(ModelError, match="leave --model smollm2 out"):
        load(Choice("smollm2", "tiny"))


def test_a_loaded_model_is_changed_as_asked(monkeypatch):
    monkeypatch.setattr(models, "load_model", lambda name: random_model("tiny", dtype="bfloat16", bits=4))
    with pytest.raises(ModelError, match="quantized already"):
        load(Choice("folder", quantize=8))
    loaded = load(Choice("folder", dtype="float32", dense=True))
    assert not is_quantized(loaded.model)
    assert loaded.name == "folder, dense, float32"
    again = load(Choice("folder", dtype="float16", dense=True, quantize=8))
    assert is_quantized(again.model)
    # Costs that were measured for the folder are not for these weights.
    assert again.folder is None

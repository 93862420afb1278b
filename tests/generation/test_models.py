"""Finding and loading models: what a loaded model is, and what each mistake is answered with."""

import json
import os
import pickle

import huggingface_hub
import mlx.core as mx
import mlx.nn as nn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import ModelError
from fillengine.generation import models, smollm2
from fillengine.generation.dense import PaddedEmbedding, PaddedLinear, to_float32

on_cpu = mx.default_device().type == mx.cpu
only_on_cpu = pytest.mark.skipif(not on_cpu, reason="weights become float32 on the CPU only")

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 64,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "eos_token_id": 3,
}


def write_tiny_model(folder, *, bits=None, dtype=mx.float16):
    """A llama of one layer with random weights, quantized when `bits` is given."""
    from mlx.utils import tree_flatten
    from mlx_lm.models import llama

    config = dict(CONFIG)
    mx.random.seed(1)
    model = llama.Model(llama.ModelArgs.from_dict(config))
    model.set_dtype(dtype)
    if bits is not None:
        config["quantization"] = {"group_size": 32, "bits": bits}
        nn.quantize(model, group_size=32, bits=bits)
    folder.mkdir()
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    facts = {
        "tokenizer.ggml.tokens": ["<|end|>", "<|start|>", "<|stop|>", *(chr(33 + i) for i in range(61))],
        "tokenizer.ggml.token_type": mx.array([3, 3, 3] + [1] * 61),
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{{ messages[0].content }}",
        "llama.context_length": 512,
    }
    write(folder / "config.json", config)
    write(folder / "generation_config.json", {"eos_token_id": [0, 3]})
    write(folder / "tokenizer.json", smollm2._tokenizer(facts))
    write(folder / "tokenizer_config.json", smollm2._tokenizer_config(facts))
    return folder


def write(path, content):
    path.write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path):
    return write_tiny_model(tmp_path / "tiny")


def test_a_folder_is_loaded_with_what_its_configs_say(folder):
    loaded = models.load_model(folder)
    assert loaded.folder == folder
    assert loaded.name == str(folder)
    assert loaded.context_length == 512
    assert loaded.tokenizer.encode("A0") == [3 + ord("A") - 33, 3 + ord("0") - 33]


def test_end_tokens_are_those_of_config_generation_config_and_tokenizer_together(folder):
    assert models.load_model(folder).eos_ids == {0, 2, 3}


def test_a_context_length_may_stand_in_the_text_config():
    assert models._context_length({"text_config": {"max_position_embeddings": 9}}) == 9
    assert models._context_length({}) is None


@only_on_cpu
def test_half_precision_weights_become_float32_on_the_cpu(folder):
    from mlx.utils import tree_flatten

    model = models.load_model(folder).model
    assert {array.dtype for _, array in tree_flatten(model.parameters())} == {mx.float32}


@only_on_cpu
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_weights_become_float32_with_the_same_outputs(tmp_path, bits):
    import mlx_lm

    folder = write_tiny_model(tmp_path / "tiny", bits=bits, dtype=mx.float32)
    dense = models.load_model(folder).model
    quantized, _ = mlx_lm.load(str(folder))
    tokens = mx.array([[5, 6, 7]])
    assert mx.allclose(dense(tokens), quantized(tokens), atol=1e-5)
    assert type(dense.model.layers[0].mlp.up_proj) in (nn.Linear, PaddedLinear)


@only_on_cpu
def test_weights_that_do_not_fit_the_machine_are_refused(folder, monkeypatch):
    monkeypatch.setattr(models.os, "sysconf", lambda _name: 100)
    with pytest.raises(ModelError, match=r"as float32, and this machine has"):
        models.load_model(folder)


def test_the_size_as_float32_counts_quantized_weights_unpacked(tmp_path):
    from fillengine.generation.dense import float32_bytes

    layer = nn.Sequential(nn.Linear(64, 8, bias=True).to_quantized(group_size=32, bits=4))
    assert float32_bytes(layer) == 64 * 8 * 4


@given(
    rows=st.lists(st.integers(1, 4), min_size=0, max_size=2),
    width=st.integers(1, 40),
    out=st.integers(1, 40),
    has_bias=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_padded_layers_agree_with_plain_ones_to_rounding(rows, width, out, has_bias):
    x = mx.random.normal((*rows, width))
    plain = nn.Linear(width, out, bias=has_bias)
    padded = PaddedLinear(width, out, bias=has_bias)
    padded.update(plain.parameters())
    assert padded(x).shape == plain(x).shape
    assert mx.allclose(padded(x), plain(x), atol=1e-4)
    embedding, padded_embedding = nn.Embedding(out, width), PaddedEmbedding(out, width)
    padded_embedding.update(embedding.parameters())
    assert mx.allclose(padded_embedding.as_linear(x), embedding.as_linear(x), atol=1e-4)
    assert mx.array_equal(padded_embedding(mx.array([0])), embedding(mx.array([0])))


def test_layers_of_other_kinds_are_left_alone():
    class Special(nn.Linear):
        pass

    model = nn.Sequential(Special(2, 2), nn.RMSNorm(2))
    to_float32(model)
    assert [type(layer) for layer in model.layers] == [Special, nn.RMSNorm]


def test_the_default_model_is_known_and_says_whether_it_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))
    (known,) = models.known_models()
    assert (known.name, known.folder, known.license) == ("smollm2", None, "Apache-2.0")
    smollm2.folder().mkdir(parents=True)
    for name in smollm2.FILES:
        (smollm2.folder() / name).touch()
    assert models.known_models()[0].folder == smollm2.folder()
    assert models.model_folder("smollm2") == smollm2.folder()


def test_an_existing_folder_is_its_own_model_folder(tmp_path):
    assert models.model_folder(tmp_path) == tmp_path
    assert models.model_folder(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["smolm2", "./nowhere", "/no/such/folder"])
def test_an_unknown_name_is_answered_with_the_known_ones(name):
    with pytest.raises(ModelError, match=r"known: smollm2"):
        models.load_model(name)


def test_a_file_is_no_model_folder(folder):
    with pytest.raises(ModelError, match="is a file"):
        models.load_model(folder / "config.json")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "has no config.json; give the folder of an mlx-lm model"),
        (
            "model.safetensors",
            "has no weights (model*.safetensors); fetch them, or make them with `mlx_lm.convert`",
        ),
        ("tokenizer.json", "has no tokenizer; copy tokenizer.json and tokenizer_config.json there"),
    ],
)
def test_a_folder_without_one_of_its_parts_is_refused(folder, missing, message):
    (folder / missing).unlink()
    with pytest.raises(ModelError) as caught:
        models.load_model(folder)
    assert str(caught.value) == f"{folder} {message}"


def test_weights_that_are_cut_short_are_refused_with_both_sizes(folder):
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    with pytest.raises(ModelError) as caught:
        models.load_model(folder)
    assert str(caught.value) == (
        f"{file} is cut short ({len(whole) - 10} of {len(whole)} bytes); fetch the model again"
    )


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0[]", b"\x04\0\0\0\0\0\0\0nope"])
def test_damaged_weights_are_refused(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        models.load_model(folder)
    assert str(caught.value) == (
        f"{folder / 'model.safetensors'} is damaged (its header cannot be read); fetch the model again"
    )


def test_weights_of_another_model_are_refused_in_one_line(folder):
    mx.save_safetensors(str(folder / "model.safetensors"), {"other": mx.zeros((2,))})
    with pytest.raises(ModelError) as caught:
        models.load_model(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder} cannot be loaded: ")
    assert message.endswith("; is it an mlx-lm model?")
    assert "\n" not in message


def test_a_config_that_is_not_json_is_refused(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError) as caught:
        models.load_model(folder)
    assert str(caught.value) == (
        f"{folder / 'config.json'} is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
        "(char 1)); fetch the model again"
    )


def test_a_model_that_wants_to_run_its_own_code_is_refused(folder):
    write(folder / "config.json", {**CONFIG, "model_file": "model.py"})
    (folder / "model.py").write_text("raise SystemExit")
    with pytest.raises(ModelError) as caught:
        models.load_model(folder)
    assert str(caught.value) == (
        f"{folder} wants to run its own code (model.py), which fillengine never does; use a model of an architecture "
        "that mlx-lm has"
    )


def test_of_a_folder_only_safetensors_and_json_are_read_and_none_of_its_code_is_run(folder, tmp_path):
    """A pickle runs what it likes when it is read, and so does Python that a configuration names."""
    marker = tmp_path / "run"

    class Pickled:
        def __reduce__(self):
            return (os.mkdir, (str(marker),))

    for name in ("pytorch_model.bin", "model.pt", "model.npz"):
        (folder / name).write_bytes(pickle.dumps(Pickled()))
    for name in ("modeling_tiny.py", "tokenization_tiny.py", "conftest.py", "__init__.py"):
        (folder / name).write_text(f"import os; os.mkdir({str(marker)!r})")
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads((folder / name).read_text())
        content["auto_map"] = {
            "AutoModelForCausalLM": "modeling_tiny.Model",
            "AutoTokenizer": ["tokenization_tiny.Tokenizer", "tokenization_tiny.Tokenizer"],
        }
        write(folder / name, content)
    assert models.load_model(folder).context_length == 512
    assert not marker.exists()


def test_a_hub_name_without_network_says_so(monkeypatch):
    def offline(*_args, **_settings):
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(ModelError, match=r"hub did not give it \(no network\); check"):
        models.load_model("owner/name")


def test_no_python_is_fetched_from_the_hub(folder, monkeypatch):
    asked = {}

    def snapshot(name, *, allow_patterns):
        asked[name] = allow_patterns
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert models.load_model("owner/name").name == "owner/name"
    assert not any(pattern.endswith(".py") for pattern in asked["owner/name"])


def test_the_progress_bar_is_silent_without_a_terminal(capsys):
    with models.progress_bar() as progress:
        progress("downloading", 1, 2)
    assert capsys.readouterr().err == ""


def test_the_progress_bar_draws_on_stderr_of_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(models.sys.stderr, "isatty", lambda: True)
    with models.progress_bar() as progress:
        progress("downloading", 1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""


@pytest.mark.model
def test_the_default_model_answers_sensibly():
    import mlx_lm

    try:
        loaded = models.load_model("smollm2")
    except ModelError as error:
        pytest.skip(f"the default model cannot be loaded: {error}")
    assert loaded.eos_ids == {0, 2}
    assert loaded.context_length == 8192
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(question, add_generation_prompt=True)
    assert "Paris" in mlx_lm.generate(loaded.model, loaded.tokenizer, prompt, max_tokens=10)

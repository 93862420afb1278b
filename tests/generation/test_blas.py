"""An optimised BLAS in the place of MLX's reference BLAS."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fillengine.errors import ModelError
from fillengine.generation import blas, blas_measure
from fillengine.generation.blas import BlasChoice, BlasState

ROOT = Path(__file__).parents[2]
needs_reference_blas = pytest.mark.skipif(
    not blas._mlx_has_reference_blas(), reason="this MLX does without an optimised BLAS"
)

STATE = "from fillengine.generation import blas; print(blas.preload().state.name)"
PRODUCTS = """
import time
import mlx.core as mx
x, w = mx.ones((64, 576)), mx.ones((1536, 576))
mx.eval(x @ w.T)
start = time.process_time()
mx.eval([x @ w.T for _ in range(4)])
print(time.process_time() - start)
"""


def in_a_new_process(code, tmp_path, **environment):
    """What `code` prints in a fresh Python."""
    settings = {"PATH": "/usr/bin:/bin", "FILLENGINE_CACHE": str(tmp_path), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """`preload` decides anew, in an empty cache, and loads nothing."""
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))
    monkeypatch.delenv("FILLENGINE_BLAS", raising=False)
    monkeypatch.setattr(blas, "_mlx_has_reference_blas", lambda: True)
    monkeypatch.setattr(blas.ctypes, "CDLL", lambda *_args, **_settings: object())
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    tried = []
    monkeypatch.setattr(blas, "_load", lambda name, library: tried.append((name, library)))
    monkeypatch.setattr(blas, "preload", blas.preload.__wrapped__)
    return tried


@needs_reference_blas
def test_an_optimised_blas_is_much_faster_than_the_reference(tmp_path):
    state, fast = in_a_new_process(STATE + PRODUCTS, tmp_path)
    if state != "LOADED":
        pytest.skip("no optimised BLAS is installed")
    state, slow = in_a_new_process(STATE + PRODUCTS, tmp_path, FILLENGINE_BLAS="none")
    assert state == "DECLINED"
    assert float(slow) > 3 * float(fast)


@needs_reference_blas
def test_after_mlx_it_is_too_late(tmp_path):
    assert in_a_new_process("import mlx.core; " + STATE, tmp_path) == ["TOO_LATE"]


@needs_reference_blas
def test_the_generation_package_preloads_before_anything_in_it_can_import_mlx(tmp_path):
    code = "import sys, fillengine.generation as package; print('mlx.core' in sys.modules); "
    code += "print(package.blas.preload.cache_info().misses)"
    assert in_a_new_process(code, tmp_path) == ["False", "1"]


def test_a_library_that_is_not_there_is_missing_with_a_remedy(fresh, monkeypatch):
    assert blas.preload().state is BlasState.MISSING
    with pytest.raises(ModelError, match=r"pip install 'fillengine\[cpu\]'.*FILLENGINE_BLAS=none"):
        blas.require_optimised()
    monkeypatch.setenv("FILLENGINE_BLAS", "/no/such/lib.so")
    with pytest.raises(ModelError, match=r"FILLENGINE_BLAS=/no/such/lib\.so cannot be loaded"):
        blas.require_optimised()


def test_after_mlx_the_error_says_what_to_import_first(fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx.core", object())
    with pytest.raises(ModelError, match=r"import fillengine\.generation before mlx"):
        blas.require_optimised()


def test_mkl_comes_first_and_a_measurement_comes_before_it(fresh):
    blas.preload()
    assert fresh[0][0] == "mkl"
    fresh.clear()
    keep_measurement("openblas")
    blas.preload()
    assert list(dict(fresh)) == ["openblas", "mkl", "blis"]


def test_the_environment_variable_comes_before_a_measurement(fresh, monkeypatch):
    keep_measurement("openblas")
    monkeypatch.setenv("FILLENGINE_BLAS", "blis")
    blas.preload()
    assert set(dict(fresh)) == {"blis"}


def test_a_path_is_taken_as_it_is(fresh, monkeypatch):
    monkeypatch.setattr(blas, "_load", lambda _name, library: library == "/some/libfast.so")
    monkeypatch.setenv("FILLENGINE_BLAS", "/some/libfast.so")
    assert blas.preload() == BlasChoice(BlasState.LOADED, "libfast.so", "/some/libfast.so")


def test_a_measurement_tells_from_how_many_rows_threads_pay(fresh, monkeypatch):
    keep_measurement("mkl", threads_from=4)
    monkeypatch.setattr(blas, "_load", lambda _name, _library: True)
    monkeypatch.setattr(blas, "_mapped_path", str)
    assert blas.preload().threads_from == 4


def keep_measurement(name, threads_from=16):
    kept = {"name": name, "threads_from": threads_from, "cores": blas.num_cores()}
    blas.measurement_file().write_text(json.dumps(kept))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"cores": 0, "name": "mkl", "threads_from": 1}', '{"cores": null}']
)
def test_a_measurement_that_is_damaged_or_of_another_machine_is_not_used(tmp_path, monkeypatch, content):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))
    blas.measurement_file().write_text(content)
    assert blas.read_measurement() == {}


def test_threads_are_set_by_the_rows_of_a_pass_and_only_when_they_change(monkeypatch):
    calls = []
    monkeypatch.setattr(blas, "preload", lambda: BlasChoice(BlasState.LOADED, "mkl", threads_from=8))
    monkeypatch.setattr(blas, "_thread_setter", lambda: calls.append)
    monkeypatch.setattr(blas, "_current_threads", 0)
    monkeypatch.setattr(blas, "num_cores", lambda: 6)
    for num_rows in (1, 7, 8, 100, 7):
        blas.use_threads(num_rows)
    assert calls == [1, 6, 1]


def test_the_number_of_cores_can_be_lowered(monkeypatch):
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert blas.num_cores() == 3


seconds = st.lists(st.floats(0.001, 1), min_size=len(blas_measure.ROWS), max_size=len(blas_measure.ROWS))


@given(seconds, seconds)
@settings(deadline=None)
def test_threads_are_used_only_where_they_were_faster_from_there_on(one, many):
    start = blas_measure._threads_from({"one": one, "all": many})
    faster = [b < a for a, b in zip(one, many, strict=True)]
    chosen = [rows >= start for rows in blas_measure.ROWS]
    assert all(f for f, c in zip(faster, chosen, strict=True) if c)
    first = chosen.index(True) if any(chosen) else len(chosen)
    assert first == 0 or not faster[first - 1]


def test_the_library_that_is_fastest_at_few_rows_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FILLENGINE_CACHE", str(tmp_path))
    flat = {"mkl": 2.0, "blis": 1.0}

    def probe(name):
        return {"one": [flat[name]] * 8, "all": [flat[name] + 1] * 8} if name in flat else None

    monkeypatch.setattr(blas_measure, "_probe", probe)
    result = blas_measure.measure()
    assert (result["name"], result["threads_from"]) == ("blis", 256)
    assert blas.read_measurement() == result


def test_with_nothing_to_measure_the_error_says_so(monkeypatch):
    monkeypatch.setattr(blas_measure, "_probe", lambda _name: None)
    with pytest.raises(ModelError, match="no BLAS to measure"):
        blas_measure.measure()

"""An optimised BLAS for MLX on a Linux CPU, put in place before mlx is imported.

The CPU wheel of MLX links the reference BLAS, which is 7 to 30 times slower at the products of a model. A
library with the same CBLAS symbols that is loaded into the process with RTLD_GLOBAL *before* mlx takes its
place: mlx's symbols are bound once, when Python loads it. Nothing here imports mlx.

`$FILLENGINE_BLAS` chooses: mkl, openblas, blis, the path of a library, or none (keep the reference BLAS).
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import json
import os
import platform
import site
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from fillengine.errors import ModelError
from fillengine.generation.store import cache_folder

LIBRARIES = ("mkl", "blis", "openblas")
"""In order of preference. SmolLM2-135M in float32 on one core, passes of 1, 4, 8 and 16 rows, in ms: MKL 50,
85, 105, 139; BLIS 69, 75, 89, 127; OpenBLAS 73, 91, 105, 138."""

THREADS_FROM = 32
"""Rows from which a pass gets all cores, where nothing was measured. Below, threads wait for each other more
than they help: attention is hundreds of tiny products (SmolLM2 on two busy cores, 8 rows: one thread 103 ms,
two threads 186 ms; 60 wide products of 32 rows: 52 against 35 ms)."""

_SONAMES = {
    "mkl": ("libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"),
    "blis": ("libblis.so.4", "libblis.so.3", "libblis.so"),
    "openblas": ("libopenblas.so.0", "libopenblasp.so.0", "libopenblas.so"),
}
_DEBIAN_FOLDERS = {
    "mkl": (),
    "blis": ("blis-openmp", "blis-pthread"),
    "openblas": ("openblas-openmp", "openblas-pthread"),
}
_SET_THREADS = {
    "mkl": "MKL_Set_Num_Threads",
    "blis": "bli_thread_set_num_threads",
    "openblas": "openblas_set_num_threads",
}
_GET_IT = (
    "`pip install 'fillengine[cpu]'` (MKL, x86-64), or a system library (Debian: `apt install "
    "libblis4-openmp` or `libopenblas0-pthread`; Fedora: `dnf install openblas-threads`)"
)


class BlasState(Enum):
    """What became of the preloading."""

    LOADED = "loaded"
    FOREIGN = "another library was there already"
    UNNEEDED = "not needed"
    TOO_LATE = "too late"
    MISSING = "missing"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class BlasChoice:
    """Which BLAS serves MLX's CPU products in this process.

    `name` is one of LIBRARIES, or the file's name for a library chosen by path. `remedy` says what to do
    where the state is not good. `threads_from` is the number of rows from which a pass uses all cores.
    """

    state: BlasState
    name: str | None = None
    library: str | None = None
    remedy: str | None = None
    threads_from: int = THREADS_FROM

    @property
    def pads_single_rows(self) -> bool:
        """Whether a product of two rows is faster than one of a single row: 11.3 to 16.0 ms with MKL, 12 to
        18 ms with BLIS for 60 products of 576 x 1536; OpenBLAS gains nothing."""
        return self.name in ("mkl", "blis")


@functools.cache
def preload() -> BlasChoice:
    """Put an optimised BLAS in place where MLX needs one. The first call decides for the whole process.

    Never raises for want of a library: `require_optimised` does, when a model is loaded on the CPU.
    """
    wanted = os.environ.get("FILLENGINE_BLAS", "").strip()
    if not _mlx_has_reference_blas():
        return BlasChoice(BlasState.UNNEEDED)
    if wanted == "none":
        return BlasChoice(BlasState.DECLINED, remedy="unset FILLENGINE_BLAS")
    if hasattr(ctypes.CDLL(None), "cblas_sgemm"):
        return BlasChoice(BlasState.FOREIGN)
    if "mlx.core" in sys.modules:
        return BlasChoice(BlasState.TOO_LATE, remedy="import fillengine.generation before mlx and mlx_lm")
    measured = read_measurement()
    for name, library in _candidates(wanted, measured):
        if _load(name, library):
            threads_from = measured["threads_from"] if measured.get("name") == name else THREADS_FROM
            return BlasChoice(BlasState.LOADED, name, _mapped_path(library), threads_from=threads_from)
    could_not = f"FILLENGINE_BLAS={wanted} cannot be loaded: name mkl, blis, openblas or a CBLAS library's path"
    return BlasChoice(BlasState.MISSING, remedy=could_not if wanted else _GET_IT)


def require_optimised() -> None:
    """Raise ModelError when products on this Linux CPU would go through the reference BLAS unasked."""
    choice = preload()
    if choice.state in (BlasState.MISSING, BlasState.TOO_LATE):
        raise ModelError(
            f"no optimised BLAS is in place ({choice.state.value}), and MLX's own is 7 to 30 times slower; "
            f"{choice.remedy}, or set FILLENGINE_BLAS=none to go on without"
        )


def use_threads(num_rows: int) -> None:
    """Set the BLAS threads for passes of `num_rows` rows (tokens of all sequences together): one or all.

    Holds until the next call, for the whole process; costs about a microsecond. Does nothing where the
    library is not ours.
    """
    choice = preload()
    if choice.state is BlasState.LOADED:
        _set_threads(1 if num_rows < choice.threads_from else num_cores())


_current_threads = 0


def _set_threads(count: int) -> None:
    global _current_threads
    if count != _current_threads:
        setter = _thread_setter()
        if setter is not None:
            setter(count)
        _current_threads = count


@functools.cache
def _thread_setter() -> Any:
    name = _SET_THREADS.get(preload().name or "")
    return getattr(ctypes.CDLL(None), name, None) if name else None


def num_cores() -> int:
    """Cores that this process may use; $OMP_NUM_THREADS and $MKL_NUM_THREADS lower it."""
    for variable in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        if (asked := os.environ.get(variable, "")).isdigit() and int(asked) > 0:
            return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measurement_file() -> Path:
    """Where `blas_measure.measure` keeps its result."""
    return cache_folder() / "blas.json"


def read_measurement() -> dict[str, Any]:
    """The kept measurement of this machine ("name", "threads_from", "seconds"), or {}."""
    try:
        kept = json.loads(measurement_file().read_bytes())
        fits = kept["cores"] == num_cores() and kept["name"] in LIBRARIES and int(kept["threads_from"]) > 0
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return kept if fits else {}


def _mlx_has_reference_blas() -> bool:
    """Only the CPU wheel for Linux carries one. A CUDA wheel, or MLX built from source, does without us."""
    if sys.platform != "linux":
        return False
    try:
        importlib.metadata.version("mlx-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _candidates(wanted: str, measured: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if wanted and wanted not in LIBRARIES:
        yield Path(wanted).name, str(Path(wanted).expanduser())
        return
    names: Iterable[str] = [wanted] if wanted else sorted(LIBRARIES, key=lambda name: name != measured.get("name"))
    for name in names:
        for library in _files(name):
            yield name, library


def _files(name: str) -> Iterator[str]:
    """Files of the library, then bare names for the dynamic loader to look for."""
    folders = []
    if name == "mkl":
        folders += [Path(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix, site.getuserbase())]
        folders.append(Path("/opt/intel/oneapi/mkl/latest/lib"))
    system = Path("/usr/lib", f"{platform.machine()}-linux-gnu")
    folders += [system / variant for variant in _DEBIAN_FOLDERS[name]]
    for folder in folders:
        for soname in _SONAMES[name]:
            if (folder / soname).is_file():
                yield str(folder / soname)
    yield from _SONAMES[name]


def _load(name: str, library: str) -> bool:
    """Load it for all, when it is there and has CBLAS."""
    try:
        if not hasattr(ctypes.CDLL(library), "cblas_sgemm"):
            return False
        if name == "mkl" and "MKL_THREADING_LAYER" not in os.environ:
            os.environ["MKL_THREADING_LAYER"] = "INTEL" if _has_intel_openmp(library) else "SEQUENTIAL"
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _has_intel_openmp(library: str) -> bool:
    """MKL ends the process when its threading layer is missing, so look first."""
    if Path(library).with_name("libiomp5.so").is_file():
        return True
    try:
        ctypes.CDLL("libiomp5.so")
    except OSError:
        return False
    return True


def _mapped_path(library: str) -> str:
    """The file that the loader took for a bare name."""
    if "/" in library:
        return library
    stem = library.split(".so")[0]
    with open("/proc/self/maps") as maps:
        paths = (line.split()[-1] for line in maps)
        return next((path for path in paths if Path(path).name.startswith(f"{stem}.") or stem in path), library)

"""Sources of CUDA kernels, built to run on the host."""

import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

HOST = Path(__file__).parent / "host"


def build(name, folder, **constants):
    """The program of host/NAME.cpp around the kernel's source, with its compile-time constants."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not here; the kernel's source is run on the host through it")
    source = resources.files("fillengine.generation").joinpath(f"{name}.cu").read_text(encoding="utf-8")
    source = re.sub(r"asm\(.*?\);", "mma<T>(sum, a, b0, b1);", source, flags=re.DOTALL)
    kernel = folder / "kernel.inc"
    kernel.write_text(source.replace("__shared__", "static").replace("#pragma unroll", ""), encoding="utf-8")
    built = folder / "program"
    options = ["-std=c++20", "-O1", "-pthread", f"-I{HOST}", f'-DKERNEL="{kernel}"']
    options += [f"-D{constant}={value}" for constant, value in constants.items()]
    subprocess.run([compiler, *options, HOST / f"{name}.cpp", "-o", built], check=True)
    return built


def run(program, sizes, arrays):
    """float32[...]: what it writes. Arrays go in as they are, one behind the other."""
    given = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    found = subprocess.run([program, *map(str, sizes)], input=given, stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(found, "<f4")

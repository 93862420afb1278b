"""Results as the commands write them, small ones."""

from __future__ import annotations

from typing import Any

from bench_tiny import RECORDS, Pretender, answer

from fillengine.bench.contenders import Setting
from fillengine.bench.figures import SameTokens, figures
from fillengine.bench.masks import Judgement
from fillengine.bench.masks import figures as mask_figures
from fillengine.bench.turns import TurnLog, TurnRow

MACHINE = {
    "device": "Device(cpu, 0)",
    "device_name": "None",
    "blas": "mkl",
    "cores": 2,
    "system": "Linux",
    "processor": "x86_64",
    "python": "3.11.2",
    "versions": {"mlx": "0.32.4", "llguidance": "1.9.1"},
}
OURS, PEER = "auto, verbatim", "llguidance, batch generator"


def generate_result() -> dict[str, Any]:
    setting = Setting(2, num_records=2)
    log = TurnLog({})
    for first in (0, 2):
        for name, seconds in ((OURS, 1.0), (PEER, 2.0 + first)):
            ids = [record.id for record in RECORDS[first : first + 2]]
            answers = [answer(1, 2, proposed=2, accepted=1) for _ in ids] if name == OURS else [answer(1, 2, 3)] * 2
            rounds = {"rounds": 4, "stage_seconds": {"planning": 0.02, "choosing": 0.4}} if name == OURS else {}
            log.add(
                TurnRow(setting.name, name, first, ids, seconds, seconds / 4, seconds / 2, 9, [], answers, **rounds)
            )
    same = SameTokens(RECORDS)
    rows = [
        figures(setting.name, name, RECORDS, log, has_truth=True)
        | {"same_tokens": same.compare(setting, Pretender(name, family=name), log)}
        for name in (OURS, PEER)
    ]
    return {
        "measurement": {
            "command": "generate",
            "choice": {"model": None, "random_shape": None, "dtype": None, "dense": False, "quantize": 4},
            "ways": ["auto"],
            "groundings": ["verbatim"],
            "peers": ["llguidance"],
            "batch_sizes": [2],
            "temperatures": [0.0],
            "per_kind": 2,
            "records_per_turn": None,
            "max_tokens": 768,
            "seed": 0,
            "is_mispaired": False,
            "writes_truth": True,
            "num_warm_up": 0,
            "data": "records.jsonl",
        },
        "machine": MACHINE,
        "model": {"name": "smollm2, 4 bit", "bytes": 3_000_000, "bytes_by_format": {"float32": 3_000_000}},
        "records": 4,
        "figures": rows,
        "is_whole": True,
    }


def masks_result() -> dict[str, Any]:
    judgements = [
        Judgement("one", "fillengine", "right", "", 900.0, [10.0, 30.0]),
        Judgement("one", "llguidance", "right", "", 300.0, [20.0]),
        Judgement("two", "fillengine", "right", "", 1.0, [1.0]),
        Judgement("two", "llguidance", "refused", "no"),
    ]
    return {
        "measurement": {"command": "masks", "data": "s.jsonl.gz", "model": "smollm2", "limit": 2, "seconds": 20.0},
        "machine": MACHINE,
        "is_whole": False,
        "figures": mask_figures(judgements, ["fillengine", "llguidance"]),
    }


def compile_result() -> dict[str, Any]:
    spread = {"median": 2.5, "least": 1.0, "largest": 1234.5}
    first = {"schema": "an enum", "engine": "fillengine", "first_mask_ms": spread, "slowest_mask_ms": spread}
    second = {"schema": "an enum", "engine": "llguidance", "first_mask_ms": None, "slowest_mask_ms": None}
    return {
        "measurement": {"command": "compile", "model": "smollm2", "repeat": 3, "seconds": 60.0},
        "machine": MACHINE,
        "figures": [{**first, "problem": None}, {**second, "problem": "a|b"}],
    }


def memory_result() -> dict[str, Any]:
    row = {"setting": "batch 1, temperature 0", "contender": OURS, "records": 3, "weights": 500e6, "peak": 6e8}
    measurement = {
        **generate_result()["measurement"],
        "command": "memory",
        "peers": [],
        "batch_sizes": [1, 8],
        "per_kind": 4,
        "writes_truth": False,
        "num_warm_up": 1,
    }
    return {
        "measurement": measurement,
        "machine": {**MACHINE, "device": "Device(gpu, 0)", "device_name": "NVIDIA H200"},
        "model": generate_result()["model"],
        "figures": [row | {"peak_above_weights": 100e6, "kept_above_weights": 50e6, "process": 20e6}],
    }


def extract_result() -> dict[str, Any]:
    content = generate_result()
    measurement = {
        **content["measurement"],
        "command": "extract",
        "choice": {**content["measurement"]["choice"], "quantize": None},
        "batch_sizes": [2],
        "writes_truth": False,
    }
    return {
        **content,
        "measurement": measurement,
        "machine": {**MACHINE, "device": "Device(gpu, 0)", "device_name": "NVIDIA H200"},
        "model": {**content["model"], "name": "smollm2", "bits": 4},
    }


RESULTS = {
    "a-generate": generate_result,
    "b-masks": masks_result,
    "c-compile": compile_result,
    "d-memory": memory_result,
    "e-extract": extract_result,
}

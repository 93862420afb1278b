"""docs/benchmarks.md from the files that the commands wrote: tables, the exact commands, and what they ran on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fillengine.bench.part import WHOLE
from fillengine.errors import DocumentError
from fillengine.extraction.settings import DEFAULT_GROUNDING

# What the options are where nothing is said (`bench.app`).
_DEFAULTS: dict[str, dict[str, Any]] = {
    "generate": {
        "ways": ["off", "assert", "auto"],
        "groundings": ["verbatim"],
        "batch_sizes": [1],
        "temperatures": [0.0],
        "max_tokens": 768,
        "seed": 0,
        "num_warm_up": 1,
    },
    "extract": {
        "ways": ["off", "assert", "auto"],
        "groundings": ["verbatim"],
        "peers": ["llguidance"],
        "batch_sizes": [1, 8],
        "temperatures": [0.0],
        "per_kind": 20,
        "max_tokens": 768,
        "seed": 0,
        "num_warm_up": 1,
    },
    "memory": {
        "ways": ["auto"],
        "groundings": ["verbatim"],
        "batch_sizes": [1, 8],
        "temperatures": [0.0],
        "per_kind": 4,
        "max_tokens": 768,
        "seed": 0,
        "num_warm_up": 1,
    },
    "masks": {"model": "smollm2", "seconds": 20.0},
    "compile": {"model": "smollm2", "repeat": 5, "seconds": 60.0},
}
_OPTIONS = {
    "model": "--model",
    "random_shape": "--random-shape",
    "dtype": "--dtype",
    "dense": "--dense",
    "quantize": "--quantize",
    "ways": "--ways",
    "groundings": "--grounding",
    "peers": "--peers",
    "batch_sizes": "--batch-sizes",
    "temperatures": "--temperatures",
    "per_kind": "--per-kind",
    "records_per_turn": "--records-per-turn",
    "max_tokens": "--max-tokens",
    "seed": "--seed",
    "is_mispaired": "--mispaired",
    "writes_truth": "--write-truth",
    "num_warm_up": "--warm-up",
    "limit": "--limit",
    "repeat": "--repeat",
    "seconds": "--seconds",
}


def command_line(measurement: dict[str, Any]) -> str:
    """The command that makes a measurement, options at their defaults left out."""
    fields = dict(measurement)
    command = fields.pop("command")
    data = fields.pop("data", None)
    fields |= fields.pop("choice", {})
    defaults = _DEFAULTS[command]
    words = ["fillengine", "bench", command, *([data] if data else [])]
    for name, option in _OPTIONS.items():
        value = fields.get(name)
        if name not in fields or value == defaults.get(name) or value is None or value is False or value == []:
            continue
        words += [option] if value is True else [option, _spelled(value)]
    return shlex.join(words)


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_spelled(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """The results in a folder by their file's name without its ending. Raises DocumentError."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["measurement"]["command"] not in _SECTIONS:
                raise KeyError(content["measurement"]["command"])
            if content.get("part", str(WHOLE)) != str(WHOLE):
                raise DocumentError(f"{path}: part {content['part']} of a measurement; put its parts together by merge")
        except (ValueError, KeyError, TypeError) as error:
            raise DocumentError(f"{path}: not a result of fillengine bench ({error!r}); remove it") from None
        found[path.stem] = content
    return found


def page(folder: Path, *, notice: str) -> str:
    """The text of docs/benchmarks.md.

    folder: `about.md` (what stands before the results), the results, and `notes.md` (what stands behind them).
    A result's plots, where there are any, are beside it: see `plots`.
    """
    parts = [notice, "", (folder / "about.md").read_text(encoding="utf-8").rstrip()]
    order = list(_SECTIONS)
    results = read_results(folder)
    for name, content in sorted(results.items(), key=lambda one: order.index(one[1]["measurement"]["command"])):
        parts += ["", *section(name, content, has_plot=(folder / f"{name}.light.svg").exists())]
    parts += ["", (folder / "notes.md").read_text(encoding="utf-8").rstrip()]
    return "\n".join(parts) + "\n"


def section(name: str, content: dict[str, Any], *, has_plot: bool) -> list[str]:
    """Heading, machine, command, plot and tables of one result."""
    measurement = content["measurement"]
    lines = [f"## {title(content)}", "", _machine(content), "", f"    {command_line(measurement)}"]
    if not content.get("is_whole", True):
        lines += ["", "Interrupted: the figures are of the turns that were made."]
    if has_plot:
        lines += [
            "",
            "<picture>",
            f'  <source media="(prefers-color-scheme: dark)" srcset="benchmarks/{name}.dark.svg">',
            f'  <img alt="{title(content)}" src="benchmarks/{name}.light.svg">',
            "</picture>",
        ]
    return lines + _SECTIONS[measurement["command"]](content)


_TITLES = {
    "generate": "Writing",
    "extract": "Extraction, end to end",
    "memory": "Memory",
    "masks": "Masks over JSONSchemaBench",
    "compile": "Time to the first mask",
}


def title(content: dict[str, Any]) -> str:
    measurement, machine = content["measurement"], content["machine"]
    parts = [_TITLES[measurement["command"]]]
    if "model" in content:
        parts.append(content["model"]["name"])
        if (numbers := _numbers(content["model"])) not in parts[-1]:
            parts.append(numbers)
    if measurement["command"] == "generate":
        parts.append("batch " + ", ".join(map(str, measurement["batch_sizes"])))
        parts += [grounding for grounding in measurement["groundings"] if grounding != DEFAULT_GROUNDING]
        parts += [f"temperature {temperature:g}" for temperature in measurement["temperatures"] if temperature]
    if measurement.get("is_mispaired"):
        parts.append("documents of another kind")
    if measurement.get("writes_truth"):
        parts.append("true answers")
    parts.append("GPU" if "gpu" in machine["device"].lower() else "CPU")
    return ": ".join([parts[0], ", ".join(parts[1:])])


def _numbers(model: dict[str, Any]) -> str:
    """What most of the weights are: bits of quantized ones, else a format."""
    if model.get("bits"):
        return f"{model['bits']} bit"
    formats: dict[str, int] = model["bytes_by_format"]
    return max(formats, key=lambda name: formats[name])


def _machine(content: dict[str, Any]) -> str:
    machine = content["machine"]
    is_gpu = "gpu" in machine["device"].lower()
    where = machine["device_name"] if is_gpu else f"{machine['cores']} {machine['processor']} cores, {machine['blas']}"
    facts = [where, f"{machine['system']}, Python {machine['python']}"]
    if "model" in content:
        formats = content["model"]["bytes_by_format"]
        facts.append("weights " + ", ".join(f"{size / 1e6:,.0f} MB {name}" for name, size in sorted(formats.items())))
    facts.append(", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
    return "; ".join(facts) + "."


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """In Markdown, the first column to the left, and no column that is empty in all rows."""
    used = [place for place in range(len(headings)) if place == 0 or any(row[place] for row in rows)]
    lines = [
        "| " + " | ".join(headings[place] for place in used) + " |",
        "|" + "|".join("---" if place == 0 else "---:" for place in used) + "|",
    ]
    return lines + ["| " + " | ".join(row[place] for place in used) + " |" for row in rows]


def _generate(content: dict[str, Any]) -> list[str]:
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in content["figures"]):
        rows = [row for row in content["figures"] if row["setting"] == setting]
        lines += ["", f"### {setting[0].upper()}{setting[1:]}: {rows[0]['records']} records", ""]
        lines += _table(
            (
                "", "valid", "cut", "same tokens", "fields right", "tokens", "passes a token", "accepted",
                "prefill, s", "decode, s", "other, s", "documents/s", "decode tokens/s",
            ),
            [_generate_row(row) for row in rows],
        )  # fmt: skip
        with_rounds = [row for row in rows if row.get("round_milliseconds")]
        if with_rounds:
            lines += ["", "Where the time of a round goes, in milliseconds:", ""]
            lines += _table(
                ("", "rounds", *with_rounds[0]["round_milliseconds"]),
                [
                    [row["contender"], f"{row['rounds']:,}", *(f"{t:.1f}" for t in row["round_milliseconds"].values())]
                    for row in with_rounds
                ],
            )
        for reference in references(rows):
            lines += ["", f"Times as fast as {reference}: all together; median and quartiles of the turns.", ""]
            lines += _table(
                ("", "documents/s", "of turns", "decode tokens/s", "of turns"),
                [_against_row(row, reference) for row in rows if reference in row["against"]],
            )
        differing = [found for row in rows for found in (row["same_tokens"] or {}).get("divergences", [])]
        if any("gap" in found for found in differing):
            lines += ["", _differences(differing)]
    return lines


def _extract(content: dict[str, Any]) -> list[str]:
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in content["figures"]):
        rows = [row for row in content["figures"] if row["setting"] == setting]
        lines += ["", f"### {setting[0].upper()}{setting[1:]}: {rows[0]['records']} documents", ""]
        lines += _table(
            (
                "", "valid", "cut", "fields right", "seconds", "of it prefill", "decode", "other", "passes a token",
                "documents/s",
            ),
            [_extract_row(row) for row in rows],
        )  # fmt: skip
        for reference in references(rows):
            lines += ["", f"Times the documents a second of {reference}: all; median and quartiles of the turns.", ""]
            lines += _table(
                ("", "documents/s", "of turns"),
                [_against_row(row, reference)[:3] for row in rows if reference in row["against"]],
            )
    return lines


def _extract_row(row: dict[str, Any]) -> list[str]:
    accuracy, seconds = row["accuracy_mean_of_kinds"], row["seconds"]
    return [
        row["contender"],
        str(row["valid"]),
        str(row["cut"]),
        "" if accuracy is None else f"{accuracy:.3f}",
        f"{seconds:.1f}",
        *(f"{row[name] / seconds:.0%}" for name in ("prefill_seconds", "decode_seconds", "other_seconds")),
        f"{row['forwards_per_token']:.2f}",
        f"{row['documents_per_second']:.3f}",
    ]


def references(rows: Sequence[dict[str, Any]]) -> list[str]:
    """With whom the others are compared: the first, and each peer."""
    names = [row["contender"] for row in rows]
    return names[:1] + [name for name in names[1:] if "token by token" in name or "batch generator" in name]


def _generate_row(row: dict[str, Any]) -> list[str]:
    same = row["same_tokens"]
    accuracy = row["accuracy_mean_of_kinds"]
    return [
        row["contender"],
        str(row["valid"]),
        str(row["cut"]),
        "" if same is None else str(same["same"]),
        "" if accuracy is None else f"{accuracy:.3f}",
        f"{row['tokens']:,}",
        f"{row['forwards_per_token']:.2f}",
        "" if row["accepted_share"] is None else f"{row['accepted_share']:.2f}",
        f"{row['prefill_seconds']:.1f}",
        f"{row['decode_seconds']:.1f}",
        f"{row['other_seconds']:.1f}",
        f"{row['documents_per_second']:.3f}",
        f"{row['decode_tokens_per_second'] or 0:.1f}",
    ]


def _against_row(row: dict[str, Any], reference: str) -> list[str]:
    cells = [row["contender"]]
    for name in ("documents", "tokens"):
        ratio = row["against"][reference][name]
        if ratio is None:
            cells += ["", ""]
        else:
            low, high = ratio["quartiles"]
            cells += [f"{ratio['total']:.2f}", f"{ratio['median']:.2f} ({low:.2f} to {high:.2f})"]
    return cells


def _differences(found: Sequence[dict[str, Any]]) -> str:
    explained = [one for one in found if "gap" in one]
    near = [one for one in explained if one["is_near_tie"]]
    widest = max((one["gap"] / one["spacing"] for one in near), default=0.0)
    rest = len(explained) - len(near)
    return (
        f"{len(explained)} texts differ from the first contender's. In {len(near)} of them both tokens where they part "
        f"lay within rounding of the best candidate (at most {widest:.1f} spacings of the model's numbers)"
        f"{f'; faults: {rest}' if rest else ''}."
    )


def _masks(content: dict[str, Any]) -> list[str]:
    rows = content["figures"]
    verdicts = list(rows[0]["verdicts"])
    lines = ["", *_table(
        ("", "schemas", *verdicts),
        [[row["engine"], str(row["schemas"]), *(str(row["verdicts"][name]) for name in verdicts)] for row in rows],
    ), "", *_table(
        ("microseconds", "first mask, p50", "p99", "a mask, mean", "p50", "p99", "max"), [_costs(row) for row in rows]
    )]  # fmt: skip
    for row in rows[1:]:
        found = row["times_of_first"]
        if found["masks"]:
            lines += [
                "",
                f"Over the {found['schemas']} schemas that both get right, {row['engine']} took "
                f"{found['masks']['total']:.2f} times as long as {rows[0]['engine']} for all masks and "
                f"{found['first_mask']['total']:.2f} times for the first ones.",
            ]
    return lines


def _costs(row: dict[str, Any]) -> list[str]:
    first, mask = row["first_mask_us"], row["mask_us"]
    values = [first.get("p50"), first.get("p99"), *(mask.get(name) for name in ("mean", "p50", "p99", "max"))]
    return [row["engine"], *("" if value is None else f"{value:,.1f}" for value in values)]


def _compile(content: dict[str, Any]) -> list[str]:
    rows = [
        [
            row["schema"],
            row["engine"],
            *(_spread(row[name]) for name in ("first_mask_ms", "slowest_mask_ms")),
            (row["problem"] or "").replace("|", "\\|"),
        ]
        for row in content["figures"]
    ]
    return ["", *_table(("", "engine", "first mask, ms", "slowest mask after it, ms", "problem"), rows)]


def _spread(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['median']:,.1f} ({found['least']:,.1f} to {found['largest']:,.1f})"


def _memory(content: dict[str, Any]) -> list[str]:
    names = ("weights", "peak_above_weights", "kept_above_weights", "process")
    rows = [
        [f"{row['contender']}, {row['setting']}", *(f"{row[name] / 1e6:,.0f}" for name in names)]
        for row in content["figures"]
    ]
    return ["", *_table(("MB", "weights", "most above them", "kept after the run", "process grew by"), rows)]


_SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "extract": _extract,
    "generate": _generate,
    "masks": _masks,
    "compile": _compile,
    "memory": _memory,
}
"""By command, in the order of the page."""

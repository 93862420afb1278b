"""One measurement from its parts: the turns of all, the paired ratios over all records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fillengine.bench.figures import figures
from fillengine.bench.part import WHOLE
from fillengine.bench.records import mispaired, read_records
from fillengine.bench.turns import TurnLog
from fillengine.errors import DocumentError


def turns_file(output: Path) -> Path:
    """Where the turns of a result are."""
    return output.with_suffix(".turns.jsonl")


def merge(data: Path, parts: Sequence[Path]) -> dict[str, Any]:
    """The result of a measurement whose parts were made with `--part`.

    data: the records that were measured. parts: the results; the turns of each are beside it.
    Raises DocumentError where they are not of one measurement, machine and model, or have a turn twice.
    """
    contents = [_read(path) for path in parts]
    first = contents[0]
    for path, content in zip(parts, contents, strict=True):
        for name in ("measurement", "machine", "model", "records"):
            if content[name] != first[name]:
                raise DocumentError(
                    f"{path}: its {name} is not that of {parts[0]} ({_difference(content[name], first[name])}); "
                    "merge parts of one measurement on one kind of machine"
                )
    measurement = first["measurement"]
    header = {name: value for name, value in measurement.items() if name != "command"}
    if data.name != measurement["data"]:
        raise DocumentError(f"{data}: {parts[0]} was measured on {measurement['data']}; give that file")
    log = TurnLog(header)
    for path in parts:
        for row in TurnLog.open(turns_file(path), header, resume=True).rows:
            if log.has(row.setting, row.contender, row.first):
                raise DocumentError(
                    f"{path}: the turn of {row.contender} from record {row.first} on is in another part, too; name "
                    "each part once"
                )
            log.add(row)
    records = read_records(data, per_kind=measurement["per_kind"])
    if measurement["is_mispaired"]:
        records = mispaired(records)
    has_truth = not measurement["is_mispaired"]
    rows = []
    for setting, contender in dict.fromkeys(
        (row["setting"], row["contender"]) for content in contents for row in content["figures"]
    ):
        found = figures(setting, contender, records, log, has_truth=has_truth)
        of_parts = [
            row["same_tokens"]
            for content in contents
            for row in content["figures"]
            if (row["setting"], row["contender"]) == (setting, contender)
        ]
        rows.append(found | {"same_tokens": _same_tokens(of_parts)})
    is_whole = all(content["is_whole"] for content in contents) and all(
        row["records"] == first["records"] for row in rows
    )
    return first | {"part": str(WHOLE), "figures": rows, "is_whole": is_whole}


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("measurement", "part", "machine", "model", "records", "figures", "is_whole"):
            content[name]
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}; give the --output of a part") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DocumentError(f"{path}: not a result of turns ({error!r}); give the --output of a part") from None
    if not turns_file(path).exists():
        raise DocumentError(f"{turns_file(path)}: no such file; the turns of {path} must be beside it")
    return content


def _difference(one: Any, other: Any) -> str:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return f"{one!r} and {other!r}"
    name = next(name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name))
    return f"{name}: {one.get(name)!r} and {other.get(name)!r}"


def _same_tokens(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return {
        "reference": found[0]["reference"],
        "same": sum(part["same"] for part in found),
        "different": sum(part["different"] for part in found),
        "divergences": [row for part in found for row in part["divergences"]],
    }

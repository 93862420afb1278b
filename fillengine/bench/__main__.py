"""python -m fillengine.bench: the measurements of docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fillengine.bench.records import read_records
from fillengine.errors import FillError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def bench() -> None:
    """Compare ways of filling, and engines, in one run."""


@app.command()
def generate(
    data: Annotated[Path, typer.Argument(help="Records: JSON Lines with id, kind, schema, document and truth.")],
    model: Annotated[str, typer.Option(help="A known model, a folder, or a hub name.")] = "smollm2",
    per_kind: Annotated[int | None, typer.Option(help="Records of each kind (all by default).")] = None,
    ways: Annotated[
        str, typer.Option(help="Ways of filling, in turn; the first is what the others are compared with.")
    ] = "off,assert,auto",
    grounding: Annotated[str, typer.Option(help="verbatim, free, or both as verbatim,free.")] = "verbatim",
    batch_size: Annotated[int, typer.Option(help="Rows at a time.")] = 1,
    max_tokens: Annotated[int, typer.Option(help="Token limit of an answer.")] = 768,
    peers: Annotated[str, typer.Option(help="llguidance: its masks through mlx-lm, token by token.")] = "",
    output: Annotated[Path | None, typer.Option(help="Write figures and answers there, as JSON.")] = None,
) -> None:
    """Tokens, forward passes, seconds and field accuracy over extraction records."""
    from fillengine.bench import generate as measurement
    from fillengine.bench.contenders import Contender, MaskedTokens, Ours
    from fillengine.extraction.engine import load

    records = measurement.in_turn(read_records(data, per_kind=per_kind))
    engine = load(model)
    contenders: list[Contender] = [
        Ours(engine, fill, ground, max_tokens=max_tokens, batch_size=batch_size)  # type: ignore[arg-type]
        for ground in grounding.split(",")
        for fill in ways.split(",")
        if fill
    ]
    if peers == "llguidance":
        contenders.append(MaskedTokens(engine, max_tokens=max_tokens))
    console = Console(stderr=True)
    with console.status("") as status:
        outcomes = measurement.run(
            contenders,
            records,
            chunk=batch_size * 2 if batch_size > 1 else 1,
            report=lambda done: status.update(f"{done} of {len(records)} records"),
        )
    figures = [measurement.summary(records, outcome, outcomes[0]) for outcome in outcomes]
    Console().print(_table(figures))
    if output is not None:
        answers = [row for outcome in outcomes for row in measurement.rows(records, outcome)]
        content = {
            "machine": _machine(),
            "model": model,
            "batch_size": batch_size,
            "figures": figures,
            "answers": answers,
        }
        output.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _table(figures: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{figures[0]['records']} records; speed against the first row, of the same record")
    for heading in (
        "",
        "valid",
        "cut",
        "same tokens",
        "accuracy",
        "passes a token",
        "accepted",
        "decode s",
        "speed",
        "median",
    ):
        table.add_column(heading, justify="left" if not heading else "right")
    for row in figures:
        kinds = " ".join(f"{share:.3f}" for share in row["accuracy"].values())
        table.add_row(
            row["name"],
            str(row["valid"]),
            str(row["cut"]),
            str(row["same_tokens_as_first"]),
            f"{row['accuracy_mean_of_kinds']:.3f} ({kinds})",
            f"{row['forwards_per_token']:.3f}",
            "" if row["accepted_share"] is None else f"{row['accepted_share']:.2f}",
            f"{row['decode_seconds']:.1f}",
            f"{row['decode_speedup_total']:.2f}",
            str(row["decode_speedup_median"]),
        )
    return table


def _machine() -> dict[str, Any]:
    import mlx.core as mx

    names = ("mlx", "mlx-lm", "numpy")
    return {
        "device": str(mx.default_device()),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
    }


def main() -> None:
    try:
        app()
    except FillError as error:
        Console(stderr=True).print(f"fillengine bench: error: {error}", highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

"""Figures as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The first column is to the left, figures to the right."""
    shown = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        shown.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        shown.add_row(*row)
    return shown


def show_generate(console: Console, content: dict[str, Any]) -> None:
    """Tables for each setting (what was written, how fast, and where the time of rounds went), and a line for each text
    that differs."""
    for setting in dict.fromkeys(row["setting"] for row in content["figures"]):
        rows = [row for row in content["figures"] if row["setting"] == setting]
        console.print(table(f"{setting}: {rows[0]['records']} records", WRITTEN, [_written(row) for row in rows]))
        console.print(table("speed", SPEED, [_speed(row) for row in rows]))
        with_rounds = [row for row in rows if row.get("round_milliseconds")]
        if with_rounds:
            stages = ("", "rounds", *with_rounds[0]["round_milliseconds"])
            console.print(table("a round, in milliseconds", stages, [_round(row) for row in with_rounds]))
        for reference in _references(rows):
            title = f"times as fast as {reference}: all; median and quartiles of {rows[0]['turns']} turns"
            shown = [_against(row, reference) for row in rows if reference in row["against"]]
            console.print(table(title, ("", "documents/s", "", "decode tokens/s", ""), shown))
        for row in rows:
            for line in divergences(row):
                console.print(line, highlight=False, soft_wrap=True)
    if not content["is_whole"]:
        console.print("not all turns were made; the figures are of those that were", highlight=False)


def show_extract(console: Console, content: dict[str, Any]) -> None:
    """Documents a second and field accuracy, end to end."""
    for setting in dict.fromkeys(row["setting"] for row in content["figures"]):
        rows = [row for row in content["figures"] if row["setting"] == setting]
        console.print(table(f"{setting}: {rows[0]['records']} documents", EXTRACTED, [_extracted(row) for row in rows]))
        for reference in _references(rows):
            title = f"times the documents a second of {reference}: all; median and quartiles of turns"
            shown = [_against(row, reference)[:3] for row in rows if reference in row["against"]]
            console.print(table(title, ("", "documents/s", ""), shown))


def _references(rows: Sequence[dict[str, Any]]) -> list[str]:
    """With whom the others are compared: the first, and each peer."""
    names = [row["contender"] for row in rows]
    return names[:1] + [name for name in names[1:] if "token by token" in name or "batch generator" in name]


WRITTEN = ("", "valid", "cut", "same tokens", "fields right", "tokens", "passes/token", "accepted", "new shapes")


def _written(row: dict[str, Any]) -> list[str]:
    same = row["same_tokens"]
    accuracy = row["accuracy"]
    kinds = "" if accuracy is None else " ".join(f"{share:.3f}" for share in accuracy.values())
    return [
        row["contender"],
        str(row["valid"]),
        str(row["cut"]),
        "" if same is None else f"{same['same']} of {same['same'] + same['different']}",
        "" if accuracy is None else f"{row['accuracy_mean_of_kinds']:.3f} ({kinds})",
        str(row["tokens"]),
        f"{row['forwards_per_token']:.3f}",
        "" if row["accepted_share"] is None else f"{row['accepted_share']:.2f} of {row['proposed']}",
        f"{row['new_shapes']}, {len(row['new_shapes_in_second_half'])} late",
    ]


SPEED = ("", "seconds", "prefill", "decode", "other", "documents/s", "decode tokens/s")


def _speed(row: dict[str, Any]) -> list[str]:
    return [
        row["contender"],
        f"{row['seconds']:.2f}",
        f"{row['prefill_seconds']:.2f}",
        f"{row['decode_seconds']:.2f}",
        f"{row['other_seconds']:.2f}",
        f"{row['documents_per_second']:.3f}",
        f"{row['decode_tokens_per_second'] or 0:.1f}",
    ]


def _round(row: dict[str, Any]) -> list[str]:
    return [row["contender"], str(row["rounds"]), *(f"{time:.2f}" for time in row["round_milliseconds"].values())]


EXTRACTED = ("", "valid", "fields right", "documents/s", "prefill share", "decode share")


def _extracted(row: dict[str, Any]) -> list[str]:
    accuracy = row["accuracy_mean_of_kinds"]
    return [
        row["contender"],
        str(row["valid"]),
        "" if accuracy is None else f"{accuracy:.3f}",
        f"{row['documents_per_second']:.3f}",
        f"{row['prefill_share']:.0%}",
        f"{row['decode_seconds'] / row['seconds']:.0%}",
    ]


def _against(row: dict[str, Any], reference: str) -> list[str]:
    found = row["against"][reference]
    cells = [row["contender"]]
    for name in ("documents", "tokens"):
        ratio = found[name]
        if ratio is None:
            cells += ["", ""]
            continue
        low, high = ratio["quartiles"]
        cells += [f"{ratio['total']:.2f}", f"{ratio['median']:.2f} ({low:.2f} to {high:.2f})"]
    return cells


def divergences(row: dict[str, Any]) -> list[str]:
    """A sentence for each record whose tokens differ from the reference's."""
    lines: list[str] = []
    if row["same_tokens"] is None:
        return lines
    reference = row["same_tokens"]["reference"]
    for found in row["same_tokens"]["divergences"]:
        start = f"{found['contender']}: {found['id']} differs from {reference} at position {found['position']}"
        if "gap" not in found:
            lines.append(start)
            continue
        why = "a near-tie" if found["is_near_tie"] else "no near-tie: a fault"
        lines.append(
            f"{start}: {found['chosen'][1]} instead of {found['chosen'][0]}; the two best are "
            f"{found['best'][0]} and {found['best'][1]}, the worse of the chosen ones lies {found['gap']:.3g} behind "
            f"({found['gap'] / found['spacing']:.1f} spacings): {why}"
        )
    return lines


def show_masks(console: Console, content: dict[str, Any]) -> None:
    """Verdicts, costs, and ratios to the first engine."""
    rows = content["figures"]
    verdicts = list(rows[0]["verdicts"])
    console.print(
        table(
            f"{rows[0]['schemas']} schemas",
            ("", *verdicts),
            [[row["engine"], *(str(row["verdicts"][verdict]) for verdict in verdicts)] for row in rows],
        )
    )
    headings = ("", "first mask p50", "p99", "mask mean", "p50", "p99", "max")
    console.print(table("microseconds", headings, [_mask_costs(row) for row in rows]))
    for row in rows[1:]:
        for name in ("first_mask", "masks"):
            if found := row["times_of_first"][name]:
                line = _times_of(found, row["times_of_first"]["schemas"])
                console.print(
                    f"{row['engine']}, {name.replace('_', ' ')}, times of {rows[0]['engine']}: {line}",
                    highlight=False,
                    soft_wrap=True,
                )


def _times_of(found: dict[str, Any], num_schemas: int) -> str:
    low, high = found["quartiles"]
    return (
        f"all {found['total']:.2f}, median {found['median']:.2f} ({low:.2f} to {high:.2f}) "
        f"of the {num_schemas} schemas that both get right"
    )


def _mask_costs(row: dict[str, Any]) -> list[str]:
    first, mask = row["first_mask_us"], row["mask_us"]
    values = [first.get("p50"), first.get("p99"), mask.get("mean"), mask.get("p50"), mask.get("p99"), mask.get("max")]
    return [row["engine"], *("" if value is None else f"{value:,.1f}" for value in values)]


def show_compile(console: Console, content: dict[str, Any]) -> None:
    rows = [
        [
            row["schema"],
            row["engine"],
            *(_milliseconds(row[name]) for name in ("first_mask_ms", "slowest_mask_ms")),
            row["problem"] or "",
        ]
        for row in content["figures"]
    ]
    headings = ("", "engine", "first mask, ms (least to most)", "slowest mask after it", "")
    console.print(table("from the schema to the first mask", headings, rows))


def _milliseconds(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['median']:,.2f} ({found['least']:,.2f} to {found['largest']:,.2f})"


def show_memory(console: Console, content: dict[str, Any]) -> None:
    headings = ("", "weights", "most above them", "kept after the run", "process grew by")
    for setting in dict.fromkeys(row["setting"] for row in content["figures"]):
        rows = [row for row in content["figures"] if row["setting"] == setting]
        shown = [
            [
                row["contender"],
                *(
                    f"{row[name] / 1e6:,.1f}"
                    for name in ("weights", "peak_above_weights", "kept_above_weights", "process")
                ),
            ]
            for row in rows
        ]
        console.print(table(f"{setting}: {rows[0]['records']} records, MB", headings, shown))

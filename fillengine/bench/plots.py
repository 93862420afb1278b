"""Results as plots, for light and dark pages: SVG with text as text, the same bytes from the same figures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fillengine.bench.page import read_results, title
from fillengine.errors import FillError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Text and lines by theme; the plots have no background of their own.
INK = {"light": "#1f2328", "dark": "#e6edf3"}
OURS, PEERS = "#2f81f7", "#9a6700"
WIDTH = 7.5
BAR = 0.32


def fingerprint(content: dict[str, Any]) -> str:
    """Of a result's figures. A plot carries that of the figures that it was drawn from."""
    return hashlib.sha256(json.dumps(content["figures"], sort_keys=True).encode()).hexdigest()


def has_plot(content: dict[str, Any]) -> bool:
    return content["measurement"]["command"] in _DRAW


def draw_all(folder: Path) -> list[Path]:
    """Draw the results of a folder beside them. Raises FillError where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise FillError("matplotlib is not installed; pip install 'fillengine[bench]'") from None
    matplotlib.use("svg")
    written = []
    for name, content in read_results(folder).items():
        if has_plot(content):
            for theme in INK:
                path = folder / f"{name}.{theme}.svg"
                draw(content, theme, path)
                written.append(path)
    return written


def draw(content: dict[str, Any], theme: str, path: Path) -> None:
    import matplotlib.pyplot as plt

    ink = INK[theme]
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": "fillengine",
        "font.family": "sans-serif",
        "font.size": 9,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink),
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(layout="constrained")
        num_bars = _DRAW[content["measurement"]["command"]](axes, content)
        figure.set_size_inches(WIDTH, 0.9 + BAR * num_bars)
        axes.set_title(title(content), loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        metadata = {"Date": None, "Creator": None, "Description": fingerprint(content)}
        figure.savefig(path, transparent=True, metadata=metadata)
        plt.close(figure)


def _generate(axes: Axes, content: dict[str, Any]) -> int:
    """Documents a second, end to end, by setting and contender."""
    rows = content["figures"]
    labels = [f"{row['contender']}, {row['setting'].split(',')[0]}" for row in rows]
    return _bars(axes, labels, [row["documents_per_second"] or 0.0 for row in rows], "documents a second, end to end")


def _masks(axes: Axes, content: dict[str, Any]) -> int:
    labels, values = [], []
    for name, words in (("first_mask_us", "first mask"), ("mask_us", "a mask")):
        for percentile in ("p50", "p90", "p99"):
            for row in content["figures"]:
                labels.append(f"{row['engine']}, {words}, {percentile}")
                values.append(row[name].get(percentile, 0.0))
    axes.set_xscale("log")
    return _bars(axes, labels, values, "microseconds")


def _compile(axes: Axes, content: dict[str, Any]) -> int:
    rows = [row for row in content["figures"] if row["first_mask_ms"] is not None]
    axes.set_xscale("log")
    labels = [f"{row['engine']}, {row['schema']}" for row in rows]
    return _bars(axes, labels, [row["first_mask_ms"]["median"] for row in rows], "milliseconds to the first mask")


def _bars(axes: Axes, labels: list[str], values: list[float], what: str) -> int:
    colors = [PEERS if label.startswith(("llguidance", "outlines")) else OURS for label in labels]
    bars = axes.barh(range(len(labels)), values, color=colors, height=0.7)
    axes.bar_label(bars, [f"{value:,.3g}" for value in values], padding=3)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(what)
    return len(labels)


_DRAW = {"generate": _generate, "extract": _generate, "masks": _masks, "compile": _compile}

"""`python -m benchmarks.llama_picture`: what `benchmarks.llama_geometry` stored, as tables and a picture in docs/."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.llama_geometry import PUBLISHED, label_of
from benchmarks.llama_rows import FIRST_PASS, FULL
from benchmarks.marked import DOCS, fill, table
from featscope.report.look import INK, colour
from featscope.report.paper import DPI, FULL_WIDTH, SMALL, label_axes, paper, plain_logarithm, tidy

STORED, PICTURE = Path(__file__).with_name("llama_geometry.json"), DOCS / "images" / "llama-first-token.png"
K = 1024
SHOWN = {  # method -> colour (that of the study `gemfilter` where it has one), line, marker, points to its name
    FULL: (colour(0), "-", "o", (8, -5)),
    "snapkv": (colour(3), "-", "D", (8, 5)),
    "adakv": (INK, "-", "s", (-34, 16)),
    "h2o": (colour(4), "-", "v", (7, -1)),
    "fastkv": (colour(2), "-", "^", (8, 6)),
    "gemfilter": (colour(1), "-", "o", (8, -3)),
    FIRST_PASS: (colour(1), ":", "None", (8, -12)),
    "promptdistill": (colour(5), "-", "x", (8, -28)),
    "speculative prefill": (colour(6), "-", "P", (8, -3)),
}


def of_method(stored: Mapping[str, Any], method: str) -> dict[int, Mapping[str, Any]]:
    """By length, the lines of a method on the attention by which most was read."""
    rows = (row for row in stored["rows"] if row["attention"] == stored["attention"])
    return {row["tokens"]: row for row in rows if row["method"] == method}


def cell(row: Mapping[str, Any]) -> str:
    """Seconds and GiB, or that there are none."""
    return f"{row['seconds']:#.3g} / {row['peak_gib']:#.3g}" if "seconds" in row else row["said"].partition(":")[0]


def tables(stored: Mapping[str, Any]) -> dict[str, str]:
    """Those of docs/benchmarks.md, by the marks between which they stand."""
    lengths = stored["options"]["lengths"]
    heads = [f"{length // K}K" for length in lengths]
    costs = [[label_of(name), *(cell(of_method(stored, name)[length]) for length in lengths)] for name in PUBLISHED]
    kinds = {
        "full attention, measured": "full_over_first_pass",
        "full attention, predicted": "predicted",
        "SnapKV, measured": "snapkv_over_first_pass",
    }
    ratios = [[kind, *(f"{of[name]:.3f}" for of in stored["predicted"])] for kind, name in kinds.items()]
    return {
        "llama": table(["seconds / GiB", *heads], costs),
        "llama over the first pass": table(["time over the first pass's", *heads], ratios),
    }


def picture(stored: Mapping[str, Any]) -> Figure:
    """Seconds to the first token over the prompt's length, a line a method with its name at its end."""
    figure = paper(FULL_WIDTH, 4.3)
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    ends: list[float] = []
    for name, (tone, line, marker, at) in SHOWN.items():
        points = {length: row["seconds"] for length, row in of_method(stored, name).items() if "seconds" in row}
        wide = 4.5 if name == FULL else 1.3  # others lie upon it
        seen = 0.35 if name == FULL else 1.0
        axes.plot([*points], [*points.values()], line, color=tone, linewidth=wide, alpha=seen, zorder=2)
        marks = {"linestyle": "None", "marker": marker, "markersize": 4.5, "markerfacecolor": "none"}
        axes.plot([*points], [*points.values()], color=tone, zorder=3, **marks)
        told = label_of(name)
        if name == "speculative prefill":
            told += f"\n(a draft of {stored['draft']['layers']} layers)"
        _name(axes, told, list(points.items())[-1], at, tone)
        ends += points.values()
    lengths: Sequence[int] = stored["options"]["lengths"]
    axes.set_xticks(lengths, [f"{length // K}K" for length in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlim=(lengths[0] / 1.12, lengths[-1] * 2.3), ylim=(min(ends) / 1.2, max(ends) * 1.2))
    plain_logarithm(axes.yaxis, *axes.get_ylim())
    tidy(axes, "both")
    label_axes(axes, "tokens of the prompt", "seconds to the first token")
    return figure


def _name(axes: Any, told: str, end: tuple[int, float], at: tuple[int, int], tone: str) -> None:
    leads = {"arrowstyle": "-", "color": tone, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
    far = max(map(abs, at)) > 13
    axes.annotate(
        told,
        end,
        at,
        textcoords="offset points",
        fontsize=SMALL + 0.5,
        color=tone,
        va="center",
        arrowprops=leads if far else None,
    )


def main() -> None:
    """Fill the page, and draw."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    fill(DOCS / "benchmarks.md", tables(stored))
    picture(stored).savefig(PICTURE, dpi=DPI)


if __name__ == "__main__":
    main()

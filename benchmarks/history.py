"""Ratios of every `make bench` so far, in ``history.jsonl``, and their picture in the docs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

ROOT = Path(__file__).parents[1]
HISTORY, PICTURE = ROOT / "benchmarks" / "history.jsonl", ROOT / "docs" / "images" / "bench-history.png"
SHOWN = {  # (size, replicas) -> colour, line
    ("default size", 1): ("#9ecae1", "-"),
    ("default size", 8): ("#3182bd", "-"),
    ("default size", 128): ("#08306b", "-"),
    ("small nets", 1): ("#fdae6b", "--"),
    ("small nets", 8): ("#e6550d", "--"),
    ("small nets", 64): ("#7f2704", "--"),
}
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50)


def line(results: Mapping[str, Any], date: str) -> dict[str, Any]:
    """What history keeps of the ``results`` of a day: revision, machine, and ratios, which carry over."""
    about = results["environment"]
    rows = [
        {
            "size": row["size"],
            "replicas": row["replicas"],
            "over the floor": round(row["featscope"] / row["floor"], 3),
            "against JAX": round(row["jax"] / row["featscope"], 3),
        }
        for row in results["seconds_a_step"]
        if (row["size"], row["replicas"]) in SHOWN
    ]
    return {"date": date, "revision": about["git_revision"], "machine": about["processor"], "ratios": rows}


def keep(results: Mapping[str, Any], date: str) -> None:
    """Add a line to the history, and draw it anew."""
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line(results, date)) + "\n")
    draw([json.loads(told) for told in HISTORY.read_text(encoding="utf-8").splitlines()])


def draw(history: Sequence[Mapping[str, Any]]) -> None:
    """Both ratios over the runs."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = {"against JAX": "speed against JAX", "over the floor": "time over the floor"}
    for axes, (ratio, label) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for (size, replicas), (colour, style) in SHOWN.items():
            of = [
                [r[ratio] for r in one["ratios"] if (r["size"], r["replicas"]) == (size, replicas)] for one in history
            ]
            points = [(at, found[0]) for at, found in enumerate(of) if found]
            axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", label=f"{size}, {replicas}")
        axes.axhline(1, color="0.6", linewidth=0.8)
        axes.set_yscale("log")
        axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.yaxis.set_minor_locator(NullLocator())
        shown = [r[ratio] for one in history for r in one["ratios"]]
        axes.set_ylim(min(*shown, 1) / 1.2, max(shown) * 1.2)
        runs = [f"{one['date']} {one['revision'].removesuffix('-dirty')}" for one in history]
        axes.set_xticks(range(len(history)), runs, rotation=40, ha="right", rotation_mode="anchor", size="small")
        axes.set_ylabel(label)
    figure.axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), title="size, replicas", frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)

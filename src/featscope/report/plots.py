"""What the page's drawings are made of: panels, axes, and plotly's JSON."""

import json
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from featscope.report.geometry import log_ticks
from featscope.report.look import GRID, INK, MUTED, Scale, Swatch
from featscope.report.numbers import chosen

DASHES = {"line": "solid", "dash": "dash", "dashdot": "dashdot", "dot": "dot"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Plot:
    """One panel.

    Attributes:
        title: its title, "" when the figure's title says it all.
        plotly: data and layout as JSON; None for a picture.
        frames: for a movie, one byte a value ``[frame, row, column]`` in base64; see `quantised`.
        shape: rows and columns of a frame.
        picture: for images, a PNG as a data address.
        height: in CSS pixels.
    """

    title: str
    plotly: str | None = None
    frames: str | None = None
    shape: tuple[int, int] | None = None
    picture: str | None = None
    height: int = 320


@dataclass(frozen=True)
class Drawing:
    """A figure as the page shows it.

    Attributes:
        plots: the panels.
        legend: entries of the legend that all panels share.
        scale: the colour scale that all panels share.
        steps: for a movie, the step of each frame.
    """

    plots: list[Plot]
    legend: list[Swatch]
    scale: Scale | None = None
    steps: list[int] | None = None


def series(swatch: Swatch) -> str:
    """What a legend entry and its traces have in common."""
    return f"{swatch.label}|{swatch.shape}"


def axis(title: str) -> dict[str, Any]:
    named = {"title": {"text": escape(title), "standoff": 8}} if title else {}
    return named | {
        "automargin": True,
        "gridcolor": GRID,
        "linecolor": MUTED,
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": MUTED,
        "exponentformat": "power",
        "minexponent": 4,
    }


def logarithmic(low: float, high: float) -> dict[str, Any]:
    ticks = log_ticks(low, high)
    return {"type": "log"} | (
        {"dtick": max(1, round(np.log10(high / low) / 8))}
        if ticks is None
        else {"tickvals": ticks, "ticktext": [chosen(tick) for tick in ticks]}
    )


def layout_of(x: dict[str, Any], y: dict[str, Any], *, height: int = 320, **more: Any) -> dict[str, Any]:
    return {
        "template": "none",
        "height": height,
        "autosize": True,
        "showlegend": False,
        "xaxis": x,
        "yaxis": y,
        "margin": {"l": 12, "r": 12, "t": 10, "b": 12},
        "font": {"family": _FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "dragmode": False,
        "hoverlabel": {"bgcolor": "white", "bordercolor": GRID, "font": {"color": INK}},
    } | more


def to_json(traces: list[Any], layout: dict[str, Any]) -> str:
    """Data and layout, checked by plotly; numbers as typed arrays."""
    figure = json.loads(go.Figure(traces, layout).to_json())
    figure["layout"].pop("template", None)
    return json.dumps(figure, ensure_ascii=False, separators=(",", ":"))


def compact(values: np.ndarray) -> np.ndarray:
    """Half the bytes, and more digits than a screen has pixels."""
    return np.asarray(values, dtype=np.float32)


def see_through(tone: str) -> str:
    red, green, blue = (int(tone[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"

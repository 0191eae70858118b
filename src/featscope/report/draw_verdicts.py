"""PNGs of where a claim holds: a mark and a colour for each verdict, never a colour alone."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from featscope.figures import VerdictPanel, Verdicts
from featscope.report.geometry import grid, nearest
from featscope.report.look import FAILS, HOLDS, INK, MUTED, UNDECIDED, VERDICT_COLOUR
from featscope.report.paper import (
    FULL_WIDTH,
    SMALL,
    label_axes,
    panel_title,
    paper,
    plain_logarithm,
    tidy,
)

_MARKERS = {"holds": "o", "fails": "X", "undecided": "o"}
_ORDER = tuple(VERDICT_COLOUR)
_ACROSS, _AIR = 160, 0.06  # cells along a side of the areas; room beyond the outermost points


def draw_verdicts(figure: Verdicts) -> Canvas:
    """A panel an arm, and what the marks mean below."""
    rows, columns = grid(len(figure.panels))
    width = 4.6 if columns == 1 else FULL_WIDTH
    canvas = paper(width, 2.9 * rows + 0.3)
    for i, panel in enumerate(figure.panels):
        axes = canvas.add_subplot(rows, columns, i + 1)
        for axis, log in (("x", figure.log_x), ("y", figure.logarithmic)):
            axes.set(**{f"{axis}scale": "log" if log else "linear"})
        tidy(axes, grid="both")
        _panel(axes, figure, panel)
        panel_title(axes, panel.label, width / columns)
        label_axes(axes, figure.x_label, figure.y_label if i % columns == 0 else "")
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=_MARKERS[verdict],
            color=tone,
            markerfacecolor="white" if verdict == "undecided" else tone,
            label=verdict,
        )
        for verdict, tone in VERDICT_COLOUR.items()
    ]
    canvas.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=SMALL, labelcolor=INK)
    return canvas


def _panel(axes: Axes, figure: Verdicts, panel: VerdictPanel) -> None:
    x, y, verdicts = np.asarray(panel.x), np.asarray(panel.y), np.array(panel.verdicts)
    low, high = _ends(x, figure.log_x)
    axes.set_xlim(low, high)
    if figure.areas:
        bottom, top = _ends(y, figure.logarithmic)
        axes.set_ylim(bottom, top)
        across, up = _between(low, high, figure.log_x), _between(bottom, top, figure.logarithmic)
        number = np.array([_ORDER.index(verdict) for verdict in panel.verdicts])
        tile = number[nearest(x, y, across, up, figure.log_x, figure.logarithmic)]
        tones = ListedColormap([HOLDS, FAILS, UNDECIDED])
        axes.pcolormesh(across, up, tile, cmap=tones, vmin=0, vmax=2, alpha=0.22, shading="nearest", rasterized=True)
        plain_logarithm(axes.yaxis, bottom, top)
    else:
        order = np.argsort(x)
        axes.plot(x[order], y[order], color=MUTED, linewidth=0.8, zorder=1)
        for edge in panel.edges:
            axes.plot(x[order], np.asarray(edge)[order], color=INK, linewidth=1, linestyle=(0, (5, 2.5)), zorder=1)
    plain_logarithm(axes.xaxis, low, high)
    along = [(axes.xaxis, x, figure.log_x), *([(axes.yaxis, y, figure.logarithmic)] if figure.areas else [])]
    for axis, values, log in along:
        if not log and (values == values.round()).all():
            axis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    measured = np.isfinite(y) & ((y > 0) | (not figure.logarithmic))
    foot = axes.get_xaxis_transform()  # where points without a measurement are
    for verdict, tone in VERDICT_COLOUR.items():
        these = verdicts == verdict
        if panel.low is not None and panel.high is not None:
            ends = [np.where(np.isfinite(end), end, np.nan)[these] for end in (panel.low, panel.high)]
            axes.vlines(x[these], *ends, color=tone, linewidth=1.2, zorder=2)
        look: dict[str, Any] = {"s": 30, "facecolor": "white" if verdict == "undecided" else tone, "edgecolor": tone}
        look |= {"marker": _MARKERS[verdict], "linewidth": 1.2, "zorder": 3}
        axes.scatter(x[these & measured], y[these & measured], **look)
        if (lost := x[these & ~measured]).size:
            axes.scatter(lost, np.zeros(lost.size), transform=foot, clip_on=False, **look)


def _ends(values: Float[np.ndarray, " point"], log: bool) -> tuple[float, float]:
    """A little beyond the outermost points."""
    scaled = np.log10(values) if log else values
    air = _AIR * (scaled.max() - scaled.min()) or 0.5
    low, high = float(scaled.min() - air), float(scaled.max() + air)
    return (10**low, 10**high) if log else (low, high)


def _between(low: float, high: float, log: bool) -> Float[np.ndarray, " place"]:
    return np.geomspace(low, high, _ACROSS) if log else np.linspace(low, high, _ACROSS)

"""Figures as PNGs of publication quality."""

from functools import singledispatch
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from threading import Lock
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from featscope.figures import (
    Agreement,
    Bars,
    Curves,
    Figure,
    Heatmaps,
    ImageGrids,
    MatrixMovie,
    Panel,
    Scatters,
    Verdicts,
)
from featscope.files import atomic_write
from featscope.report.draw_matrices import draw_heatmaps, draw_images, draw_movie
from featscope.report.draw_verdicts import draw_verdicts
from featscope.report.geometry import (
    bands,
    deviations,
    grid,
    interval_or_gap,
    intervals_beyond,
    mark_labels,
    not_drawn,
    x_range,
)
from featscope.report.look import (
    GRID,
    INK,
    MUTED,
    VERDICT_COLOUR,
    Swatch,
    colour,
    curve_swatches,
    hatch,
    reference_swatches,
    symbol,
)
from featscope.report.numbers import chosen, decimals_apart, number
from featscope.report.paper import (
    FULL_WIDTH,
    SMALL,
    folded,
    label_axes,
    panel_title,
    paper,
    plain,
    plain_logarithm,
    tidy,
)

_DASHES: dict[str, Any] = {"line": "-", "dash": (0, (5, 2.5)), "short dash": (0, (2.5, 1.5)), "dot": ":"}
_MARKERS = {"circle": "o", "triangle-up": "^", "square": "s", "diamond": "D", "x": "X", "circle-open": "o"}

# Matplotlib shares font caches between figures and promises nothing about threads.
_drawing = Lock()


def draw(figure: Figure, path: Path) -> None:
    """Draw ``figure`` as a PNG at ``path``, whole or not at all. May be called from any thread.

    Raises:
        TypeError: there is no drawing for this type of description.
    """
    with _drawing:
        canvas = _canvas(figure)
        png = BytesIO()
        FigureCanvasAgg(canvas).print_png(png, metadata={"Title": figure.title, "Software": "FeatScope"})
    atomic_write(path, png.getvalue())


@singledispatch
def _canvas(figure: Figure) -> Canvas:
    raise TypeError(f"no drawing for {type(figure).__name__}: describe it with a type of featscope.figures")


_canvas.register(MatrixMovie, draw_movie)
_canvas.register(Heatmaps, draw_heatmaps)
_canvas.register(ImageGrids, draw_images)
_canvas.register(Verdicts, draw_verdicts)


@_canvas.register
def _curves(figure: Curves) -> Canvas:
    rows, columns = grid(len(figure.panels))
    width = 4.6 if columns == 1 else FULL_WIDTH
    canvas = paper(width, 2.75 * rows + 0.25)
    swatches = curve_swatches(figure.panels)
    for i, panel in enumerate(figure.panels):
        _panel(canvas.add_subplot(rows, columns, i + 1), panel, swatches, width / columns)
    _legend(canvas, [_handle(swatch) for swatch in swatches.values()])
    return canvas


def _panel(axes: Axes, panel: Panel, swatches: dict[tuple[str, bool], Swatch], width: float) -> None:
    if panel.log_x:
        axes.set_xscale("log")
    if panel.logarithmic:
        axes.set_yscale("log", nonpositive="mask")
    tidy(axes, grid="both")
    for curve in panel.curves:
        swatch = swatches[curve.label, curve.dashed]
        marker = "o" if len(curve.x) <= 12 and not curve.dashed else None
        axes.plot(
            curve.x,
            curve.y,
            color=swatch.colour,
            linestyle=_dashes(swatch.shape),
            linewidth=1.4,
            marker=marker,
            markersize=3,
            zorder=3 if curve.dashed else 2,
        )
        for x, low, high in bands(curve, panel.logarithmic):
            if x.size > 1:
                axes.fill_between(x, low, high, color=swatch.colour, alpha=0.18, linewidth=0, zorder=1)
            else:
                axes.vlines(x, low, high, color=swatch.colour, alpha=0.5, linewidth=1.4, zorder=1)
    axes.set_xlim(*x_range(panel))
    beyond = intervals_beyond(panel)
    if beyond:
        axes.set_ylim(*beyond)
    only_zeros = not (axes.dataLim.height or axes.dataLim.y0)
    if only_zeros and not panel.logarithmic:  # shares and counts are not below
        axes.set_ylim(-0.05, 1)
    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        plain_logarithm(axis, *ends)
    labels = mark_labels(panel, characters=int(width * 15))
    for mark in labels:
        axes.axvline(mark.x, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            plain(mark.text),
            (mark.x, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2 + 9 * mark.level),
            textcoords="offset points",
            ha=mark.anchor,
            va="bottom",
            fontsize=SMALL,
            color=MUTED,
        )
    levels = max((mark.level + 1 for mark in labels), default=0)
    panel_title(axes, panel.title, width, above=9.0 * levels)
    label_axes(axes, panel.x_label, panel.y_label)
    told = " ".join(filter(None, [not_drawn(panel), beyond and "Some intervals go beyond the axis."]))
    if told:
        axes.set_xlabel(f"{axes.get_xlabel()}\n{folded(told)}")


@_canvas.register
def _bars(figure: Bars) -> Canvas:
    wide = len(figure.groups) * len(figure.series) > 6 or len(figure.groups) > 4
    width = FULL_WIDTH if wide else 4.6
    canvas = paper(width, 3.1)
    axes = canvas.add_subplot()
    tidy(axes, grid="y")
    places = np.arange(len(figure.groups))
    thickness = 0.8 / max(1, len(figure.series))
    for i, (values, low, high) in enumerate(figure.series.values()):
        at = places + (i - (len(figure.series) - 1) / 2) * thickness
        axes.bar(at, values, thickness * 0.92, **_filled(i), zorder=2)
        low, high = interval_or_gap(low, high)
        axes.vlines(at, low, high, color=INK, linewidth=1, zorder=3)
        axes.scatter(np.tile(at, 2), np.concatenate([low, high]), marker="_", s=14, color=INK, linewidth=1, zorder=3)
    references = reference_swatches(figure.references)
    for (value, _), swatch in zip(figure.references, references, strict=True):
        axes.axhline(value, color=INK, linewidth=1, linestyle=_dashes(swatch.shape), zorder=4)
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlim(-0.6, len(figure.groups) - 0.4)
    room = max(8, int(width * 14 / max(1, len(figure.groups))))
    axes.set_xticks(places, ["\n".join(wrap(plain(group), room)) for group in figure.groups])
    label_axes(axes, "", figure.y_label)
    bars = [Patch(**_filled(i), label=plain(name)) for i, name in enumerate(figure.series)]
    _legend(canvas, [*bars, *(_handle(swatch) for swatch in references)])
    return canvas


@_canvas.register
def _agreement(figure: Agreement) -> Canvas:
    count = len(figure.labels)
    rows = deviations(figure)
    canvas = paper(FULL_WIDTH * 0.8, 0.36 * count + 1.1)
    axes = canvas.add_subplot()
    tidy(axes, grid="x")
    heights = np.arange(count)
    for y, accepted, label in zip(heights, rows.accepted, figure.labels, strict=True):
        predicted, measured, tolerance = (float(of[y]) for of in (figure.predicted, figure.measured, figure.tolerance))
        decimals, of_prediction, _ = decimals_apart(predicted, [measured], tolerance)
        if accepted:
            axes.fill_betweenx([y - 0.16, y + 0.16], -1, 1, color=VERDICT_COLOUR["holds"], alpha=0.14, linewidth=0)
        axes.text(
            0.0,
            y - 0.22,
            plain(label),
            transform=axes.get_yaxis_transform(),
            fontsize=SMALL,
            va="bottom",
            color=INK,
        )
        axes.annotate(
            f"{chosen(predicted, of_prediction)} → {number(measured, decimals)}",
            (1, y),
            xytext=(5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=INK,
        )
    for verdict in dict.fromkeys(rows.verdicts):
        these = np.array([v == verdict for v in rows.verdicts])
        tone = VERDICT_COLOUR[verdict]
        axes.hlines(heights[these], rows.low[these], rows.high[these], color=tone, linewidth=1.6)
        marker = _MARKERS[{"holds": "circle", "fails": "x", "undecided": "circle-open"}[verdict]]
        face = "white" if verdict == "undecided" else tone
        axes.scatter(
            rows.centre[these],
            heights[these],
            marker=marker,
            s=26,
            facecolor=face,
            edgecolor=tone,
            linewidth=1.2,
            zorder=3,
            label=verdict,
        )
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    axes.set_xlim(-rows.reach, rows.reach)
    axes.set_ylim(count - 0.5, -0.75)
    axes.set_xticks(*rows.ticks)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    label_axes(axes, "(measured − predicted) / tolerance", "")
    axes.annotate(
        "predicted → measured",
        (1, 1),
        xytext=(5, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=SMALL,
        color=MUTED,
        va="bottom",
    )
    _legend(canvas, axes.get_legend_handles_labels()[0])
    return canvas


@_canvas.register
def _scatters(figure: Scatters) -> Canvas:
    rows, columns = grid(len(figure.panels))
    width = 3.6 if columns == 1 else FULL_WIDTH
    canvas = paper(width, rows * (width / columns) + 0.5)
    for i, (label, points) in enumerate(figure.panels.items()):
        axes = canvas.add_subplot(rows, columns, i + 1)
        classes = np.asarray(figure.classes[label])
        for k in range(len(figure.class_names)):
            x, y = np.asarray(points)[classes == k].T
            axes.scatter(x, y, s=5, marker=_MARKERS[symbol(k)], color=colour(k), alpha=0.75, linewidth=0)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(GRID)
        axes.set_aspect("equal", adjustable="datalim")
        panel_title(axes, label, width / columns)
    handles = [
        Line2D([], [], linestyle="", marker=_MARKERS[symbol(k)], markersize=4, color=colour(k), label=plain(name))
        for k, name in enumerate(figure.class_names)
    ]
    _legend(canvas, handles)
    return canvas


def _filled(index: int) -> dict[str, Any]:
    """How the ``index``-th bars look."""
    pattern = hatch(index)
    return {"facecolor": colour(index)} | ({"hatch": pattern, "edgecolor": "white", "linewidth": 0} if pattern else {})


def _dashes(shape: str) -> Any:
    """A shape's line style; dashes with dots between them for what is not in `_DASHES`."""
    dash = 3.2 if shape.startswith("short") else 6.4
    return _DASHES.get(shape) or (0, (dash, 1.6, *(1, 1.6) * shape.count("dot")))


def _handle(swatch: Swatch) -> Line2D:
    return Line2D(
        [], [], color=swatch.colour, linestyle=_dashes(swatch.shape), linewidth=1.4, label=plain(swatch.label)
    )


def _legend(canvas: Canvas, handles: list[Any]) -> None:
    """The legend below the axes, where it hides nothing."""
    if len(handles) > 1:
        longest = max(len(str(handle.get_label())) for handle in handles)
        fitting = int(canvas.get_figwidth() * 16 / (longest + 6))
        canvas.legend(
            handles=handles,
            loc="outside lower center",
            ncols=max(1, min(len(handles), fitting)),
            frameon=False,
            fontsize=SMALL,
            labelcolor=INK,
            handlelength=2.2,
            columnspacing=1.4,
        )

"""Figures as plotly drawings for the page, one a panel: the page, not plotly, places them side by side."""

from functools import singledispatch
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

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
)
from featscope.report.geometry import (
    band,
    deviations,
    interval_or_gap,
    mark_labels,
    x_range,
    y_range,
)
from featscope.report.interactive_matrices import heatmaps_drawing, images_drawing, movie_drawing
from featscope.report.look import (
    INK,
    MUTED,
    VERDICT_COLOUR,
    VERDICT_SYMBOL,
    Swatch,
    colour,
    curve_swatches,
    reference_swatches,
    symbol,
)
from featscope.report.numbers import chosen, interval, number
from featscope.report.plots import (
    DASHES,
    Drawing,
    Plot,
    axis,
    compact,
    layout_of,
    logarithmic,
    see_through,
    series,
    to_json,
)


@singledispatch
def drawing(figure: Figure) -> Drawing:
    """The drawing of ``figure``.

    Raises:
        TypeError: there is no drawing for this type of description.
    """
    raise TypeError(f"no drawing for {type(figure).__name__}: describe it with a type of featscope.figures")


drawing.register(MatrixMovie, movie_drawing)
drawing.register(Heatmaps, heatmaps_drawing)
drawing.register(ImageGrids, images_drawing)


@drawing.register
def _curves(figure: Curves) -> Drawing:
    swatches = curve_swatches(figure.panels)
    titles = [panel.title for panel in figure.panels]
    plots = [Plot(title, _panel(panel, swatches)) for title, panel in zip(titles, figure.panels, strict=True)]
    return Drawing(plots, list(swatches.values()))


def _panel(panel: Panel, swatches: dict[tuple[str, bool], Swatch]) -> str:
    traces: list[Any] = []
    for curve in panel.curves:
        swatch = swatches[curve.label, curve.dashed]
        group = series(swatch)
        edges = band(curve, panel.log_y)
        if edges is not None:
            x, low, high = edges
            traces.append(
                go.Scatter(
                    x=compact(np.concatenate([x, x[::-1]])),
                    y=compact(np.concatenate([high, low[::-1]])),
                    fill="toself",
                    fillcolor=see_through(swatch.colour),
                    line={"width": 0},
                    mode="lines",
                    hoverinfo="skip",
                    legendgroup=group,
                )
            )
        hover, ends = "%{y:.3g}", None
        if curve.low is not None and curve.high is not None:
            ends = np.stack(interval_or_gap(curve.low, curve.high), axis=-1)
            hover += " [%{customdata[0]:.3g}, %{customdata[1]:.3g}]" if np.isfinite(ends).all() else ""
        few = len(curve.x) <= 12 and not curve.dashed
        traces.append(
            go.Scatter(
                x=compact(curve.x),
                y=compact(curve.y),
                mode="lines+markers" if few else "lines",
                name=escape(curve.label),
                line={"color": swatch.colour, "width": 2, "dash": DASHES[swatch.shape]},
                marker={"size": 6},
                legendgroup=group,
                customdata=ends,
                hovertemplate=hover,
            )
        )
    labels = mark_labels(panel, characters=45)
    ends_of_x = x_range(panel)
    layout = layout_of(axis(panel.x_label), axis(panel.y_label), hovermode="x unified")
    if panel.log_x:
        layout["xaxis"] |= logarithmic(*ends_of_x)
    if panel.log_y:
        layout["yaxis"] |= logarithmic(*y_range(panel))
    layout["xaxis"]["range"] = [float(np.log10(v)) if panel.log_x else v for v in ends_of_x]
    layout["margin"]["t"] = 10 + 15 * max((mark.level + 1 for mark in labels), default=0)
    layout["shapes"] = [
        {
            "type": "line",
            "x0": m.x,
            "x1": m.x,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "layer": "between",
            "line": {"color": MUTED, "width": 1, "dash": "dot"},
        }
        for m in labels
    ]
    layout["annotations"] = [
        # Plotly places shapes on a logarithmic axis by value and annotations by its logarithm.
        {
            "x": float(np.log10(m.x)) if panel.log_x else m.x,
            "y": 1,
            "yref": "paper",
            "yanchor": "bottom",
            "yshift": 15 * m.level,
            "xanchor": m.anchor,
            "text": escape(m.text),
            "showarrow": False,
            "font": {"size": 11, "color": MUTED},
        }
        for m in labels
    ]
    return to_json(traces, layout)


@drawing.register
def _agreement(figure: Agreement) -> Drawing:
    rows = deviations(figure)
    count = len(figure.labels)
    height = 44 * count + 80
    heights = np.arange(count)
    traces: list[Any] = []
    for verdict in dict.fromkeys(rows.verdicts):
        these = np.array([v == verdict for v in rows.verdicts])
        tone = VERDICT_COLOUR[verdict]
        hover = [
            f"{escape(figure.labels[i])}"
            f"<br>predicted {chosen(float(figure.predicted[i]))} ± {chosen(float(figure.tolerance[i]))}"
            f"<br>measured {number(float(figure.measured[i]))} {interval(float(figure.low[i]), float(figure.high[i]))}"
            f"<br>{verdict}<extra></extra>"
            for i in np.flatnonzero(these).tolist()
        ]
        gaps = np.full(int(these.sum()), np.nan)
        lines = np.stack([rows.low[these], rows.high[these], gaps], axis=1).ravel()
        traces += [
            go.Scatter(
                x=compact(lines),
                y=np.repeat(heights[these], 3),
                mode="lines",
                line={"color": tone, "width": 3},
                hoverinfo="skip",
                legendgroup=verdict,
            ),
            go.Scatter(
                x=compact(rows.centre[these]),
                y=heights[these],
                mode="markers",
                legendgroup=verdict,
                marker={
                    "color": tone,
                    "size": 10,
                    "symbol": VERDICT_SYMBOL[verdict],
                    "line": {"width": 2, "color": tone},
                },
                hovertemplate=hover,
            ),
        ]
    layout = layout_of(axis("(measured − predicted) / tolerance"), axis(""), height=height, hovermode="closest")
    layout["xaxis"] |= {
        "range": [-rows.reach, rows.reach],
        "tickvals": rows.ticks[0],
        "ticktext": rows.ticks[1],
    }
    layout["yaxis"] |= {
        "range": [count - 0.5, -0.85],
        "showticklabels": False,
        "showgrid": False,
        "showline": False,
        "ticks": "",
    }
    layout["shapes"] = [
        {
            "type": "rect",
            "x0": -1,
            "x1": 1,
            "y0": y - 0.18,
            "y1": y + 0.18,
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": see_through(VERDICT_COLOUR["holds"]),
        }
        for y in heights[rows.accepted].tolist()
    ] + [
        {
            "type": "line",
            "x0": 0,
            "x1": 0,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "layer": "between",
            "line": {"color": MUTED, "width": 1},
        }
    ]
    layout["annotations"] = [
        {
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": y,
            "yanchor": "bottom",
            "yshift": 7,
            "showarrow": False,
            "align": "left",
            "text": f"{escape(label)}: {chosen(float(predicted))} → {number(float(measured))}",
            "font": {"size": 12, "color": INK},
        }
        for y, label, predicted, measured in zip(
            heights.tolist(), figure.labels, figure.predicted, figure.measured, strict=True
        )
    ]
    legend = [Swatch(v, VERDICT_COLOUR[v], VERDICT_SYMBOL[v]) for v in dict.fromkeys(rows.verdicts)]
    return Drawing([Plot("", to_json(traces, layout), height=height)], legend)


@drawing.register
def _bars(figure: Bars) -> Drawing:
    traces, legend = [], []
    groups = ["<br>".join(wrap(escape(group), 12)) for group in figure.groups]
    for i, (name, (values, *ends)) in enumerate(figure.series.items()):
        low, high = interval_or_gap(*ends)
        swatch = Swatch(name, colour(i), "area")
        legend.append(swatch)
        values = np.asarray(values, dtype=np.float64)
        whiskers = {
            "array": compact(high - values),
            "arrayminus": compact(values - low),
            "symmetric": False,
            "color": INK,
            "thickness": 1.2,
            "width": 3,
        }
        known = np.stack([low, high], axis=-1)
        hover = f"%{{x}}<br>{escape(name)} %{{y:.3g}}" + (
            " [%{customdata[0]:.3g}, %{customdata[1]:.3g}]" if np.isfinite(known).any() else ""
        )
        traces.append(
            go.Bar(
                x=groups,
                y=compact(values),
                marker={"color": swatch.colour},
                error_y=whiskers,
                customdata=known,
                legendgroup=series(swatch),
                hovertemplate=hover + "<extra></extra>",
            )
        )
    references = reference_swatches(figure.references)
    layout = layout_of(axis(""), axis(figure.y_label), hovermode="closest", barmode="group", bargap=0.25)
    layout["xaxis"] |= {"type": "category", "showgrid": False}
    layout["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": float(value),
            "y1": float(value),
            "line": {"color": INK, "width": 1.3, "dash": DASHES[swatch.shape]},
        }
        for (value, _), swatch in zip(figure.references, references, strict=True)
    ]
    labelled = [
        s._replace(label=f"{s.label} ({chosen(v)})") for (v, _), s in zip(figure.references, references, strict=True)
    ]
    return Drawing([Plot("", to_json(traces, layout))], legend + labelled)


@drawing.register
def _scatters(figure: Scatters) -> Drawing:
    legend = [Swatch(name, colour(k), symbol(k)) for k, name in enumerate(figure.class_names)]
    plots = []
    for label, points in figure.panels.items():
        points, classes = np.asarray(points), np.asarray(figure.classes[label])
        traces = [
            go.Scatter(
                x=compact(points[classes == k, 0]),
                y=compact(points[classes == k, 1]),
                mode="markers",
                marker={"color": swatch.colour, "symbol": swatch.shape, "size": 5, "opacity": 0.75},
                legendgroup=series(swatch),
                hovertemplate=escape(swatch.label) + "<extra></extra>",
            )
            for k, swatch in enumerate(legend)
        ]
        layout = layout_of(axis(""), axis(""), height=360, hovermode="closest")
        for name in ("xaxis", "yaxis"):
            layout[name] |= {"showticklabels": False, "showgrid": False, "ticks": "", "mirror": True}
        layout["yaxis"]["scaleanchor"] = "x"
        plots.append(Plot(label, to_json(traces, layout), height=360))
    return Drawing(plots, legend)

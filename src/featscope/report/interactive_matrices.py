"""Matrices and images for the page. A movie's frames travel as one byte a value."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO

import numpy as np
import plotly.graph_objects as go
from matplotlib.image import imsave

from featscope.figures import Heatmaps, ImageGrids, MatrixMovie
from featscope.report.geometry import mosaic, value_range
from featscope.report.look import MISSING, Scale, scale
from featscope.report.plots import Drawing, Plot, axis, compact, layout_of, to_json

_NO_VALUE = 255


def movie_drawing(figure: MatrixMovie) -> Drawing:
    colours = scale(figure.low, figure.high, figure.value_label)
    plots = []
    for label, movie in figure.frames.items():
        rows, columns = movie.shape[1:]
        matrix = _heatmap(colours, figure.row_label, figure.column_label, height=420)
        frames = b64encode(quantised(movie, colours).tobytes()).decode()
        plots.append(Plot(label, matrix, frames, (rows, columns), height=420))
    return Drawing(plots, [], colours, [int(step) for step in figure.steps])


def quantised(values: np.ndarray, colours: Scale) -> np.ndarray:
    """``values`` in bytes: 0 to 254 over the colour scale (beyond it, its end), 255 where missing."""
    share = (np.asarray(values, dtype=np.float64) - colours.low) / (colours.high - colours.low)
    return np.where(np.isnan(share), _NO_VALUE, np.round(np.clip(np.nan_to_num(share), 0, 1) * 254)).astype(np.uint8)


def heatmaps_drawing(figure: Heatmaps) -> Drawing:
    colours = scale(*(figure.ends or value_range(figure.panels)), figure.value_label)
    plots = [
        Plot(
            label,
            _heatmap(
                colours,
                figure.row_label,
                figure.column_label,
                height=360,
                values=matrix,
                rows=figure.rows,
                columns=figure.columns,
            ),
            height=360,
        )
        for label, matrix in figure.panels.items()
    ]
    return Drawing(plots, [], colours)


def _heatmap(
    colours: Scale,
    row: str,
    column: str,
    *,
    height: int,
    values: np.ndarray | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> str:
    """A heat map; without ``values`` the page fills in the frames of a movie."""
    stops = np.linspace(0, 1, len(colours.colours)).tolist()
    names = [escape(row) + " %{y}", escape(column) + " %{x}", escape(colours.label) + " %{z:.3f}"]
    hover = "<br>".join(names) + "<extra></extra>"
    trace = go.Heatmap(
        z=None if values is None else compact(values),
        zmin=colours.low,
        zmax=colours.high,
        showscale=False,
        colorscale=list(zip(stops, colours.colours, strict=True)),
        hovertemplate=hover,
        hoverongaps=False,
    )
    layout = layout_of(axis(column), axis(row), height=height, hovermode="closest")
    layout["plot_bgcolor"] = MISSING
    for name in ("xaxis", "yaxis"):
        layout[name] |= {"showgrid": False, "mirror": True, "showline": True}
    layout["yaxis"]["autorange"] = "reversed"
    for which, labels in (("xaxis", columns), ("yaxis", rows)):
        if labels:
            layout[which] |= {"tickvals": list(range(len(labels))), "ticktext": [escape(one) for one in labels]}
    return to_json([trace], layout)


def images_drawing(figure: ImageGrids) -> Drawing:
    plots = []
    for label, images in figure.panels.items():
        png = BytesIO()
        imsave(png, mosaic(images), format="png")
        plots.append(Plot(label, picture="data:image/png;base64," + b64encode(png.getvalue()).decode()))
    return Drawing(plots, [])

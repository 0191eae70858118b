"""PNGs of matrices: movies as a few frames, static heat maps, and grids of images."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.figure import SubFigure
from matplotlib.image import AxesImage

from featscope.figures import Heatmaps, ImageGrids, MatrixMovie
from featscope.report.geometry import grid, mosaic, shown_frames, value_range
from featscope.report.look import INK, MUTED, Scale, scale
from featscope.report.paper import FULL_WIDTH, SMALL, TEXT, colour_map, folded, label_axes, panel_title, paper, plain

Extend = Literal["neither", "min", "max", "both"]
_ROUNDING = 1e-6  # of a scale


def draw_movie(figure: MatrixMovie) -> Canvas:
    """First, middle and last frame of the first replica in a row, one row a panel."""
    colours = scale(figure.low, figure.high, figure.value_label)
    frames = shown_frames(figure)
    canvas = paper(FULL_WIDTH, 2.5 * len(figure.frames))
    strips = canvas.subfigures(len(figure.frames), 1, squeeze=False)
    for strip, (label, movie) in zip(strips[:, 0], figure.frames.items(), strict=True):
        strip.suptitle(
            plain(f"{label}, replica 0" if len(movie) > 1 else label), fontsize=TEXT, color=INK, fontweight="bold"
        )
        row = [strip.add_subplot(1, len(frames), i + 1) for i in range(len(frames))]
        for axes, frame in zip(row, frames, strict=True):
            picture = _matrix(axes, movie[0, frame], colours, first=1)
            step, ended = figure.shown(label, frame)
            title = f"step {step:,}".replace(",", " ") + (", its last" if ended else "")
            axes.set_title(title, fontsize=SMALL, color=INK)
            label_axes(axes, figure.column_label, figure.row_label if axes is row[0] else "")
            if axes is not row[0]:
                axes.set_yticklabels([])
        _colour_bar(strip, picture, row, figure.value_label, _beyond(movie[0, frames], colours))
    return canvas


def draw_heatmaps(figure: Heatmaps) -> Canvas:
    """The matrices side by side with one colour bar."""
    colours = scale(*(figure.ends or value_range(figure.panels)), figure.value_label)
    rows, columns = grid(len(figure.panels))
    width = 4.2 if columns == 1 else FULL_WIDTH
    canvas = paper(width, rows * min(3.0, width / columns))
    placed = []
    for i, (label, matrix) in enumerate(figure.panels.items()):
        axes = canvas.add_subplot(rows, columns, i + 1)
        picture = _matrix(axes, np.asarray(matrix), colours)
        if figure.columns:
            crowded = sum(map(len, figure.columns)) > 50 / columns
            names = [plain(name) for name in figure.columns]
            axes.set_xticks(range(len(names)), names, rotation=45 if crowded else 0)
        if figure.rows:
            axes.set_yticks(range(len(figure.rows)), [plain(name) for name in figure.rows])
        panel_title(axes, label, width / columns)
        label_axes(axes, figure.column_label, figure.row_label if i % columns == 0 else "")
        placed.append(axes)
    values = np.concatenate([np.ravel(matrix) for matrix in figure.panels.values()])
    _colour_bar(canvas, picture, placed, figure.value_label, _beyond(values, colours))
    return canvas


def draw_images(figure: ImageGrids) -> Canvas:
    """One mosaic a panel."""
    rows, columns = grid(len(figure.panels))
    width = 3.4 if columns == 1 else FULL_WIDTH
    canvas = paper(width, rows * (width / columns + 0.2))
    for i, (label, images) in enumerate(figure.panels.items()):
        axes = canvas.add_subplot(rows, columns, i + 1)
        axes.imshow(mosaic(images), interpolation="nearest")
        axes.set_axis_off()
        panel_title(axes, label, width / columns)
    return canvas


def _matrix(axes: Axes, values: np.ndarray, colours: Scale, first: int = 0) -> AxesImage:
    """The matrix, whose rows and columns are numbered from ``first``."""
    rows, columns = values.shape
    picture = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colour_map(colours),
        vmin=colours.low,
        vmax=colours.high,
        aspect="equal" if rows == columns else "auto",
        interpolation="nearest",
        extent=(first - 0.5, first + columns - 0.5, first + rows - 0.5, first - 0.5),
    )
    axes.tick_params(labelsize=SMALL, color=MUTED, labelcolor=INK, length=3, width=0.8)
    axes.spines[:].set_color(MUTED)
    axes.locator_params(integer=True, nbins=5)
    return picture


def _beyond(values: np.ndarray, colours: Scale) -> Extend:
    """At which ends of the scale its colour is that of values beyond them, too."""
    known, room = values[np.isfinite(values)], _ROUNDING * (colours.high - colours.low)
    below, above = (known < colours.low - room).any(), (known > colours.high + room).any()
    return "both" if below and above else "min" if below else "max" if above else "neither"


def _colour_bar(sheet: Canvas | SubFigure, picture: AxesImage, axes: list[Axes], label: str, beyond: Extend) -> None:
    bar = sheet.colorbar(picture, ax=axes, fraction=0.04, pad=0.02, extend=beyond)
    bar.set_label(folded(label), fontsize=TEXT, color=INK)
    bar.ax.tick_params(labelsize=SMALL, labelcolor=INK, length=3)
    bar.outline.set_edgecolor(MUTED)

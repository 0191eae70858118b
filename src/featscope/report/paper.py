"""The sheet that PNGs are drawn on. Type is set on each artist: global settings belong to the caller."""

from textwrap import wrap
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullFormatter

from featscope.report.geometry import log_ticks
from featscope.report.look import GRID, INK, MISSING, MUTED, Scale
from featscope.report.numbers import chosen

FULL_WIDTH = 6.9
"""Inches: the text width of most papers, so that type stays readable when the figure fills it."""
TEXT, SMALL = 8.5, 7.5
"""Points."""
DPI = 220
_LONGEST = 28  # characters along an axis
_LABELS = 0.6  # inches that ticks and label of the y axis take from a panel


def paper(width: float, height: float) -> Canvas:
    """An empty sheet, in inches, that fits its contents."""
    return Canvas(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")


def plain(text: str) -> str:
    """``text`` with dollar signs meant literally."""
    return text.replace("$", r"\$")


def tidy(axes: Axes, grid: Literal["both", "x", "y"]) -> None:
    """Light axes: no frame above and right, thin grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", labelsize=SMALL, color=MUTED, labelcolor=INK, length=3, width=0.8)
    axes.tick_params(which="minor", length=1.5)


def label_axes(axes: Axes, x_label: str, y_label: str) -> None:
    """Axis labels; long ones take two lines."""
    axes.set_xlabel(folded(x_label), fontsize=TEXT, color=INK)
    axes.set_ylabel(folded(y_label), fontsize=TEXT, color=INK)


def folded(label: str) -> str:
    """``label`` on lines that are no longer than an axis."""
    return "\n".join(wrap(plain(label), _LONGEST))


def plain_logarithm(axis: Axis, low: float, high: float) -> None:
    """Plain numbers at 1, 2 and 5 on a logarithmic axis of few decades, where powers of ten say little."""
    ticks = log_ticks(low, high) if axis.get_scale() == "log" else None
    if ticks is not None:
        axis.set_ticks(ticks, [chosen(tick) for tick in ticks])
        axis.set_minor_formatter(NullFormatter())


def panel_title(axes: Axes, title: str, width: float, above: float = 0.0) -> None:
    """A title that keeps to its panel, ``width`` inches wide, and ``above`` points of labels below it."""
    lines = "\n".join(wrap(plain(title), max(12, int((width - _LABELS) * 12.5))))
    axes.set_title(lines, fontsize=TEXT, color=INK, loc="left", fontweight="bold", pad=5 + above)


def colour_map(scale: Scale) -> Colormap:
    """The scale's colours for matplotlib; values that are missing are grey."""
    return LinearSegmentedColormap.from_list("featscope", list(scale.colours)).with_extremes(bad=MISSING)

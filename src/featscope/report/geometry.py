"""Where things go: arithmetic that the PNGs and the page share, free of both drawing libraries."""

from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

import numpy as np

from featscope.figures import Agreement, Curve, MatrixMovie, Panel

_FARTHEST = 1e5  # tolerances from a prediction; what is farther stands at the edge


def interval_or_gap(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The interval's ends, both NaN where either is not finite (one replica: no interval to draw)."""
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    known = np.isfinite(low) & np.isfinite(high)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def bands(curve: Curve, log_y: bool) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """x and the two edges of the curve's band, for each stretch of points on which it is known.

    On a logarithmic axis the band reaches at most a decade below the curve: an edge near zero would fill
    the axis.
    """
    if curve.low is None or curve.high is None:
        return []
    x, (low, high) = np.asarray(curve.x), interval_or_gap(curve.low, curve.high)
    known = np.flatnonzero(np.isfinite(low))
    if log_y:
        y = np.asarray(curve.y, dtype=np.float64)
        positive = y[np.isfinite(y) & (y > 0)]
        lowest = positive.min() / 10 if positive.size else 1.0
        low, high = np.maximum(low, lowest), np.maximum(high, lowest)
    stretches = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    return [(x[points], low[points], high[points]) for points in stretches if points.size]


def intervals_beyond(panel: Panel) -> tuple[float, float] | None:
    """Ends of the y axis where intervals would dwarf what they are of; None where an axis can show all of them.

    As on the page an axis shows intervals up to once the extent of the curves beyond these.
    """
    log = panel.logarithmic
    curves = [np.asarray(curve.y, dtype=np.float64) for curve in panel.curves]
    edges = [edge for curve in panel.curves for _, *both in bands(curve, log) for edge in both]
    seen = np.concatenate([*curves, np.empty(0)])
    seen = seen[np.isfinite(seen) & ((seen > 0) | (not log))]
    if not seen.size or not edges:
        return None
    low, high = float(seen.min()), float(seen.max())
    least, most = (low / max(high / low, 2), high * max(high / low, 2)) if log else (2 * low - high, 2 * high - low)
    if low == high and not log:
        least, most = low - (abs(low) or 1), high + (abs(high) or 1)
    ends = np.concatenate(edges)
    if ends.min() >= least and ends.max() <= most:
        return None
    return max(least, min(low, float(ends.min()))), min(most, max(high, float(ends.max())))


def not_drawn(panel: Panel) -> str:
    """Which curves of ``panel`` have no point that its axes can show, and why, in a sentence; empty if none."""
    without: list[str] = []
    of_some: list[str] = []
    not_above: list[str] = []
    for curve in panel.curves:
        x, y = (np.asarray(values, dtype=np.float64) for values in (curve.x, curve.y))
        known = np.isfinite(x) & np.isfinite(y)
        on_axes = known & ((x > 0) | (not panel.log_x)) & ((y > 0) | (not panel.logarithmic))
        if not on_axes.any():
            some = curve.samples is not None and np.isfinite(curve.samples).any()
            (not_above if known.any() else of_some if some else without).append(curve.label)
    said = [f"some replica has no value of {', '.join(dict.fromkeys(of_some))}"] if of_some else []
    said += [f"no value is known of {', '.join(dict.fromkeys(without))}"] if without else []
    said += [f"nothing is above 0 of {', '.join(dict.fromkeys(not_above))}"] if not_above else []
    return f"Not drawn: {'; '.join(said)}." if said else ""


def x_range(panel: Panel) -> tuple[float, float]:
    """Ends of the x axis: the curves and the marks, with a little air."""
    values = np.concatenate([*(np.asarray(c.x, dtype=np.float64) for c in panel.curves), [m[0] for m in panel.marks]])
    values = values[np.isfinite(values) & ((values > 0) | (not panel.log_x))]
    if not values.size:
        return (0.1, 1.0) if panel.log_x else (0.0, 1.0)
    ends = np.array([values.min(), values.max()])
    ends = np.log10(ends) if panel.log_x else ends
    air = 0.02 * (ends[1] - ends[0]) or 0.5
    low, high = ends[0] - air, ends[1] + air
    return (float(10**low), float(10**high)) if panel.log_x else (float(low), float(high))


def log_ticks(low: float, high: float) -> list[float] | None:
    """Ticks 1, 2, 5, 10, … between two positive ends; None where powers of ten do, or one fits."""
    if not 0 < low < high or high / low >= 300:
        return None
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside if len(inside) > 1 else None


def nearest(x: np.ndarray, y: np.ndarray, across: np.ndarray, up: np.ndarray, log_x: bool, log_y: bool) -> np.ndarray:
    """The number of the nearest of the points (x, y) ``[row, column]`` at each place of ``up`` and ``across``, where
    both axes count as equally long."""

    def scaled(values: np.ndarray, ends: np.ndarray, log: bool) -> np.ndarray:
        values, ends = (np.log(values), np.log(ends)) if log else (values, ends)
        return np.asarray((values - ends[0]) / (ends[-1] - ends[0]))

    apart_x = scaled(x, across, log_x) - scaled(across, across, log_x)[:, None]
    apart_y = scaled(y, up, log_y) - scaled(up, up, log_y)[:, None]
    return np.asarray((apart_x[None] ** 2 + apart_y[:, None] ** 2).argmin(-1))


@dataclass(frozen=True)
class MarkLabel:
    """A vertical line's label above the axes.

    Attributes:
        x: position of the line.
        text: the label.
        level: row above the axes, 0 the lowest.
        anchor: which side of the text is at the line.
    """

    x: float
    text: str
    level: int
    anchor: str


def mark_labels(panel: Panel, characters: int) -> list[MarkLabel]:
    """Labels of the panel's marks, lifted where they would overlap.

    Args:
        panel: the panel.
        characters: how many characters of a label fit along the x axis.
    """
    low, high = x_range(panel)
    ends: list[float] = []  # right end of the text on each level
    labels = []
    for x, text in sorted(mark for mark in panel.marks if np.isfinite(mark[0])):
        if panel.log_x and x <= 0:
            continue
        place = log10(x / low) / log10(high / low) if panel.log_x else (x - low) / (high - low)
        width = (len(text) + 1) / characters
        anchor = "left" if place < width / 2 else "right" if place > 1 - width / 2 else "center"
        start = place - {"left": 0.0, "center": width / 2, "right": width}[anchor]
        level = next((i for i, end in enumerate(ends) if end <= start), len(ends))
        ends[level : level + 1] = [start + width]
        labels.append(MarkLabel(x, text, level, anchor))
    return labels


def bent(units: np.ndarray) -> np.ndarray:
    """An axis that is linear in [-1, 1] and logarithmic beyond: large deviations leave small ones visible."""
    size = np.abs(np.asarray(units, dtype=np.float64))
    return np.asarray(np.sign(units) * np.where(size <= 1, size, 1 + np.log10(np.maximum(size, 1))))


@dataclass(frozen=True)
class Deviations:
    """An `Agreement` in units of each row's tolerance, on the `bent` axis.

    Attributes:
        centre, low, high: the measurements less the predictions, ``[row]``; intervals end with the axis.
        verdicts: "holds", "fails" or "undecided" for each row: the figure's own, or by the intervals.
        reach: half-length of the axis.
        ticks: positions and texts of the ticks.
        accepted: whether the row has a band around zero, from -1 to 1, ``[row]``.
    """

    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    verdicts: list[str]
    reach: float
    ticks: tuple[list[float], list[str]]
    accepted: np.ndarray


def deviations(figure: Agreement) -> Deviations:
    """The rows of ``figure`` on one axis; a row without tolerance in units of its prediction, or of 1."""
    predicted = np.asarray(figure.predicted, dtype=np.float64)
    tolerance = np.asarray(figure.tolerance, dtype=np.float64)
    unit = np.where(tolerance > 0, tolerance, np.where(predicted != 0, np.abs(predicted), 1.0))
    accepted = np.where(tolerance > 0, 1.0, 0.0)
    measured = (figure.measured, figure.low, figure.high)
    centre, low, high = ((np.asarray(v, dtype=np.float64) - predicted) / unit for v in measured)
    verdicts = list(figure.verdicts) or [
        "undecided"
        if not np.isfinite(c)
        else "holds"
        if -a <= lo and hi <= a
        else "fails"
        if hi < -a or lo > a
        else "undecided"
        for c, lo, hi, a in zip(centre, low, high, accepted, strict=True)
    ]
    finite = np.abs(np.concatenate([centre, low, high]))
    largest = min(max(1.0, float(finite[np.isfinite(finite)].max(initial=0.0))), _FARTHEST)
    reach = float(bent(np.array(largest))) * 1.06 + 0.1
    decades = range(ceil(log10(largest)) + 1)
    values = [-(10**d) for d in reversed(decades)] + [0] + [10**d for d in decades]
    kept = [v for v in values if abs(bent(np.array(v))) <= reach]
    ticks = (
        [float(bent(np.array(v))) for v in kept],
        [f"{v:+,d}".replace("-", "−") if v else "0" for v in kept],
    )
    edge = np.array([-reach, reach])
    low, centre, high = (np.clip(bent(values), *edge) for values in (low, centre, high))
    return Deviations(centre, low, high, verdicts, reach, ticks, tolerance > 0)


def value_range(panels: dict[str, np.ndarray]) -> tuple[float, float]:
    """Smallest and largest finite value over all panels; 0 and 1 when there is none."""
    values = np.concatenate([np.asarray(p, dtype=np.float64).ravel() for p in panels.values()] or [np.empty(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def shown_frames(movie: MatrixMovie) -> list[int]:
    """First, middle and last frame, without repeats."""
    count = len(movie.steps)
    return sorted({0, (count - 1) // 2, count - 1})


def grid(panels: int) -> tuple[int, int]:
    """Rows and columns for this many panels: up to three abreast, four as two rows of two."""
    columns = panels if panels <= 3 else 2 if panels == 4 else 3
    return ceil(panels / columns), columns


def mosaic(images: np.ndarray) -> np.ndarray:
    """Images ``[image, height, width, 3]`` in [0, 1] as one picture, about square, white between them.

    Returns:
        bytes ``[height, width, 3]``.
    """
    images = np.asarray(images, dtype=np.float64)
    count, height, width, _ = images.shape
    columns = max(1, ceil(sqrt(count)))
    rows = ceil(count / columns)
    gap = max(1, height // 12)
    picture = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap, 3))
    for i, image in enumerate(images):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        picture[top : top + height, left : left + width] = np.clip(np.nan_to_num(image), 0, 1)
    return np.round(picture * 255).astype(np.uint8)

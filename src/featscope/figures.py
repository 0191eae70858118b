"""Descriptions of figures: what to draw, with labels, units and intervals.

A study returns these; the report draws each one twice, as a PNG and on the interactive page. Values that do not fit
together are refused when they are described, with the figure's id: a drawing would fail later, or show something else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from featscope.options import require_name


def _require_shape(what: str, values: np.ndarray | None, expected: tuple[int, ...], why: str) -> None:
    """Refuse ``values`` unless they have the ``expected`` shape; None is nothing, and -1 any length."""
    found = np.shape(values) if values is not None else expected
    if len(found) != len(expected) or any(have != want >= 0 for have, want in zip(found, expected, strict=True)):
        shape = ", ".join("any" if want < 0 else str(want) for want in expected)
        raise ValueError(f"{what} has shape {list(found)}: expected [{shape}], {why}")


def _require_verdicts(of: str, verdicts: Sequence[str]) -> None:
    if unknown := {*verdicts} - {"holds", "fails", "undecided"}:
        raise ValueError(f"{of!r} has the verdict {min(unknown)!r}: allowed is holds, fails or undecided")


def _some_positive(drawn: Sequence["Curve"] | Sequence["VerdictPanel"]) -> bool:
    return any((np.asarray(one.y) > 0).any() for one in drawn)


@dataclass(frozen=True)
class Figure:
    """What every figure has.

    Attributes:
        id: file name of the PNG and anchor on the page: letters, digits, and of the rest - . _ @ = +.
        title: what is shown or asked, in a few words, and not what was found: another run may find something else.
        caption: how to read it, in a sentence or three.
        claims: ids of the claims that it shows.
    """

    id: str
    title: str
    caption: str
    claims: Sequence[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        require_name(self, "id")
        if not getattr(self, "panels", True):
            raise ValueError(f"the figure {self.id!r} has no panels: expected one or more, or no figure")


@dataclass(frozen=True)
class Curve:
    """One line with an optional band.

    Attributes:
        label: legend entry.
        x: abscissae ``[point]``.
        y: ordinates ``[point]``.
        low, high: ends of the interval at each point, or None.
        dashed: for predictions.
        samples: ordinates of each replica ``[replica, point]``, or None.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dashed: bool = False
    samples: np.ndarray | None = None

    def __post_init__(self) -> None:
        points = np.size(self.x)
        for name in ("x", "y", "low", "high"):
            _require_shape(f"{name} of the curve {self.label!r}", getattr(self, name), (points,), "a value a point")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"the curve {self.label!r} has one end of its interval: expected low and high, or none")
        what = f"samples of the curve {self.label!r}"
        _require_shape(what, self.samples, (-1, points), "a value a replica and point")


@dataclass(frozen=True)
class Panel:
    """One set of axes with curves.

    Attributes:
        title: what is plotted.
        x_label, y_label: axis labels with units.
        curves: the lines.
        marks: (x, label) of vertical lines, such as stage boundaries.
        log_x, log_y: logarithmic axes.
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    marks: Sequence[tuple[float, str]] = ()
    log_x: bool = False
    log_y: bool = False

    @property
    def logarithmic(self) -> bool:
        """Whether y is drawn so: if it is to be, and some value is positive."""
        return self.log_y and _some_positive(self.curves)


@dataclass(frozen=True)
class Curves(Figure):
    """Panels of lines."""

    panels: Sequence[Panel]


@dataclass(frozen=True)
class MatrixMovie(Figure):
    """Matrices that change over steps, with a step slider; panels side by side share steps and colours.

    Attributes:
        steps: the step of each frame.
        frames: panel label -> ``[replica, frame, row, column]``; the same replicas everywhere.
        row_label, column_label, value_label: what the axes and colours are, with units.
        low, high: ends of the colour scale.
        last_steps: of panels that ended before the others: frames beyond show this step.

    Raises:
        ValueError: ``last_steps`` of a panel that is not there, or ends of the colours that are none.
    """

    steps: Sequence[int]
    frames: dict[str, np.ndarray]
    row_label: str
    column_label: str
    value_label: str
    low: float = 0.0
    high: float = 1.0
    last_steps: Mapping[str, int] = field(default_factory=dict)

    def shown(self, label: str, frame: int) -> tuple[int, bool]:
        """The step that a frame of this panel is of, and whether the panel had ended by then."""
        step, last = self.steps[frame], self.last_steps.get(label)
        return (step, False) if last is None or step <= last else (last, True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := self.last_steps.keys() - self.frames.keys():
            raise ValueError(f"last_steps of {self.id!r} has {sorted(unknown)}: allowed are its panels")
        if not self.low < self.high:
            raise ValueError(f"colours of {self.id!r} go from {self.low} to {self.high}: expected low < high")
        shape = (len(next(iter(self.frames.values()))), len(self.steps), -1, -1)
        for label, frames in self.frames.items():
            _require_shape(f"the panel {label!r} of {self.id!r}", frames, shape, "a matrix a replica and step")


@dataclass(frozen=True)
class Agreement(Figure):
    """Predictions against measurements, one row an identity.

    Attributes:
        labels: names of the rows.
        predicted: ``[row]``.
        measured: ``[row]``.
        low, high: ends of the measurement's interval, ``[row]``.
        tolerance: half-width accepted around the prediction, ``[row]``.
        verdicts: those of the claims, ``[row]``; by the intervals if there are none.
    """

    labels: Sequence[str]
    predicted: np.ndarray
    measured: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tolerance: np.ndarray
    verdicts: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("predicted", "measured", "low", "high", "tolerance"):
            what = f"{name} of {self.id!r}"
            _require_shape(what, getattr(self, name), (len(self.labels),), "a value a row")
        _require_verdicts(self.id, self.verdicts)
        if self.verdicts and len(self.verdicts) != len(self.labels):
            counts = f"{len(self.verdicts)} verdicts on {len(self.labels)} rows"
            raise ValueError(f"{self.id!r} has {counts}: expected one each")


@dataclass(frozen=True)
class Bars(Figure):
    """Groups of bars with intervals.

    Attributes:
        groups: names along the axis.
        series: legend label -> (value, low, high), each ``[group]``; NaN leaves a gap.
        y_label: what is measured, with units.
        references: (value, label) of horizontal lines.
        samples: legend label -> the value of each replica ``[replica, group]``; nothing where none is known.
    """

    groups: Sequence[str]
    series: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    y_label: str
    references: Sequence[tuple[float, str]] = ()
    samples: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := self.samples.keys() - self.series.keys():
            raise ValueError(f"samples of {self.id!r} are of {sorted(unknown)}: allowed are its series")
        for label, each in self.series.items():
            for name, values in zip(("the height", "the lower end", "the upper end"), each, strict=True):
                what = f"{name} of the bars {label!r} of {self.id!r}"
                _require_shape(what, values, (len(self.groups),), "a value for each group")
            what = f"samples of the bars {label!r} of {self.id!r}"
            _require_shape(what, self.samples.get(label), (-1, len(self.groups)), "a value a replica and group")


@dataclass(frozen=True)
class ImageGrids(Figure):
    """Grids of small colour images, one grid a panel.

    Attributes:
        panels: panel label -> images ``[image, height, width, 3]`` with values in [0, 1].
    """

    panels: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        super().__post_init__()
        for label, images in self.panels.items():
            what = f"the panel {label!r} of {self.id!r}"
            _require_shape(what, images, (-1, -1, -1, 3), "images of height, width and three colours")


@dataclass(frozen=True)
class Heatmaps(Figure):
    """Static matrices side by side with one colour scale.

    Attributes:
        panels: panel label -> ``[row, column]``.
        row_label, column_label, value_label: what the axes and colours are, with units.
        rows, columns: names along the axes; numbers from 0 if there are none.
        ends: of the colour scale; those of the values if there are none.
    """

    panels: dict[str, np.ndarray]
    row_label: str
    column_label: str
    value_label: str
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    ends: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (len(self.rows) or -1, len(self.columns) or -1)
        for label, cells in self.panels.items():
            _require_shape(f"the panel {label!r} of {self.id!r}", cells, shape, "a value for each row and column")


@dataclass(frozen=True)
class Scatters(Figure):
    """Points in the plane, coloured by class, one panel for each set.

    Attributes:
        panels: panel label -> positions ``[point, 2]``.
        classes: panel label -> class index ``[point]``.
        class_names: names of the classes.
    """

    panels: dict[str, np.ndarray]
    classes: dict[str, np.ndarray]
    class_names: Sequence[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        for label, at in self.panels.items():
            what = f"the panel {label!r} of {self.id!r}"
            _require_shape(what, at, (-1, 2), "two coordinates a point")
            of = np.asarray(self.classes[label])
            _require_shape(f"the classes of {what}", of, (len(at),), "a class a point")
            if unnamed := sorted({*of.tolist()} - {*range(len(self.class_names))}):
                raise ValueError(
                    f"{what} has the class {unnamed[0]}: expected 0 to {len(self.class_names) - 1}, as named"
                )


@dataclass(frozen=True)
class VerdictPanel:
    """Verdicts on one claim at several points.

    Attributes:
        label: the arm.
        x: where the points are ``[point]``.
        y: where they are along the second axis, or what was measured there ``[point]``.
        verdicts: "holds", "fails" or "undecided" ``[point]``.
        said: what there is to say of each ``[point]``.
        low, high: ends of the measurement's interval ``[point]``; None where y is an axis.
        edges: bounds that it is held against, each ``[point]``.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    verdicts: Sequence[str]
    said: Sequence[str]
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    edges: Sequence[np.ndarray] = ()

    def __post_init__(self) -> None:
        points = np.size(self.x)
        for name in ("x", "y", "low", "high"):
            what = f"{name} of the verdicts on {self.label!r}"
            _require_shape(what, getattr(self, name), (points,), "a value a point")
        _require_verdicts(self.label, self.verdicts)
        if not len(self.verdicts) == len(self.said) == points:
            counts = f"{len(self.verdicts)} verdicts and {len(self.said)} words"
            raise ValueError(f"{self.label!r} has {counts} on {points} points: expected one each")
        for edge in self.edges:
            _require_shape(f"a bound of the verdicts on {self.label!r}", edge, (points,), "a value a point")


@dataclass(frozen=True)
class Verdicts(Figure):
    """Where a claim holds, fails and is undecided: over one axis with what was measured, or over two.

    Attributes:
        panels: one an arm.
        x_label, y_label: what the axes are, with units.
        log_x, log_y: logarithmic axes.
        areas: whether y is an axis too, so that each point stands for what lies around it.
    """

    panels: Sequence[VerdictPanel]
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    areas: bool = False

    @property
    def logarithmic(self) -> bool:
        """Whether y is drawn so: if it is to be, and some value is positive."""
        return self.log_y and _some_positive(self.panels)


@dataclass(frozen=True)
class Table:
    """Words in rows and columns; without rows, its title alone is shown.

    Attributes:
        title: what it is of.
        headings: above the columns.
        rows: as many cells each; the first names the row.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

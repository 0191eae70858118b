"""Colours, symbols and colour scales of the PNGs; those of the page in light (``assets/page.css``) are the same.

The categorical colours are near those of Okabe and Ito (2008), without yellow, and dark enough to be read on white:
people with any of the common colour deficiencies can tell them apart. No meaning rests on colour alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from featscope.figures import Panel

INK = "#1b2430"
MUTED = "#59636f"
GRID = "#e4e7ec"
CYCLE = ("#0b63a5", "#c2500a", "#0a8564", "#a34c8a", "#5a6470", "#9a6b00", "#5b4ba8")
HATCHES = ("", "////", "....", "xxxx", "----", "oooo")
SYMBOLS = ("circle", "triangle-up", "square", "diamond")

HOLDS, FAILS, UNDECIDED = "#0b6b50", "#b3201a", "#8a5a00"
VERDICT_COLOUR = {"holds": HOLDS, "fails": FAILS, "undecided": UNDECIDED}

SEQUENTIAL = ("#ffffff", "#cfe2f0", "#6fabd6", "#1b67a8", "#062a52")
DIVERGING = ("#7f3108", "#e29a6c", "#ffffff", "#86b9dc", "#06365f")
MISSING = "#c9cdd3"


class Swatch(NamedTuple):
    """One entry of a legend.

    ``shape`` is "line", "dash", "short dash", "dot", or a dash with as many "dot"s after it as there are in a period.
    """

    label: str
    colour: str
    shape: str


class Scale(NamedTuple):
    """A colour scale: its ends, its colours at equal distances, and what it shows."""

    low: float
    high: float
    colours: tuple[str, ...]
    label: str


def scale(low: float, high: float, label: str) -> Scale:
    """The scale from ``low`` to ``high``: two-sided around zero when zero lies inside, else white to dark."""
    if low < 0 < high:
        reach = max(-low, high)
        return Scale(-reach, reach, DIVERGING, label)
    return Scale(low, high if high > low else low + 1.0, SEQUENTIAL, label)


def colour(index: int) -> str:
    """The categorical colour of the ``index``-th thing."""
    return CYCLE[index % len(CYCLE)]


def hatch(index: int) -> str:
    """The hatch of the ``index``-th bars: it changes where the colours start again."""
    return HATCHES[index // len(CYCLE) % len(HATCHES)]


def symbol(index: int) -> str:
    """The symbol of the ``index``-th class: it changes where the colours start again."""
    return SYMBOLS[index // len(CYCLE) % len(SYMBOLS)]


def curve_swatches(panels: Sequence[Panel]) -> dict[tuple[str, bool], Swatch]:
    """(label, dashed) -> how that curve looks in every panel of a figure.

    A prediction (dashed) that bears the label of a measurement has its colour. The first other prediction is
    ink: the usual figure has several measurements and one prediction. Where colours start again, lines are dashes with
    one dot more between them each time; predictions have shorter dashes, and their first dot one turn later.
    """
    keys = list(dict.fromkeys((c.label, c.dashed) for panel in panels for c in panel.curves))
    solid = [label for label, dashed in keys if not dashed]
    lone = [label for label, dashed in keys if dashed and label not in solid]
    swatches = {}
    for label, dashed in keys:
        if label in solid:
            index = solid.index(label)
            tone = colour(index)
        else:
            index = len(solid) + lone.index(label) - 1
            tone = INK if label == lone[0] else colour(index)
        again = 0 if tone == INK else index // len(CYCLE)
        if dashed:
            shape = "short dash" + (again - 1) * "dot" if again else "dash"
        else:
            shape = "dash" + again * "dot" if again else "line"
        swatches[label, dashed] = Swatch(label, tone, shape)
    return swatches


def reference_swatches(references: Sequence[tuple[float, str]]) -> list[Swatch]:
    """How horizontal reference lines look."""
    shapes = ("dash", "dot", *("dash" + more * "dot" for more in range(1, len(references))))
    return [Swatch(label, INK, shape) for (_, label), shape in zip(references, shapes, strict=False)]

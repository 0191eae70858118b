"""Where a sweep looks closer: between points whose verdicts differ, and where they are undecided.

The axes' values cut the plane into cells. A cell whose corners do not agree is cut in the middle of each axis, its
parts again where theirs do not, and so on: bisection along one axis, a quadtree over two. Coarse cells come first.

Written here rather than taken from python-adaptive: its learners follow a real function one point at a time, while here
are verdicts of several claims, whose points come in rounds that train together; and which points come next must follow
from those that are there, so that a run that was killed goes on as it would have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import sqrt

from featscope.axes import Axis

Point = tuple[float, ...]
Cell = tuple[tuple[float, float], ...]
"""Both ends along each axis."""

_DEEPEST = 8  # times that a cell is cut


def closer(
    axes: Sequence[Axis],
    whole: Sequence[bool],
    verdicts: Mapping[Point, Sequence[str]],
    budget: int,
    possible: Callable[[Point], bool] = lambda _: True,
) -> list[Point]:
    """The points at which to look next, all of one size of cell; none where all agree, or none can be afforded.

    Args:
        axes: with the values that were looked at first.
        whole: of each axis, whether its option takes whole numbers only.
        verdicts: of all claims in one order, at every point so far.
        budget: points that may be added.
        possible: whether the study can be at a point. A cell whose parts need one where it cannot is not cut.
    """
    ranked = []
    for depth, cell in _leaves(axes, whole, set(verdicts)):
        corners = [verdicts[corner] for corner in product(*cell)]
        of_each = list(zip(*corners, strict=True))
        changed, undecided = sum(len(set(of)) > 1 for of in of_each), sum("undecided" in of for of in of_each)
        if changed or undecided:
            ranked.append(((changed == 0, depth), -changed, -undecided, cell))
    found: dict[Point, None] = {}
    first: tuple[bool, int] | None = None  # the size of the first cell that can be cut
    for size, _, _, cell in sorted(ranked):
        new = [point for point in _cut(axes, whole, cell)[1] if point not in verdicts and point not in found]
        if first not in (None, size):
            break
        if not all(map(possible, new)):
            continue
        first = size
        if new and len(found) + len(new) <= budget:
            found.update(dict.fromkeys(new))
    return list(found)


def _leaves(axes: Sequence[Axis], whole: Sequence[bool], known: set[Point]) -> Iterator[tuple[int, Cell]]:
    """The cells that can be cut further, with how often they were cut."""
    pending = [(0, cell) for cell in product(*(tuple(pairwise(sorted(axis.values))) for axis in axes))]
    while pending:
        depth, cell = pending.pop()
        parts, corners = _cut(axes, whole, cell)
        if len(parts) > 1 and depth < _DEEPEST:
            if known.issuperset(corners):
                pending += [(depth + 1, part) for part in parts]
            elif known.issuperset(product(*cell)):
                yield depth, cell


def _cut(axes: Sequence[Axis], whole: Sequence[bool], cell: Cell) -> tuple[list[Cell], list[Point]]:
    """The parts of a cell, and all their corners."""
    marks = []
    for axis, counted, (low, high) in zip(axes, whole, cell, strict=True):
        middle = sqrt(low * high) if axis.logarithmic else (low + high) / 2
        middle = float(round(middle)) if counted else float(f"{middle:.6g}")
        marks.append((low, middle, high) if low < middle < high else (low, high))
    return list(product(*(tuple(pairwise(of)) for of in marks))), list(product(*marks))

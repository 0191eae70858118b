"""How many digits tell a measurement from its bound."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

MOST = 17
"""Digits that are shown at most: all that a double has."""
_ROUNDING = 1e-8  # of a bound, or of what an equation accepts: what need not be shown
_NOISE = 1e-15  # of doubles: what adding them leaves


def reads_right(
    bound: float,
    values: Iterable[float],
    tolerance: float | None,
    rounded: Callable[[float], float],
    shown: float | None = None,
) -> bool:
    """Whether numbers, once ``rounded``, lie on the side of the bound on which they lie.

    Args:
        bound: the bound, or what an equation predicts.
        values: what is held against it.
        tolerance: what an equation accepts to either side, so that it has two bounds; None where it is an inequality.
        rounded: bound or value as it is shown.
        shown: the tolerance as it is shown, where that is rounded, too.
    """
    accepted = tolerance if shown is None or tolerance is None else shown
    sides = ((0.0, 0.0),) if accepted is None or tolerance is None else ((-tolerance, -accepted), (tolerance, accepted))
    return all(
        (value - bound - side) * _beyond(rounded(value), rounded(bound), shown_side) > 0
        for value in values
        for side, shown_side in sides
        if _is_apart(value, bound + side, tolerance)
    )


def significant(bound: float, values: Sequence[float], tolerance: float | None, least: int = 3) -> tuple[int, int]:
    """Significant digits of bound and values, ``least`` or more, and of the tolerance, with which they read right.

    Args:
        bound: the bound, or what an equation predicts.
        values: what is held against it.
        tolerance: what an equation accepts to either side; None where it is an inequality. It has three digits, or as
            many as the others.
        least: digits of bound and values where more are not needed.
    """

    def right(digits: int, of_tolerance: int) -> bool:
        shown = None if tolerance is None else float(f"{tolerance:.{of_tolerance}g}")
        return reads_right(bound, values, tolerance, lambda value: float(f"{value:.{digits}g}"), shown)

    tried = ((digits, of_tolerance) for digits in range(least, MOST + 1) for of_tolerance in (3, digits))
    return next((each for each in tried if right(*each)), (MOST, MOST))


def rounded_to(value: float, digits: int) -> str:
    """``value`` with so many significant digits, or the shortest that is this double where that is `MOST`."""
    return f"{value:.{digits}g}" if digits < MOST else repr(float(value)).removesuffix(".0")


def _beyond(value: float, bound: float, side: float) -> float:
    """How far above ``bound + side`` a value lies; 0 where it lies on it but for the last bits of a double."""
    gap = value - bound - side
    noise = _NOISE * max(abs(value), abs(bound), abs(side)) if side else 0.0
    return gap if abs(gap) > noise else 0.0


def _is_apart(value: float, edge: float, tolerance: float | None) -> bool:
    """Whether a value is off the edge by so much that it is to be seen; where either is not finite nothing can be."""
    size = max(abs(value), abs(edge))
    unit = size if tolerance is None else min(size, tolerance)
    return isfinite(value) and isfinite(edge) and abs(value - edge) > _ROUNDING * unit

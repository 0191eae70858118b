"""How many digits tell a measurement from its bound."""

from collections.abc import Callable, Iterable
from math import floor, isfinite, log10

MOST = 9
"""Digits that are shown at most."""
_CLOSE = 0.005  # of a bound: what three digits may not tell from it
_ROUNDING = 1e-8  # of it: what nine digits need not show


def reads_right(
    bound: float, values: Iterable[float], tolerance: float | None, rounded: Callable[[float], float]
) -> bool:
    """Whether numbers, once ``rounded``, lie on the side of the bound on which they lie.

    Args:
        bound: the bound, or what an equation predicts.
        values: what is held against it.
        tolerance: what an equation accepts to either side, so that it has two bounds; None where it is an inequality.
        rounded: a number as it is shown.
    """
    sides = (0.0,) if tolerance is None else (-tolerance, tolerance)
    return all(
        (value - bound - side) * (rounded(value) - rounded(bound) - side) > 0
        for value in values
        for side in sides
        if _apart(value, bound + side) > _ROUNDING
    )


def digits_apart(bound: float, values: Iterable[float], least: int) -> int:
    """Significant digits, ``least`` or more, that show how far ``values`` are from a ``bound`` close to them."""
    near = [
        (abs(value - bound), max(abs(value), abs(bound)))
        for value in values
        if _ROUNDING < _apart(value, bound) < _CLOSE
    ]
    return min(MOST, max([least, *(2 + _power(size) - _power(gap) for gap, size in near)]))


def _apart(value: float, bound: float) -> float:
    """As a share of the larger; 0 where either is not finite, of which nothing can be shown."""
    return abs(value - bound) / (max(abs(value), abs(bound)) or 1.0) if isfinite(value) and isfinite(bound) else 0.0


def _power(value: float) -> int:
    return floor(log10(abs(value))) if value else 0

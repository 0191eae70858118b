"""How many digits tell a measurement from its bound."""

from collections.abc import Callable, Iterable
from math import floor, isfinite, log10

MOST = 9
"""Digits that are shown at most."""
_CLOSE = 0.005  # of a bound: what three digits may not tell from it
_ROUNDING = 1e-8  # of it: what nine digits need not show
_NOISE = 1e-12  # of numbers of nine digits: what adding them leaves


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


def _beyond(value: float, bound: float, side: float) -> float:
    """How far above ``bound + side`` a value lies; 0 where it lies on it but for the last bits of a double."""
    gap = value - bound - side
    return gap if abs(gap) > _NOISE * max(abs(value), abs(bound), abs(side)) else 0.0


def _apart(value: float, bound: float) -> float:
    """As a share of the larger; 0 where either is not finite, of which nothing can be shown."""
    return abs(value - bound) / (max(abs(value), abs(bound)) or 1.0) if isfinite(value) and isfinite(bound) else 0.0


def _power(value: float) -> int:
    return floor(log10(abs(value))) if value else 0

"""How many digits tell a measurement from its bound."""

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10

_CLOSE = 0.005  # of a bound: what three digits may not tell from it
_ROUNDING = 1e-6  # of it: what is left open to it, as verdicts leave it
_MOST = 9  # digits


def decimals_apart(bound: float, values: Iterable[float]) -> int:
    """Decimals from which on none of ``values`` looks like a ``bound`` that it is not; 0 where three digits do."""
    near = [v for v in values if isfinite(v) and _ROUNDING < abs(v - bound) / (max(abs(v), abs(bound)) or 1) < _CLOSE]
    if not (near and isfinite(bound)):
        return 0
    gap = min(abs(value - bound) for value in near)
    return min(_MOST - _power(bound), 1 - _power(gap))


def digits_apart(bound: float, values: Sequence[float], least: int) -> int:
    """Significant digits, ``least`` or more, from which on none of ``values`` looks like a ``bound`` that it is not."""
    decimals = decimals_apart(bound, values)
    size = max((abs(value) for value in (bound, *values) if isfinite(value)), default=0.0)
    return max(least, decimals + 1 + _power(size)) if decimals else least


def _power(value: float) -> int:
    return floor(log10(abs(value))) if value else 0

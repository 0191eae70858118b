"""Numbers as people read them."""

from collections.abc import Sequence
from math import floor, isfinite, isnan, log10

from featscope.claims.digits import MOST, reads_right
from featscope.tex import raised


def number(value: float, decimals: int | None = None) -> str:
    """``value`` to three significant digits, or to ``decimals`` decimals where that is more (of tens where negative).

    Scientific below 0.001 and from 100 000; but a value that is small beside the few ``decimals`` of its interval
    keeps to them.
    """
    if isnan(value):
        return "none"
    if not isfinite(value):
        return "−∞" if value < 0 else "∞"
    if value == 0:
        return "0"
    power, places = _power_and_places(value, decimals)
    if power >= 5 or (power < -3 and places > 5):
        return _signed(f"{value / 10.0**power:.{places + power}f}×10{raised(power)}")
    return _signed(f"{value:.{max(places, 0)}f}")


def chosen(value: float, decimals: int | None = None) -> str:
    """A number that was chosen, not measured (a bound, a tick): `number` without zeros that say nothing.

    Few ``decimals`` make no 0 of what is none.
    """
    shown = number(value, decimals)
    if value and shown.strip("−0.") == "":
        shown = number(value)
    mantissa, times, power = shown.partition("×")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return mantissa + times + power


def decimals_for(low: float, high: float) -> int | None:
    """Decimals that show an interval's width to two digits; never more than six digits of its ends.

    None where three digits are enough, as of no width.
    """
    width, size = high - low, max(abs(low), abs(high))
    if not (isfinite(width) and width > 0):
        return None
    return min(1 - _power(width), 5 - _power(size))


def decimals_apart(
    bound: float, values: Sequence[float], tolerance: float | None, decimals: int | None = None
) -> tuple[int | None, int | None, int | None]:
    """Decimals for ``values``, their ``bound`` and its ``tolerance``, with which they read as they lie to each other.

    The tolerance has three digits (None) where they do, else the decimals of the rest.

    Args:
        bound: the bound, or what an equation predicts.
        values: what is held against it.
        tolerance: what an equation accepts to either side; None where it is an inequality.
        decimals: of ``values``, where more are not needed.
    """

    def right(of_values: int | None, of_bound: int | None, of_tolerance: int | None) -> bool:
        shown = {value: _rounded(value, of_values) for value in values} | {bound: _rounded(bound, of_bound)}
        accepted = tolerance or 0.0
        accepted = _rounded(accepted, of_tolerance) or _rounded(accepted, None)  # `chosen` makes no 0 of it
        return reads_right(bound, values, tolerance, shown.__getitem__, accepted)

    of_bound = decimals
    if tolerance is None and decimals is not None and isfinite(bound):
        of_bound = min(decimals, 4 - _power(bound))  # five digits
    if right(decimals, of_bound, None):
        return decimals, of_bound, None
    least = min(_power_and_places(value, None)[1] for value in (bound, *values) if isfinite(value) and value)
    start = least if decimals is None else max(least, decimals)
    tried = ((n, n, of_tolerance) for n in range(start, least + MOST) for of_tolerance in (None, n))
    return next((each for each in tried if right(*each)), (decimals, decimals, None))


def interval(low: float, high: float) -> str:
    """``[low, high]``, both ends with the decimals that tell them apart."""
    decimals = decimals_for(low, high)
    if not (isfinite(low) and isfinite(high)):
        return f"[{number(low)}, {number(high)}]"
    power = _power(max(abs(low), abs(high)))
    if power < -3 or power >= 5:  # one power of ten for both ends
        digits = 2 if low == high else max(2, min(5, power + 1 - _power(high - low)))
        ends = ", ".join(_signed(f"{end / 10.0**power:.{digits}f}") for end in (low, high))
        return f"[{ends}]×10{raised(power)}"
    decimals = max(decimals or 0, 2 - power)
    return f"[{_signed(f'{low:.{decimals}f}')}, {_signed(f'{high:.{decimals}f}')}]"


def exact(value: float) -> str:
    """``value`` with all of its digits, for those who compute with it."""
    return _signed(repr(float(value)).removesuffix(".0")) if isfinite(value) else number(value)


def _power_and_places(value: float, decimals: int | None) -> tuple[int, int]:
    """The power of ten of ``value``, and the decimals that `number` shows of it; negative where it ends in tens."""
    power = _power(float(f"{value:.2e}"))  # 0.9997 is 1.00
    if decimals is None:
        return power, 2 - power
    if power < -3 and 0 < decimals <= 5:
        return power, decimals
    return power, max(2 - power, min(decimals, MOST - 1 - power))


def _rounded(value: float, decimals: int | None) -> float:
    """``value`` as `number` shows it."""
    if not (isfinite(value) and value):
        return value
    power, places = _power_and_places(value, decimals)
    return round(value, places if power >= 5 else max(places, 0))


def _power(value: float) -> int:
    return floor(log10(abs(value))) if value else 0


def _signed(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text

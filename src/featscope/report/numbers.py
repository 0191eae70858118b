"""Numbers as people read them."""

from math import floor, isfinite, isnan, log10

from featscope.tex import raised


def number(value: float, decimals: int = 0) -> str:
    """``value`` to three significant digits, or to ``decimals`` decimals where that is more.

    Scientific below 0.001 and from 100 000; but a value that is small beside the few ``decimals`` of its interval
    keeps to them.
    """
    if isnan(value):
        return "none"
    if not isfinite(value):
        return "−∞" if value < 0 else "∞"
    if value == 0:
        return "0"
    power = _power(float(f"{value:.2e}"))  # 0.9997 is 1.00
    if power < -3 and 0 < decimals <= 5:
        return _signed(f"{value:.{decimals}f}")
    if power >= 5 or power < -3:
        digits = max(2, min(5, decimals + power)) if decimals else 2
        return _signed(f"{value / 10.0**power:.{digits}f}×10{raised(power)}")
    return _signed(f"{value:.{max(decimals, 2 - power, 0)}f}")


def chosen(value: float, decimals: int = 0) -> str:
    """A number that was chosen, not measured (a bound, a tick): `number` without zeros that say nothing."""
    mantissa, times, power = number(value, decimals).partition("×")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return mantissa + times + power


def decimals_for(low: float, high: float) -> int:
    """Decimals that show an interval's width to two digits; never more than six digits of its ends."""
    width, size = high - low, max(abs(low), abs(high))
    if not (isfinite(width) and width > 0):
        return 0
    return max(0, min(1 - _power(width), 5 - _power(size)))


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
    decimals = max(decimals, 2 - power, 0)
    return f"[{_signed(f'{low:.{decimals}f}')}, {_signed(f'{high:.{decimals}f}')}]"


def exact(value: float) -> str:
    """``value`` with ten significant digits, for those who compute with it."""
    if isnan(value):
        return "none"
    return "−∞" if value == float("-inf") else "∞" if value == float("inf") else _signed(f"{value:.10g}")


def _power(value: float) -> int:
    return floor(log10(abs(value))) if value else 0


def _signed(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text

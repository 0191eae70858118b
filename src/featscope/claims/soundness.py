"""What a claim must be to say something: its relation, its law, what it accepts, and what can be measured."""

from difflib import get_close_matches
from math import inf, isfinite
from typing import Literal, get_args

import numpy as np

from featscope.claims.intervals import Law

Relation = Literal["=", "<=", ">=", "<", ">"]

_WORST: tuple[Law, ...] = ("exact", "extreme")
"""Laws whose interval may be a point."""
_ROUNDING = 1e-6  # beyond the ends of a range, of their size

NO_TOLERANCE = 'allowed is one beside equals, or relation="=". Put it into the bound'


def require_declared(source: str, relation: str, within: float | None, law: Law, ends: tuple[float, float]) -> None:
    """See that a claim can be judged as its decorator says.

    Raises:
        ValueError: its source is no text; it has a half-width beside a bound, or one that is not finite; see also
            `require_sound`.
    """
    if not isinstance(source, str):
        raise ValueError(f"source = {source!r}: expected a text, where the statement is made")
    if within is not None and relation != "=":
        raise ValueError(f"within = {within!r} beside a bound: {NO_TOLERANCE}")
    if within is not None and not 0 <= within < inf:
        raise ValueError(f"within = {within!r} is out of range: allowed is a finite number >= 0")
    require_sound(relation, law, within or 0.0, ends)


def require_sound(relation: str, law: Law, tolerance: float, ends: tuple[float, float]) -> None:
    """See that a claim can be judged so.

    Args:
        relation: of what is measured to what is predicted.
        law: what the measurement is.
        tolerance: half-width around what is predicted; NaN if it is not known.
        ends: of what can be measured.

    Raises:
        ValueError: there is no such relation or law, the tolerance is below 0, or the ends are in the wrong order.
    """
    if relation not in (relations := get_args(Relation)):
        raise ValueError(f"relation = {relation!r} is unknown: allowed is one of {', '.join(relations)}")
    if law not in (known := get_args(Law)):
        near = get_close_matches(str(law), known, 1)
        raise ValueError(
            f"law = {law!r} is unknown: allowed is one of {', '.join(known)}"
            f"{f'. Did you mean {near[0]!r}?' if near else ''}"
        )
    if tolerance < 0:
        raise ValueError(f"the tolerance = {tolerance:g} is out of range: allowed is >= 0, the half-width accepted")
    low, high = ends
    if low > high:
        raise ValueError(f"range = ({low:g}, {high:g}) is out of order: allowed is the low end, then the high end")


def never(relation: str, predicted: float, tolerance: float, law: Law, ends: tuple[float, float]) -> str:
    """What a claim can never do, whatever is measured: "hold", "fail", or neither, which is empty.

    An interval over replicas has a width, so that none is a single value, such as an end of what can be measured.

    Args:
        relation: "=", "<=", ">=", "<" or ">".
        predicted: the predicted value, or the bound.
        tolerance: half-width around it for "=".
        law: what the measurement is.
        ends: of what can be measured.
    """
    low, high = ends
    strict, wide = relation in ("<", ">"), law not in _WORST
    least = {"=": predicted - tolerance, ">": predicted}.get(relation[0], -inf)
    most = {"=": predicted + tolerance, "<": predicted}.get(relation[0], inf)
    room = min(high, most) - max(low, least)  # of what can be measured, how wide a part it accepts
    if room < 0 or (room == 0 and (wide or strict)):
        return "hold"
    everything = least <= low and high <= most and not (strict and predicted in ends)
    return "fail" if everything and isfinite(predicted) else ""


def holding(ends: tuple[float, float], samples: np.ndarray) -> tuple[float, float]:
    """``ends`` where samples are what they are said to be; else none: an interval that is cut there would end before
    it begins."""
    finite = samples[np.isfinite(samples)]
    room = _ROUNDING * max((abs(end) for end in (*ends, *finite.tolist()) if isfinite(end)), default=1.0)
    return ends if ((finite >= ends[0] - room) & (finite <= ends[1] + room)).all() else (-inf, inf)

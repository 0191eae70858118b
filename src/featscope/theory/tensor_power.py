"""What theory says of the tensor power method, x_{t+1} = x_t + η C_t x_t^q (Wen & Li 2022, Appendix G), in float64.

"D": derived here. All of it follows from reading Σ η C_t x_t^q' = Σ (x_{t+1} - x_t) x_t^(q'-q) as a left Riemann sum of
a decreasing function, over steps with x_t <= A.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64] | np.float64
Numbers = Array | float


def sum_limit(start: Numbers, level: Numbers, power: int, weight: int = 0) -> Array:
    """(x_0^-k - A^-k)/k with k = q - q' - 1: Σ η C_t x_t^q' as η goes to 0, and never more than the sum (D).

    Args:
        start: x_0.
        level: A; or the first x_t beyond it, for the sum's exact counterpart.
        power: q.
        weight: q', 0 in Lemma G.1.

    Raises:
        ValueError: k is not at least 1, where sums do not depend on x_0 by a power.
    """
    k = _order(power, weight)
    return (_power(start, -k) - _power(level, -k)) / k


def sum_ceiling(start: Numbers, end: Numbers, power: int, largest_ratio: Numbers) -> Array:
    """The most that Σ η C_t can be (D).

    Args:
        start: x_0.
        end: the first x_t beyond A.
        power: q.
        largest_ratio: max x_{t+1}/x_t = 1 + η max C_t x_t^(q-1).
    """
    return _power(largest_ratio, power) * sum_limit(start, end, power)


def sum_excess(start: Numbers, level: Numbers, power: int, step_size: Numbers, size_biased: float) -> Array:
    """Σ η C_t less its limit to first order in η, for independent C_t: η c (q log(A/x_0) + 1)/2 (D).

    The 1 is what the last step does beyond A.

    Args:
        start: x_0.
        level: A.
        power: q.
        step_size: η.
        size_biased: c = E[C²]/E[C].
    """
    return size_biased * np.asarray(step_size) * (power * np.log(np.asarray(level) / start) + 1) / 2


def weighted_excess(
    start: Numbers, end: Numbers, power: int, weight: int, step_size: Numbers, size_biased: float
) -> Array:
    """Σ η C_t x_t^q' less `sum_limit` up to ``end``, to first order in η: η c (q - q')/2 · ∫ x^(q'-1) dx (D).

    Args:
        start: x_0.
        end: the first x_t beyond A.
        power: q.
        weight: q'.
        step_size: η.
        size_biased: c = E[C²]/E[C].
    """
    along = (_power(end, weight) - _power(start, weight)) / weight if weight else np.log(np.asarray(end) / start)
    return size_biased * np.asarray(step_size) * (power - weight) / 2 * along


def sum_lower_bound(start: Numbers, level: Numbers, power: int, delta: Numbers, step: Numbers) -> Array:
    """Lemma G.1, lower bound on Σ η C_t; ``step`` stands for its O(η A^q)."""
    k = _order(power)
    main = delta / (1 + delta) / ((1 + delta) ** k - 1) * (1 - _power((1 + delta) * start / level, k))
    return (main - step / start * _levels(start, level, delta)) * _power(start, -k)


def sum_upper_bound(start: Numbers, level: Numbers, power: int, delta: Numbers, step: Numbers) -> Array:
    """Lemma G.1, upper bound on Σ η C_t; ``step`` stands for its O(η A^q)."""
    k = _order(power)
    return ((1 + delta) ** k / k + step / start * _levels(start, level, delta)) * _power(start, -k)


def weighted_lower_bound(
    start: Numbers, level: Numbers, power: int, weight: int, delta: Numbers, step: Numbers, *, mended: bool = False
) -> Array:
    """Lemma G.3, lower bound on Σ η C_t x_t^q', with b = log(A/x_0)/log(1+δ).

    Args:
        start: x_0.
        level: A.
        power: q.
        weight: q'.
        delta: δ.
        step: what stands for η A^q.
        mended: with the factor (1+δ)^-k that the last line of the proof loses, whole levels, and the error over x_0.
    """
    k = _order(power, weight)
    levels = _levels(start, level, delta)
    levels = np.floor(levels) if mended else levels
    error = step * levels / start if mended else step * levels
    main = delta / (1 + delta) * (1 - (1 + delta) ** (-levels * k)) / (1 - (1 + delta) ** -k)
    main = main * (1 + delta) ** -k if mended else main
    return (1 + delta) ** -weight * (main - error) * _power(start, -k)


def weighted_upper_bound(
    start: Numbers, level: Numbers, power: int, weight: int, delta: Numbers, step: Numbers
) -> Array:
    """Lemma G.3, upper bound on Σ η C_t x_t^q', its O(1) read as 1/(q - q' - 1); ``step`` stands for η A^q."""
    k = _order(power, weight)
    return (1 + delta) ** weight * (1 / k + step * _levels(start, level, delta)) * _power(start, -k)


def leader(start: Numbers, time: Numbers, power: int) -> Array:
    """x once Σ η C_t has come to ``time``, as η goes to 0; infinite where that is never (D).

    Args:
        start: x_0.
        time: Σ η C_t.
        power: q.
    """
    k = _order(power)
    left = _power(start, -k) - k * np.asarray(time)
    return np.where(left > 0, np.maximum(left, 1e-300) ** (-1 / k), np.inf)


def rival_inverse_power(start: Numbers, leader_start: Numbers, leader: Numbers, strength: float, power: int) -> Array:
    """y^-(q-1) when the leader is at x, S constant, η going to 0: y_0^-(q-1) - S (x_0^-(q-1) - x^-(q-1)) (D).

    Not positive where y has grown without bound before.

    Args:
        start: y_0.
        leader_start: x_0.
        leader: x.
        strength: S.
        power: q.
    """
    k = _order(power)
    return _power(start, -k) - strength * (_power(leader_start, -k) - _power(leader, -k))


def rival_ceiling(lead: Numbers, power: int) -> Array:
    """The most that y_t/y_0 can be while x_t is finite, η going to 0, for any S_t <= max S (D).

    (1 - λ^-(q-1))^(-1/(q-1)), where λ = x_0/(y_0 (max S)^(1/(q-1))) is the lead; infinite for a lead of at most 1.
    """
    k = _order(power)
    left = 1 - _power(lead, -k)
    return np.where(left > 0, np.maximum(left, 1e-300) ** (-1 / k), np.inf)


def e8_allowance(start: Numbers) -> Array:
    """δ² + x_0² + log(d)/d of Claim E.8 at x_0 = d^-1/2 and δ = x_0, constants 1."""
    square = _power(start, 2)
    return square * (2 - np.log(square))


def _power(base: Numbers, exponent: int) -> Array:
    return np.asarray(base, dtype=np.float64) ** float(exponent)


def _levels(start: Numbers, level: Numbers, delta: Numbers) -> Array:
    return np.log(np.asarray(level) / start) / np.log1p(delta)


def _order(power: int, weight: int = 0) -> int:
    if power - weight < 2:
        raise ValueError(
            f"power = {power} with weight = {weight} is out of range: allowed is power >= weight + 2. "
            "With less, sums are not powers of the start."
        )
    return power - weight - 1

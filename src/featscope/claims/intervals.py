"""Confidence intervals over replicas."""

from math import inf, sqrt

import numpy as np
from jaxtyping import Float
from scipy import stats

LEVEL = 0.99
"""Default confidence level: an interval misses the true mean once in a hundred claims."""


def quantile(n: int, level: float = LEVEL) -> float:
    """Half the width of an interval of the mean of ``n`` samples, in standard errors."""
    return float(stats.t.ppf(0.5 + level / 2, n - 1))


def interval_of_mean(samples: Float[np.ndarray, " n"], level: float = LEVEL) -> tuple[float, float]:
    """Student-t confidence interval of the mean of independent samples, one a replica.

    One sample says nothing about the spread: its interval is the whole line. A sample that is not finite makes
    the interval the whole line too, so that no claim can hold or fail on it.
    """
    if samples.ndim != 1:
        raise ValueError(f"samples have shape {samples.shape}; expected one value a replica")
    if samples.size < 2 or not np.isfinite(samples).all():
        return -inf, inf
    centre = float(samples.mean())
    half = quantile(samples.size, level) * float(samples.std(ddof=1)) / sqrt(samples.size)
    return centre - half, centre + half

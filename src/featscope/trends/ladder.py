"""The measurements of a ladder of sizes on a scale on which laws are fitted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import special

Scale = Literal["raw", "log", "logit"]

MOST_ALIKE = 0.95  # largest correlation across sizes that is believed
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Measured:
    """Means over replicas on a scale, and how they err.

    Attributes:
        scale: "raw", "log" or "logit".
        mean: ``[size]``.
        error: covariance of the means ``[size, size]``.
        span: what the ladder spans, at least two standard errors: the unit in which laws are meant.
    """

    scale: Scale
    mean: Float[np.ndarray, " size"]
    error: Float[np.ndarray, "size size"]
    span: float

    def back(self, drawn: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Values on this scale as values of the measurement."""
        to: dict[Scale, Callable] = {"raw": np.asarray, "log": np.exp, "logit": special.expit}
        with np.errstate(over="ignore"):
            return to[self.scale](drawn)

    def first(self, sizes: int) -> "Measured":
        """The smallest ``sizes`` sizes, with the errors as all tell them."""
        mean, error = self.mean[:sizes], self.error[:sizes, :sizes]
        return Measured(self.scale, mean, error, _span(self.scale, mean, error))


def on_scale(
    scale: Scale,
    x: Float[np.ndarray, " size"],
    y: Float[np.ndarray, "size replica"],
    trials: Float[np.ndarray, " size"] | None,
) -> Measured:
    """The means of ``y`` on ``scale``, each replica's value carried there along the tangent at the mean.

    Args:
        scale: where to.
        x: log of the sizes, ascending.
        y: measurements; positive for "log", shares for "logit".
        trials: yes/no trials of each share in a replica, for "logit"; None where they are not known.
    """
    mean = y.mean(axis=1)
    if scale == "raw":
        at, slope, least = mean, np.ones_like(mean), np.zeros_like(mean)
    elif scale == "log":
        at, slope, least = np.log(mean), 1 / mean, np.zeros_like(mean)
    else:
        assert trials is not None
        half = 0.5 / (trials * y.shape[1])
        share = mean.clip(half, 1 - half)
        at, slope, least = special.logit(share), 1 / (share * (1 - share)), share * (1 - share) / trials
    deviation = (y - mean[:, None]) * slope[:, None]
    variance = deviation.var(axis=1, ddof=1)
    replicas = y.shape[1]
    if scale == "logit":  # things of a replica may go together: so many times the binomial variance, or it
        binomial = slope**2 * least
        together, tells = np.maximum(variance / binomial, 1.0), variance > 0  # at a ceiling nothing tells how much
        if tells.sum() >= 2:
            together[tells] = _smooth_variance(x[tells], together[tells], 0.0, replicas)
        if tells.any():
            together[~tells] = np.median(together[tells])
        variance = binomial * np.maximum(together, 1.0)
    else:
        floor = 1e-12 * (np.ptp(at) ** 2 + at.mean() ** 2)
        variance = _smooth_variance(x, variance, floor, replicas)
    error = np.sqrt(variance / replicas)
    rho = _correlation(deviation, variance)
    covariance = np.outer(error, error) * ((1 - rho) * np.eye(len(x)) + rho)
    return Measured(scale, at, covariance, _span(scale, at, covariance))


def _smooth_variance(
    x: Float[np.ndarray, " size"], variance: Float[np.ndarray, " size"], floor: float, replicas: int
) -> Float[np.ndarray, " size"]:
    """Variances drawn towards a line in log N, as few replicas tell one badly; larger for what they leave unknown."""
    from scipy.stats import chi2, theilslopes  # a second, which no run that has no trend needs to wait

    variance = np.maximum(variance, floor + 1e-200)
    variance = np.maximum(variance, 0.02 * np.median(variance))
    slope, level, *_ = theilslopes(np.log(variance), x)
    line = level + slope * x - np.log(chi2.median(replicas - 1) / (replicas - 1))  # which follows medians
    freedom = max(len(x) * (replicas - 1), 3)
    return np.exp(0.3 * np.log(variance) + 0.7 * line) * freedom / (freedom - 2)


def _correlation(deviation: Float[np.ndarray, "size replica"], variance: Float[np.ndarray, " size"]) -> float:
    """One correlation of the errors of any two sizes: replicas may share draws across sizes."""
    scaled = deviation / np.sqrt(np.maximum(variance, _TINY))[:, None]
    moving = scaled.std(axis=1) > 0
    if moving.sum() < 2 or deviation.shape[1] < 3:
        return 0.0
    pairs = np.corrcoef(scaled[moving])[np.triu_indices(int(moving.sum()), 1)]
    return float(np.clip(pairs.mean(), 0.0, MOST_ALIKE))


def _span(scale: Scale, mean: Float[np.ndarray, " size"], error: Float[np.ndarray, "size size"]) -> float:
    least = 1e-9 * (np.abs(mean).max() if scale == "raw" else 1.0)
    return float(max(np.ptp(mean), 2 * np.sqrt(error.diagonal().max()), least, _TINY))

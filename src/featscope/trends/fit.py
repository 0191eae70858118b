"""Fitting all laws to a ladder, and drawing what they foretell.

No law is picked. The weight of a law is out-of-sample: its prior times the density that it, fitted to the sizes before,
gives to each size from the fourth on, one after the other. Curves are drawn from all laws by weight.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import special

from featscope.claims.claim import Relation
from featscope.claims.soundness import holding
from featscope.trends.ladder import Measured, Scale, on_scale
from featscope.trends.laws import LAWS, covariances
from featscope.trends.trend import FEWEST_SIZES, Trend

FITTED_FIRST = 3  # sizes that are fitted before any is predicted
PER_DOUBLING = 4  # sizes at which curves are drawn
_JITTER = 1e-5  # of the span, so that an exact ladder has a covariance


def fit_trend(
    sizes: ArrayLike,
    samples: ArrayLike,
    relation: Relation,
    predicted: float,
    tolerance: float = 0.0,
    *,
    trials: ArrayLike | None = None,
    within: tuple[float, float] = (-np.inf, np.inf),
    reach: float = 16.0,
    draws: int = 4000,
    seed: int = 0,
) -> Trend:
    """What a ladder says of sizes up to ``reach`` times its largest.

    A bound that depends on the size is divided out first if it is positive, else subtracted: pass samples/bound and 1,
    or samples - bound and 0.

    >>> sizes = [2, 4, 8, 16, 32, 64]
    >>> trend = fit_trend(sizes, [[1 / size] for size in sizes], "<=", 0.005)
    >>> trend.at(16).verdict
    'holds'

    Args:
        sizes: the sizes that were run ``[size]``, ascending.
        samples: measurements ``[size, replica]``; one replica where no chance enters.
        relation: how the measurement should stand to the prediction.
        predicted: the predicted value, or the bound.
        tolerance: half-width allowed around it for "=".
        trials: for a share, the yes/no trials in each replica, one number or one a size; then it has binomial error.
        within: ends of what the measurement can be; curves are cut there.
        reach: the largest size that is foretold, over the ladder's largest; above 1.
        draws: curves that are drawn.
        seed: seed of the drawing.

    Raises:
        ValueError: sizes do not ascend, samples have another shape or are not finite, a share has one replica, whose
            binomial error would be taken for that of two, or is of nothing, or not from 0 to 1; what is predicted is no
            number; or nothing larger is to be foretold.
    """
    n, y = np.asarray(sizes, float), np.asarray(samples, float)
    if n.ndim != 1 or len(n) < FITTED_FIRST + 1 or not (n > 0).all() or not (np.diff(n) > 0).all() or n[-1] == np.inf:
        raise ValueError(f"sizes = {n.tolist()}: expected {FITTED_FIRST + 1} positive ones or more, ascending")
    if y.ndim != 2 or len(y) != len(n) or not np.isfinite(y).all():
        raise ValueError(f"samples have shape {y.shape}: expected [{len(n)}, replica], all of them finite")
    if trials is not None and y.shape[1] < 2:
        raise ValueError(f"samples have shape {y.shape}: expected two replicas or more where there are trials")
    if trials is not None and not (np.greater(trials, 0).all() and holding((0.0, 1.0), y) == (0.0, 1.0)):
        least = f"trials from {np.min(trials):g}, samples from {y.min():g} to {y.max():g}"
        raise ValueError(f"{least}: expected trials above 0, and shares from 0 to 1")
    if np.isnan(predicted) or not tolerance >= 0:
        raise ValueError(f"predicted = {predicted!r}, tolerance = {tolerance!r}: expected a number, and one >= 0")
    if not 1 < reach < np.inf:
        raise ValueError(f"reach = {reach!r}: expected more than 1, and finite")
    silent = _nothing_seen(y, trials)
    if y.shape[1] == 1:  # no chance: as good as two replicas that agree
        y = y + 1e-9 * np.ptp(y) * np.array([-1.0, 1.0])
    x, count = np.log(n), None if trials is None else np.broadcast_to(np.asarray(trials, float), n.shape)
    measured = [on_scale(scale, x, y, count) for scale in _scales(y, trials is not None)]
    rng = np.random.default_rng(seed)
    surprise = np.inf
    if len(n) >= FEWEST_SIZES:
        surprise = _surprise(x, [one.first(len(n) - 2) for one in measured], measured[0], draws, rng)
    ahead = n[-1] * reach ** np.linspace(0, 1, round(PER_DOUBLING * np.log2(reach)) + 1)
    curves, families = _draw(x, np.log(ahead), measured, draws, rng)
    return Trend(ahead, curves.clip(*within), relation, predicted, tolerance, families, surprise, silent)


def _scales(y: Float[np.ndarray, "size replica"], share: bool) -> list[Scale]:
    if share:
        return ["logit"]
    return ["raw", "log"] if (y > 0).all() else ["raw"]


def _nothing_seen(y: Float[np.ndarray, "size replica"], trials: ArrayLike | None) -> str:
    """Why the ladder says nothing before any law is fitted; empty if it may."""
    if len(y) < FEWEST_SIZES:
        return f"{len(y)} sizes; nothing is said below {FEWEST_SIZES}"
    largest = y[-1]
    if trials is not None and largest.min() == largest.max() and largest[0] in (0.0, 1.0):
        return f"at a ceiling: all trials at the largest size are {'yes' if largest[0] else 'no'}"
    if len(largest) > 1 and np.ptp(largest) == 0:
        return "all replicas of the largest size agree, so that nothing is known of their error"
    return ""


def _draw(
    x: Float[np.ndarray, " size"],
    grid: Float[np.ndarray, " point"],
    measured: list[Measured],
    draws: int,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "draw point"], dict[str, float]]:
    """Curves on ``grid`` from all laws on all scales by weight, and the weights of the families."""
    prior = covariances(tuple(x.tolist()), tuple(grid.tolist()))
    n, identity = len(x), np.eye(len(x))
    scores = []
    inside = []
    for one in measured:
        inside.append(one.span**2 * prior[:, :n, :n] + one.error + (_JITTER * one.span) ** 2 * identity)
        scores.append(_log_density_ahead(one, inside[-1]))
    weights = special.softmax(np.stack(scores) + np.log([law.prior for law in LAWS]))
    counts = rng.multinomial(draws, weights.ravel() / weights.sum()).reshape(weights.shape)
    curves = []
    for one, covariance, count in zip(measured, inside, counts, strict=True):
        (used,) = count.nonzero()
        ahead = one.span**2 * prior[used][:, n:, :n]
        gain = np.swapaxes(np.linalg.solve(covariance[used], np.swapaxes(ahead, 1, 2)), 1, 2)
        middle = one.mean[-1] + gain @ (one.mean - one.mean[-1])
        spread = one.span**2 * prior[used][:, n:, n:] - gain @ np.swapaxes(ahead, 1, 2)
        values, vectors = np.linalg.eigh((spread + np.swapaxes(spread, 1, 2)) / 2)
        roots = vectors * np.sqrt(values.clip(0))[:, None, :]
        for of_law, root, times in zip(middle, roots, count[used], strict=True):
            curves.append(one.back(of_law + rng.standard_normal((times, len(grid))) @ root.T))
    families: dict[str, float] = {}
    for one, row in zip(measured, weights, strict=True):
        for law, weight in zip(LAWS, row, strict=True):
            name = "power" if law.family == "logarithm" and one.scale != "raw" else law.family
            families[name] = families.get(name, 0.0) + float(weight)
    return np.concatenate(curves), families


def _log_density_ahead(measured: Measured, covariance: Float[np.ndarray, "law size size"]) -> Float[np.ndarray, " law"]:
    """Log density that each law gives to the sizes after the first few, one step ahead at a time.

    It is of the measurement, not of its logarithm, so that scales can be compared. Densities of the sizes in order
    multiply to that of all over that of the first, whatever the order of the rest.
    """
    roots = np.linalg.cholesky(covariance)
    from_last = measured.mean - measured.mean[-1]
    scaled = np.linalg.solve(roots, np.broadcast_to(from_last, roots.shape[:2])[..., None])[..., 0]
    diagonal = np.diagonal(roots, axis1=1, axis2=2)
    each = -(scaled**2) / 2 - np.log(diagonal) - np.log(2 * np.pi) / 2
    jacobian = measured.mean[FITTED_FIRST:].sum() if measured.scale == "log" else 0.0
    return each[:, FITTED_FIRST:].sum(axis=1) - jacobian


def _surprise(
    x: Float[np.ndarray, " size"], below: list[Measured], raw: Measured, draws: int, rng: np.random.Generator
) -> float:
    """Standard errors between the largest size and what all but the last two foretold of it."""
    foretold, _ = _draw(x[:-2], x[-1:], below, draws, rng)
    drawn, error = foretold[:, 0], np.sqrt(raw.error[-1, -1])
    if raw.scale == "logit":
        drawn = special.logit(drawn.clip(1e-12, 1 - 1e-12))
    above = special.ndtr((drawn - raw.mean[-1]) / max(error, 1e-300)).mean()  # share of what might have been measured
    return float(abs(special.ndtri(np.clip(above, 1 / draws, 1 - 1 / draws))))

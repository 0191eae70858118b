"""Confidence intervals over replicas, one for each law that a measurement may follow.

How often each misses is measured by `make coverage` (docs/coverage.md).
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil, inf, log, log1p, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import special

from featscope.claims.likelihood import likely_shares

LEVEL = 0.99
"""Default confidence level: an interval misses the true value at most about once in a hundred claims."""
REACH = 0.9
"""Share of all draws that a claim about extremes speaks of: of all of them nothing is known from finitely many."""

Law = Literal["mean", "share", "draws", "yes/no", "extreme", "exact"]
"""What a measurement is: the mean of a quantity of each replica; the share of things that are so, several things a
replica; the share of draws that are so, all of them independent, whichever replica they are of; whether a replica is
so; the worst of independent draws, of which every one must satisfy the claim; or a quantity into which no chance
enters."""

COUNTED: tuple[Law, ...] = ("share", "draws")
"""Laws of which each replica counts some."""
PROBABILITIES: tuple[Law, ...] = (*COUNTED, "yes/no")
"""Laws of what is from 0 to 1."""

_ALIKE = 1e-12  # relative spread that is rounding
_APART = 0.01  # p-value below which replicas differ by more than independent draws do; their interval is wider then


def quantile(n: float, level: float = LEVEL) -> float:
    """Half the width of Student's interval of the mean of ``n`` samples, in standard errors.

    Where the degrees of freedom are no whole number, ``n`` is one more than they are.
    """
    return float(special.stdtrit(n - 1, 0.5 + level / 2))  # as `scipy.stats` has it, in a thirtieth of the time


def all_alike(samples: Float[np.ndarray, " n"]) -> bool:
    """Whether samples differ by no more than rounding."""
    return bool(np.ptp(samples) <= _ALIKE * np.abs(samples).max()) if samples.size else True


def interval_of_mean(
    samples: Float[np.ndarray, " n"], level: float = LEVEL, within: tuple[float, float] = (-inf, inf)
) -> tuple[float, float]:
    """Confidence interval of the mean of independent samples, one a replica.

    It covers Student's interval, the same moved by Johnson's correction for skewness (1978), and, where the
    range of the samples says how they may be skewed, one on its scale: Cox's for the mean of a lognormal quantity if
    it has one end only and no sample lies there, Student's on the logit scale if it has two. Student's alone misses
    a skewed mean up to ten times as often as its level says.

    One sample says nothing about the spread: its interval is the whole range. A sample that is not finite makes the
    interval the whole range too, so that no claim can hold or fail on it.

    Args:
        samples: one value a replica.
        level: confidence level.
        within: ends of what a sample can be; intervals are cut there.
    """
    if samples.ndim != 1:
        raise ValueError(f"samples have shape {samples.shape}; expected one value a replica")
    if samples.size < 2 or not np.isfinite(samples).all():
        return within
    samples = samples.astype(np.float64)
    n, centre, t = samples.size, float(samples.mean()), quantile(samples.size, level)
    if all_alike(samples):
        return centre, centre
    if within[0] == -inf and within[1] < inf:  # the same upside down
        low, high = interval_of_mean(-samples, level, (-within[1], inf))
        return -high, -low
    half = t * float(samples.std(ddof=1)) / sqrt(n)
    skewness = _skewness(samples) if n > 2 else 0.0
    shift = skewness * float(samples.std(ddof=1)) * (1 + 2 * t**2) / (6 * n)
    ends = [centre - half, centre + half, centre - half + shift, centre + half + shift]
    low, high = within
    if low > -inf and high < inf:
        ends += _on_logit_scale((samples - low) / (high - low), t, within)
    elif low > -inf and (samples > low).all():
        logs = np.log(samples - low)
        spread = float(logs.var(ddof=1))
        middle, half = float(logs.mean()) + spread / 2, t * sqrt(spread / n + spread**2 / (2 * (n - 1)))
        ends += [low + float(np.exp(min(middle + side * half, 700.0))) for side in (-1, 1)]
    return max(low, min(ends)), min(high, max(ends))


def _skewness(samples: Float[np.ndarray, " n"]) -> float:
    """Of the distribution that ``samples`` are drawn from, as `scipy.stats.skew` has it, in a thirtieth of the time."""
    n, off = samples.size, samples - samples.mean()
    off = off / np.abs(off).max()  # skewness has no unit, and cubes of small or large numbers are 0 or infinite
    squares = off**2
    return float(np.sqrt((n - 1.0) * n) / (n - 2.0) * (squares * off).mean() / squares.mean() ** 1.5)


def _on_logit_scale(shares: Float[np.ndarray, " n"], t: float, within: tuple[float, float]) -> list[float]:
    """Student's interval of the logits of ``shares``, on the first scale; those at an end are drawn in a little."""
    n, shares = shares.size, shares.clip(0, 1)
    if shares.min() == 0 or shares.max() == 1:
        shares = (shares * (n - 1) + 0.5) / n
    logits = special.logit(shares)
    half = t * float(logits.std(ddof=1)) / sqrt(n)
    return [within[0] + (within[1] - within[0]) * float(special.expit(logits.mean() + side * half)) for side in (-1, 1)]


def interval_of_binomial(successes: float, trials: float, level: float = LEVEL) -> tuple[float, float]:
    """Clopper and Pearson's interval of a probability; it covers at every probability. Counts need not be whole."""
    tail, failures = (1 - level) / 2, trials - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes > _ALIKE else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures > _ALIKE else 1.0
    return low, high


def pooled(shares: Float[np.ndarray, " n"], trials: Float[np.ndarray, " n"]) -> float:
    """The share of all things of all replicas."""
    return float(np.clip(shares @ trials / trials.sum(), shares.min(), shares.max()))  # rounding


def interval_of_share(
    shares: Float[np.ndarray, " n"], trials: Float[np.ndarray, " n"], level: float = LEVEL
) -> tuple[float, float]:
    """Confidence interval of the share of things that are so, counted in each replica, where they may go together.

    It spans up to three. Clopper and Pearson's of all things, which is right where they do not go together. One by
    likelihood: counts are taken to follow a beta-binomial law, of which the correlation c of things in a replica has
    the prior (1 - c)² + 0.01, and the interval has every share whose largest likelihood over c is within
    n log(1 + t² / (n - 1)) / 2 of the largest of all, the cut-off at which the likelihood of n normal samples gives
    Student's interval. It knows that things may go together where none is seen to. And, where they are seen to, Korn
    and Graubard's (1998), by the spread over replicas, whatever the law. The prior is a choice, made where coverage
    was looked at.

    Args:
        shares: the share of each of n replicas.
        trials: how many things each counted; a replica that counted none makes the interval the whole range.
        level: confidence level.
    """
    n = shares.size
    if n < 2 or not np.isfinite(shares).all() or not (trials > 0).all():
        return 0.0, 1.0
    so, things = (shares * trials).clip(0, trials), float(trials.sum())
    counts = tuple(sorted(Counter(zip(so.tolist(), trials.tolist(), strict=True)).items()))
    likely = likely_shares(counts, n * log1p(quantile(n, level) ** 2 / (n - 1)) / 2)
    every = [interval_of_binomial(float(so.sum()), things, level), likely]
    share = pooled(shares, trials)
    variance = n / (n - 1) * float(((trials * (shares - share)) ** 2).sum()) / things**2
    if variance * things > share * (1 - share) and things > n:  # else replicas are the things
        worth = share * (1 - share) / variance * (quantile(ceil(things), level) / quantile(n, level)) ** 2
        every.append(interval_of_binomial(share * worth, worth, level))
    return min(low for low, _ in every), max(high for _, high in every)


def go_together(shares: Float[np.ndarray, " n"], trials: Float[np.ndarray, " n"]) -> bool:
    """Whether shares of replicas are farther apart than those of independent draws (Pearson's test of homogeneity).

    Draws that are numbers between 0 and 1 spread less than a yes or no, so that it seldom is true of them.

    Args:
        shares: the share of each replica.
        trials: how many draws each counted.
    """
    if not (trials > 0).all() or not 0 < (share := pooled(shares, trials)) < 1:
        return False
    apart = float((trials * (shares - share) ** 2).sum()) / (share * (1 - share))
    return bool(special.chdtrc(shares.size - 1, apart) < _APART)


def draws_for_extremes(level: float = LEVEL) -> int:
    """Draws without an exception from which on all but a share 1 - `REACH` can be said to have none."""
    return ceil(log(1 - level) / log(REACH))


def interval_of_extreme(
    samples: Float[np.ndarray, " n"], drawn: float, upwards: bool, level: float, within: tuple[float, float]
) -> tuple[float, float]:
    """What is known of the worst of most draws, `REACH` of them: open in the bad direction while they are few.

    Args:
        samples: the worst of each replica.
        drawn: independent draws that they are the worst of.
        upwards: whether large is bad.
        level: confidence level.
        within: ends of what a sample can be.
    """
    if not np.isfinite(samples).all():
        return within
    worst = float(samples.max() if upwards else samples.min())
    if drawn >= draws_for_extremes(level):
        return worst, worst
    return (worst, within[1]) if upwards else (within[0], worst)


def interval_where_all_agree(
    value: float, trials: Float[np.ndarray, " n"], within: tuple[float, float], level: float = LEVEL
) -> tuple[float, float]:
    """Interval of the mean over things of a bounded quantity that came out as ``value`` in every replica.

    So few of all things can be otherwise as were not seen among those counted; at worst they lie at an end.
    """
    _, otherwise = interval_of_share(np.zeros_like(trials), trials, level)
    low, high = within
    return value - otherwise * (value - low), value + otherwise * (high - value)


def interval(
    values: Float[np.ndarray, " n"],
    law: Law,
    *,
    trials: Sequence[float] = (),
    within: tuple[float, float] = (-inf, inf),
    upwards: bool = True,
    level: float = LEVEL,
) -> tuple[float, float]:
    """The interval that the law of a measurement has.

    Args:
        values: one value a replica.
        law: what the measurement is.
        trials: things that each replica counted: those of a share, independent draws, those that a mean is over.
        within: ends of what a value can be.
        upwards: whether a large value speaks against the claim, for extremes and what is exact.
        level: confidence level.
    """
    counted = np.asarray(trials, dtype=np.float64)
    if law == "share":
        return interval_of_share(values, counted, level)
    if law == "draws" and values.size > 1 and go_together(values, counted):
        return interval_of_share(values, counted, level)
    if law in ("draws", "yes/no"):
        counted = counted if law == "draws" else np.ones(values.size)
        known = values.size and np.isfinite(values).all() and (counted > 0).all()
        return interval_of_binomial(float(values @ counted), float(counted.sum()), level) if known else (0.0, 1.0)
    if law == "extreme":
        return interval_of_extreme(values, counted.sum() if counted.size else values.size, upwards, level, within)
    if law == "exact":
        worst = float(values.max() if upwards else values.min())
        return (worst, worst) if np.isfinite(values).all() else within
    if counted.size and values.size > 1 and np.isfinite([*values, *within]).all() and all_alike(values):
        return interval_where_all_agree(float(values[0]), counted, within, level)
    return interval_of_mean(values, level, within)


def interval_if_repeated(
    values: Float[np.ndarray, " replica"],
    law: Law,
    n: int,
    trials: Float[np.ndarray, " counted"],
    within: tuple[float, float] = (-inf, inf),
) -> tuple[float, float]:
    """The interval that ``n`` replicas would have if they were like those that there are, one after the other.

    Args:
        values: one value a replica.
        law: what the measurement is.
        n: replicas.
        trials: things that each replica counted; none where none are counted.
        within: ends of what a value can be.
    """
    if law == "yes/no":
        return interval_of_binomial(float(values.mean()) * n, n)
    independent = law == "draws" and not (values.size > 1 and go_together(values, trials))
    if independent:  # repeated, differences by chance would count as others
        drawn = float(trials.mean()) * n
        return interval_of_binomial(pooled(values, trials) * drawn, drawn)
    places = np.arange(n) % values.size
    return interval(values[places], law, trials=trials[places].tolist() if trials.size else (), within=within)

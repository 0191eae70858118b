"""Samples whose plain mean is another average, so that an interval of their mean is one of that average."""

import numpy as np
from jaxtyping import Float, Int

from featscope.claims.intervals import interval_of_mean


def evenly_over(
    values: Float[np.ndarray, " sample"], groups: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    """Samples whose mean is the mean over groups of the mean within a group.

    Each is a common centre, and what the value is above it, scaled. Where all groups are of one size they are the
    values. The interval of their mean takes samples for independent draws from all groups alike; what groups differ by
    widens it. Samples of small groups leave a range that values have.
    """
    weights = _weights(groups)
    centre = _centre(values * weights)
    return centre + (values - centre) * weights


def _centre(values: Float[np.ndarray, " sample"]) -> float:
    """The mean of those that are finite: it moves no mean of numbers that count 1 on average, but how they spread."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else 0.0


def _weights(groups: Int[np.ndarray, " sample"]) -> Float[np.ndarray, " sample"]:
    """How much samples count where groups count alike; 1 on average."""
    sizes = np.bincount(groups)
    return len(groups) / ((sizes > 0).sum() * sizes[groups])


def by_cluster(
    values: Float[np.ndarray, " sample"], clusters: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, " cluster"]:
    """One number a cluster of samples that may go together, with the plain mean of ``values``.

    It is the mean, and what the cluster's samples are above it in sum over the mean size of clusters: so a mean over
    clusters that may differ in size spreads, to first order. The interval of the mean of these takes clusters for
    independent draws, not what is in them. Where all clusters are of one sample they are the values.
    """
    of, mean = np.unique(clusters, return_inverse=True)[1], _centre(values)
    return mean + np.bincount(of, values - mean) * ((of.max() + 1) / len(of))


def heaviest(groups: Int[np.ndarray, " sample"], clusters: Int[np.ndarray, " sample"]) -> float:
    """How much the cluster counts that counts most where groups count alike; 1 if all count alike.

    Of samples from 0 to 1 the numbers of `by_cluster` after `evenly_over` lie from 1 less that to that.
    """
    of = np.unique(clusters, return_inverse=True)[1]
    return float(np.bincount(of, _weights(groups)).max() * (of.max() + 1) / len(of))


def ratio_of_means(
    above: Float[np.ndarray, " sample"], below: Float[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    """Samples whose mean is the ratio of the means; they spread as that does when one is left out (the jackknife).

    Those of ``below`` are above 0.

    To first order, without leaving out, intervals of 99 % missed 1.4 to 1.7 times as often (4 to 32 samples, lognormal
    ``below``): 3.7 % where these miss 2.1 %, with 8.
    """
    ratio, others = above.mean() / below.mean(), below.sum() - below
    if len(below) == 1:
        return np.array([ratio])
    off = (above - ratio * below) * (len(below) - 1) / others
    return ratio + off - off.mean()


def group_means(
    values: Float[np.ndarray, " sample"],
    groups: Int[np.ndarray, " sample"],
    clusters: Int[np.ndarray, " sample"],
    fewest: int,
) -> tuple[Float[np.ndarray, " mean"], Float[np.ndarray, " mean"], Float[np.ndarray, " mean"]]:
    """The mean of each group and the mean of these, with the ends of their intervals.

    Args:
        values: the samples.
        groups: the group of each, from 0 on; all occur.
        clusters: those of one may go together, see `by_cluster`.
        fewest: clusters from which on a group's interval is given; NaN for those with less.
    """
    chosen = [groups == group for group in range(groups.max() + 1)]
    each = [by_cluster(values[of], clusters[of]) for of in chosen]
    ends = [interval_of_mean(one) if len(one) >= fewest else (np.nan, np.nan) for one in each]
    each.append(by_cluster(evenly_over(values, groups), clusters))
    ends.append(interval_of_mean(each[-1]))
    low, high = np.where(np.isfinite(ends), ends, np.nan).T
    return np.array([one.mean() for one in each]), low, high

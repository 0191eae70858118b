"""Samples whose plain mean is another average, so that an interval of their mean is one of that average."""

import numpy as np
from jaxtyping import Float, Int

from featscope.claims.intervals import interval_of_mean


def evenly_over(
    values: Float[np.ndarray, " sample"], groups: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    """``values`` scaled so that their mean is the mean over groups of the mean within a group.

    Where all groups are of one size they are the values. The interval of their mean takes samples for independent
    draws from all groups alike; what groups differ by widens it. They are `largest_weight` times as large as values at
    most, so that they leave a range that values have.
    """
    return values * _weights(groups)


def largest_weight(groups: Int[np.ndarray, " sample"]) -> float:
    """What `evenly_over` multiplies a sample of the smallest group by; 1 where all are of one size."""
    return float(_weights(groups).max())


def _weights(groups: Int[np.ndarray, " sample"]) -> Float[np.ndarray, " sample"]:
    sizes = np.bincount(groups)
    present = (sizes > 0).sum()
    return len(groups) / (present * sizes[groups])


def ratio_of_means(
    above: Float[np.ndarray, " sample"], below: Float[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    """Samples whose mean is the ratio of the means; they spread as it does to first order."""
    ratio = above.mean() / below.mean()
    return ratio + (above - ratio * below) / below.mean()


def group_means(
    values: Float[np.ndarray, " sample"], groups: Int[np.ndarray, " sample"], fewest: int
) -> tuple[Float[np.ndarray, " mean"], Float[np.ndarray, " mean"], Float[np.ndarray, " mean"]]:
    """The mean of each group and the mean of these, with the ends of their intervals.

    Args:
        values: the samples.
        groups: the group of each, from 0 on; all occur.
        fewest: samples from which on a group's interval is given; NaN for smaller ones.
    """
    each = [values[groups == group] for group in range(groups.max() + 1)]
    ends = [interval_of_mean(one) if len(one) >= fewest else (np.nan, np.nan) for one in each]
    each.append(evenly_over(values, groups))
    ends.append(interval_of_mean(each[-1]))
    low, high = np.where(np.isfinite(ends), ends, np.nan).T
    return np.array([one.mean() for one in each]), low, high

"""Samples whose mean is another average."""

import numpy as np
import pytest

from featscope.claims.averages import evenly_over, group_means, largest_weight, ratio_of_means
from featscope.claims.intervals import interval_of_mean


def test_groups_count_alike_however_many_samples_they_have():
    values = np.array([1.0, 2.0, 3.0, 10.0])
    assert evenly_over(values, np.array([0, 0, 0, 1])).mean() == pytest.approx((2 + 10) / 2)
    assert evenly_over(values, np.array([0, 0, 0, 7])).mean() == pytest.approx((2 + 10) / 2)
    assert evenly_over(values, np.array([0, 1, 0, 1])) == pytest.approx(values)


def test_a_sample_of_a_small_group_counts_more():
    values, groups = np.array([1.0, 1.0, 1.0, 10.0]), np.array([0, 0, 0, 1])
    assert largest_weight(groups) == pytest.approx(2)
    assert evenly_over(values, groups).max() == pytest.approx(10 * largest_weight(groups))
    assert largest_weight(np.array([0, 1, 0, 1])) == 1


def test_the_ratio_of_means_is_not_the_mean_of_ratios():
    above, below = np.array([1.0, 1.0]), np.array([2.0, 8.0])
    assert ratio_of_means(above, below).mean() == pytest.approx(0.2)


def test_intervals_of_a_ratio_of_means_cover_it_whatever_was_predicted():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(1000):
        lengths = rng.gamma(20.0, 50.0, 50)
        low, high = interval_of_mean(ratio_of_means(np.full(50, 96.0), lengths))
        covered += low <= 96 / 1000 <= high
    assert 980 <= covered <= 998


def test_intervals_of_small_groups_are_not_given():
    groups = np.array([0] * 9 + [1] * 10)
    middle, low, high = group_means(np.arange(19.0), groups, 10)
    assert middle == pytest.approx([4.0, 13.5, (4.0 + 13.5) / 2])
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False, False]
    assert (low[1:] < middle[1:]).all()

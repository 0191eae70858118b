"""Samples whose mean is another average."""

import numpy as np
import pytest

from featscope.claims.averages import evenly_over, group_means, ratio_of_means


def test_groups_count_alike_however_many_samples_they_have():
    values = np.array([1.0, 2.0, 3.0, 10.0])
    assert evenly_over(values, np.array([0, 0, 0, 1])).mean() == pytest.approx((2 + 10) / 2)
    assert evenly_over(values, np.array([0, 0, 0, 7])).mean() == pytest.approx((2 + 10) / 2)
    assert evenly_over(values, np.array([0, 1, 0, 1])) == pytest.approx(values)


def test_the_ratio_of_means_is_not_the_mean_of_ratios():
    above, below = np.array([1.0, 1.0]), np.array([2.0, 8.0])
    for near in (0.1, 0.2, 0.5):
        assert ratio_of_means(above, below, near).mean() == pytest.approx(0.2)


def test_intervals_of_small_groups_are_not_given():
    groups = np.array([0] * 9 + [1] * 10)
    middle, low, high = group_means(np.arange(19.0), groups, 10)
    assert middle == pytest.approx([4.0, 13.5, (4.0 + 13.5) / 2])
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False, False]
    assert (low[1:] < middle[1:]).all()

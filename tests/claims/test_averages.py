"""Samples whose mean is another average."""

import numpy as np
import pytest

from featscope.claims.averages import by_cluster, evenly_over, group_means, heaviest, ratio_of_means
from featscope.claims.intervals import interval_of_mean


def test_groups_count_alike_however_many_samples_they_have():
    values = np.array([1.0, 2.0, 3.0, 10.0])
    assert evenly_over(values, np.array([0, 0, 0, 1])).mean() == pytest.approx((2 + 10) / 2)
    assert evenly_over(values, np.array([0, 0, 0, 7])).mean() == pytest.approx((2 + 10) / 2)
    assert evenly_over(values, np.array([0, 1, 0, 1])) == pytest.approx(values)


def test_a_sample_of_a_small_group_counts_more():
    values, groups = np.array([1.0, 1.0, 1.0, 10.0]), np.array([0, 0, 0, 1])
    assert evenly_over(values, groups) == pytest.approx([2.5, 2.5, 2.5, 14.5])
    assert evenly_over(values - 7, groups) == pytest.approx(evenly_over(values, groups) - 7)


def test_a_cluster_is_one_sample_with_the_mean_of_all():
    values, clusters = np.array([1.0, 2.0, 3.0, 10.0]), np.array([7, 3, 7, 3])
    assert by_cluster(values, clusters) == pytest.approx([6, 2])
    assert by_cluster(values[:3] + 5, clusters[:3]) == pytest.approx(by_cluster(values[:3], clusters[:3]) + 5)
    assert by_cluster(values[:3], clusters[:3]).mean() == pytest.approx(2)
    assert by_cluster(values, np.arange(4)) == pytest.approx(values)


def test_clusters_of_all_sizes_that_agree_are_of_one_mind():
    clusters = np.concatenate([np.arange(60), 60 + np.repeat(np.arange(7), 20)])
    _, low, high = group_means(np.full(200, 100.0), np.zeros(200, int), clusters, 10)
    assert (low, high) == pytest.approx((100, 100))


@pytest.mark.parametrize("upside_down", [False, True])
def test_intervals_over_clusters_of_all_sizes_cover_whatever_the_zero(upside_down):
    """Large texts are harder, as those of longer prompts may be."""
    rng, covered, widths = np.random.default_rng(0), 0, []
    for _ in range(1000):
        sizes = rng.integers(1, 11, 100)
        clusters = np.repeat(np.arange(100), sizes)
        right = (rng.random(len(clusters)) < 1 / sizes[clusters]).astype(float)
        truth = 1 / 5.5
        low, high = interval_of_mean(by_cluster(1 - right if upside_down else right, clusters))
        covered += low <= (1 - truth if upside_down else truth) <= high
        widths.append(high - low)
    assert covered >= 980
    assert np.mean(widths) < 0.1


def test_the_heaviest_cluster_counts_as_much_as_its_samples():
    assert heaviest(np.zeros(4, int), np.arange(4)) == pytest.approx(1)
    groups, clusters = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 2])
    ends = [by_cluster(evenly_over(values, groups), clusters) for values in (np.eye(4)[3], 1 - np.eye(4)[3])]
    most = heaviest(groups, clusters)
    assert most == pytest.approx(1.5)
    assert 1 - most - 1e-9 <= np.min(ends) <= np.max(ends) <= most + 1e-9


def test_intervals_over_clusters_cover_where_those_over_samples_do_not():
    rng, covered = np.random.default_rng(0), np.zeros(2)
    clusters = np.repeat(np.arange(12), 20)
    for _ in range(500):
        values = rng.normal(size=12)[clusters] + rng.normal(size=240)
        for place, samples in enumerate((by_cluster(values, clusters), values)):
            low, high = interval_of_mean(samples)
            covered[place] += low <= 0 <= high
    assert 488 <= covered[0] <= 500
    assert covered[1] < 400


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
    middle, low, high = group_means(np.arange(19.0), groups, np.arange(19), 10)
    assert middle == pytest.approx([4.0, 13.5, (4.0 + 13.5) / 2])
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False, False]
    assert (low[1:] < middle[1:]).all()


def test_a_group_of_many_samples_and_few_clusters_is_a_small_one():
    groups, values = np.array([0] * 20 + [1] * 20), np.arange(40.0)
    middle, low, _ = group_means(values, groups, np.array([0, 1] * 10 + [*range(2, 22)]), 10)
    assert middle == pytest.approx([9.5, 29.5, 19.5])
    assert np.isnan(low).tolist() == [True, False, False]


def test_a_sample_that_is_no_number_stays_the_only_one():
    values, groups = np.array([1.0, np.nan, 1.0, 0.0]), np.array([0, 0, 1, 1])
    assert np.isnan(evenly_over(values, groups)).tolist() == [False, True, False, False]
    assert np.isnan(by_cluster(values, np.array([0, 0, 1, 2]))).tolist() == [True, False, False]

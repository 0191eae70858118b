"""Closed forms of dictionary learning against sums over everything that can happen."""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from featscope.theory import dictionary_learning as theory


def mixture(patterns, relevant, background):
    """All φ̃ and their probabilities, one by one."""
    low = background / (2 - 2 * background)
    inputs = np.array(list(product((0, 1), repeat=patterns)))
    chances = []
    for row in inputs:
        own, rest = row[:relevant], row[relevant:]
        alike = 0.5 * (len(set(own)) == 1) * np.prod(np.where(rest, low, 1 - low))
        chances.append(background / 2**patterns + (1 - background) * alike)
    return inputs, np.array(chances)


@pytest.mark.parametrize("background", [0.5, 0.3])
def test_moments_of_the_mixture(background):
    x, p = mixture(6, 3, background)
    y = 2.0 * (x[:, :3].sum(1) % 2) - 1
    mean = p @ x
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(mean, [0.5] * 3 + [background] * 3)
    assert p @ y == pytest.approx(0)
    np.testing.assert_allclose((p * y) @ x, [theory.correlation(background)] * 3 + [0] * 3, atol=1e-12)
    assert theory.scale(6, 3, background) == pytest.approx(np.sqrt((p @ (x - mean) ** 2).sum()))
    covariance = p @ ((x[:, 3] - background) * (x[:, 4] - background))
    assert covariance == pytest.approx(theory.background_covariance(background), abs=1e-12)


@pytest.mark.parametrize(("relevant", "wanted"), [(3, 0.8125), (5, 0.84375), (7, 0.80859375), (9, 0.818359375)])
def test_the_ceiling_is_that_of_the_best_threshold(relevant, wanted):
    counts = np.arange(relevant + 1)
    fair = np.array([comb(relevant, c) for c in counts]) / 2**relevant
    chances = 0.5 * fair + 0.25 * np.isin(counts, (0, relevant))
    right = [chances @ ((counts >= t) == (counts % 2 == 1)) for t in range(relevant + 2)]
    assert theory.threshold_ceiling(relevant, 0.5) == pytest.approx(max(right)) == pytest.approx(wanted)


@pytest.mark.parametrize(("relevant", "largest", "better"), [(3, 2, True), (5, 1, False), (7, 1, True)])
def test_unequal_weights_are_better_where_the_threshold_in_the_middle_is_even(relevant, largest, better):
    found = theory.best_linear_rule(relevant, 0.5, largest)
    assert found == pytest.approx(theory.linear_ceiling(relevant, 0.5))
    assert (found > theory.threshold_ceiling(relevant, 0.5) + 1e-9) == better


@pytest.mark.parametrize(("k", "labels", "mean"), [(5, "parity", 2.5), (30, "interval", 20.0), (5, "parity", 1.1)])
def test_the_ground_truth_network_is_right_and_no_other_count_is_near(k, labels, mean):
    accepting = theory.accepted(k, labels)
    network = theory.ground_truth(accepting, mean)
    np.testing.assert_allclose(network(np.arange(k + 1) - mean), np.where(accepting, 1, -1), atol=1e-9)
    assert np.abs(network.biases).min() >= 1 / (32 * k)
    assert network(np.array([k + 2 - mean]))[0] == pytest.approx(0, abs=1e-9)


def test_correlations_with_subsets_are_sums_over_all_signs():
    features = np.random.default_rng(0).uniform(-1, 1, (2**5, 2))
    parities = theory.parities(5, 2)
    signs = np.array([[1 - 2 * (z >> j & 1) for j in range(5)] for z in range(32)])
    for row, correlation, subset in zip(
        parities, theory.subset_correlations(features, 2), combinations(range(5), 2), strict=True
    ):
        np.testing.assert_array_equal(row, signs[:, subset].prod(1))
        np.testing.assert_allclose(correlation, row @ features / 32)


def test_the_largest_cosine_and_the_late_step_size():
    w = np.random.default_rng(1).normal(size=(2000, 20, 10))
    best = (w[..., 0] / np.linalg.norm(w, axis=-1)).max(1).mean()
    assert theory.best_random_cosine(20, 10) == pytest.approx(best, abs=0.01)
    assert theory.late_step_size(5, 300, 600) == pytest.approx(0.0062, abs=1e-4)
    assert 1 / np.sqrt(1 + theory.spread(100, 5, 0.5, 50_000)) == pytest.approx(0.9992, abs=1e-4)


@pytest.mark.parametrize("background", [0.5, 0.2])
def test_noise_of_a_mean_gradient_is_that_of_the_mixture(background):
    """Variances by the sum over everything; on the relevant patterns without what lies along their own direction."""
    patterns, k = 6, 3
    x, p = mixture(patterns, k, background)
    y = 2.0 * (x[:, :k].sum(1) % 2) - 1
    centred = x - p @ x
    products = (y[:, None] * centred).T @ (p[:, None] * y[:, None] * centred)
    coins = (products[:k, :k].trace() - products[:k, :k].sum() / k) / (k - 1)
    noise = products[k:, k:].trace() + (k - 1) * coins
    signal = k * theory.correlation(background) ** 2
    assert theory.spread(patterns, k, background, 100) == pytest.approx(noise / signal / 100)


def test_a_blurred_count_is_worth_what_draws_say():
    draws, n, k = np.random.default_rng(0), 400_000, 5
    odd = draws.random(n) < 0.5
    bits = draws.random((n, k)) < 0.5
    bits[:, -1] ^= (bits.sum(1) % 2 == 1) != odd
    bits[draws.random(n) < 0.5] = 0
    agreeing = bits.sum(1) == 0
    count = np.where(agreeing & odd, k, bits.sum(1))
    for variance in (0.03, 0.5):
        seen = count + draws.normal(0, np.sqrt(variance), n)
        edges = np.linspace(-4, 9, 261)
        votes = np.histogram(seen, edges, weights=2.0 * odd - 1)[0]
        right = np.where(np.interp(seen, (edges[1:] + edges[:-1]) / 2, votes) > 0, odd, ~odd).mean()
        assert theory.blurred_accuracy(k, 0.5, variance) == pytest.approx(right, abs=0.005)
    assert theory.blurred_accuracy(k, 0.5, 100.0) == pytest.approx(0.5, abs=0.1)
    assert theory.blur(50, 5, 0.5, 450, 0.1) == pytest.approx(5 * (45 / 4 / 450 + 0.01))

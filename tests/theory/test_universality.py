"""Closed forms of joint and specific pre-training against brute force."""

from itertools import product
from math import log, pi, sqrt

import numpy as np
import pytest

from featscope.theory import universality as theory

RNG = np.random.default_rng(0)


def test_private_features_get_what_shared_ones_leave():
    assert theory.private_weight(1.0, 3, 8, 4) == pytest.approx(0.25)
    assert theory.private_weight(0.5, 4, 8, 2) == pytest.approx(0.75)
    assert theory.private_weight(0.0, 4, 8, 1) == 1.0


@pytest.mark.parametrize(("shared", "rank", "tasks"), [(2, 4, 2), (3, 8, 4)])
def test_the_best_shared_weight_is_that_of_samples(shared, rank, tasks):
    z, z1 = RNG.chisquare(shared, 40_000), RNG.chisquare(rank - shared, 40_000)
    grid = np.linspace(0, 1, 21)
    losses = [np.log1p(np.exp(-a * z - theory.private_weight(a, shared, rank, tasks) * z1)).mean() for a in grid]
    assert grid[np.argmin(losses)] == theory.shared_optimum(theory.logistic, shared, rank, tasks) == 1.0
    assert theory.shared_optimum(lambda t: t, shared, rank, tasks) == 0.0


def exponential_loss(alpha, alphas, weights, shared, rank):
    """Σ w_t E exp(-α Z - α_t Z_t)."""
    private = (1 + 2 * np.asarray(alphas)) ** (-(rank - shared) / 2)
    return (1 + 2 * alpha) ** (-shared / 2) * np.dot(weights, private)


def test_exponential_weights_have_the_least_loss_within_the_budget():
    weights = (0.5, 0.3, 0.15, 0.05)
    best = theory.exponential_weights(weights, 2, 6)
    np.testing.assert_allclose(best, (0.494880, 0.339114, 0.166006, 0), atol=1e-6)
    least = exponential_loss(1.0, best, weights, 2, 6)
    for alpha, share in product((0.9, 1.0), RNG.dirichlet(np.ones(4), 500)):
        budget = 1 + 0.5 * (1 - alpha)
        assert exponential_loss(alpha, (budget * share).clip(0, 1), weights, 2, 6) > least


def test_norms_are_those_of_normal_vectors():
    assert theory.expected_norm([1.0]) == pytest.approx(sqrt(2 / pi))
    assert theory.expected_norm([1.0, 1.0]) == pytest.approx(sqrt(pi / 2))
    assert theory.expected_norm([4.0] * 3) == pytest.approx(4 * sqrt(2 / pi))
    drawn = np.linalg.norm(RNG.normal(size=(200_000, 3)) * np.sqrt([1, 0.3, 0.1]), axis=1).mean()
    assert theory.expected_norm([1, 0.3, 0.1]) == pytest.approx(drawn, rel=0.01)


@pytest.mark.parametrize(("tasks", "exact", "leading"), [(1, 4.42, 4.47), (4, 5.50, 5.59), (16, 9.29, 9.50)])
def test_complexities_of_ten_shared_features_of_twenty(tasks, exact, leading):
    assert theory.rademacher(10, 20, 1 / tasks) == pytest.approx(exact, abs=0.01)
    assert theory.rademacher_leading(10, 20, 1 / tasks) == pytest.approx(leading, abs=0.01)
    ratio = theory.rademacher_leading(10, 20, 1 / tasks) / theory.rademacher_leading(10, 20, 1.0)
    assert theory.complexity_ratio(1 / tasks) == pytest.approx(ratio) == pytest.approx((tasks + 1) / (2 * sqrt(tasks)))


def test_risk_has_both_terms():
    assert theory.risk_bound(2.0, 16) == pytest.approx((8 + 8 * sqrt(2 * log(80))) / 4)


def test_absolute_floor_is_a_mean_of_absolute_normals():
    assert theory.absolute_floor(0.5) == pytest.approx(abs(RNG.normal(0, sqrt(0.5), 400_000)).mean(), rel=0.01)


def test_least_norm_is_that_of_the_pseudoinverse():
    target = RNG.normal(size=5)
    weights = np.diag(np.sqrt([0.8, 0.8, 0.3, 0.3, 0.3]))
    wanted = np.linalg.norm(np.linalg.pinv(weights) @ target)
    assert theory.least_norm((target[:2] ** 2).sum(), (target[2:] ** 2).sum(), 0.8, 0.3) == pytest.approx(wanted)


def test_finetuning_stops_at_one():
    assert theory.finetuned_weight(4, 0.5, 4) == pytest.approx(0.5625)
    assert theory.finetuned_weight(4, 1.0, 4) == pytest.approx(1)
    assert theory.finetuned_weight(4, 5.0, 4) == 1


def test_a_turned_row_is_the_best_within_ball_and_sphere():
    own, other = theory.superposed_finetuned(4, 0.5, 4)
    row = np.sqrt([own, other, other, other])
    start = np.full(4, 0.5)
    assert np.linalg.norm(row) == pytest.approx(1)
    assert np.linalg.norm(row - start) == pytest.approx(0.25)
    tried = start + 0.25 * RNG.normal(size=(200_000, 4)) / 2
    allowed = (np.linalg.norm(tried, axis=1) <= 1) & (np.linalg.norm(tried - start, axis=1) <= 0.25)
    assert tried[allowed, 0].max() < row[0]
    assert tried[allowed, 0].max() > row[0] - 0.02


def test_a_superposed_row_turns_to_its_target_and_no_further():
    assert theory.superposed_finetuned(4, 2.0, 4) == pytest.approx((1.0, 0.0))  # chord 1, at an angle of 60 degrees
    assert theory.superposed_finetuned(4, 5.0, 4) == pytest.approx((1.0, 0.0))
    assert theory.superposed_finetuned(1, 0.5, 4) == (1.0, 0.0)


def test_similarity_is_that_of_gram_matrices():
    grams = [np.diag([1.0] * 3 + [b] * 5) for b in (0.5, 0.125)]
    norms = np.prod([np.linalg.norm(g) for g in grams])
    assert theory.cka(3, 8, 0.5, 0.125) == pytest.approx((grams[0] * grams[1]).sum() / norms)
    assert theory.cka(4, 8, 1, 0.25) == pytest.approx(0.857, abs=1e-3)
    assert theory.cka(3, 8, 1, 0) == pytest.approx(sqrt(3 / 8))


def test_the_construction_gains_above_its_threshold_only():
    # Four states, f = ±B by the first coordinate, which is even; the second one's values have chances 1 - e and e.
    e, norm = 0.1, 1.6
    chance = np.array([(1 - e) / 2, e / 2, (1 - e) / 2, e / 2])
    before = norm * np.array([[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0.0]])
    a = sqrt(0.5) / norm
    after = np.hstack([sqrt(1 - a**2) * before[:, :1], a * norm * np.eye(4)])
    loss = []
    for table in (before, after):
        inner = table @ table.T
        loss.append((np.log1p(np.exp(inner - np.diag(inner)[:, None])) * chance[:, None] * chance).sum())
    alone, others = 0.5 * 2 * e * (1 - e), 0.5
    assert loss[0] - loss[1] == pytest.approx(theory.encoding_gain(norm, alone, others))
    at = theory.encoding_threshold(alone, others)
    assert theory.encoding_gain(at * 0.99, alone, others) < 0 < theory.encoding_gain(at * 1.01, alone, others)
    assert theory.encoding_threshold(0.5, 0.5) == sqrt(0.5)


def test_full_weight_on_shared_features_dominates_but_not_with_one_task_and_no_bound(monkeypatch):
    assert theory.dominance_violation(2, 4, 2) <= 0
    monkeypatch.setattr(theory, "private_weight", lambda a, s, r, t: (r - a * s) / (t * (r - s)))
    assert theory.dominance_violation(2, 4, 1) > 0.01


def test_the_best_shared_weight_of_a_square_is_that_of_mean_and_variance():
    """E (αZ + βZ_1 - 5)² = (αs + βp - 5)² + 2α²s + 2β²p."""
    alpha = np.linspace(0, 1, 101)
    beta = theory.private_weight(alpha, 3, 8, 2)
    best = alpha[np.argmin((3 * alpha + 5 * beta - 5) ** 2 + 6 * alpha**2 + 10 * beta**2)]
    assert 0.1 < best < 0.9
    assert theory.shared_optimum(lambda t: (t - 5) ** 2, 3, 8, 2) == best


def test_dominance_is_that_of_sums_of_two_exponentials(monkeypatch):
    """Which chi-squares of two degrees of freedom are."""
    monkeypatch.setattr(theory, "private_weight", lambda a, s, r, t: (r - a * s) / (t * (r - s)))

    def above(x, a):
        b = 2 - a
        return (a * np.exp(-x / (2 * a)) - b * np.exp(-x / (2 * b))) / (a - b)

    x = np.linspace(0.05, 3, 30) * 4
    worst = max((above(x, a) - np.exp(-x / 2) * (1 + x / 2)).max() for a in np.linspace(0.05, 0.95, 10))
    assert theory.dominance_violation(2, 4, 1) == pytest.approx(worst, rel=1e-6)

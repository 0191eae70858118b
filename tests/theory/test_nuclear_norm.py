"""Closed forms of the linear model of domain shift against brute force and reference numbers."""

import numpy as np
import pytest
import torch

from featscope.data import SpuriousFeatures
from featscope.data.spurious_features import environmental
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.theory import nuclear_norm as theory


def test_features_have_the_moments_that_theory_takes():
    u = torch.linspace(0, 1, 200_002, dtype=torch.float64)[1:-1]
    z = environmental(u, 0.2)
    assert float((z > 0).double().mean()) == pytest.approx(0.7, abs=1e-4)
    assert float(z.mean()) == pytest.approx(0.2, abs=1e-4)
    assert float(z.std()) == pytest.approx(theory.environmental_deviation(0.2), abs=1e-4)
    assert (float(z.min()), float(z.max())) == pytest.approx((-1, 1), abs=1e-4)


def test_sums_are_those_of_samples_and_turn_out_of_domain():
    source = SpuriousFeatures(3, 5, 0.3).build(Streams(0, range(2)).at("a"))
    inside, outside = (source.sample(Streams(0, range(2)).at("b"), 40, shifted) for shifted in (False, True))
    torch.testing.assert_close(outside, inside * torch.tensor([1.0] * 3 + [-1.0] * 5, dtype=torch.float64))
    sums = source.sums(Streams(0, range(2)).at("b"), 40)
    torch.testing.assert_close(sums, torch.stack([inside[..., :3].sum(-1), inside[..., 3:].sum(-1)], -1))
    still = SpuriousFeatures(3, 5, 0.3, shifts=False).build(Streams(0, range(2)).at("a"))
    assert torch.equal(still.sample(Streams(0, range(2)).at("b"), 40, True), inside)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"gamma": 0.5}, "gamma = 0.5 .* below 1/2"), ({"invariant": 0}, ">= 1"), ({"environmental": 0}, ">= 1")],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        SpuriousFeatures(**options)


def test_accuracies_of_the_plane_are_areas():
    rng = np.random.default_rng(0)
    z1, z2 = rng.uniform(size=400_000), environmental(torch.tensor(rng.uniform(size=400_000)), 0.2).numpy()
    for tilt in (0.2, 0.9):
        inside, outside = theory.plane_accuracies(tilt)
        assert np.mean(z1 + tilt * z2 > 0) == pytest.approx(inside, abs=2e-3)
        assert np.mean(z1 - tilt * z2 > 0) == pytest.approx(outside, abs=2e-3)
        assert (1 - outside) / (1 - inside) == pytest.approx(theory.error_ratio()) == pytest.approx(7 / 3)
    assert theory.tilt_of_ood(0.76) == pytest.approx(0.6857, abs=1e-4)
    assert theory.plane_accuracies(theory.tilt_of_ood(0.76))[0] == pytest.approx(0.897, abs=1e-3)


def test_limits_of_the_plane():
    assert theory.mean_tilt() == 0.4
    assert theory.lda_tilt() == pytest.approx(0.11364, abs=1e-5)
    assert theory.critical_strength() == pytest.approx(0.435, abs=1e-3)


@pytest.mark.parametrize(
    ("r", "gamma", "d", "strength", "alpha", "beta"),
    [
        (37, 0.496, 200, 0.05, 0.05319, 0.05273),
        (50, 0.45, 310, 1.35, 0.02146, 0.01927),
        (100, 0.35, 950, 0.05, 0.02361, 0.01643),
    ],
)
def test_the_optimum_under_weight_decay_is_that_of_samples(r, gamma, d, strength, alpha, beta):
    """Numbers that Newton's method found on 200,000 samples."""
    assert theory.decay_optimum(r, d - r, gamma, strength) == pytest.approx((alpha, beta), rel=3e-3)
    assert 1 / (2 * gamma) < alpha / beta < theory.printed_ratio(gamma)
    assert theory.ood_accuracy(alpha, beta, r, d - r, gamma) < theory.collapse_bound(r)
    assert d > r + theory.crossing(r, gamma)


def test_sufficient_strengths():
    found = [
        theory.sufficient_strength(r, d - r, g) for r, d, g in ((37, 200, 0.496), (50, 310, 0.45), (100, 950, 0.35))
    ]
    assert found == pytest.approx([0.581, 0.535, 0.388], abs=1e-3)
    near, few, against = 1 / (2 * (1 + np.exp(15 / 16))), np.exp(-15 / 8) / 4, np.exp(-84 * 0.09 / 2) / 2
    assert theory.sufficient_strength(16, 84, 0.3) == pytest.approx(4 * (near + few + against))


def test_the_crossing_has_even_odds():
    r, gamma = 20, 0.2
    assert theory.crossing(r, gamma) == pytest.approx(125)
    assert theory.ood_accuracy(1 / (2 * gamma), 1.0, r, 125, gamma) == pytest.approx(0.5)
    assert theory.ood_accuracy(0.05, 0.05 * 0.4, r, 60, gamma) > 0.9


def test_signs_fail_as_often_as_is_said():
    rng = np.random.default_rng(0)
    z_k, z_l = rng.uniform(size=400_000), environmental(torch.tensor(rng.uniform(size=400_000)), 0.3).numpy()
    assert np.mean(0.5 * z_k + 0.4 * z_l < 0) == pytest.approx(theory.termwise_failure(0.5, 0.4, 0.3), abs=1e-3)


def test_hoeffding_is_no_smaller_than_what_is_bounded():
    r, q, gamma = 20, 60, 0.2
    sums = SpuriousFeatures(r, q, gamma).build(Streams(0, [0]).at("a")).sums(Streams(0, [0]).at("b"), 20_000)[0]
    of_b, of_a = theory.hoeffding_bounds(r, q, gamma)
    assert 0 < float((sums[:, 1] <= 0).double().mean()) < of_b
    assert float((sums[:, 0] <= r / 4).double().mean()) < of_a


def test_the_norm_of_weights_is_that_of_many_rows():
    r, q, gamma, w = 4, 6, 0.3, np.array([0.7, 0.4])
    z = SpuriousFeatures(r, q, gamma).build(Streams(0, [0]).at("a")).sample(Streams(0, [0]).at("b"), 200_000)[0].numpy()
    found = np.sqrt(np.linalg.eigvalsh((z.T @ z / len(z)) * np.outer(np.repeat(w, [r, q]), np.repeat(w, [r, q])))).sum()
    linear, square = theory.nuclear_norm_of_weights(r, q, gamma)
    assert linear @ w + np.sqrt(w @ square @ w) == pytest.approx(found, rel=3e-3)


def test_hoeffding_s_bounds_have_worked_values():
    assert theory.hoeffding_bounds(16, 50, 0.2) == pytest.approx((np.exp(-1), np.exp(-2)))


def test_what_is_printed_has_worked_values():
    assert theory.printed_ratio(0.3) == pytest.approx(2.5)
    assert theory.collapse_bound(10) == pytest.approx(np.exp(-1))
    assert theory.printed_strength(25) == pytest.approx(5 / np.e)


def test_accuracy_out_of_domain_is_that_of_sums():
    rng = np.random.default_rng(0)
    a = rng.uniform(size=(40_000, 12)).sum(1)
    b = environmental(torch.tensor(rng.uniform(size=(40_000, 20))), 0.2).numpy().sum(1)
    assert np.mean(a - 0.9 * b >= 0) == pytest.approx(theory.ood_accuracy(1.0, 0.9, 12, 20, 0.2), abs=0.01)

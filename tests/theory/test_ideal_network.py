"""The ideal network against samples of what its neurons see, and against what is known of it."""

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest
from scipy.linalg import hadamard

from featscope.theory.decoupling import activity, noise_variance, order_kept, orthogonal_rows_loss
from featscope.theory.ideal_network import IdealNetwork, fires, soft_threshold_moments


def ideal(features: int, threshold: float) -> IdealNetwork:
    return IdealNetwork(activity(features, 2.0), noise_variance(features), features, 16 * features, threshold)


def soft(u: np.ndarray, threshold: float) -> np.ndarray:
    return u - u.clip(-threshold, threshold)


@pytest.mark.parametrize(("centre", "threshold"), [(1.0, 0.65), (0.0, 0.3), (-0.4, 0.1), (1.0, 0.0)])
def test_moments_and_firing_are_those_of_samples(centre, threshold):
    u = centre + 0.3 * np.random.default_rng(0).standard_normal(1_000_000)
    h = soft(u, threshold)
    assert soft_threshold_moments(centre, 0.3, threshold) == pytest.approx((h.mean(), np.square(h).mean()), abs=2e-3)
    assert float(fires(centre, 0.3, threshold)) == pytest.approx((h != 0).mean(), abs=2e-3)


@pytest.mark.parametrize("features", [8, 32])
def test_what_it_does_with_noise_is_that_of_samples(features: int):
    """How far noise moves the output is asked where there is a signal: of 8 features in four samples of five."""
    network, draws = ideal(features, 0.65), np.random.default_rng(0)
    z = (draws.random((2_000_000 // features, features)) < network.p).astype(float)
    clean = soft(z, 0.65)
    h = soft(z + sqrt(network.s2) * draws.standard_normal(z.shape), 0.65)
    moved, kept = (np.square(each[z.any(1)]).mean() for each in (h - clean, clean))
    assert network.noise_moves == pytest.approx(sqrt(moved / kept), rel=0.01)
    either, both = (h != 0) | (z > 0), (h != 0) & (z > 0)
    assert network.wrong_firing == pytest.approx(1 - both.sum() / either.sum(), rel=0.01)


def test_noise_is_about_twice_the_printed_bound_at_the_best_threshold():
    for features, known in ((32, 0.46), (1024, 0.062)):
        best = ideal(features, 0.5).best
        assert best.noise_moves == pytest.approx(known, rel=0.02)
        assert 1.9 < best.noise_moves * sqrt(features) < 2.8
        assert best.noise_moves <= min(replace(best, threshold=t).noise_moves for t in np.linspace(0.05, 0.9, 18))


def test_it_fires_most_exactly_near_the_default_cap():
    wrong = {t: ideal(32, t).wrong_firing for t in (0.5, 0.6, 0.65, 0.675, 0.7, 0.8)}
    assert wrong[0.65] == pytest.approx(0.145, abs=0.0005)
    assert min(wrong, key=lambda t: wrong[t]) == 0.675


def test_without_threshold_a_head_reads_what_the_raw_input_has():
    network = ideal(32, 0.0)
    assert network.readout_error == pytest.approx(network.s2 / (network.p + network.s2))


def test_amplitudes_are_in_proportion_to_the_temperature():
    amplitude, loss = ideal(12, 0.6).saturation(1.0, 0.01, 128, 128)
    twice, twice_the_loss = ideal(12, 0.6).saturation(2.0, 0.01, 128, 128)
    assert twice / amplitude == pytest.approx(2.0, rel=1e-3)
    assert twice_the_loss / loss == pytest.approx(2.0, rel=1e-3)
    assert 0 < loss < log(129)


def test_a_decay_that_no_loss_outweighs_leaves_no_amplitude():
    assert np.isnan(ideal(12, 0.6).saturation(1.0, 10.0, 128, 128)).all()


def test_the_order_is_kept_as_far_as_the_correlation_goes():
    assert order_kept(32, 1.0) == pytest.approx(1.0)
    assert order_kept(32, 0.0) == pytest.approx(0.0, abs=0.01)
    assert order_kept(32, 0.95) == pytest.approx(0.815, abs=0.01)


def test_the_loss_by_noise_alone_is_that_of_samples():
    draws, width, s2 = np.random.default_rng(0), 24, 0.2
    f, others = sqrt(s2) * draws.standard_normal((2, 200_000, width))
    found = 8 * np.exp((f * (others - f)).sum(-1)).mean()
    assert orthogonal_rows_loss(width, 1.0, s2, 1.0, 8) == pytest.approx(found, rel=0.03)


@pytest.mark.parametrize("s2", [2.4142, 2.5, 100.0])
def test_where_single_pairs_outweigh_all_others_no_loss_by_noise_is_small(s2: float):
    assert orthogonal_rows_loss(255, 1.0, s2, 1.0, 8) == np.inf


def test_one_feature_that_is_always_there_settles_where_its_logit_is_known():
    """No noise, no crosstalk; the negative is the anchor's own or its opposite, one in two. The pull is
    (1 - t)/(1 + e^(2a)), a = F (1 - t)²/τ."""
    amplitude, loss = IdealNetwork(1.0, 0.0, 1, 10**12, 0.4).saturation(0.5, 0.05, 2000, 1)
    logit = log(0.6 / 0.05 - 1) / 2
    assert amplitude == pytest.approx(0.5 * logit / 0.36, rel=0.02)
    assert loss == pytest.approx(0.5 * (log(2) + np.log1p(np.exp(-2 * logit))) / 2, rel=0.02)


def test_amplitudes_balance_the_decay_on_masked_samples():
    """The gradient along the weights, keys held fixed, on views of samples in 64 dimensions: flat features."""
    network, decay, draws = IdealNetwork(0.2, 0.03, 8, 64, 0.5), 0.05, np.random.default_rng(0)
    amplitude, loss = network.saturation(1.0, decay, 256, 64)
    dictionary, pulls, losses = hadamard(64)[:, 1:9] / 8, [], []
    for _ in range(60):
        z = draws.choice([-1, 0, 1], p=[0.1, 0.8, 0.1], size=(320, 8))
        x = z @ dictionary.T + sqrt(0.03) * draws.standard_normal((320, 64))
        mask = 2 * draws.integers(0, 2, size=(256, 64))
        first, second = (kept * x[:256] @ dictionary for kept in (mask, 2 - mask))
        positive, keys = soft(second, 0.5), soft(x[256:] @ dictionary, 0.5)
        likeness, slope = (
            np.concatenate([(seen * positive).sum(1, keepdims=True), seen @ keys.T], 1)
            for seen in (soft(first, 0.5), first * (abs(first) > 0.5))
        )
        share = np.exp(amplitude * likeness)
        share /= share.sum(1, keepdims=True)
        losses.append(-np.log(share[:, 0]).mean())
        pulls.append((slope[:, 0] - (share * slope).sum(1)).mean())
    assert np.mean(pulls) == pytest.approx(8 * decay, rel=0.04)
    assert np.mean(losses) == pytest.approx(loss, rel=0.01)

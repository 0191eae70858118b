"""Closed forms against sums over all cases, simulated gradients in NumPy, and the numbers of the specification.

Everything is float64, and nothing of the package but `theory` is used. Sampled checks fix their seed; each says its
false-alarm rate at another one.
"""

from itertools import product
from math import sqrt

import numpy as np
import pytest

from featscope.theory import imbalance
from featscope.theory import pruning as theory

# --- one step -------------------------------------------------------------------------------------------------------


def softmax(u: np.ndarray) -> np.ndarray:
    e = np.exp(u - u.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_logit_changes_are_those_of_masked_networks_to_first_order():
    """Scaling the pruned neurons by 10^-1/2, which divides Δu by 10, divides the error by 100."""
    rng = np.random.default_rng(0)
    pruned, positive, temperature = np.array([True, False, True, False, False]), np.array([2, 0, 1, 3, 5, 4]), 0.7
    errors = []
    for scale in (0.1, 0.01):
        size = np.where(pruned, sqrt(scale), 1.0)
        anchors, keys = rng.normal(size=(6, 5)) * size, rng.normal(size=(7, 5)) * size
        rng = np.random.default_rng(0)
        full, masked = softmax(anchors @ keys.T / temperature), softmax((anchors * ~pruned) @ keys.T / temperature)
        change = theory.similarity_change(anchors, keys, pruned)
        np.testing.assert_allclose(anchors @ keys.T + change, (anchors * ~pruned) @ keys.T, atol=1e-13)
        exact = (masked - full)[np.arange(6), positive]
        predicted = theory.positive_logit_change(full, change, positive, temperature)
        errors.append(np.abs(predicted - exact).max())
        assert errors[-1] < 0.5 * np.abs(exact).max()
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.5)


def test_the_stated_factors_are_those_of_the_theorem():
    minority, other = theory.stated_factors(0.1, 0.02, 0.25, 0.5, 0.2, 10)
    assert minority == pytest.approx(1 - 0.002 + 0.1 * 0.25 * 0.25 * 0.2)
    assert other == pytest.approx(1 + 0.1 * 0.125 * 0.25 * 0.2 / 10)


# --- logits of singletons ---------------------------------------------------------------------------------------------


def summed_over_all_batches(strength: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gap, and E[Σ ℓ'(1 - ℓ') | j] over keys with j, for two features, a positive and two negatives."""
    codes = np.array(list(product([-1, 0, 1], repeat=2)))
    chances = np.prod(np.where(codes == 0, 1 - p, p / 2), axis=1)
    gap, tilt = np.zeros(2), np.zeros(2)
    for (z, a), (first, b), (second, c) in product(zip(codes, chances, strict=True), repeat=3):
        keys = np.stack([z, first, second])
        logits = softmax((keys * z @ strength)[None])[0]
        gap += a * b * c * (z != 0) * (1 - logits @ (keys * z)) / p
        tilt += a * b * c * (z != 0) * (logits * (1 - logits) @ (keys != 0)) / p
    return gap, tilt


@pytest.mark.parametrize("strength", [[1.5, 0.4], [0.7, 0.7], [6.0, 0.0]])
@pytest.mark.parametrize("p", [[0.4, 0.4], [0.4, 0.1]])
def test_the_logit_gap_is_the_sum_over_all_batches(strength: list[float], p: list[float]):
    kappa, activities = np.array(strength), np.array(p)
    expected, _ = summed_over_all_batches(kappa, activities)
    np.testing.assert_allclose(theory.logit_gap(kappa, activities, 3), expected, rtol=1e-6)


def test_the_gap_is_that_of_uniform_logits_without_strength():
    np.testing.assert_allclose(theory.logit_gap(np.zeros(3), np.array([0.1, 0.2, 0.2]), 64), 1 - 1 / 64, rtol=1e-6)


def test_pruning_raises_minority_growth_as_in_the_planted_test_of_the_specification():
    """There .171 ± .011 without and .306 ± .016 with pruning, from 20 batches with some noise: 2.5 of these errors."""
    p, amplitude = np.full(20, 0.1), np.full(20, 0.6)
    p[0], amplitude[0] = 0.03, 0.3
    strength, correlation = 16 * 2 * amplitude**2, imbalance.pair_correlation(p, 4)
    growth = correlation * theory.logit_gap(strength, p, 1024)
    strength[0] = 0
    pruned = correlation * theory.logit_gap(strength, p, 1024)
    assert growth[0] == pytest.approx(0.171, abs=2.5 * 0.011)
    assert pruned[0] == pytest.approx(0.306, abs=2.5 * 0.016)
    assert (growth[1:] < 2e-4).all()
    assert (pruned[1:] - growth[1:] < 1e-5).all()


# --- where training ends ----------------------------------------------------------------------------------------------


def decay_that_would_hold(
    energies: np.ndarray, p: np.ndarray, batches: int, *, tokens: int, ratio: float, keys: int, noise: float = 0.0,
    temperature: float = 1.0, loss_scale: str = "tau", hidden: int | None = None, seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Mean over batches, and its standard error, of -<g, w>/||w||² of each feature's neurons; from P (5), (21).

    Each feature has a strong and a weak neuron of squared norms 2 : 1. ``hidden`` takes the weak neuron of a feature
    out of the logits. The dictionary is the first unit vectors and all there is.
    """
    rng, d = np.random.default_rng(seed), len(p)
    amplitude = np.sqrt(np.stack([energies * 2 / 3, energies / 3]))  # [which, feature]
    seen = np.ones_like(amplitude)
    if hidden is not None:
        seen[1, hidden] = 0
    signs = rng.choice([-1.0, 1.0], size=(batches, keys, d)) * (rng.random((batches, keys, d)) < p)
    x, y = (signs + sqrt(noise) * rng.normal(size=signs.shape) for _ in range(2))
    bias = ratio * amplitude
    u, v = (side[:, :, None] * amplitude for side in (x, y))
    h, other = (tokens * np.sign(a) * np.maximum(np.abs(a) - bias, 0) for a in (u, v))
    logits = np.exp(np.einsum("bkwd,bswd->bks", h * seen, other) / temperature)
    logits /= logits.sum(axis=2, keepdims=True)
    pull = other - np.einsum("bks,bswd->bkwd", logits, other)
    scale = 1 / temperature if loss_scale == "1" else 1.0
    growth = scale * (pull * tokens * (np.abs(u) >= bias) * x[:, :, None]).mean(axis=1) / amplitude
    growth = growth.mean(axis=1)  # strong and weak grow alike up to noise
    return growth.mean(axis=0), growth.std(axis=0) / sqrt(batches)


SIZES = [
    ({"tokens": 2, "ratio": 0.25, "keys": 16}, 0.3 * np.array([1.0, 1.0, 0.5, 0.2]), 0.1),
    ({"tokens": 3, "ratio": 0.5, "keys": 32, "temperature": 2.0, "loss_scale": "1"}, np.array([0.2, 0.1, 0.1]), 0.05),
    ({"tokens": 1, "ratio": 0.0, "keys": 8, "temperature": 0.5}, np.full(5, 0.3), 0.05),
]


def settled(size: dict, p: np.ndarray, decay: float, noise: float = 0.0) -> np.ndarray:
    options = {name: value for name, value in size.items() if name not in ("tokens", "ratio", "keys")}
    return theory.stationary_energies(
        p, size["tokens"], decay, size["ratio"], size["keys"], **options, noise_variance=noise
    )


@pytest.mark.parametrize(("size", "p", "decay"), SIZES)
def test_weight_decay_balances_the_mean_gradient_at_the_stationary_energies(size: dict, p: np.ndarray, decay: float):
    """Within 4.5 standard errors (1 to 3 %) of 12 growth rates: 1e-4 false alarms. 20 % more energy is told apart."""
    energies = settled(size, p, decay)
    growth, error = decay_that_would_hold(energies, p, 20_000, **size)
    assert (error < 0.03 * decay).all()
    assert (np.abs(growth - decay) < 4.5 * error).all()
    growth, error = decay_that_would_hold(1.2 * energies, p, 20_000, **size)
    assert (decay - growth > 4.5 * error).all()


def test_a_standing_mask_divides_energies_by_what_it_leaves():
    size, p, decay = SIZES[0]
    energies = settled(size, p, decay)
    energies[3] *= 3 / 2
    growth, error = decay_that_would_hold(energies, p, 20_000, **size, hidden=3)
    assert (np.abs(growth - decay) < 4.5 * error).all()


@pytest.mark.parametrize("p", [[0.4, 0.4], [0.5, 0.3]])
def test_stationary_energies_solve_their_equation(p: list[float]):
    """L = 2, c = 1/4, τ = 3/2, s² = .03; gap and tilt from all batches."""
    activities, decay = np.array(p), 0.1
    energies = theory.stationary_energies(activities, 2, decay, 0.25, 3, 1.5, "1", 0.03)
    strength = 4 * 0.75**2 * energies / 1.5
    gap, tilt = summed_over_all_batches(strength, activities)
    pull = 4 * activities * 0.75 / 1.5
    assert (energies > 0.1).all()
    np.testing.assert_allclose(pull * (gap - 0.03 / 0.75**2 * strength * tilt), decay, rtol=1e-6)


def test_noise_lowers_stationary_energies_as_predicted():
    """s = .03, c = 1/4, K = 32: the mean gradient is within 2κ²v = 10 % of the decay, and without the term 44 % below.

    Both have a standard error of .6 %.
    """
    size, p, decay, noise = {"tokens": 4, "ratio": 0.25, "keys": 32}, np.full(5, 0.25), 0.02, 0.03**2
    growth, _ = decay_that_would_hold(settled(size, p, decay, noise), p, 10_000, **size, noise=noise)
    assert growth.mean() == pytest.approx(decay, rel=0.1)
    growth, _ = decay_that_would_hold(settled(size, p, decay), p, 10_000, **size, noise=noise)
    assert growth.mean() < 0.7 * decay


def test_features_that_are_too_rare_vanish():
    """Their growth is below the decay however small they are."""
    size, p, decay = SIZES[0][0], imbalance.activities(4, 1, 0.1, 0.3), 0.1
    energies = settled(size, p, decay)
    assert energies[3] == 0
    assert (energies[:3] > 0.1).all()
    growth, error = decay_that_would_hold(np.append(energies[:3], 1e-6), p, 20_000, **size)
    assert growth[3] < decay - 4.5 * error[3]


@pytest.mark.parametrize(
    ("decay", "eps_min", "measured"), [(0.02, 0.3, 0.936), (0.02, 0.1, 0.789), (0.05, 0.3, 0.873), (0.05, 0.1, 0.506)]
)
def test_imbalance_at_the_end_is_that_of_the_planted_runs(decay: float, eps_min: float, measured: float):
    """Section 9 of the specification, no pruning, 600 steps at η = .1 from planted singletons, token noise .05.

    Tolerance 2 %: half of it is what 5 samples a batch of a rare feature do, half the noise of four replicas.
    """
    p = imbalance.activities(20, 5, eps_min, 0.1)
    energies = theory.stationary_energies(p, 4, decay, 0.25, 512, noise_variance=0.05**2 / 4)
    assert energies[-1] / energies[0] == pytest.approx(measured, rel=0.02)
    assert energies[-1] / energies[0] > 2 * eps_min**2  # far from (ε_min/ε_max)²


def test_weights_do_not_settle_without_decay():
    with pytest.raises(ValueError, match="positive"):
        theory.stationary_energies(np.array([0.1, 0.1]), 4, 0.0, 0.25, 16)


def test_singletons_grow_by_their_gap_and_slower_by_the_temperature_for_the_loss_as_printed():
    p, strength = np.array([0.4, 0.1]), np.array([0.7, 0.2])
    growth = 9 * p * theory.logit_gap(strength, p, 8)
    np.testing.assert_allclose(theory.singleton_growth(strength, p, 3, 8, 2.0), growth)
    np.testing.assert_allclose(theory.singleton_growth(strength, p, 3, 8, 2.0, "1"), growth / 2)

"""Closed forms of a neuron between two masks against quadrature and brute-force sampling in NumPy."""

import numpy as np
import pytest
from scipy import integrate, stats

from featscope.theory import masked_neuron as theory


def activation(u: np.ndarray | float, b: float) -> np.ndarray:
    return np.maximum(u - b, 0) - np.maximum(-u - b, 0)


@pytest.mark.parametrize(("centre", "spread", "b"), [(0.7, 0.4, 0.6), (-1.1, 0.2, 0.5), (0.2, 1.0, 0.0)])
def test_mean_activation_is_the_integral(centre: float, spread: float, b: float):
    law = stats.norm(centre, spread)
    slow = integrate.quad(lambda u: float(activation(u, b)) * law.pdf(u), -8, 8, points=[-b, b], limit=200)[0]
    np.testing.assert_allclose(theory.mean_activation(centre, spread, b), slow, atol=1e-9)


@pytest.mark.parametrize(("centre", "spread", "b"), [(0.0, 0.5, 0.3), (0.7, 0.4, 0.6), (-1.1, 0.2, 0.5)])
def test_the_edge_of_a_gate_is_the_slope_of_its_probability(centre: float, spread: float, b: float):
    def fires(at: float) -> float:
        return float(stats.norm.sf((b - at) / spread) + stats.norm.cdf((-b - at) / spread))

    slow = (fires(centre + 1e-5) - fires(centre - 1e-5)) / 2e-5
    np.testing.assert_allclose(theory.gate_edge(centre, spread, b), slow, atol=1e-8)


def test_noise_pulls_along_what_is_held_and_others_spread_as_said():
    """60,000 masked samples of one neuron; 5 standard errors, false alarms below 1e-5."""
    rng, d, d1, count = np.random.default_rng(0), 3, 128, 60_000
    dictionary = np.linalg.qr(rng.normal(size=(d1, d)))[0]
    weight = dictionary @ np.array([1.0, 0.3, 0.0]) + 0.02 * rng.normal(size=d1)
    p, s2, b, total, squares, given, exact, others = 0.3, 0.05, 0.5, 0.0, 0.0, [], [], []
    own = np.array([1.0, 0.0, 0.0])
    for _ in range(count // 20_000):
        codes = rng.choice([-1, 0, 1], p=[p / 2, 1 - p, p / 2], size=(20_000, d))
        noise, mask = s2**0.5 * rng.normal(size=(20_000, d1)), rng.integers(0, 2, size=(20_000, d1))
        signal = codes @ dictionary.T
        first, second = 2 * mask * (signal + noise) @ weight, 2 * (1 - mask) * (signal + noise) @ weight
        drawn = activation(second, b) * (abs(first) >= b) * (2 * mask * noise @ dictionary[:, 0])
        total, squares = total + drawn.sum(), squares + np.square(drawn).sum()
        on = (2 * mask * signal @ weight, 2 * (1 - mask) * signal @ weight)
        spreads = [np.sqrt(4 * s2 * (half @ np.square(weight))) for half in (mask, 1 - mask)]
        given.append(theory.gate_edge(on[0], spreads[0], b) * theory.mean_activation(on[1], spreads[1], b))
        exact.append(4 * s2 * given[-1] * (mask @ (weight * dictionary[:, 0])))
        others.append(first - 2 * (mask * (codes * own @ dictionary.T)) @ weight)
    error = 5 * np.sqrt(squares) / count
    closed = theory.noise_pull(np.array([weight @ dictionary[:, 0]]), np.array([np.mean(given)]), s2)
    np.testing.assert_allclose(total / count, np.mean(exact), atol=error)
    # What the mask keeps of w beyond its half goes with what it keeps of the signal: a tenth at d1 = 128.
    np.testing.assert_allclose(np.mean(exact), closed[0], rtol=0.12)
    assert abs(closed[0]) > 2 * error
    spread = theory.spread_of_others(weight[None], dictionary, own[None], p, s2)
    np.testing.assert_allclose(np.std(others), spread[0], rtol=0.01)

"""Closed forms of the looped transformer against brute force and printed numbers."""

import numpy as np
import pytest
from scipy.linalg import eigvalsh_tridiagonal

from featscope.theory import looped_transformer as theory


def test_bounds_hold_for_the_slowest_direction_and_the_sharper_is_attained():
    kappa, loops = np.array([1.6, 4.6, 470.0])[:, None], np.arange(1, 200)
    slowest = (1 - 1 / kappa) ** loops
    np.testing.assert_allclose(theory.sharper_bound(kappa, loops), slowest)
    assert (slowest <= theory.error_bound(kappa, loops)).all()
    assert (theory.slope(kappa) <= 2 * theory.printed_slope(kappa)).all()
    assert theory.error_bound(4.0, 8) == pytest.approx(np.exp(-1))


@pytest.mark.parametrize("step", [0.5, 1.0, 1.9, 2.05])
def test_contraction_is_what_a_step_leaves_of_the_slowest_direction(step):
    values = np.array([0.2, 1.0, 3.0])
    assert theory.contraction(step, values) == pytest.approx(max(abs(1 - step * values / 3)))
    assert (theory.contraction(step, values) < 1) == (step < 2)


def test_condition_numbers_of_random_matrices():
    rng = np.random.default_rng(0)
    found = np.mean([np.linalg.cond(rng.normal(size=(600, 60))) ** 2 for _ in range(30)])
    assert theory.finite_condition_number(600, 60) == pytest.approx(found, rel=0.02)


def test_an_earlier_bound_needs_the_printed_number_of_examples():
    assert theory.gatmiry_bound(1, 4, 262_144) == 1.0
    assert (np.diff(theory.gatmiry_bound(np.arange(1, 9), 4, 128)) > 0).all()


def test_the_floor_is_that_of_rounded_vectors():
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(100_000, 4))
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    error = (exact.astype(np.float32) - exact) ** 2  # the same law at float32, whose ε is 2^29 times that of float64
    floor = -np.log(error.sum(1).mean()) + 2 * 29 * np.log(2)
    assert floor == pytest.approx(theory.FLOOR, abs=0.15)


def test_the_correction_at_the_lower_edge_is_as_narrow_as_that_edge():
    """Of 100 matrices of 2000 x 1000 by the tridiagonal matrices that have their spectra (Dumitriu & Edelman 2002).

    A standard error is 0.2 %; with the upper edge's width it would be 1 % off.
    """
    rng, ends = np.random.default_rng(0), []
    for _ in range(100):
        a, b = np.sqrt(rng.chisquare(2000 - np.arange(1000))), np.sqrt(rng.chisquare(np.arange(999, 0, -1)))
        diagonal = a**2 + np.append(0, b**2)
        tridiagonal = diagonal, a[:-1] * b
        ends.append([eigvalsh_tridiagonal(*tridiagonal, "i", (k, k))[0] for k in (0, 999)])
    low, high = np.mean(ends, 0)
    assert theory.finite_condition_number(2000, 1000) == pytest.approx(high / low, rel=0.007)

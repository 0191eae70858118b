"""Closed forms of regression in a prompt, against known values and brute force."""

import numpy as np
import pytest

from featscope.theory import icl_regression as theory

SPECTRUM = 1 / np.arange(1, 17)
ONES, FOUR = np.ones(16), (np.arange(16) < 4) * 1.0


@pytest.mark.parametrize(
    ("task", "variance", "losses"),
    [
        (ONES, 0.0, (3.3807, 2.6522, 2.3910, 2.2553, 2.4667, 2.8910, 3.3964)),
        (ONES, 4.0, (3.3807, 2.9000, 2.8850, 3.2367, 4.4037, 5.7589, 7.1714)),
        (FOUR, 1.0, (2.0833, 1.3363, 1.0569, 0.8849, 1.6216, 2.3391, 3.0383)),
    ],
)
def test_the_error_of_evaluation_has_known_values(task, variance, losses):
    v = theory.coefficients(SPECTRUM, 1000)
    found = theory.evaluation_loss(v, SPECTRUM, task, 16, variance)[[0, 1, 2, 4, 8, 12, 16]]
    np.testing.assert_allclose(found, losses, atol=6e-5)


def test_without_a_model_the_error_is_that_of_the_task():
    v = theory.coefficients(SPECTRUM, 20)
    assert theory.evaluation_loss(v, SPECTRUM, FOUR, 16, 3.0)[0] == pytest.approx((FOUR**2 * SPECTRUM).sum())


def test_marginal_values_and_the_gap_are_differences_of_errors():
    v = theory.coefficients(SPECTRUM, 20)
    loss = theory.evaluation_loss(v, SPECTRUM, FOUR, 8, 0.7)
    np.testing.assert_allclose(np.diff(loss), theory.marginal_values(SPECTRUM, FOUR, 20, 8, 0.7), atol=1e-14)
    assert loss[-1] - loss[4] == pytest.approx(theory.gap(4, SPECTRUM, FOUR, 20, 8, 0.7))


def test_the_approximation_is_that_of_long_pretraining():
    v = theory.coefficients(SPECTRUM, 1e8)
    exact = theory.evaluation_loss(v, SPECTRUM, ONES, 16, 2.0)
    np.testing.assert_allclose(theory.approximate_loss(SPECTRUM, ONES, 16, 2.0), exact, rtol=1e-5)


def matrices(seed=0, d=5, samples=7):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    spectrum = np.sort(rng.uniform(0.1, 3, d))[::-1]
    return rng, q, spectrum, (q * spectrum) @ q.T, samples


def test_the_excess_is_the_loss_above_the_least():
    rng, q, spectrum, covariance, n = matrices()
    product = rng.normal(size=(3, 5, 5))
    least = theory.least_losses(spectrum, n)
    above = theory.pretraining_loss(product, covariance, n) - least[-1]
    np.testing.assert_allclose(above, theory.excess(product, covariance, n), rtol=1e-10)
    best = (q * theory.coefficients(spectrum, n)[:, None]) @ q.T
    np.testing.assert_allclose(theory.pretraining_loss(best, covariance, n), least, atol=1e-12)


def test_the_printed_excess_is_twice_that_of_a_diagonal_model():
    rng, q, spectrum, covariance, n = matrices()
    v = rng.uniform(size=5)
    assert theory.printed_excess(v, spectrum, n) == pytest.approx(2 * theory.excess((q * v) @ q.T, covariance, n))


def test_no_model_of_its_rank_is_better_than_the_closed_form():
    rng, q, spectrum, covariance, n = matrices()
    for rank, least in enumerate(theory.least_losses(spectrum, n)):
        best = (q * theory.coefficients(spectrum, n)[rank]) @ q.T
        for scale in (0.01, 0.3):
            near, other = np.eye(5) + scale * rng.normal(size=(2, 5, 5))
            assert theory.pretraining_loss(near @ best @ other, covariance, n) >= least - 1e-12


def test_moments_of_an_example_by_brute_force():
    rng, _, _, covariance, _ = matrices()
    w, noise = rng.normal(size=5), 0.5
    x = rng.multivariate_normal(np.zeros(5), covariance, 200_000)
    y = x @ w + noise**0.5 * rng.normal(size=len(x))
    one, other = theory.moment_terms(covariance, w)
    wanted = (noise + w @ covariance @ w) * one + 2 * other
    np.testing.assert_allclose((x * y[:, None] ** 2).T @ x / len(x), wanted, atol=0.03 * abs(wanted).max())
    assert not np.allclose(theory.moment_terms(covariance, w, printed=True)[1], other)


def test_other_blocks_need_more_examples_the_weaker_the_next_direction():
    assert theory.examples_for_a_rank([1.0, 0.5], 1) == pytest.approx((1.5**2 + 2 * 1.25) / 0.25)
    assert theory.examples_for_a_rank([1.0, 0.1], 1) > theory.examples_for_a_rank([1.0, 0.5], 1)


def test_biases_square_what_is_left_of_the_task():
    assert theory.residual_bias([1.0, 0.0], [2.0, 0.5], [1.0, -3.0]) == pytest.approx(0.5 * 9)
    assert theory.shrinkage_bias([0.25, 0.0], [2.0, 0.5], [-3.0, 1.0]) == pytest.approx(2 * 0.25 * 9)


def test_the_power_of_the_spectrum_is_3_and_printed_as_2():
    v, spectrum, task = [0.5, 1.0], [2.0, 0.5], [1.0, 3.0]
    both = (2 + 4.5) * (1 + 0.25)
    assert theory.input_noise(v, spectrum, task, 10) == pytest.approx((0.25 * 8 + 9 * 0.125 + both) / 10)
    assert theory.input_noise(v, spectrum, task, 10, power=2) == pytest.approx((0.25 * 4 + 9 * 0.25 + both) / 10)

"""Closed forms of modular addition against numbers, and against what they are derived from."""

from math import log, sqrt

import numpy as np
import pytest

from featscope.theory import fourier_circuits as theory


def test_margins_are_those_of_the_table():
    assert theory.best_margin(2, 7) == pytest.approx(sqrt(2 / 27) / (6 * sqrt(7)))
    assert theory.best_margin(3, 97) == pytest.approx(2.01353e-5, rel=1e-5)
    assert theory.best_margin(4, 47) == pytest.approx(1.02409e-5, rel=1e-5)
    assert theory.best_margin(5, 23) == pytest.approx(1.19341e-5, rel=1e-5)


def test_ratios():
    found = theory.ratio_without_a_frequency([5, 7, 11, 13])
    np.testing.assert_allclose(found, [0.55279, 0.68530, 0.80466, 0.83613], atol=1e-5)
    assert theory.even_ratio(8) == 7 / 8
    assert theory.even_ratio_with_all(3, 6) == pytest.approx(5 / 4.5)


@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_a_neuron_of_one_frequency_has_the_largest_margin_and_others_less(inputs):
    p, k = 7, inputs
    x = np.arange(p)
    phases = np.linspace(0.3, 2.0, k)
    wave = np.sqrt(2 / ((k + 1) * p)) * np.cos(phases[:, None] + 4 * np.pi * x / p)
    readout = np.sqrt(2 / ((k + 1) * p)) * np.cos(phases.sum() + 4 * np.pi * x / p)
    assert theory.neuron_margin(wave, readout) == pytest.approx(theory.best_margin(k, p), rel=1e-12)
    drawn = np.random.default_rng(0).normal(size=(50, k + 1, p))
    drawn /= np.sqrt((drawn**2).sum((1, 2), keepdims=True))
    assert np.abs(theory.neuron_margin(drawn[:, :k], drawn[:, k])).max() < theory.best_margin(k, p)


@pytest.mark.parametrize(
    ("inputs", "modulus", "penalty", "loss", "objective"),
    [(2, 11, 1e-2, 0.004223, 0.102409), (3, 7, 5e-3, 0.0009509, 0.0342189), (4, 5, 5e-3, 0.0005425, 0.0246835)],
)
def test_the_optimum_is_that_of_the_table(inputs, modulus, penalty, loss, objective):
    found = theory.penalised_optimum(inputs, modulus, penalty)
    assert found.cross_entropy == pytest.approx(loss, rel=5e-4)  # the table has four digits
    assert found.objective == pytest.approx(objective, rel=1e-4)
    assert found.objective == pytest.approx(found.cross_entropy + penalty * found.norm)


@pytest.mark.parametrize(("inputs", "modulus"), [(2, 11), (3, 7), (4, 5)])
def test_a_tiny_penalty_has_its_optimum_too(inputs, modulus):
    """There the derivative is 0: what a longer network costs is what it gains."""
    penalty, step = 1e-7, 1e-4
    found = theory.penalised_optimum(inputs, modulus, penalty)
    losses = [
        float(theory.cross_entropy(theory.best_margin(inputs, modulus) * norm ** (inputs + 1), modulus))
        for norm in (found.norm - step, found.norm + step)
    ]
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(penalty, rel=0.01)


def test_at_a_large_penalty_the_optimum_is_that_away_from_zero_weights():
    """What AdamW ends at from weights that are not zero: 0.16305 was seen."""
    found = theory.penalised_optimum(3, 7, 0.4)
    assert (found.norm, found.cross_entropy) == (pytest.approx(5.300, abs=1e-3), pytest.approx(0.1631, abs=1e-4))
    assert found.objective > log(7)
    with pytest.raises(ValueError, match="penalty = 1 has no optimum but zero weights"):
        theory.penalised_optimum(3, 7, 1.0)


def test_logits_that_tie_have_the_loss_of_chance():
    assert theory.cross_entropy(0.0, 7) == pytest.approx(log(7))


def test_identities():
    values = np.random.default_rng(0).normal(size=(10, 4))
    np.testing.assert_allclose(theory.signed_powers(values), theory.product_of_values(values), atol=1e-10)
    np.testing.assert_allclose(
        theory.signed_powers(values, half=True), theory.product_of_values(values) / 2, atol=1e-10
    )
    terms = theory.cosine_terms(values)
    assert terms.shape == (10, 8)
    np.testing.assert_allclose(terms.sum(-1), np.cos(values.sum(-1)), atol=1e-14)


@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_the_mass_of_frequency_half_p_is_that_of_the_ratio(inputs):
    """Mass 1 for each of p/2 - 1 frequencies and its own; without it, (p - 1)/2 of mass 1 are in place of p/2."""
    for p in (4, 8):
        masses = p / 2 - 1 + theory.nyquist_mass(inputs)
        assert theory.even_ratio_with_all(inputs, p) == pytest.approx((p - 1) / 2 / masses)

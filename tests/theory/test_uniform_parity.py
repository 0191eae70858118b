"""Closed forms of first gradients on uniform parities, at sizes where numbers are known."""

from itertools import product
from math import comb

import numpy as np
import pytest

from featscope.theory import uniform_parity as theory


def test_coefficients_of_the_majority_of_three():
    # maj = (x1 + x2 + x3)/2 - x1 x2 x3/2
    assert theory.majority_coefficient(3, 1) == 0.5
    assert theory.majority_coefficient(3, 3) == -0.5


def test_squares_of_coefficients_sum_to_one():
    weights = [comb(13, size) * theory.majority_coefficient(13, size) ** 2 for size in range(1, 14, 2)]
    assert sum(weights) == pytest.approx(1.0)


def test_the_coefficient_and_cosines_of_known_sizes():
    assert theory.majority_coefficient(33, 3) == pytest.approx(-0.0045, abs=5e-5)
    for (d, k), cosine in {(21, 2): 0.9871, (33, 4): 0.9633, (51, 4): 0.9769}.items():
        assert theory.cosine(d, k) == pytest.approx(cosine, abs=5e-5)
        on, off = (theory.majority_coefficient(d, size) for size in (k - 1, k + 1))
        assert abs(off / on) == pytest.approx(theory.coefficient_ratio(d, k))


def test_the_angle_of_a_gradient():
    inside = np.arange(33) < 4
    w = np.where(inside, 1.0, -1.0)[None]
    (found,) = theory.first_gradient(w, inside)
    assert abs(found[inside].sum() / 2 / np.linalg.norm(found)) == pytest.approx(theory.cosine(33, 4))
    assert np.abs(theory.printed_gradient(w, inside)) == pytest.approx(abs(theory.majority_coefficient(33, 3)))


def test_the_angle_opens_where_its_tangent_is_one():
    for d, k in ((21, 2), (33, 4)):
        n = theory.opening_samples(d, k)
        assert theory.sampled_tangent(d, k, n) == pytest.approx(1.0)
    assert theory.sampled_tangent(33, 4, 1e12) == pytest.approx(theory.cosine(33, 4) ** -2 - 1, rel=1e-4)


@pytest.mark.parametrize("block", [2, 4])
def test_first_gradients_and_read_outs_are_those_of_all_inputs(block):
    x = np.array(list(product((-1, 1), repeat=7)))
    inside = np.isin(np.arange(7), [1, 3, 4, 6][:block])
    y, w = x[:, inside].prod(1), np.random.default_rng(0).choice([-1.0, 1.0], (5, 7))
    drive = x @ w.T - 0.3
    gradient = (y[:, None] * (drive > 0)).T @ x / len(x)
    np.testing.assert_allclose(theory.first_gradient(w, inside), gradient, atol=1e-12)
    readout = (y[:, None] * drive.clip(min=0)).mean(0)
    np.testing.assert_allclose(np.abs(readout), theory.first_readout(7, block))


def test_the_sup_norm_cone_is_how_far_off_a_gradient_lies_but_for_its_first_order():
    """Off A it is (k - 1)/((d - k) √k) of its part along D."""
    inside = np.arange(33) < 4
    (found,) = theory.first_gradient(np.where(inside, 1.0, -1.0)[None], inside)
    off = abs(found[~inside]).max() / np.linalg.norm(found) / theory.cosine(33, 4)
    assert theory.sup_norm_cone(33, 4) == pytest.approx(off * 4 / 3)

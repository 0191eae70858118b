"""First gradients on polynomials of few directions, at sizes where numbers are known."""

from math import pi, sqrt

import numpy as np
import pytest

from featscope.theory import multi_index as theory

HESSIAN = np.diag([1.0, -1.0, 0.0, 0.0])


def test_the_gradient_of_a_neuron_along_a_direction():
    w = 3 * np.eye(4)
    found = theory.first_gradient(w, HESSIAN)
    np.testing.assert_allclose(found, HESSIAN / 2 / sqrt(2 * pi), atol=1e-15)


def test_across_is_noise_and_the_rest_of_the_closed_form():
    w = np.array([[1.0, 0, 1, 0], [1, 1, 0, 0]])
    rest = (theory.first_gradient(w, HESSIAN)[:, 2:] ** 2).sum(-1)
    np.testing.assert_allclose(theory.across(w, HESSIAN, 2, 100, 1.0), rest + 2 / 400)


def test_half_lies_in_the_span_at_the_opening_ratio():
    assert theory.opening_ratio(1.0) == pytest.approx(pi / 4)
    for quadratic in (0.3, 1.0):
        assert theory.share_in_span(theory.opening_ratio(quadratic), quadratic) == pytest.approx(0.5)

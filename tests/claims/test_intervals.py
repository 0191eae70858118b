"""Intervals and exponents."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featscope.claims import fitted_exponent, interval_of_mean


def test_intervals_cover_the_mean_as_often_as_they_say():
    """4000 intervals at 95 %: the share covered has spread 0.0034; 4 σ, one false alarm in 10^4."""
    samples = np.random.default_rng(0).normal(3.0, 2.0, size=(4000, 5))
    intervals = [interval_of_mean(row, level=0.95) for row in samples]
    assert np.mean([low <= 3 <= high for low, high in intervals]) == pytest.approx(0.95, abs=0.014)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.floats(-50, 50), st.floats(0.1, 9))
def test_intervals_move_and_stretch_with_the_samples(samples, shift, scale):
    low, high = interval_of_mean(np.array(samples))
    moved = interval_of_mean(scale * np.array(samples) + shift)
    assert moved == pytest.approx((scale * low + shift, scale * high + shift), rel=1e-6, abs=1e-6)


def test_equal_samples_leave_no_doubt():
    assert interval_of_mean(np.full(8, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize("samples", [[1.0], [1.0, nan], [1.0, inf], []])
def test_without_two_finite_samples_anything_is_possible(samples):
    assert interval_of_mean(np.array(samples)) == (-inf, inf)


def test_samples_of_another_shape_are_refused():
    with pytest.raises((ValueError, TypeError)):
        interval_of_mean(np.zeros((2, 3)))


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_the_exponent_of_a_power_law(exponent, factor):
    x = np.array([0.5, 1.0, 2.0, 7.0])
    y = np.stack([factor * x**exponent, x])
    assert fitted_exponent(x, y) == pytest.approx([exponent, 1.0], abs=1e-9)


def test_what_is_not_positive_has_no_exponent():
    x, y = np.array([1.0, 2.0]), np.array([[0.0, 1.0], [-1.0, 1.0], [1.0, 2.0]])
    found = fitted_exponent(x, y)
    assert not np.isfinite(found[:2]).any()
    assert found[2] == pytest.approx(1.0)

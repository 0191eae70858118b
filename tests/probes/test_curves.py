"""Curves over an option: slope, values between points, and where they fall to a level."""

from math import isnan

import numpy as np
import pytest
import torch

from featscope.probes.curves import first_fall, slope, value_at

X = (0.0, 0.1, 0.5, 0.6, 1.0)


def test_slopes_are_those_of_least_squares():
    curve = torch.rand(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(slope(curve, X), [np.polyfit(X, one, 1)[0] for one in curve.numpy()])


def test_values_between_points_are_on_the_line():
    curve = torch.tensor([[1.0, 2.0, 6.0, 0.0, 4.0]])
    assert value_at(curve, X, 0.3).tolist() == pytest.approx([4.0])
    assert value_at(curve, X, 1.0).tolist() == [4.0]


def test_a_curve_falls_where_it_first_comes_from_above():
    curve = torch.tensor([[0.2, 0.9, 0.5, 0.7, 0.1], [1.0, 1.0, 0.75, 0.25, 0.0], [0.9, 0.8, 0.7, 0.6, 0.55]])
    touches, crosses, never = first_fall(curve, X, 0.5).tolist()
    assert touches == pytest.approx(0.5)
    assert crosses == pytest.approx(0.55)
    assert isnan(never)

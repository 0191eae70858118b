"""What is taken of many values, where one is missing."""

import numpy as np
import xarray as xr

from featscope.studies.reductions import at_all, known, largest, mean, mean_of, smallest

NAN = np.nan
VALUES = xr.DataArray([[[1.0, 2.0], [3.0, 6.0]], [[1.0, NAN], [3.0, 6.0]]], dims=("replica", "neuron", "feature"))


def test_extremes_and_means_are_missing_where_a_value_is():
    np.testing.assert_array_equal(largest(VALUES), [6.0, NAN])
    np.testing.assert_array_equal(smallest(VALUES), [1.0, NAN])
    np.testing.assert_array_equal(mean(VALUES), [3.0, NAN])
    np.testing.assert_array_equal(largest(VALUES[:, 1, 0]), [3.0, 3.0])


def test_a_mean_of_some_is_missing_where_one_of_those_is():
    second = xr.DataArray([False, True], dims="neuron")
    np.testing.assert_array_equal(mean_of(VALUES, second, ("neuron", "feature")), [4.5, 4.5])
    np.testing.assert_array_equal(mean_of(VALUES, ~second, ("neuron", "feature")), [1.5, NAN])
    np.testing.assert_array_equal(mean_of(VALUES, second & ~second, ("neuron", "feature")), [NAN, NAN])


def test_whether_it_is_so_is_not_known_of_what_is_missing():
    np.testing.assert_array_equal(known(VALUES > 1.5, VALUES), [[[0, 1], [1, 1]], [[0, NAN], [1, 1]]])
    np.testing.assert_array_equal(known((VALUES > 1.5).any("feature"), VALUES), [[1, 1], [NAN, 1]])


def test_at_all_chosen_steps():
    so = xr.DataArray([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, NAN, 0.0], [1.0, 1.0, NAN]], dims=("replica", "step"))
    chosen = xr.DataArray([True, True, False], dims="step")
    np.testing.assert_array_equal(at_all(so, chosen), [1.0, 0.0, NAN, 1.0])
    np.testing.assert_array_equal(at_all(so, chosen & ~chosen), [NAN] * 4)

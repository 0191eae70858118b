"""Means over replicas as figures show them."""

import numpy as np
import pytest
import xarray as xr

from featscope.claims import interval_of_mean
from featscope.studies.summaries import band, over_replicas, over_steps


@pytest.fixture
def series() -> xr.DataArray:
    values = np.random.default_rng(0).normal(size=(5, 4))
    return xr.DataArray(values, dims=("replica", "step"), coords={"step": [0, 1, 10, 20]})


def test_mean_and_interval_are_over_replicas_and_keep_the_other_axes(series):
    mean, low, high = over_replicas(series.transpose("step", "replica"))
    assert mean.shape == low.shape == high.shape == (4,)
    for point in range(4):
        samples = series.values[:, point]
        assert mean[point] == pytest.approx(samples.mean())
        assert (low[point], high[point]) == pytest.approx(interval_of_mean(samples))


def test_one_replica_has_no_interval(series):
    mean, low, high = over_replicas(series.isel(replica=[0]))
    assert np.array_equal(mean, series.values[0])
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    curve = band("x", series.isel(replica=[0]))
    assert curve.low is None
    assert curve.high is None


def test_steps_that_some_replica_never_reached_are_left_out(series):
    series[2, 3] = np.nan
    curve = band("x", series)
    assert list(curve.x) == [0, 1, 10]
    assert np.isfinite([curve.y, curve.low, curve.high]).all()


def test_default_figure_draws_each_series_of_each_arm_that_has_it(series):
    deep = series.expand_dims(neuron=3)
    watched = xr.Dataset(
        {"loss": series, "rate": (series.dims, series.values, {"units": "1", "long_name": "Pr(fires)"})}
    )
    runs = {"a": watched.assign(norms=deep), "b": watched[["loss"]], "start": watched.isel(step=[0])}
    loss, rate = over_steps(runs).panels
    assert [curve.label for curve in loss.curves] == ["a", "b"]
    assert [curve.label for curve in rate.curves] == ["a"]
    assert (loss.y_label, rate.y_label, rate.title) == ("loss", "rate", "Pr(fires)")

"""What stored trajectories say, on weights that are written down."""

import numpy as np
import pytest
import xarray as xr

from featscope.probes.stored import (
    common_and_rare,
    event_in_words,
    first_look,
    growth,
    last_look,
    lucky_alone,
    off_features,
    reached,
    sorted_by_feature,
)


def trajectory(weights: np.ndarray, steps: list[int]) -> xr.Dataset:
    """That of weights ``[replica, step, neuron, input]`` on features along the first three axes."""
    norm = np.linalg.norm(weights, axis=-1)
    found = {
        "alignment": (("replica", "step", "neuron", "feature"), weights[..., :3] / norm[..., None]),
        "norm": (("replica", "step", "neuron"), norm),
    }
    return xr.Dataset(found, {"replica": range(len(weights)), "step": steps})


def test_growth_is_along_the_start_and_what_is_off_the_features_apart():
    start = np.random.default_rng(0).normal(size=(2, 5, 4))
    grown = start * [8.0, 4.0, 3.0, 0.5]
    turned = np.stack([-start[:, 1], start[:, 0], *start.transpose(1, 0, 2)[2:]], 1)  # another direction altogether
    run = trajectory(np.stack([start, grown, turned], 1), [0, 5, 9])
    found = growth(run)
    assert found.sel(step=0).values == pytest.approx(1)
    assert found.sel(step=5).values == pytest.approx(np.array([[8.0, 4.0, 3.0]] * 2))
    squares = start[..., :3] ** 2  # neurons 0 and 1 turned by a right angle: nothing of them is along their start
    assert found.sel(step=9).values == pytest.approx(squares[:, 2:].sum(1) / squares.sum(1))
    common, rare = (part.mean("feature").sel(step=5) for part in common_and_rare(found, 1))
    assert (common / rare).values == pytest.approx((8 + 4) / 2 / 3)
    assert off_features(run).sel(step=5).values == pytest.approx(0.5)


def test_an_event_that_has_not_happened_has_no_step():
    events = xr.DataArray([3, -1, 5], dims="replica")
    np.testing.assert_array_equal(reached(events), [3, np.nan, 5])
    assert event_in_words(events) == "not reached in all networks"
    assert event_in_words(events[::2]) == "4 steps"


def test_neurons_are_sorted_by_the_feature_of_which_they_have_most_at_the_end():
    start, end = [[9.0, 0], [0, 9], [0, 9]], [[0.1, 0.4], [0.8, 0.2], [0.3, 0.7]]
    early = [start, np.full((3, 2), np.nan)]  # a replica that stopped before the last step
    values = xr.DataArray([[start, end], early], {"step": [0, 4]}, dims=("replica", "step", "neuron", "feature"))
    found = sorted_by_feature(values.transpose("feature", "neuron", "step", "replica"), np.array([0, 4, 7]))
    assert found.shape == (2, 3, 3, 2)
    assert found[0, 1].tolist() == found[0, 2].tolist() == [[0.8, 0.2], [0.3, 0.7], [0.1, 0.4]]
    assert found[0, 0].tolist() == [[0, 9], [0, 9], [9, 0]]
    assert found[1, 2].tolist() == found[1, 0].tolist() == [[9, 0], [0, 9], [0, 9]]


def test_the_last_look_is_no_later_than_it_is_asked_for():
    run = xr.Dataset(coords={"step": [0, 5, 9]})
    assert [last_look(run, until) for until in (0.0, 8.9, 9.0, np.inf)] == [0, 5, 9, 9]


def test_an_event_at_the_start_was_not_waited_for():
    np.testing.assert_array_equal(reached(xr.DataArray([0, 1], dims="replica")), [np.nan, 1])


def test_a_series_is_looked_at_first_at_the_event_itself_or_after_it():
    run = xr.Dataset(coords={"replica": range(4), "step": [0, 5, 9]})
    series = xr.DataArray(np.arange(12.0).reshape(4, 3), dims=("replica", "step"))
    found = first_look(run, series, xr.DataArray([5, 6, 10, -1], dims="replica"))
    np.testing.assert_array_equal(found, [1, 5, np.nan, np.nan])


def test_neurons_are_lucky_alone_for_a_feature_beside_which_no_other_is_large():
    """Of three features log d/d is 0.37: the first has two of them, and the last is not sure of its own."""
    shares = np.array([[0.6, 0.4, 0.0], [0.7, 0.2, 0.1], [0.5, 0.25, 0.25]])
    run = trajectory(np.sqrt(np.pad(shares, ((0, 0), (0, 1))))[None, None], [0])
    assert lucky_alone(run, 1.0, 1.5).values[0].tolist() == [[False] * 3, [True, False, False], [False] * 3]

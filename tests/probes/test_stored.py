"""What stored trajectories say, on weights that are written down."""

import numpy as np
import pytest
import xarray as xr

from featscope.probes.stored import common_and_rare, growth, in_words, off_features, reached


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
    assert in_words(events) == "not reached in all networks"
    assert in_words(events[::2]) == "4 steps"

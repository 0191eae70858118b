"""Directions in the plane."""

import jaxtyping
import numpy as np
import pytest
import torch

from featscope.probes.cosine_map import placed


def test_maps_keep_distances_that_fit_in_the_plane():
    angles = np.array([0.0, 0.3, np.pi])
    directions = np.stack([np.cos(angles), np.sin(angles)], 1)
    points = placed(torch.tensor(directions @ directions.T)).numpy()
    near, far = (np.linalg.norm(points[0] - points[i]) for i in (1, 2))
    assert near == pytest.approx(1 - np.cos(0.3), abs=0.02)
    assert far == pytest.approx(2, rel=0.05)


def test_a_single_point_has_a_place():
    assert placed(torch.ones(1, 1)).shape == (1, 2)


def test_cosines_of_half_precision_with_a_gradient_have_places_and_arrays_of_numpy_have_none(monkeypatch):
    cosines = torch.eye(3, dtype=torch.bfloat16, requires_grad=True)
    assert torch.equal(placed(cosines), placed(torch.eye(3)))
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(TypeError, match=r"got a ndarray: expected a torch\.Tensor"):
        placed(np.eye(3))

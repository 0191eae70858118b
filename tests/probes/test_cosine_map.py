"""Directions in the plane."""

import numpy as np
import pytest

from featscope.probes.cosine_map import placed


def test_maps_keep_distances_that_fit_in_the_plane():
    angles = np.array([0.0, 0.3, np.pi])
    directions = np.stack([np.cos(angles), np.sin(angles)], 1)
    points = placed(directions @ directions.T)
    near, far = (np.linalg.norm(points[0] - points[i]) for i in (1, 2))
    assert near == pytest.approx(1 - np.cos(0.3), abs=0.02)
    assert far == pytest.approx(2, rel=0.05)


def test_a_single_point_has_a_place():
    assert placed(np.ones((1, 1))).shape == (1, 2)

"""Colourfulness and distance."""

import pytest
import torch

from featscope.probes.filters import colourfulness, distance_from_init


def test_colourfulness_of_known_filters():
    pattern = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    grey = pattern.expand(3, 4, 4)
    opponent = torch.stack([pattern, -pattern, 0 * pattern])
    single = torch.stack([pattern, 0 * pattern, 0 * pattern])
    values = colourfulness(torch.stack([grey, opponent, single]))
    torch.testing.assert_close(values, torch.tensor([0, 1, 2 / 3], dtype=torch.float64), atol=1e-6, rtol=0)


def test_random_filters_are_two_thirds_colour():
    filters = torch.randn(4000, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    assert float(colourfulness(filters).mean()) == pytest.approx(2 / 3, abs=0.005)


def test_distance_is_relative():
    weight = torch.tensor([3.0, 4.0])
    assert float(distance_from_init(weight, weight)) == 0
    assert float(distance_from_init(2 * weight, weight)) == pytest.approx(1)

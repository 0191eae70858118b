"""Colourfulness and distance."""

import pytest
import torch

from featscope.probes.filters import as_images, colourfulness, distance, distance_from_init


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


def test_drawn_filters_go_from_grey_to_colourful_each_over_its_largest_weight():
    grey = torch.tensor([[2.0, -1.0]]).expand(3, 1, 2)
    opponent = torch.tensor([4.0, -4.0, 0.0])[:, None, None].expand(3, 1, 2)
    nothing = torch.zeros(3, 1, 2)
    images = as_images(torch.stack([nothing, opponent, grey]))
    assert images.shape == (3, 1, 2, 3)
    assert images[0, 0].tolist() == [[1, 1, 1], [0.25, 0.25, 0.25]]
    assert images[1, 0].tolist() == [[1, 0, 0.5]] * 2
    assert (images[2] == 0.5).all()


def test_distance_of_modules_is_over_all_parameters():
    one, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    with torch.no_grad():
        other.weight.copy_(one.weight + torch.tensor([[3.0, 0.0]]))
        other.bias.copy_(one.bias - 4)
    assert float(distance(one, other).detach()) == pytest.approx(5)

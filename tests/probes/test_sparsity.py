"""Sparsity measures on activations whose sparsity is known."""

import pytest
import torch

from featscope.probes.sparsity import density, firing_pattern, hoyer, treves_rolls


def test_density_counts_units_above_zero():
    assert float(density(torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1e-9, 5.0]]))) == 0.5


def test_what_is_no_number_is_not_dead():
    assert density(torch.full((4, 2), torch.nan)).isnan()
    assert density(torch.tensor([[1.0, torch.nan]])).isnan()


def test_extremes():
    equal, single = torch.full((1, 16), 3.0), torch.zeros(1, 16)
    single[0, 5] = 3
    assert float(treves_rolls(equal)) == pytest.approx(1)
    assert float(treves_rolls(single)) == pytest.approx(1 / 16)
    assert float(hoyer(equal)) == pytest.approx(0)
    assert float(hoyer(single)) == pytest.approx(1)


def test_exponential_activations():
    # (E a)² / E a² = 1/2 for an exponential law.
    values = -torch.rand(1, 200_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log()
    assert float(treves_rolls(values)) == pytest.approx(0.5, rel=0.01)


def test_silence_is_not_a_number():
    assert treves_rolls(torch.zeros(1, 4)).isnan()
    assert hoyer(torch.zeros(1, 4)).isnan()


def test_a_firing_pattern_is_of_centres_over_their_highest_value():
    maps = torch.zeros(3, 4, 3, 3)
    maps[:, :, 1, 1] = torch.tensor([[2.0, 1.0, 0.0, 4.0], [1.0, 4.0, 0.0, 2.0], [9.0, 9.0, 9.0, 9.0]])
    maps[:, :, 0, 0] = 100
    assert firing_pattern(maps, 2, 4).tolist() == [[1, 0.25, 0, 1], [0.5, 1, 0, 0.5]]
    assert firing_pattern(maps, 2, 2).tolist() == [[1, 1], [0.5, 0.5]]  # the first channel and the last
    assert firing_pattern(maps, 1, 6).shape == (1, 6)

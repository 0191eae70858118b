"""Networks with activation x^k: what they compute, their norm, and the one of largest margin."""

import pytest
import torch

from featscope.data.modular_addition import ModularAddition, all_labels, all_points
from featscope.models.polynomial_network import (
    Polynomial,
    PolynomialNetwork,
    cosine_network,
    label_margins,
    lattice_phases,
    max_margin_phases,
)
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.theory import fourier_circuits as theory

STREAMS = Streams(0, range(2))


def random(inputs, modulus, **options):
    source = ModularAddition(inputs, modulus).build(STREAMS.at("data"))
    return Polynomial(**options).build(source, STREAMS.at("weights")).double()


@pytest.mark.parametrize("inputs", [2, 3, 4, 5])
def test_gathered_rows_summed_grids_and_blocks_are_one_network(inputs):
    network = random(inputs, 3, neurons=7)
    points = all_points(inputs, 3).expand(2, -1, -1)
    one_hot = torch.nn.functional.one_hot(points, 3).double()
    sums = torch.einsum("rnix,rixm->rnm", one_hot, network.embedding)
    expected = torch.einsum("rnm,rmc->rnc", sums**inputs, network.readout)
    torch.testing.assert_close(network(points), expected)
    torch.testing.assert_close(network.on_all_points(), expected)
    torch.testing.assert_close(torch.cat(list(network.in_blocks()), 1), expected)


def test_the_norm_is_that_of_neurons_to_the_degree():
    network = random(3, 5, neurons=4)
    norms = network.vectors().flatten(2).norm(dim=2)
    torch.testing.assert_close(network.neuron_norms(), norms)
    torch.testing.assert_close(network.norm(), (norms**4).sum(1) ** 0.25)


def test_a_network_of_zeros_has_a_gradient_that_is_finite():
    network = PolynomialNetwork(torch.zeros(1, 3, 5, 2), torch.zeros(1, 2, 5))
    network.norm().sum().backward()
    assert network.embedding.grad.isfinite().all()


def test_width_and_scale_of_the_start():
    assert random(3, 7).readout.shape == (2, 96, 7)
    ratio = random(3, 7, scale=0.25).embedding / random(3, 7).embedding
    torch.testing.assert_close(ratio, torch.full_like(ratio, 0.25))
    assert float(random(2, 31, neurons=400).embedding.std()) * 31**0.5 == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("inputs", [2, 3, 4, 5])
def test_phases_of_embeddings_sum_to_that_of_the_readout(inputs):
    for phases in [max_margin_phases(inputs), *([lattice_phases(*theory.LATTICES[inputs])] if inputs < 5 else [])]:
        left = phases[:, :-1].sum(1) - phases[:, -1]
        torch.testing.assert_close(left.cos(), torch.ones_like(left))
    assert len(max_margin_phases(inputs)) == 2 ** (2 * inputs - 1)


@pytest.mark.parametrize(("inputs", "modulus"), [(2, 5), (3, 7), (4, 3), (5, 3)])
def test_the_construction_has_the_largest_margin_on_every_point_and_norm_one(inputs, modulus):
    network = cosine_network(modulus, torch.arange(1, (modulus + 1) // 2), max_margin_phases(inputs))
    low, high = label_margins(network.on_all_points()[0], all_labels(inputs, modulus))
    gamma = torch.full_like(low, theory.best_margin(inputs, modulus))
    torch.testing.assert_close(low, gamma, rtol=1e-12, atol=0)
    torch.testing.assert_close(high, gamma, rtol=1e-12, atol=0)
    assert float(network.norm().detach()) == pytest.approx(1, abs=1e-12)
    assert network.readout.shape[1] == 2 ** (2 * inputs - 2) * (modulus - 1)


def test_masses_are_those_of_frequencies():
    masses = torch.tensor([1.0, 3.0], dtype=torch.float64)
    network = cosine_network(5, torch.tensor([1, 2]), max_margin_phases(2), masses=masses)
    of_each = (network.neuron_norms()[0] ** 3).view(2, -1).sum(1)
    torch.testing.assert_close(of_each, masses / 4)


def test_margins_are_to_the_largest_and_to_the_smallest_wrong_label():
    low, high = label_margins(torch.tensor([[1.0, 4.0, 3.0], [2.0, 0.0, 5.0]]), torch.tensor([1, 0]))
    assert low.tolist() == [1, -3]
    assert high.tolist() == [3, 2]


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match=r"neurons = -1 .* >= 0"):
        Polynomial(neurons=-1)
    with pytest.raises(ConfigError, match=r"scale = 0 .* > 0"):
        Polynomial(scale=0)


def test_a_label_that_is_the_smallest_itself_is_compared_with_wrong_ones_alone():
    largest, smallest = label_margins(torch.tensor([[-1.0, 0.0, 2.0]]), torch.tensor([0]))
    assert (largest.item(), smallest.item()) == (-3, -1)

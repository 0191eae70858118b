"""The gradient outer product at a layer, against that of the whole module by its input."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from featscope.probes import average_gradient_outer_product, layer_agreement, matrix_agreement


def unbiased(weight, rows):
    """Of WᵀW and the mean outer product of ``rows`` [sample, place, input], its norm by pairs of samples."""
    gram, each = weight.T @ weight, rows.mT @ rows
    pairs = torch.einsum("iab,jab->ij", each, each)
    of_two = (pairs.sum() - pairs.trace()) / (len(rows) * (len(rows) - 1))
    return float((gram * each.mean(0)).sum() / gram.norm() / of_two.sqrt())


def signs_of(*shape):
    return (2 * torch.randint(2, shape, generator=torch.Generator().manual_seed(0)) - 1).double()


def test_at_the_first_layer_it_is_that_of_the_module():
    """Random directions are right in the mean: of 4096 samples and 2 outputs the cosine is off by about 1/√8192."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 9), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(9, 2))
    batches = [(torch.randn(1024, 6), None) for _ in range(4)]
    weight = net[0].weight.detach()
    wanted = float(matrix_agreement(weight.T @ weight, average_gradient_outer_product(net, batches)))
    found = layer_agreement(net, batches, at="0", output=lambda batch: net(batch[0]), samples=4096)
    assert found == pytest.approx(wanted, abs=0.05)
    assert net.training
    assert net[0].weight.grad is None


def test_of_one_direction_it_is_exact_and_of_any_scale():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 1, bias=False)).double()
    with torch.no_grad():
        net[1].weight.mul_(1e-9)
    x = torch.randn(8, 4, dtype=torch.float64)
    one = net[1].weight.detach() @ net[0].weight.detach()
    gram = net[0].weight.detach().T @ net[0].weight.detach()
    wanted = float(matrix_agreement(gram, 1e18 * one.T @ one))
    assert layer_agreement(net, [x], at="0", output=net) == pytest.approx(wanted, rel=1e-9)


def test_a_convolution_is_taken_by_its_patches():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(27, 1)).double()
    x = torch.randn(5, 2, 4, 4, dtype=torch.float64)
    patches = nn.functional.unfold(x, 2).mT.requires_grad_()
    w = net[0].weight.detach().flatten(1)
    maps = (patches @ w.T + net[0].bias).mT.reshape(5, 3, 3, 3)
    (slope,) = torch.autograd.grad(net[3](maps.relu().flatten(1)).sum(), patches)
    wanted = min(1.0, unbiased(w, slope * signs_of(5, 1)[:, :, None]))
    assert layer_agreement(net, [x], at="0", output=net) == pytest.approx(wanted, rel=1e-6)


def test_what_has_no_gram_matrix_is_refused():
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    with pytest.raises(ValueError, match="'1' is a ReLU"):
        layer_agreement(net, [torch.randn(2, 4)], at="1", output=net)
    with pytest.raises(ValueError, match="no batches"):
        layer_agreement(net, [], at="0", output=net)


@pytest.mark.parametrize(("inputs", "outputs"), [(4, 60), (60, 4)])
def test_the_matrix_is_as_large_as_the_smaller_side(inputs, outputs, monkeypatch):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh(), nn.Linear(outputs, 1)).double()
    x = torch.randn(8, inputs, dtype=torch.float64, requires_grad=True)
    (rows,) = torch.autograd.grad((net(x) * signs_of(8, 1)).sum(), x)
    wanted = unbiased(net[0].weight.detach(), rows[:, None])
    sizes, product = [], torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: (sizes.append((c := product(a, b)).numel()), c)[1])
    assert layer_agreement(net, [x.detach()], at="0", output=net) == pytest.approx(wanted, rel=1e-9)
    assert max(sizes) <= 8 * 4


@pytest.mark.parametrize(("samples", "rank"), [(64, 8), (64, 128), (256, 128)])
def test_it_does_not_hang_on_how_many_samples_or_directions_there_are(samples, rank):
    """Of a linear layer alone E[WᵀδδᵀW] is WᵀW; the cosine with the norm of the mean was 0.5 of 64 samples."""
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(128, 128))
    with torch.no_grad():
        net[0].weight.copy_(torch.randn(128, rank) @ torch.randn(rank, 128) / 128)
    found = layer_agreement(net, [torch.randn(samples, 128)], at="0", output=net, samples=samples)
    assert found == pytest.approx(1, abs=0.05)


def test_one_sample_says_nothing_of_the_mean():
    net = nn.Sequential(nn.Linear(4, 3))
    assert np.isnan(layer_agreement(net, [torch.randn(1, 4)], at="0", output=net))


def test_where_no_gradient_arrives_there_is_no_number():
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    nn.init.zeros_(net[1].weight)
    x = torch.randn(8, 4)
    assert np.isnan(layer_agreement(net, [x], at="0", output=net))
    nn.init.ones_(net[1].weight)
    found = layer_agreement(net, [x], at="0", output=net)
    assert layer_agreement(net, [x[:0], x], at="0", output=net) == found, "a batch without samples adds nothing"


def test_of_a_layer_that_runs_twice_the_last_run_counts():
    torch.manual_seed(6)
    layer, x = nn.Linear(4, 4), torch.randn(8, 4)
    twice, apart = nn.Sequential(layer, nn.Tanh(), layer), nn.Sequential(deepcopy(layer), nn.Tanh(), layer)
    found = layer_agreement(twice, [x], at="0", output=twice)
    assert found == layer_agreement(apart, [x], at="2", output=apart)
    assert found != layer_agreement(apart, [x], at="0", output=apart)


def test_sequences_may_come_first():
    torch.manual_seed(5)
    layer, read = nn.Linear(6, 5), nn.Linear(5, 3)
    x = torch.randn(32, 7, 6)
    batch_first = nn.Sequential(layer, nn.Tanh(), read)

    class SequenceFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = batch_first

        def forward(self, x):
            return self.layers(x.transpose(0, 1)).transpose(0, 1)

    own = layer_agreement(batch_first, [x], at="0", output=batch_first)
    turned = SequenceFirst()
    assert layer_agreement(turned, [x], at="layers.0", output=turned) == pytest.approx(own, rel=1e-9)
    joined = nn.Sequential(nn.Flatten(0, 1), layer, nn.Tanh(), read, nn.Unflatten(0, (32, 7)))
    assert layer_agreement(joined, [x], at="1", output=joined) == pytest.approx(own, rel=1e-9)

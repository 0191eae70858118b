"""The gradient outer product at a layer, against that of the whole module by its input."""

import pytest
import torch
from torch import nn

from featscope.probes import average_gradient_outer_product, layer_agreement, matrix_agreement


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
    signs = torch.randn(5, 1, generator=torch.Generator().manual_seed(0)).double()
    rows = (slope * signs[:, :, None]).reshape(-1, 8)
    wanted = float(matrix_agreement(w.T @ w, rows.T @ rows))
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
    signs = torch.randn(8, 1, generator=torch.Generator().manual_seed(0)).double()
    (rows,) = torch.autograd.grad((net(x) * signs).sum(), x)
    weight = net[0].weight.detach()
    wanted = float(matrix_agreement(weight.T @ weight, rows.T @ rows))
    sizes, product = [], torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: (sizes.append((c := product(a, b)).numel()), c)[1])
    assert layer_agreement(net, [x.detach()], at="0", output=net) == pytest.approx(wanted, rel=1e-9)
    assert max(sizes) <= 8 * 4

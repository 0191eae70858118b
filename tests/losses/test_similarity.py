"""Similarities with the value of one network and the gradient of another."""

import pytest
import torch

from featscope.losses import Masked, paired, products


def batches(*leading: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*leading, 4, 3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(4)]


@pytest.mark.parametrize("leading", [(), (2,)])
def test_plain_similarities_are_inner_products_with_constant_keys(leading):
    x, y, *_ = batches(*leading)
    assert torch.allclose(products(x, y), torch.einsum("...an,...kn->...ak", x, y))
    assert torch.allclose(paired(x, y), products(x, y).diagonal(dim1=-2, dim2=-1))
    for similarity in (products(x, y), paired(x, y)):
        gradients = torch.autograd.grad(similarity.sum(), [x, y], allow_unused=True)
        assert gradients[1] is None
        assert gradients[0].abs().min() > 0


def test_masked_similarities_have_the_pruned_value_and_the_dense_gradient():
    x, y, pruned_x, pruned_y = batches(2)
    anchor, keys = Masked(pruned_x.detach(), x), Masked(pruned_y.detach(), y)
    for similarity, plain in ((products, pruned_x @ pruned_y.mT), (paired, (pruned_x * pruned_y).sum(-1))):
        masked = similarity(anchor, keys)
        assert torch.allclose(masked, plain)
        weights = torch.randn(masked.shape, dtype=torch.float64)
        found = torch.autograd.grad((weights * masked).sum(), [x, y], allow_unused=True)
        (expected,) = torch.autograd.grad((weights * similarity(x, y)).sum(), [x])
        assert torch.allclose(found[0], expected)
        assert found[1] is None


def test_one_side_alone_may_be_masked():
    x, y, pruned, _ = batches()
    anchor = Masked(pruned.detach(), x)
    assert torch.allclose(products(anchor, y), pruned @ y.mT)
    assert torch.allclose(products(y, anchor), y @ pruned.mT)
    assert torch.allclose(paired(anchor, y), (pruned * y).sum(-1))

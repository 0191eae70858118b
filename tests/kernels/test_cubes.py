"""Views of cubic neurons in machine code against autograd in torch."""

import jaxtyping
import pytest
import torch

from featscope.kernels import BACKENDS
from featscope.models.cubic_patches import views_of_cubes


@pytest.mark.parametrize("shape", [(1, 1, 1, 4), (2, 3, 5, 20), (3, 2, 17, 16)])
@pytest.mark.parametrize("asked", [(0,), (1,), (0, 1)])
def test_views_and_gradient_are_those_of_torch(shape, asked, monkeypatch):
    (replicas, neurons, batch, patches), random = shape, torch.Generator().manual_seed(sum(shape))
    z = torch.randn(*shape, generator=random)
    in_first = (torch.rand(replicas, batch, patches, generator=random) < 0.5).float()
    pulls = [torch.randn(replicas, neurons, batch, generator=random).mT for _ in asked]  # not one row after the other
    found = []
    for kernels in BACKENDS:
        monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
        seen = z.clone().requires_grad_()
        views = views_of_cubes(seen.permute(0, 2, 3, 1), in_first)
        sum((views[which] * pull).sum() for which, pull in zip(asked, pulls, strict=True)).backward()
        found.append([*(view.detach() for view in views), seen.grad])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    for view, chosen in zip(found[0], (in_first, 1 - in_first), strict=False):
        expected = torch.einsum("rnbp,rbp->rbn", z**3, chosen)
        torch.testing.assert_close(view, expected, rtol=1e-5, atol=1e-5)


def test_a_split_that_replicas_share_is_read_once_for_each(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    z = torch.randn(2, 5, 64, 8).permute(0, 2, 3, 1)
    shared = (torch.rand(1, 64, 8) > 0.5).float()
    of_each = shared.expand(2, -1, -1).contiguous()
    for one, other in zip(views_of_cubes(z, shared), views_of_cubes(z, of_each), strict=True):
        torch.testing.assert_close(one, other)

"""Losses without negatives."""

import jaxtyping
import pytest
import torch
from torch.nn.functional import batch_norm, cosine_similarity, mse_loss

from featscope.losses import NonContrastive

SHAPE = (2, 50, 3)


def normals(seed: int) -> torch.Tensor:
    return torch.randn(*SHAPE, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("normalization", ["batch", "l2", "none"])
def test_equal_views_have_the_least_loss(normalization: str):
    loss = NonContrastive(normalization)  # type: ignore[arg-type]
    f = normals(0)
    expected = torch.zeros(2) if normalization != "none" else -f.square().sum(-1).mean(-1)
    torch.testing.assert_close(loss(f, f), expected, atol=1e-5, rtol=1e-5)


def test_batch_normalisation_is_that_of_torch():
    f, g = normals(0), normals(1)
    alone = [batch_norm(x[0], None, None, training=True, eps=1e-3) for x in (f, g)]
    torch.testing.assert_close(NonContrastive(eps=1e-3).normalized(f)[0], alone[0])
    torch.testing.assert_close(NonContrastive(eps=1e-3)(f, g)[0], 3 - (alone[0] * alone[1]).sum(-1).mean())


def test_the_squared_scale_is_the_mean_squared_distance():
    f, g = normals(0), normals(1)
    loss = NonContrastive(scale="squared")
    distance = mse_loss(loss.normalized(f), loss.normalized(g), reduction="none").sum(-1).mean(-1)
    torch.testing.assert_close(loss(f, g), distance)


def test_l2_is_one_minus_cosine():
    f, g = normals(0), normals(1)
    torch.testing.assert_close(NonContrastive("l2")(f, g), 1 - cosine_similarity(f, g, dim=-1).mean(-1))


@pytest.mark.parametrize("stop", [True, False])
def test_gradients_reach_targets_only_if_they_are_not_stopped(stop: bool):
    f, g = normals(0).requires_grad_(), normals(1).requires_grad_()
    NonContrastive(stop_gradient=stop)(f, g).sum().backward()
    assert f.grad is not None
    assert (g.grad is None) == stop


def test_an_output_of_zeros_does_not_outweigh_all_others():
    prediction = normals(0)
    prediction[:, 7] = 0
    prediction.requires_grad_()
    NonContrastive("l2")(prediction, normals(1)).sum().backward()
    lengths = prediction.grad.norm(dim=-1)
    assert (lengths[:, 7] > 0).all()
    assert (lengths[:, 7] < 10 * lengths.median()).all()


@pytest.mark.parametrize("normalization", ["batch", "l2", "none"])
@pytest.mark.parametrize("shape", [(16, 1), (1, 64), (64,), (2, 16, 64)])
def test_targets_of_another_shape_are_refused(normalization, shape, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"prediction and target have shapes \[16, 64\] and .*: expected one shape"):
        NonContrastive(normalization)(torch.randn(16, 64), torch.randn(shape))


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_a_batch_of_one_cannot_be_normalised_over_itself(eps):
    for shape in ((1, 64), (3, 1, 64), (0, 64)):
        with pytest.raises(ValueError, match=r"the batch has [01] samples: .* batch of one: drop_last=True"):
            NonContrastive(eps=eps)(torch.randn(shape), torch.randn(shape))
    assert NonContrastive("l2")(torch.ones(1, 64), torch.ones(1, 64)).abs() < 1e-6


def test_functional_transforms_see_one_replica_at_a_time():
    loss, f, g = NonContrastive(eps=1e-3), normals(0), normals(1)
    torch.testing.assert_close(torch.func.vmap(loss)(f, g), loss(f, g))
    each = torch.func.vmap(torch.func.grad(loss))(f, g)
    torch.testing.assert_close(each, torch.func.grad(lambda x: loss(x, g).sum())(f))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("normalization", ["batch", "l2"])
def test_half_precision_is_widened(normalization, dtype, autocast):
    """Products under autocast give such numbers. Gradients are as near to those of float64 as their type holds."""
    loss, target = NonContrastive(normalization), normals(0)
    prediction = target + 0.02 * normals(1)
    for size in (1.0, 500.0, 15000.0):  # a square of a deviation of 500 has no place in float16
        f, g = ((size * x).to(dtype) for x in (prediction, target))
        exact = f.double().requires_grad_()
        loss(exact, g.double()).sum().backward()
        f.requires_grad_()
        with torch.autocast("cpu", dtype, enabled=autocast):
            found = loss(f, g)
            found.sum().backward()
        torch.testing.assert_close(found.double(), loss(f.double(), g.double()), rtol=1e-3, atol=1e-6)
        finest = 0.51 * torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        torch.testing.assert_close(f.grad.double(), exact.grad, rtol=0.01, atol=max(finest, 1e-6 / size))

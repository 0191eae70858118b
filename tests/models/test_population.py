"""The learner with infinite batches, against autograd on weights and against the loss of large batches."""

import pytest
import torch
from featscope.models.population import OrderParameters, Population, packed_weights, random_start
from scipy.stats import chi2, kstest

from featscope.data import PatchFeatures
from featscope.losses import NonContrastive
from featscope.models import CubicPatchesNetwork, IdentityHead, OnlineNetwork
from featscope.streams import Streams
from featscope.theory.prediction_head import patch_moments
from featscope.training import PredictOtherView

M = 3
MOMENTS = patch_moments(12, 4, 1.5, 1.2, 0.7)


def constants(**kind) -> Population:
    one = torch.ones(1, dtype=torch.float64)
    same, own = (torch.tensor(x, dtype=torch.float64)[:, None] for x in (MOMENTS.same, MOMENTS.own))
    return Population(same, own, MOMENTS.noise_patches * one, 0.8**6 * one, 0.3 * one, **kind)


def loss_of_weights(w, e, of: Population, frozen=None) -> torch.Tensor:
    """The population loss written down once more, over weights whose first two coordinates are the features."""
    target_w = w if frozen is None else frozen
    b, u, tb, tu = w[:, :2], w[:, 2:], target_w[:, :2], target_w[:, 2:]

    def noise(x, y):
        n, k, c = (x * x).sum(1), (y * y).sum(1), x @ y.T
        return of.noise * (9 * n[:, None] * k[None] * c + 6 * c**3)

    signal, target = e @ b**3, tb**3
    product = (of.same[:, 0] * signal * target).sum(1)
    if of.normalization == "none":
        return -product.sum()
    predicted = (of.own[:, 0] * signal**2).sum(1) + of.noise_patches * (e @ noise(u, u) @ e.T).diagonal()
    of_target = (of.own[:, 0] * target**2).sum(1) + of.noise_patches * noise(tu, tu).diagonal()
    return len(w) - (product / (predicted * of_target).sqrt()).sum()


@pytest.mark.parametrize("stop", [True, False])
def test_moves_as_gradient_descent_on_weights_does(stop: bool):
    generator = torch.Generator().manual_seed(0)
    w = (torch.randn(M, 7, generator=generator, dtype=torch.float64) * 0.7).requires_grad_()
    off = 0.4 * torch.randn(M, M, generator=generator, dtype=torch.float64)
    e = (torch.eye(M, dtype=torch.float64) + off - torch.diag(off.diagonal())).requires_grad_()
    of = constants(stop_gradient=stop)
    loss = loss_of_weights(w, e, of, w.detach() if stop else None)
    to_w, to_e = torch.autograd.grad(loss, (w, e))
    here = w.detach()
    u, du = here[:, 2:], -to_w[:, 2:]
    dr, gram = du @ u.T, u @ u.T
    y = OrderParameters(here[:, :2, None], gram[..., None], (e.detach() - torch.eye(M))[..., None])
    found = OrderParameters.unpack(of.velocity(y.pack(), M), M)
    torch.testing.assert_close(found.b[..., 0], -to_w[:, :2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.r[..., 0], dr + dr.T, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.e[..., 0], -0.3 * (to_e - torch.diag(to_e.diagonal())), rtol=1e-10, atol=1e-12)
    assert float(of.loss(y)) == pytest.approx(loss.item())


def test_the_loss_is_that_of_a_large_batch():
    """100 batches of 4,000: their mean is within 4 standard errors (false alarms: 1 in 10,000)."""
    data = PatchFeatures(
        input_dim=8, patches=12, feature_patches=4, strong=1.5, weak=1.2, strong_share=0.7, noise_std=0.8
    )
    streams = Streams(0, range(1))
    source = data.build(streams.at("dictionary"))
    weight = 0.5 * streams.at("weights").normal(M, 8)
    head = IdentityHead(0.4 * streams.at("head").normal(M, M), torch.ones(1, 1, 1))
    network = OnlineNetwork(CubicPatchesNetwork(weight), head)
    objective = PredictOtherView(samples=4000)
    with torch.no_grad():
        batches = torch.cat([objective(network, source, streams.at("batch", n)) for n in range(100)]).double()
    b = (weight @ source.dictionary).double()
    gram = (weight @ weight.mT).double() - b @ b.mT
    y = OrderParameters(*(x.movedim(0, -1) for x in (b, gram, head.off_diagonal.detach().double())))
    exact = float(constants().loss(y))
    assert abs(float(batches.mean()) - exact) < 4 * float(batches.std()) / 10


@pytest.mark.parametrize("kind", [{}, {"tied": True}, {"stop_gradient": False}])
def test_norms_are_kept(kind):
    """Σ_k <w_k, dw_k/dt> = 0 as outputs are normalised, whatever the head."""
    start = OrderParameters.unpack(random_start(Streams(0, range(1)).at("start"), 50, 30, M)[0].mT, M)
    generator = torch.Generator().manual_seed(1)
    off = 0.3 * torch.randn(M, M, 50, generator=generator, dtype=torch.float64)
    e = off * (1 - torch.eye(M, dtype=torch.float64))[..., None]
    y = OrderParameters(start.b, start.r, e)
    moved = OrderParameters.unpack(constants(**kind).velocity(y.pack(), M), M)
    change = 2 * (y.b * moved.b).sum((0, 1)) + moved.r.diagonal(dim1=0, dim2=1).sum(-1)
    torch.testing.assert_close(change, torch.zeros_like(change), atol=1e-10, rtol=0)


def test_without_normalisation_the_path_is_that_of_the_plain_loss():
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(M, 7, generator=generator, dtype=torch.float64).requires_grad_()
    of = constants(normalization="none")
    eye = torch.eye(M, dtype=torch.float64)
    (to_w,) = torch.autograd.grad(loss_of_weights(w, eye, of, w.detach()), w)
    here = w.detach()
    y = OrderParameters(here[:, :2, None], (here[:, 2:] @ here[:, 2:].T)[..., None], torch.zeros(M, M, 1).double())
    found = OrderParameters.unpack(of.velocity(y.pack(), M), M).b[..., 0]
    ratio = found / -to_w[:, :2]
    torch.testing.assert_close(ratio, ratio[0, 0].expand_as(ratio))


def test_packing_can_be_undone():
    y = OrderParameters.unpack(torch.arange(18, dtype=torch.float64)[:, None].expand(18, 2), M)
    assert torch.equal(y.r, y.r.transpose(0, 1))
    assert torch.equal(y.e.diagonal(dim1=0, dim2=1), torch.zeros(2, M, dtype=torch.float64))
    assert torch.equal(y.pack()[:, 0], torch.arange(18, dtype=torch.float64))


def test_random_starts_have_the_law_of_gaussian_weights():
    """Norms, inner products and overlaps by Kolmogorov and Smirnov at 1e-3 each (false alarms: 4 in 1,000, seed 0)."""
    d, count = 12, 20_000
    y = OrderParameters.unpack(random_start(Streams(0, range(1)).at("start"), count, d, 2)[0].mT, 2)
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(count, 2, d - 2, generator=generator, dtype=torch.float64) / d**0.5
    for j in range(2):
        assert kstest(d * y.r[j, j].numpy(), chi2(d - 2).cdf).pvalue > 1e-3
    assert kstest(y.r[0, 1].numpy(), (u[:, 0] * u[:, 1]).sum(-1).numpy()).pvalue > 1e-3
    assert kstest((y.b[1, 0] * d**0.5).numpy(), "norm").pvalue > 1e-3


def test_packed_weights_begin_with_the_identity():
    y = OrderParameters.unpack(packed_weights(torch.ones(4, 2, 2), torch.eye(2).expand(4, 2, 2)).mT, 2)
    assert torch.equal(y.e, torch.zeros(2, 2, 4, dtype=torch.float64))
    assert torch.equal(y.r[..., 0], torch.eye(2, dtype=torch.float64))


def test_the_losses_normalisation_is_the_populations():
    assert NonContrastive().normalization == constants().normalization

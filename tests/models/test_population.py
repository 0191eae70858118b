"""The learner with infinite batches, against autograd on weights and against the loss of large batches."""

from dataclasses import asdict, replace

import pytest
import torch
from scipy.stats import chi2, kstest

from featscope.data import PatchFeatures
from featscope.losses import NonContrastive
from featscope.models import CubicPatchesNetwork, IdentityHead, OnlineNetwork
from featscope.models.population import (
    OrderParameters,
    Population,
    PopulationNetwork,
    of_weights,
    packed_weights,
    random_start,
)
from featscope.streams import Streams
from featscope.theory.prediction_head import patch_moments
from featscope.training import PredictOtherView

M = 3
MOMENTS = patch_moments(12, 4, 1.5, 1.2, 0.7)
DATA = PatchFeatures(input_dim=8, patches=12, feature_patches=4, strong=1.5, weak=1.2, strong_share=0.7, noise_std=0.8)


def constants(trajectories: int = 1, **kind) -> Population:
    return Population.alike(trajectories, **asdict(MOMENTS), noise_std=0.8, rate=0.3, **kind)


def somewhere(neurons: int, trajectories: int) -> OrderParameters:
    """Order parameters of random weights, with a random head."""
    start = random_start(Streams(0, range(1)).at("start"), trajectories, 30, neurons)[0]
    y = OrderParameters.unpack(start.mT, neurons)
    generator = torch.Generator().manual_seed(1)
    off = 0.3 * torch.randn(neurons, neurons, trajectories, generator=generator, dtype=torch.float64)
    return replace(y, e=off * (1 - torch.eye(neurons, dtype=torch.float64))[..., None])


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
    streams = Streams(0, range(1))
    source = DATA.build(streams.at("dictionary"))
    weight = 0.5 * streams.at("weights").normal(M, 8)
    head = IdentityHead(0.4 * streams.at("head").normal(M, M), torch.ones(1, 1, 1))
    network = OnlineNetwork(CubicPatchesNetwork(weight), head)
    objective = PredictOtherView(samples=4000)
    with torch.no_grad():
        batches = torch.cat([objective(network, source, streams.at("batch", n)) for n in range(100)]).double()
    b, r = of_weights(weight.double(), source.dictionary.double())
    y = OrderParameters(*(x.movedim(0, -1) for x in (b, r, head.off_diagonal.detach().double())))
    exact = float(constants().loss(y))
    assert abs(float(batches.mean()) - exact) < 4 * float(batches.std()) / 10


@pytest.mark.parametrize("kind", [{}, {"tied": True}, {"stop_gradient": False}])
def test_norms_are_kept(kind):
    """Σ_k <w_k, dw_k/dt> = 0 as outputs are normalised, whatever the head."""
    y = somewhere(M, 50)
    moved = OrderParameters.unpack(constants(50, **kind).velocity(y.pack(), M), M)
    change = 2 * (y.b * moved.b).sum((0, 1)) + moved.norms.sum(0)
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
    slower = (1 + here[:, :2].square().sum()) ** -3
    torch.testing.assert_close(ratio, slower.expand_as(ratio))


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


def test_order_parameters_of_weights_are_overlaps_and_what_is_off_the_features():
    w = torch.randn(4, M, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features = torch.eye(7, 2, dtype=torch.float64)
    b, r = of_weights(w, features)
    torch.testing.assert_close(b, w[..., :2])
    torch.testing.assert_close(r, w[..., 2:] @ w[..., 2:].mT)


def test_a_neuron_has_one_feature_where_the_other_is_small():
    b = torch.tensor([[[-0.9, 0.2, 0.4], [0.2, -0.9, 0.5]], [[0.0, 1.0, -1.0], [0.1, 0.31, 0.0]]])
    feature, pure = OrderParameters(b, torch.zeros(2, 2, 3), torch.zeros(2, 2, 3)).features
    assert feature.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert pure.tolist() == [[True, True, False], [True, False, True]]


def test_roles_put_the_fast_neuron_first():
    y = somewhere(2, 3)
    fast = torch.tensor([0, 1, 1])
    b, r, e = y.by_role(fast)
    for trajectory, (one, other) in enumerate([(0, 1), (1, 0), (1, 0)]):
        assert torch.equal(b[:, :, trajectory], y.b[[one, other], :, trajectory])
        assert torch.equal(r[:, trajectory], y.r[[one, other], [one, other], trajectory])
        assert torch.equal(e[:, trajectory], y.e[[one, other], [other, one], trajectory])


def test_correlations_are_those_of_outputs_on_many_views():
    """200,000 views: correlations of cubes of Gaussians are known to about 0.01."""
    streams = Streams(0, range(1))
    source = DATA.build(streams.at("dictionary"))
    weight = 0.5 * streams.at("weights").normal(2, 8)
    each = CubicPatchesNetwork(weight).of_patches(source.sample(streams.at("batch"), 200_000)).detach()[0]
    chance = torch.rand(200_000, 12, generator=torch.Generator().manual_seed(0))
    view = chance.argsort(1).argsort(1) < 6  # a random half of the patches
    outputs = (each * view[..., None]).sum(1)
    b, r = of_weights(weight.double(), source.dictionary.double())
    y = OrderParameters(*(x.movedim(0, -1) for x in (b, r, torch.zeros_like(r))))
    found = constants().correlation(y)[..., 0]
    torch.testing.assert_close(found, torch.corrcoef(outputs.mT).double(), atol=0.02, rtol=0)


def test_networks_know_the_constants_of_their_replica_and_move_as_the_population_does():
    y, of = somewhere(M, 4), constants(2)
    of = replace(of, rate=torch.tensor([0.3, 0.7], dtype=torch.float64))
    network = PopulationNetwork(y.pack().mT.unflatten(0, (2, 2)).contiguous(), M, of)
    each = replace(constants(4), rate=torch.tensor([0.3, 0.3, 0.7, 0.7], dtype=torch.float64))
    for name in ("same", "own", "noise_patches", "noise", "rate"):
        assert torch.equal(getattr(network.population(), name), getattr(each, name)), name
    some = torch.tensor([3, 1])
    moved = each.velocity(y.pack(), M)[:, some]
    torch.testing.assert_close(network.velocity(y.pack()[:, some], network.constants()[:, some]), moved)
    torch.testing.assert_close(network.loss().flatten(), each.loss(y))
    assert torch.equal(network.order_parameters.b, y.b)


def test_the_losses_normalisation_is_the_populations():
    assert NonContrastive().normalization == constants().normalization


def test_a_tied_head_moves_as_both_of_its_entries_do_in_the_mean():
    y = somewhere(M, 20)
    tied, free = (OrderParameters.unpack(constants(20, tied=t).velocity(y.pack(), M), M).e for t in (True, False))
    torch.testing.assert_close(tied, (free + free.transpose(0, 1)) / 2)

"""Projected noise has the law of dense noise: of projections, of the gradient, of trained networks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from featscope.data import ProjectedInputs, SparseTokens
from featscope.data.projected_noise import _factor, projected_noise
from featscope.models import TokenMLP
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.training import SGD, ContrastivePairs, GradientTraining

FALSE_ALARM = 1e-4  # of each test, shared by its comparisons (Bonferroni); seeds are fixed


def seen(
    replicas: int, seed: int, *, projected: bool, samples: int = 5, neurons: int = 3, inputs: int = 7
) -> torch.Tensor:
    """Projections, and the gradient of a loss that is not quadratic in them: one row a replica."""
    fixed = Streams(7, [0]).at("setting")
    weight = fixed.normal(neurons, inputs, dtype=torch.float64).repeat(replicas, 1, 1).requires_grad_()
    dictionary = torch.linalg.qr(fixed.normal(inputs, 2, dtype=torch.float64))[0].repeat(replicas, 1, 1)
    codes = fixed.normal(samples, 2, dtype=torch.float64).repeat(replicas, 1, 1)
    draws = Streams(seed, range(replicas)).at("noise")
    if projected:
        std = torch.full((replicas,), 0.7, dtype=torch.float64)
        u = ProjectedInputs(codes, dictionary, std, draws).project(weight)
    else:
        noise = draws.normal(samples, inputs, dtype=torch.float64)
        u = (codes @ dictionary.mT + 0.7 * noise) @ weight.mT
    loss = (u.tanh() * u.roll(1, -2)).sum((-2, -1)) + (u**3).sum((-2, -1)) / 9
    (gradient,) = torch.autograd.grad(loss.sum(), weight)
    return torch.cat([u.detach().flatten(1), gradient.flatten(1)], 1)


def smallest_p(a: torch.Tensor, b: torch.Tensor) -> tuple[float, int]:
    """The smallest Kolmogorov-Smirnov p-value over all coordinates and twenty mixtures of them, and their number."""
    mix = Streams(0, [0]).at("mixtures").normal(a.shape[1], 20, dtype=torch.float64)[0]
    columns = [(torch.cat([x, x @ mix], 1)).T.numpy() for x in (a, b)]
    values = [ks_2samp(x, y).pvalue for x, y in zip(*columns, strict=True)]
    return min(values), len(values)


@pytest.mark.parametrize(("samples", "neurons", "inputs"), [(5, 3, 7), (2, 4, 6), (6, 4, 4)])
def test_projections_and_gradients_have_the_law_of_dense_noise(samples, neurons, inputs):
    """Also with fewer samples than neurons, where CᵀC is singular, and with as many neurons as inputs."""
    size = {"samples": samples, "neurons": neurons, "inputs": inputs}
    p, comparisons = smallest_p(seen(20_000, 0, projected=False, **size), seen(20_000, 1, projected=True, **size))
    assert p > FALSE_ALARM / comparisons


def test_what_rounding_has_made_indefinite_is_never_half_a_factor():
    """The second by more than the least that is added."""
    grams = torch.stack([torch.tensor([1.0, 1.0, 0.5]), torch.tensor([1.0, 1.0, -3e-6])]).diag_embed()
    factors = _factor(grams)
    assert (factors @ factors.mT - grams).abs().max() < 2e-5
    assert torch.equal(factors[0], torch.linalg.cholesky(grams[0]))


def test_a_wrong_law_is_noticed(monkeypatch):
    """The remainder drawn along the weights too."""
    import featscope.data.projected_noise as module

    dense, solve = seen(20_000, 0, projected=False), torch.linalg.solve_triangular
    with monkeypatch.context() as patch:
        patch.setattr(module.torch.linalg, "solve_triangular", lambda *given, **named: 0.7 * solve(*given, **named))
        p, comparisons = smallest_p(dense, seen(20_000, 1, projected=True))
    assert p < FALSE_ALARM / comparisons


def test_trained_networks_have_the_same_law():
    """What 400 networks reach after 30 steps."""

    def trained(noise: str, seed: int) -> torch.Tensor:
        streams = Streams(seed, range(400))
        source = SparseTokens(features=4, input_dim=24, activity=0.3, noise_std=0.3).build(streams.at("dictionary"))
        learner = TokenMLP(width=3, init_norm=0.2).build(source, streams.at("weights"))
        objective = ContrastivePairs(pairs=12, noise=noise)  # type: ignore[arg-type]
        experiment = GradientTraining(source, learner, objective, SGD(0.05, 0.01), {}, streams)
        for step in range(30):
            experiment.advance(step)
        loss = experiment.loss(streams.at("batch", 30)).detach()
        weight = experiment.learner.weight.detach()
        along = (weight @ source.dictionary).square()
        inside = along.sum((-2, -1))
        outside = weight.square().sum((-2, -1)) - inside
        return torch.stack([loss, inside, outside, along.amax((-2, -1))], 1).double()

    p, comparisons = smallest_p(trained("dense", 0), trained("projected", 1))
    assert p > FALSE_ALARM / comparisons


def test_a_second_look_is_refused():
    fixed = Streams(0, [0, 1]).at("x")
    inputs = ProjectedInputs(fixed.normal(4, 2), fixed.normal(6, 2), torch.ones(2), fixed)
    inputs.project(fixed.normal(3, 6))
    with pytest.raises(ValueError, match="looked at twice"):
        inputs.project(fixed.normal(3, 6))


def test_nor_is_a_look_without_autograd_a_second_one():
    fixed = Streams(0, [0, 1]).at("x")
    inputs = ProjectedInputs(fixed.normal(4, 2), fixed.normal(6, 2), torch.ones(2), fixed)
    inputs.project_without_autograd(fixed.normal(3, 6))
    with pytest.raises(ValueError, match="looked at twice"):
        inputs.project(fixed.normal(3, 6))


SIDES = st.integers(1, 20)


@given(SIDES, st.integers(1, 12), SIDES, st.integers(1, 5), st.sampled_from([torch.float32, torch.float64]))
def test_without_autograd_it_is_what_autograd_finds(more, neurons, more_inputs, features, dtype):
    """Of a gradient by the first products alone, the others' being 0, and no matrix being singular but for rounding."""
    fixed, first = Streams(7, [0, 1]).at("setting"), 2 * neurons
    samples, inputs = first + more, 2 * neurons + more_inputs
    weight, dictionary = fixed.normal(neurons, inputs, dtype=dtype), fixed.normal(inputs, features, dtype=dtype)
    codes, pull = fixed.normal(samples, features, dtype=dtype), fixed.normal(samples, neurons, dtype=dtype)
    pull[:, first:] = 0
    std = torch.tensor([0.3, 0.7], dtype=dtype)
    one, other = (ProjectedInputs(codes, dictionary, std, Streams(3, [0, 1]).at("noise")) for _ in range(2))
    weight.requires_grad_()
    u = one.project(weight)
    (expected,) = torch.autograd.grad(u, weight, pull)
    found, slope = other.project_without_autograd(weight.detach())
    within = {"rtol": 1e-2, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(found, u.detach(), **within)
    torch.testing.assert_close(slope(pull[:, :first]), expected, **within)


def test_it_needs_mean_tokens():
    source = SparseTokens(features=4, input_dim=8).build(Streams(0, [0]).at("d"))
    with pytest.raises(ConfigError, match=r"noise = 'projected'.*uniform attention"):
        source.projected_pairs(Streams(0, [0]).at("b"), 3)


def test_replicas_see_the_same_alone():
    def project(replicas: list[int]) -> torch.Tensor:
        draws = Streams(3, replicas).at("noise")
        n = len(replicas)
        weight = torch.eye(3, 6).repeat(n, 1, 1)
        return ProjectedInputs(torch.zeros(n, 4, 2), torch.zeros(n, 6, 2), torch.ones(n), draws).project(weight)

    assert torch.equal(project([2])[0], project([0, 1, 2, 3])[2])


def test_replicas_see_the_same_beside_one_whose_weights_are_lost():
    weight = torch.eye(3, 6).repeat(2, 1, 1) + 0.1
    lost = weight.clone()
    lost[0] = 0

    def project(weight: torch.Tensor) -> torch.Tensor:
        draws = Streams(3, [0, 1]).at("noise")
        return ProjectedInputs(torch.zeros(2, 4, 2), torch.zeros(2, 6, 2), torch.ones(2), draws).project(weight)

    assert torch.equal(project(lost)[1], project(weight)[1])


def test_a_second_gradient_is_refused_as_it_would_be_of_other_noise():
    weight = torch.randn(2, 3, 20, requires_grad=True)
    seen = projected_noise(weight, torch.ones(2, 1, 1), 8, Streams(0, [0, 1]).at("noise"))
    loss = seen.square().sum()
    torch.autograd.grad(loss, weight, retain_graph=True)
    with pytest.raises(ValueError, match="projected noise has two gradients asked of it"):
        torch.autograd.grad(loss, weight)

"""InfoNCE against loops in NumPy, and its gradients by hand."""

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.losses import InfoNCE, Masked
from featscope.options import ConfigError


def by_loop(anchor: np.ndarray, positive: np.ndarray, negatives: np.ndarray, tau: float) -> float:
    total = 0.0
    for a, p in zip(anchor, positive, strict=True):
        own = sum(x * y for x, y in zip(a, p, strict=True)) / tau
        others = [sum(x * y for x, y in zip(a, n, strict=True)) / tau for n in negatives]
        largest = max(own, *others)
        total -= tau * (own - largest - np.log(sum(np.exp(s - largest) for s in [own, *others])))
    return total / len(anchor)


sizes = st.integers(1, 5)


@given(sizes, sizes, sizes, st.sampled_from([0.1, 1.0, 3.0]), st.sampled_from([0.01, 1.0, 30.0]), st.integers(0, 10**6))
def test_it_is_the_loop(anchors, negatives, width, tau, scale, seed):
    rng = np.random.default_rng(seed)
    a, p = scale * rng.normal(size=(2, 3, anchors, width))
    n = scale * rng.normal(size=(3, negatives, width))
    losses = InfoNCE(tau)(*map(torch.from_numpy, (a, p, n)))
    expected = [by_loop(a[r], p[r], n[r], tau) for r in range(3)]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-10, atol=1e-12)


def batch(seed: int = 0, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, 4, 5), (2, 4, 5), (2, 3, 5)
    return [torch.randn(*shape, generator=generator, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_its_gradient_is_the_formula_and_stops_at_the_keys(tau):
    """dL/df(x⁺) = (-(1 - l_p) f(x⁺⁺) + Σ l_s f(x_s))/K: no 1/τ is left (Section 3.2 of the paper, signs corrected)."""
    anchor, positive, negatives = batch()
    InfoNCE(tau)(anchor, positive, negatives).sum().backward()
    own = (anchor * positive).sum(-1, keepdim=True)
    share = torch.cat([own, anchor @ negatives.mT], -1).div(tau).softmax(-1)
    expected = (-(1 - share[..., :1]) * positive + share[..., 1:] @ negatives) / 4
    assert torch.allclose(anchor.grad, expected, atol=1e-12)
    assert positive.grad is None
    assert negatives.grad is None


def test_the_gradient_is_the_slope_of_the_loss():
    anchor, positive, negatives = batch()
    assert torch.autograd.gradcheck(lambda a: InfoNCE(0.7)(a, positive.detach(), negatives.detach()), anchor)


def test_equal_similarities_cost_the_logarithm_of_the_number_of_keys():
    zero = torch.zeros(2, 4, 5, dtype=torch.float64)
    assert InfoNCE(2.0)(zero, zero, zero).tolist() == pytest.approx([2 * np.log(5)] * 2)


@given(st.sampled_from([1e3, 1e6, 1e18]))
def test_large_similarities_neither_overflow_nor_lose_the_loss(size):
    """float32: similarities up to 10^36."""
    root = size**0.5
    near = torch.tensor([[[root, 0.0]]])
    far = torch.tensor([[[-root, 0.0]]])
    assert InfoNCE()(near, near, far).item() == 0.0
    assert InfoNCE()(near, far, near).item() == pytest.approx(2 * size, rel=1e-6)


def test_replicas_do_not_touch_each_other():
    a, p, n = (t.detach() for t in batch())
    changed = [torch.cat([t[:1], 7 * t[1:]]) for t in (a, p, n)]
    assert torch.equal(InfoNCE()(a, p, n)[0], InfoNCE()(*changed)[0])


def test_it_works_without_a_replica_axis():
    a, p, n = (t.detach()[0] for t in batch())
    assert InfoNCE()(a, p, n).shape == ()


def in_batch_by_loop(anchor: np.ndarray, positive: np.ndarray, tau: float) -> float:
    """P (1): -log of the softmax share of the own positive among all positives of the batch."""
    total = 0.0
    for k, a in enumerate(anchor):
        scores = [sum(x * y for x, y in zip(a, key, strict=True)) / tau for key in positive]
        largest = max(scores)
        total -= scores[k] - largest - np.log(sum(np.exp(s - largest) for s in scores))
    return total / len(anchor)


@given(
    st.integers(2, 6), sizes, st.sampled_from([0.1, 1.0, 3.0]), st.sampled_from([0.01, 1.0, 30.0]), st.integers(0, 9)
)
def test_in_batch_it_is_the_loop_with_and_without_the_leading_temperature(pairs, width, tau, scale, seed):
    a, p = scale * np.random.default_rng(seed).normal(size=(2, 3, pairs, width))
    expected = [in_batch_by_loop(a[r], p[r], tau) for r in range(3)]
    for name, factor in (("1", 1.0), ("tau", tau)):
        losses = InfoNCE(tau, name).in_batch(torch.from_numpy(a), torch.from_numpy(p))
        np.testing.assert_allclose(losses.numpy(), factor * np.array(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", ["tau", "1"])
@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_in_batch_its_gradient_is_the_formula_and_stops_at_the_keys(tau, scale):
    """dL/df(X_k) = (Σ_s l_ks f(Y_s) - f(Y_k))/K, over τ for the loss as P (1) prints it (P (21))."""
    anchor, positive, _ = batch()
    InfoNCE(tau, scale).in_batch(anchor, positive).sum().backward()
    expected = np.zeros(anchor.shape)
    a, p = anchor.detach().numpy(), positive.detach().numpy()
    for r, k in np.ndindex(*a.shape[:2]):
        weights = np.exp([a[r, k] @ key / tau for key in p[r]])
        for weight, key in zip(weights / weights.sum(), p[r], strict=True):
            expected[r, k] += weight * key / len(p[r])
        expected[r, k] -= p[r, k] / len(p[r])
    factor = 1.0 if scale == "tau" else 1 / tau
    np.testing.assert_allclose(anchor.grad.numpy(), factor * expected, rtol=1e-10, atol=1e-12)
    assert positive.grad is None


def test_in_batch_the_other_pairs_are_the_negatives():
    """As with an explicit set: anchor k against its own positive and those of all others."""
    a, p, _ = (t.detach() for t in batch())
    one_by_one = [InfoNCE(0.7)(a[:, [k]], p[:, [k]], p[:, [s for s in range(4) if s != k]]) for k in range(4)]
    assert torch.allclose(InfoNCE(0.7).in_batch(a, p), torch.stack(one_by_one).mean(0), atol=1e-14)


@pytest.mark.parametrize("tau", [0.5, 2.0])
def test_without_the_leading_temperature_loss_and_gradient_are_larger_by_one_over_it(tau):
    a, p, n = batch()
    losses = [InfoNCE(tau, scale)(a, p.detach(), n.detach()) for scale in ("1", "tau")]
    gradients = [torch.autograd.grad(loss.sum(), a)[0] for loss in losses]
    assert torch.allclose(losses[0] * tau, losses[1])
    assert torch.allclose(gradients[0] * tau, gradients[1])


@pytest.mark.parametrize("shape", [(1, 5), (5,), (2, 1, 5), (3, 5)])
def test_positives_of_another_shape_are_refused(shape, monkeypatch):
    """One positive for all anchors made a loss within the batch of 0, without a word."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    anchor, positive = torch.ones(4, 5), torch.ones(shape)
    for found in (anchor, Masked(anchor, anchor)):
        for loss in (InfoNCE().in_batch, lambda one, other: InfoNCE()(one, other, anchor)):
            with pytest.raises(ValueError, match=r"shapes \[4, 5\] and \[.*5\]: expected one shape"):
                loss(found, positive)


def test_replicas_may_share_their_positives(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    draw = torch.Generator().manual_seed(0)
    anchors, positive, negatives = (torch.randn(*shape, 5, generator=draw) for shape in ((3, 4), (4,), (6,)))
    each = torch.stack([InfoNCE()(anchor, positive, negatives) for anchor in anchors])
    assert torch.allclose(InfoNCE()(anchors, positive, negatives), each)


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf")])
def test_the_temperature_must_be_positive_and_finite(tau):
    with pytest.raises(ConfigError, match=r"InfoNCE.temperature = .* is out of range: allowed is > 0"):
        InfoNCE(tau)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_half_precision_loses_no_differences_of_similarities(dtype):
    generator = torch.Generator().manual_seed(0)
    anchor = 2 + 0.3 * torch.randn(64, 128, generator=generator)
    positive = anchor + 0.1 * torch.randn(64, 128, generator=generator)
    given = [part.to(dtype) for part in (anchor, positive)]
    found, wanted = (part.clone().requires_grad_() for part in (given[0], given[0].float()))
    with torch.autocast("cpu", torch.bfloat16):
        both = InfoNCE().in_batch(found, given[1]), InfoNCE()(found, given[1], given[1][:8])
    expected = InfoNCE().in_batch(wanted, given[1].float()), InfoNCE()(wanted, given[1].float(), given[1][:8].float())
    torch.testing.assert_close(both, expected)
    both[0].backward()
    expected[0].backward()
    torch.testing.assert_close(found.grad.float(), wanted.grad, atol=1e-5, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_with_nothing_masked_a_pair_of_representations_is_one(dtype):
    anchor, positive, _ = batch(dtype=dtype)
    found = InfoNCE(0.5).in_batch(Masked(anchor.detach(), anchor), Masked(positive.detach(), positive))
    expected = InfoNCE(0.5).in_batch(anchor, positive)
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad(loss.sum(), anchor)[0] for loss in (found, expected))
    torch.testing.assert_close(*gradients)


def test_shapes_can_be_followed_without_numbers():
    there = torch.empty(3, 4, 5, device="meta")
    assert InfoNCE().in_batch(there, there).shape == (3,)


def test_a_small_loss_keeps_its_digits_where_similarities_are_large():
    anchor, positive, negative = (torch.full((1, 1), value) for value in (60.0, 50.0, 49.9))
    double = float(InfoNCE()(anchor.double(), positive.double(), negative.double()))
    assert double == pytest.approx(0.002476, rel=1e-3)
    assert float(InfoNCE()(anchor, positive, negative)) == pytest.approx(double, rel=5e-4)


@pytest.mark.parametrize("apart", [-40.0, -0.3, 5.0, 21.5, 60.0])
def test_it_is_exact_in_float64_however_far_apart_similarities_are(apart):
    anchor, positive = torch.tensor([[2.0]]).double(), torch.tensor([[30.0]]).double()
    loss = InfoNCE()(anchor, positive, positive + apart / 2)
    assert float(loss) == pytest.approx(np.log1p(np.exp(apart)), rel=1e-12)


def test_within_a_batch_a_small_loss_keeps_its_digits_too():
    """Products are exact in float32, whose next number after 4,096 is by more than the loss away."""
    features = torch.tensor([[64.0, 0.0], [63.875, 4.0]])
    expected = float(np.log1p(np.exp([-8.0, -8.015625])).mean())
    assert float(InfoNCE().in_batch(features, features)) == pytest.approx(expected, rel=1e-3)
    own, others = torch.tensor(4096.0), torch.tensor(4088.0)
    assert float(torch.logaddexp(own, others) - own) != pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("temperature", [1e-3, 1.0])
def test_pairs_among_themselves_have_no_loss_below_zero(temperature):
    torch.manual_seed(0)
    f = 250 * torch.nn.functional.normalize(torch.randn(4, 300), dim=-1)
    assert float(InfoNCE(temperature).in_batch(f, f + 1e-3)) >= 0

"""InfoNCE against a loop in NumPy, and its gradient by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from featscope.losses import InfoNCE
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


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf")])
def test_the_temperature_must_be_positive_and_finite(tau):
    with pytest.raises(ConfigError, match=r"InfoNCE.temperature = .* is out of range: allowed is > 0"):
        InfoNCE(tau)

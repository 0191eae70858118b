"""A linear network whose head is set by hand, against autograd and against samples."""

import pytest
import torch

from featscope.models import HandSetHead, HandSetNetwork
from featscope.models.hand_set_head import DECAY, NOISE
from featscope.options import ConfigError
from featscope.streams import Streams

SIGNAL = torch.tensor([1.0, 0.25], dtype=torch.float64)


def network(*weights: torch.Tensor) -> HandSetNetwork:
    """One replica that starts at each of ``weights``."""
    return HandSetNetwork(torch.stack([w.flatten() for w in weights])[None], SIGNAL[None])


def random(seed: int) -> torch.Tensor:
    return torch.randn(2, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loss_of(w: torch.Tensor, head: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """½ E ||W_p W x_1 - target x_2||² of views that are x + noise, by their covariances."""
    total = torch.diag(SIGNAL + NOISE**2)
    a = head @ w
    apart = (a @ total @ a.mT + target @ total @ target.mT - 2 * a @ torch.diag(SIGNAL) @ target.mT).trace()
    return apart / 2


def head_of(w: torch.Tensor) -> torch.Tensor:
    return w @ torch.diag(SIGNAL + NOISE**2) @ w.mT


def test_it_moves_down_the_gradient_with_head_and_target_held_and_decays():
    weights = [random(0), random(1)]
    made = network(*weights)
    found = made.velocity(torch.stack([w.flatten() for w in weights], 1), made.constants())
    for w, moved in zip(weights, found.mT, strict=True):
        free = w.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss_of(free, head_of(w), w), free)
        torch.testing.assert_close(moved.view(2, 2), -slope - DECAY * w)


def test_the_loss_is_that_of_samples():
    w = 0.7 * random(0)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(400_000, 2, generator=generator, dtype=torch.float64) * SIGNAL.sqrt()
    first, second = (x + NOISE * torch.randn(x.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    sampled = (first @ (head_of(w) @ w).mT - second @ w.mT).square().sum(1).mean() / 2
    assert float(network(w).loss()) == pytest.approx(float(sampled), rel=0.02)


def test_the_share_of_the_larger_eigenvalue():
    one_direction = torch.tensor([[0.6, 0.8], [0.3, 0.4]], dtype=torch.float64)
    even = torch.diag((SIGNAL + NOISE**2).rsqrt())
    gone = torch.full((2, 2), 1e-5, dtype=torch.float64)
    share = network(one_direction, even, gone).top_share()[0]
    torch.testing.assert_close(share[:2], torch.tensor([1.0, 0.5], dtype=torch.float64))
    assert share[2].isnan()


def test_starts_are_random_and_variances_as_asked():
    built = HandSetHead(gap=16.0, starts=500).build(Streams(0, range(2)).at("start"))
    assert built.state.shape == (2, 500, 4)
    assert float(built.state.detach().std()) == pytest.approx(0.5, rel=0.05)
    assert built.variance.tolist() == [[1.0, 1 / 16]] * 2


@pytest.mark.parametrize("wrong", [{"gap": 0.0}, {"starts": 0}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"HandSetHead.{next(iter(wrong))} = 0"):
        HandSetHead(**wrong)

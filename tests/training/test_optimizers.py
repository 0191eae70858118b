"""Optimizers as options."""

import pytest
import torch
from torch import nn

from featscope.options import ConfigError
from featscope.training import SGD, TorchOptimizer


def test_sgd_is_gradient_descent_with_decoupled_decay():
    w = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = SGD(lr=0.1, weight_decay=0.5)([w])
    expected = w.detach().clone()
    for _ in range(3):
        gradient = torch.tensor([3.0, 4.0], dtype=torch.float64)
        w.grad = gradient.clone()
        optimizer.step()
        expected = expected - 0.1 * (gradient + 0.5 * expected)
    assert torch.allclose(w.detach(), expected, atol=1e-15)
    assert optimizer.state_dict()["state"] == {0: {"momentum_buffer": None}} or not optimizer.state_dict()["state"]


def test_any_torch_optimizer_by_name():
    optimizer = TorchOptimizer("AdamW", lr=0.01, weight_decay=0.1)([nn.Parameter(torch.zeros(1))])
    assert isinstance(optimizer, torch.optim.AdamW)
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.01, 0.1)


@pytest.mark.parametrize("name", ["Adamw", "lr_scheduler", "Optimizer.step", ""])
def test_unknown_names_are_refused_with_what_is_allowed(name):
    with pytest.raises(ConfigError, match=r"TorchOptimizer.name = .* allowed is a class of torch.optim"):
        TorchOptimizer(name)


@pytest.mark.parametrize("kind", [SGD, TorchOptimizer])
@pytest.mark.parametrize("options", [{"lr": 0.0}, {"lr": float("nan")}, {"lr": float("inf")}, {"weight_decay": -1.0}])
def test_wrong_options_are_refused(kind, options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"{kind.__name__}.{field} = .* is out of range"):
        kind(**options)

"""Optimizers as options."""

import pytest
import torch
from torch import nn

from featscope.options import ConfigError
from featscope.training import SGD, TorchOptimizer
from featscope.training.optimizers import _BY_NUMBER, GradientDescent


def test_sgd_is_gradient_descent_with_decoupled_decay():
    w = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = SGD(lr=0.1, weight_decay=0.5).build([w])
    expected = w.detach().clone()
    for _ in range(3):
        gradient = torch.tensor([3.0, 4.0], dtype=torch.float64)
        w.grad = gradient.clone()
        optimizer.step()
        expected = expected - 0.1 * (gradient + 0.5 * expected)
    assert torch.allclose(w.detach(), expected, atol=1e-15)
    assert optimizer.state_dict()["state"] == {0: {"momentum_buffer": None}} or not optimizer.state_dict()["state"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("which", ["lr", "weight_decay", "both"])
def test_each_replica_may_have_its_own_step_size_and_decay(which, dtype):
    """Against one `torch.optim.SGD` a replica, on parameters of one, two and three axes."""
    own_lr = torch.tensor([0.1, 0.02, 0.3], dtype=torch.float64) if which != "weight_decay" else 0.1
    own_decay = torch.tensor([0.5, 0.0, 0.01], dtype=torch.float64) if which != "lr" else 0.5
    generator = torch.Generator().manual_seed(0)
    stacked = [nn.Parameter(torch.randn(3, *more, generator=generator, dtype=dtype)) for more in ((), (2,), (2, 4))]
    apart = [[nn.Parameter(w[replica].detach().clone()) for w in stacked] for replica in range(3)]
    optimizer = GradientDescent(stacked, own_lr, own_decay)
    others = []
    for replica, parameters in enumerate(apart):
        lr, decay = (n if isinstance(n, float) else float(n[replica]) for n in (own_lr, own_decay))
        others.append(torch.optim.SGD(parameters, lr, weight_decay=decay))
    for _ in range(5):
        for place, w in enumerate(stacked):
            w.grad = torch.randn(w.shape, generator=generator, dtype=dtype)
            for replica in range(3):
                apart[replica][place].grad = w.grad[replica].clone()
        for each in (optimizer, *others):
            each.step()
    for place, w in enumerate(stacked):
        expected = torch.stack([parameters[place].detach() for parameters in apart])
        torch.testing.assert_close(w.detach(), expected, rtol=32 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps)


def test_a_parameter_without_a_gradient_stays():
    w = nn.Parameter(torch.ones(2, 3))
    GradientDescent([w], torch.tensor([0.1, 0.2]), 0.5).step()
    assert torch.equal(w.detach(), torch.ones(2, 3))


def test_any_torch_optimizer_by_name():
    optimizer = TorchOptimizer("AdamW", lr=0.01, weight_decay=0.1).build([nn.Parameter(torch.zeros(1))])
    assert isinstance(optimizer, torch.optim.AdamW)
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.01, 0.1)


@pytest.mark.parametrize("name", ["Adamw", "lr_scheduler", "Optimizer.step", "", "Adafactor", "LBFGS", "Muon"])
def test_unknown_names_are_refused_with_what_is_allowed(name):
    with pytest.raises(ConfigError, match=r"TorchOptimizer.name = .* allowed is one of torch.optim's"):
        TorchOptimizer(name)


@pytest.mark.parametrize("name", _BY_NUMBER)
def test_replicas_do_not_depend_on_others_beside_them(name):
    def trained(start):
        weight = nn.Parameter(start.clone())
        optimizer = TorchOptimizer(name, lr=0.01).build([weight])
        for _ in range(3):
            weight.grad = weight.detach().sin() + 0.1
            optimizer.step()
        return weight.detach()

    start = torch.linspace(-1, 2, 24).view(3, 2, 4)
    assert torch.equal(trained(start)[1:2], trained(start[1:2]))


@pytest.mark.parametrize("kind", [SGD, TorchOptimizer])
@pytest.mark.parametrize("options", [{"lr": 0.0}, {"lr": float("nan")}, {"lr": float("inf")}, {"weight_decay": -1.0}])
def test_wrong_options_are_refused(kind, options):
    (field,) = options
    with pytest.raises(ConfigError, match=f"{kind.__name__}.{field} = .* is out of range"):
        kind(**options)


def test_a_backward_pass_of_what_was_before_a_step_is_an_error_as_by_torch():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizer = SGD(lr=0.1, weight_decay=0.0).build(layer.parameters())
    y = layer(torch.randn(5, 4))
    y[:, 0].sum().backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y[:, 1].sum().backward()

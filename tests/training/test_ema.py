"""A target network that follows."""

import pytest
import torch
from torch import nn

from featscope.options import ConfigError
from featscope.training import EMA, MagnitudePruning, MovingAverage


def test_the_average_is_the_weighted_sum_of_all_that_was_seen():
    module = nn.Linear(2, 2)
    start = module.weight.detach().clone()
    target = MovingAverage(module, momentum=0.9)
    seen = []
    for step in range(3):
        with torch.no_grad():
            module.weight.add_(step + 1.0)
        seen.append(module.weight.detach().clone())
        target.update(module)
    expected = 0.9**3 * start + 0.1 * (0.9**2 * seen[0] + 0.9 * seen[1] + seen[2])
    torch.testing.assert_close(target.average.weight, expected)
    torch.testing.assert_close(target(torch.eye(2)), torch.eye(2) @ expected.mT + module.bias)


def test_it_begins_as_the_module_is_untrained_and_in_the_state():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    target = EMA(0.5).target(module)
    assert not any(p.requires_grad for p in target.parameters())
    assert {name.removeprefix("average.") for name in target.state_dict()} == set(module.state_dict())
    module(torch.randn(8, 3))  # moves the running statistics
    assert not torch.equal(target.average[1].running_mean, module[1].running_mean)
    target.update(module)
    assert torch.equal(target.average[1].running_mean, module[1].running_mean)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 99, float("nan")])
@pytest.mark.parametrize(
    ("name", "build"), [("EMA", EMA), ("MovingAverage", lambda momentum: MovingAverage(nn.Linear(2, 2), momentum))]
)
def test_wrong_momentum_is_named(name, build, momentum):
    with pytest.raises(ConfigError, match=rf"{name}\.momentum = .* allowed is >= 0 and < 1.* no percentage: 0\.99"):
        build(momentum)
    build(0.0)


def test_small_steps_of_half_precision_are_not_lost():
    module = nn.Linear(4, 4).bfloat16()
    target = MovingAverage(module, momentum=0.996)
    with torch.no_grad():
        module.weight.add_(1.0)
    for _ in range(3000):
        target.update(module)
    torch.testing.assert_close(target.average.weight, module.weight, rtol=0.01, atol=0.01)
    again = MovingAverage(nn.Linear(4, 4).bfloat16(), momentum=0.996)
    again.load_state_dict(target.state_dict())
    for one in (again, target):
        one.update(nn.Linear(4, 4).bfloat16().requires_grad_(False).apply(lambda part: part.weight.zero_()))
    torch.testing.assert_close(again.average.weight, target.average.weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nor_where_the_average_itself_is_cast(dtype):
    module = nn.Linear(4, 4).to(dtype)
    target = MovingAverage(module, momentum=0.996).bfloat16()
    module.bfloat16()
    with torch.no_grad():
        module.weight.add_(1.0)
    for _ in range(3000):
        target.update(module)
    torch.testing.assert_close(target.average.weight, module.weight, rtol=0.01, atol=0.01)


def test_what_has_no_parameters_is_refused():
    pruner = MagnitudePruning(0.5, "entry", "straight-through").on(nn.Linear(4, 4))
    with pytest.raises(ValueError, match=r"Pruner has no parameters to follow: .* give that one: pruner\.module"):
        MovingAverage(pruner)
    MovingAverage(pruner.module)


def test_a_pruner_within_is_refused_as_its_copy_would_never_choose_anew():
    encoder = nn.Linear(4, 3)
    model = nn.ModuleDict(
        {"encoder": encoder, "pruner": MagnitudePruning(0.5, "entry", "straight-through").on(encoder)}
    )
    with pytest.raises(ValueError, match=r"'pruner' is a Pruner, whose copy .* pruner.module"):
        MovingAverage(model)
    MovingAverage(model["encoder"])


def test_what_is_loaded_into_an_average_in_half_precision_is_gone_on_from():
    module = nn.Linear(3, 3).bfloat16()
    slow = MovingAverage(module)
    slow.average.load_state_dict({name: value + 1 for name, value in slow.average.state_dict().items()})
    slow.update(module)
    assert 0.9 < float((slow.average.weight - module.weight).abs().mean()) < 1.0

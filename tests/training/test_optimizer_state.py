"""Options of the optimizer, which a rule may change: what a checkpoint keeps of them."""

import json
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from toys import Numbers, Targets, squared_distance

from featscope.streams import Streams
from featscope.training import SGD, GradientTraining, TorchOptimizer


def made_with(optimizer, rules) -> GradientTraining:
    return GradientTraining(Targets(range(3)), Numbers(3), squared_distance, optimizer, rules, Streams(0, range(3)))


@dataclass(frozen=True)
class Sets:
    """A rule that sets an option of the optimizer to another value at a step."""

    option: str
    value: object
    at: int = 3

    def build(self, experiment):
        return Setting(self)


class Setting(nn.Module):
    def __init__(self, config: Sets) -> None:
        super().__init__()
        self.config = config

    def forward(self, experiment, step):
        if step == self.config.at:
            experiment.optimizer.param_groups[0][self.config.option] = self.config.value


def through_files(state):
    tensors, numbers = state
    return {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(json.dumps(numbers))


@pytest.mark.parametrize(
    ("optimizer", "option", "value"),
    [
        (SGD(0.3, 0.1), "weight_decay", 0.5),
        (SGD(0.3, 0.1), "weight_decay", torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)),
        (TorchOptimizer("SGD", 0.1), "momentum", 0.9),
        (TorchOptimizer("SGD", 0.1), "maximize", True),
        (TorchOptimizer("AdamW", 0.1), "betas", (0.5, 0.9)),
        (TorchOptimizer("RMSprop", 0.1), "eps", 0.3),
    ],
)
def test_options_that_a_rule_has_set_are_as_they_were_when_training_goes_on(optimizer, option, value):
    whole, first, second, fresh = (made_with(optimizer, {"sets": Sets(option, value)}) for _ in range(4))
    for step in range(8):
        whole.advance(step)
    for step in range(4):
        first.advance(step)
    second.restore(*through_files(first.state()))
    (held,), (as_set,) = second.optimizer.param_groups, first.optimizer.param_groups
    assert held.keys() == as_set.keys()
    assert type(held[option]) is type(value)
    tensors, numbers = through_files(first.state())
    fresh.restore(
        {name: tensor for name, tensor in tensors.items() if option not in name},
        {name: number for name, number in numbers.items() if option not in name},
    )
    for step in range(4, 8):
        second.advance(step)
        fresh.advance(step)
    assert torch.equal(whole.learner.value, second.learner.value)
    assert not torch.equal(whole.learner.value, fresh.learner.value)


def test_a_state_of_before_options_were_kept_can_be_gone_back_to():
    first, second = (made_with(TorchOptimizer("AdamW", 0.1), {}) for _ in range(2))
    first.advance(0)
    first.optimizer.param_groups[0]["lr"] = 0.02
    tensors, numbers = through_files(first.state())
    kept = {name: number for name, number in numbers.items() if not name.startswith("option.")}
    second.restore(tensors, kept | {"step size.0": 0.02})
    for step in (1, 2):
        first.advance(step)
        second.advance(step)
    assert torch.equal(first.learner.value, second.learner.value)
    assert second.optimizer.param_groups[0]["betas"] == first.optimizer.param_groups[0]["betas"]


def test_what_an_optimizer_remembers_keeps_its_own_precision():
    """NAdam has a product in float32 beside parameters in float64."""
    whole, first, second = (made_with(TorchOptimizer("NAdam", 0.1), {}) for _ in range(3))
    for one in (whole, first, second):
        one.double()
    for step in range(20):
        whole.advance(step)
    for step in range(4):
        first.advance(step)
    second.restore(*through_files(first.state()))
    for step in range(4, 20):
        second.advance(step)
    assert whole.learner.value.dtype == torch.float64
    assert torch.equal(whole.learner.value, second.learner.value)

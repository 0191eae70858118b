"""What thresholds should be by the paper's formula, written apart from the rule that sets them."""

from dataclasses import dataclass, field
from math import log, sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.numbers import per_replica
from featscope.training import BiasSchedule


@dataclass(frozen=True)
class ThresholdLedger:
    """Follow every threshold from step to step and keep its largest difference to the formula (D.1, Section 2.2).

    Attributes:
        schedule: the options of the schedule that is followed.
    """

    floats_per_replica: ClassVar[bool] = True
    looks_only: ClassVar[bool] = True

    schedule: BiasSchedule = field(default_factory=BiasSchedule)

    def build(self, experiment: Any) -> "ThresholdLedgerRule":
        """The rule for ``experiment``; it stands after the one that sets thresholds."""
        return ThresholdLedgerRule(self.schedule, experiment)


class ThresholdLedgerRule(nn.Module):
    """`ThresholdLedger` at work; it changes nothing."""

    floats_per_replica = True
    norm: Float[Tensor, "replica neuron"]
    bias: Float[Tensor, "replica neuron"]
    error: Float[Tensor, "replica"]

    def __init__(self, schedule: BiasSchedule, experiment: Any) -> None:
        super().__init__()
        self.schedule = schedule
        self.features = experiment.source.dictionary.shape[-1]
        self.slowest = 1 + schedule.growth * experiment.optimizer.param_groups[0]["lr"] / self.features
        self.at_reset = schedule.reset * sqrt(2 * log(self.features) / self.features)
        self.most = log(self.features) ** schedule.cap_power / sqrt(self.features)
        norm = experiment.learner.weight.detach().norm(dim=-1)
        self.register_buffer("norm", norm.clone())
        self.register_buffer("bias", torch.zeros_like(norm))
        self.register_buffer("error", torch.zeros_like(norm[:, 0]))

    def forward(self, experiment: Any, step: int) -> None:
        """Compare with what b(t+1) = max{b(t)(1 + η/d), b(t) ||w(t+1)||/||w(t)||} makes of the last thresholds."""
        norm, found = experiment.learner.weight.norm(dim=-1), experiment.learner.bias
        with_norm = self.bias * norm / self.norm
        expected = torch.maximum(with_norm, self.bias * per_replica(self.slowest, norm))
        if self.schedule.cap_ratio is not None:
            expected = torch.where(self.bias >= per_replica(self.schedule.cap_ratio, norm) * norm, with_norm, expected)
        expected = torch.where(self.bias > per_replica(self.most, norm), self.bias, expected)
        reset = torch.where(found > 0, per_replica(self.at_reset, norm) * norm, 0.0)
        expected = torch.where(self.bias > 0, expected, reset)
        self.error.copy_(torch.maximum(self.error, ((found - expected).abs() / norm).amax(-1)))
        self.norm.copy_(norm)
        self.bias.copy_(found)

"""Linear heads that are trained while the network is, at given steps."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data import LinearTask, linear_task
from featscope.numbers import Number
from featscope.probes.alignment import alignment, coverage
from featscope.probes.downstream import read_out


@dataclass(frozen=True)
class HeadsAt:
    """Train a linear head on the representation at some steps, on the task and the samples that heads get in the end.

    Attributes:
        first: one of the steps, a whole number.
        last: the other one.
        labels: samples that a head learns from; as many are held out.
    """

    first: Number
    last: Number
    labels: int

    floats_per_replica: ClassVar[bool] = True
    looks_only: ClassVar[bool] = True

    def build(self, experiment: Any) -> "HeadsAtRule":
        """The rule for ``experiment``."""
        return HeadsAtRule(self, len(experiment.streams.replicas))


class HeadsAtRule(nn.Module):
    """`HeadsAt` at work; it changes nothing. NaN stands where a moment has not come."""

    floats_per_replica = True
    moments: Float[Tensor, "replica moment"]
    error: Float[Tensor, "replica moment"]
    accuracy: Float[Tensor, "replica moment"]
    coverage: Float[Tensor, "replica moment"]

    def __init__(self, config: HeadsAt, replicas: int) -> None:
        super().__init__()
        self.config = config
        steps = [torch.as_tensor(one, dtype=torch.float64).expand(replicas) for one in (config.first, config.last)]
        self.register_buffer("moments", torch.stack(steps, 1))
        for name in ("error", "accuracy", "coverage"):
            self.register_buffer(name, torch.full_like(self.moments, torch.nan))

    def forward(self, experiment: Any, step: int) -> None:
        """Train heads, if it is time."""
        now = self.moments == step
        if not now.any():
            return
        learner, source, labels = experiment.learner, experiment.source, self.config.labels
        sample = source.sample(experiment.streams.at("readout"), 2 * labels)
        task = LinearTask(linear_task(experiment.streams.at("task"), sample.codes.shape[-1]))
        error, accuracy = read_out(learner.one_by_one(sample.x), task(sample), labels)
        held = coverage(alignment(learner.weight, source.dictionary)).double()
        for kept, new in ((self.error, error), (self.accuracy, accuracy), (self.coverage, held)):
            kept.copy_(torch.where(now, new.to(kept)[:, None], kept))

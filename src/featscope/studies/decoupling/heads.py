"""Linear heads that are trained while the network is, at given steps."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data import LinearTask, linear_task
from featscope.probes.alignment import alignment, coverage
from featscope.probes.downstream import read_out


@dataclass(frozen=True)
class HeadsAt:
    """Train a linear head on the representation at some steps, on the task and the samples that heads get in the end.

    Attributes:
        moments: the steps.
        labels: samples that a head learns from; as many are held out.
    """

    moments: tuple[int, ...]
    labels: int

    def build(self, experiment: Any) -> "HeadsAtRule":
        """The rule for ``experiment``."""
        return HeadsAtRule(self, len(experiment.streams.replicas))


class HeadsAtRule(nn.Module):
    """`HeadsAt` at work; it changes nothing. NaN stands where a moment has not come."""

    moments: Float[Tensor, "moment"]
    error: Float[Tensor, "replica moment"]
    accuracy: Float[Tensor, "replica moment"]
    coverage: Float[Tensor, "replica moment"]

    def __init__(self, config: HeadsAt, replicas: int) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("moments", torch.tensor(config.moments, dtype=torch.float64))
        for name in ("error", "accuracy", "coverage"):
            self.register_buffer(name, torch.full((replicas, len(config.moments)), torch.nan, dtype=torch.float64))

    def forward(self, experiment: Any, step: int) -> None:
        """Train heads, if it is time."""
        if step not in self.config.moments:
            return
        at = [place for place, moment in enumerate(self.config.moments) if moment == step]
        learner, source, labels = experiment.learner, experiment.source, self.config.labels
        sample = source.sample(experiment.streams.at("readout"), 2 * labels)
        task = LinearTask(linear_task(experiment.streams.at("task"), sample.codes.shape[-1]))
        error, accuracy = read_out(learner(sample.x), task(sample), labels)
        held = coverage(alignment(learner.weight, source.dictionary)).double()
        for kept, new in ((self.error, error), (self.accuracy, accuracy), (self.coverage, held)):
            kept[:, at] = new.to(kept)[:, None]

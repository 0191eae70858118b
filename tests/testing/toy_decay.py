"""A study whose faults are known: numbers that decay to a level, with claims that see some of it."""

from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import nn

from featscope.claims import bound, identity
from featscope.options import require
from featscope.studies import Arm, Study, last
from featscope.testing import Trial
from featscope.training import Iteration, Measurement

GAIN = 2.0


@dataclass(frozen=True)
class Decay:
    """Options.

    Attributes:
        rate: share that is left of a number's distance to its level.
        level: where numbers end.
    """

    rate: float = 0.5
    level: float = 3.0

    def __post_init__(self) -> None:
        require(self, "rate", 0 < self.rate < 1, "(0, 1)")

    def build(self, draws) -> nn.Module:
        return Numbers(self.level + 1 + draws.uniform(2), self)


class Numbers(nn.Module):
    """They halve their distance; beside them runs a sum that no claim looks at."""

    def __init__(self, start, options: Decay) -> None:
        super().__init__()
        self.rate, self.level = options.rate, options.level
        self.value = nn.Parameter(start, requires_grad=False)
        self.register_buffer("sum", torch.zeros_like(start))

    @property
    def passed(self):
        return (self.value - self.level).abs() < 1e-9

    def forward(self, draws) -> None:
        noise = 1e-3 * draws.normal(2)
        self.sum += self.value
        self.value.copy_(self.level + self.rate * (self.value - self.level) + noise)


@dataclass(frozen=True)
class ToyDecay(Study):
    """Where do numbers end?"""

    pace: float = 0.25

    def arms(self):
        recipe = Iteration(Decay(self.pace), 12, 4)
        return [
            Arm("decay", recipe, "as it is", at_end=(partial(looked, gain=GAIN), remembered)),
            Arm("beside", recipe, "the same, and less is looked at", role="control", at_end=(remembered,)),
        ]

    def watch(self, experiment):
        return {"value": Measurement(experiment.learner.value.clone(), "numbers", ("number",))}

    @identity("", on="decay", equals=3.0, within=0.05)
    def ends_at_its_level(self, run):
        """It ends at its level."""
        return last(run, run.value).mean("number")

    @bound("", on="decay", at_most=99.0)
    def is_small(self, run):
        """It is small, whatever happens."""
        return last(run, run.value).max("number")


def looked(experiment, gain: float):
    sum_of_all = gain * experiment.learner.sum
    return {"sum": Measurement(sum_of_all, "what nobody looks at", ("number",))}


def remembered(experiment):
    return {"same": Measurement(experiment.learner.value * 0 + worked_out_once(), "the same for all", ("number",))}


@cache
def worked_out_once() -> float:
    return 3.0 + 4.0


TRIAL = Trial(ToyDecay(), replicas=3)

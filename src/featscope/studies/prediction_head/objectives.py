"""An objective of `prediction-head` that nothing else has: targets from a moving average."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.losses import NonContrastive
from featscope.models.cubic_patches import views_of_cubes
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training import EMA
from featscope.training.ema import MovingAverage
from featscope.views import patch_split


@dataclass(frozen=True)
class PredictAverage:
    """As `PredictOtherView`, but the target is what a moving average of the encoder says of the other view.

    It takes the rule `EMA`, which lets the average follow. Noise is drawn as far as the two encoders see it.

    Attributes:
        ema: the average.
        loss: compares prediction and target.
        samples: samples in a batch, N.
    """

    ema: EMA = field(default_factory=EMA)
    loss: NonContrastive = field(default_factory=NonContrastive)
    samples: int = 256

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 2, ">= 2", "One sample has no variance.")

    def build(self, source: Any, learner: Any, streams: Streams) -> "AveragedTarget":
        """The objective, whose average begins as the encoder of ``learner``."""
        return AveragedTarget(self, self.ema.target(learner.encoder))


class AveragedTarget(nn.Module):
    """`PredictAverage` at work.

    Attributes:
        target: the moving average.
    """

    def __init__(self, config: PredictAverage, target: MovingAverage) -> None:
        super().__init__()
        self.config, self.target = config, target

    def online(self, learner: Any) -> nn.Module:
        """What the average follows."""
        encoder: nn.Module = learner.encoder
        return encoder

    def forward(self, learner: Any, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a fresh batch."""
        samples, weight = self.config.samples, learner.encoder.weight
        in_first = patch_split(draws, samples, source.patches)
        both = torch.cat([weight, self.target.average.weight], -2)  # type: ignore[list-item]
        first, second = views_of_cubes(source.projected(draws, samples).project(both), in_first)
        neurons = weight.shape[-2]
        return self.config.loss(learner.head(first[..., :neurons]), second[..., neurons:])

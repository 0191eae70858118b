"""Objectives of two of the study's arms: many tasks at once, and negatives that are masked too."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featscope.data import LinearTask, linear_task
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training import Contrastive, Supervised


@dataclass(frozen=True)
class SignTasks:
    """Supervised training on several random tasks y = sign <w*, z> at once (Wen & Li 2021, Definition 3.1).

    One task has a gradient of rank one to begin with, so it moves all neurons in one direction of the features' span.
    Many tasks see all of it.

    Attributes:
        tasks: number of tasks; their losses are added.
        samples: batch size.
    """

    tasks: int = 31
    samples: int = 512

    def __post_init__(self) -> None:
        require(self, "tasks", self.tasks >= 1, ">= 1")
        require(self, "samples", self.samples >= 1, ">= 1")

    def build(self, source: Any, learner: Any, streams: Streams) -> Supervised:
        """The objective, with tasks of the draws "tasks" and a random head each, of norm 1 in expectation."""
        neurons, features = learner.weight.shape[-2], source.dictionary.shape[-1]
        heads = streams.at("heads").normal(self.tasks, neurons) / neurons**0.5
        vectors = torch.stack([linear_task(streams.at("tasks", task), features) for task in range(self.tasks)], 1)
        return Supervised(heads, LinearTask(vectors), self.samples)


@dataclass(frozen=True)
class MaskedNegatives(Contrastive):
    """`Contrastive` with negatives that are seen through the view too, as anchors are (Remark 2.4)."""

    def batch(self, source: Any, draws: Draws) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives and negatives, each ``[replica, count, input]``."""
        anchor, positive, negatives = super().batch(source, draws)
        return anchor, positive, self.view(negatives, draws)[0]

"""Objectives of two of the study's arms: many tasks at once, and negatives that are masked too."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from featscope.data import linear_task
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training import Contrastive


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

    def build(self, source: Any, learner: Any, streams: Streams) -> "SupervisedTasks":
        """The objective, with tasks of the draws "tasks" and a random head each, of norm 1 in expectation."""
        neurons, features = learner.weight.shape[-2], source.dictionary.shape[-1]
        heads = streams.at("heads").normal(self.tasks, neurons) / neurons**0.5
        vectors = torch.stack([linear_task(streams.at("tasks", task), features) for task in range(self.tasks)], 1)
        return SupervisedTasks(heads, vectors, self.samples)


class SupervisedTasks(nn.Module):
    """Logistic losses of linear heads on sign labels, added over tasks.

    Args:
        heads: initial weights of the heads.
        vectors: w* of each task.
        samples: batch size.
    """

    vectors: Float[Tensor, "replica task feature"]

    def __init__(
        self, heads: Float[Tensor, "replica task neuron"], vectors: Float[Tensor, "replica task feature"], samples: int
    ) -> None:
        super().__init__()
        self.heads = nn.Parameter(heads)
        self.register_buffer("vectors", vectors)
        self.samples = samples

    def forward(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The sum over tasks of the mean loss over labelled samples of a fresh batch, in nats."""
        sample = source.sample(draws, self.samples)
        y = (sample.codes @ self.vectors.mT).sign()
        margin = y * (learner(sample.x) @ self.heads.mT)
        return ((softplus(-margin) * y.abs()).sum(1) / y.abs().sum(1).clamp_min(1)).sum(-1)


@dataclass(frozen=True)
class MaskedNegatives(Contrastive):
    """`Contrastive` with negatives that are seen through the view too, as anchors are (Remark 2.4)."""

    def batch(self, source: Any, draws: Draws) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives and negatives, each ``[replica, count, input]``."""
        anchor, positive, negatives = super().batch(source, draws)
        return anchor, positive, self.view(negatives, draws)[0]

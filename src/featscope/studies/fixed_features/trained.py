"""The hinge loss on batches of the training set, and machines that are fitted at once."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.baselines import RecursiveFeatureMachine, random_features, tangent_features
from featscope.data import DictionaryData, DictionarySource
from featscope.models import unbiased_start
from featscope.models.truncated_relu import truncated_relu
from featscope.options import require
from featscope.streams import Draws, Streams

TURNS = 4
"""Turns of the recursive feature machine."""
MACHINES = ("random features", "tangent features", *(f"machine {turn}" for turn in range(TURNS + 1)))
"""Ridge classifiers on fixed features, and the recursive feature machine after each turn; before the first it is a
kernel ridge classifier."""
_BANDWIDTH = 10.0


@dataclass(frozen=True)
class BatchHinge:
    """Mean of max(0, 1 - y g) on samples of the training set.

    Attributes:
        batch: samples at a time.
    """

    batch: int = 500

    def __post_init__(self) -> None:
        require(self, "batch", self.batch >= 1, ">= 1")

    def build(self, source: DictionarySource, learner: nn.Module, streams: Streams) -> "BatchHingeLoss":
        """The loss of a batch."""
        return BatchHingeLoss(self.batch)


class BatchHingeLoss(nn.Module):
    """`BatchHinge` at work."""

    finite: ClassVar[bool] = True

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch = batch

    def forward(self, learner: nn.Module, source: DictionarySource, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        inputs, labels = source.batch(draws, self.batch)
        return (1 - labels * learner(inputs)).relu().mean(1)


def accuracies(
    answers: Float[Tensor, "replica sample"], labels: Float[Tensor, "replica sample"]
) -> tuple[Float[Tensor, "replica"], Float[Tensor, "replica"]]:
    """Share of right answers, one of zero counted as half, and the mean of the same of each class."""
    margins = answers * labels
    right = ((margins > 0).double() + (margins >= 0).double()) / 2
    classes = [(labels == one).double() for one in (1, -1)]
    return right.mean(1), torch.stack([(right * one).sum(1) / one.sum(1) for one in classes]).mean(0)


@dataclass(frozen=True)
class Machines:
    """Options of `FittedMachines`.

    Attributes:
        data: what they are fitted on, and its test set.
        neurons: m of the networks whose start gives fixed features.
    """

    data: DictionaryData = field(default_factory=DictionaryData)
    neurons: int = 100

    def build(self, draws: Draws) -> "FittedMachines":
        """Machines before they are fitted."""
        return FittedMachines(self, draws)


class FittedMachines(nn.Module):
    """`MACHINES` on some thousand samples, by `featscope.baselines`.

    Attributes:
        accuracy: on the test set.
        found: share of the trace of M that is on the relevant patterns, after each turn.
    """

    accuracy: Float[Tensor, "replica machine"]
    found: Float[Tensor, "replica turn"]

    def __init__(self, options: Machines, draws: Draws) -> None:
        super().__init__()
        self.options, self.source = options, options.data.build(draws)
        self.start = unbiased_start(options.neurons, self.source, draws)
        blank = torch.full((draws.replicas, len(MACHINES)), torch.nan, device=draws.device, dtype=torch.float64)
        self.register_buffer("accuracy", blank)
        self.register_buffer("found", blank[:, : TURNS + 1].clone())

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """Whether they are fitted."""
        return ~self.accuracy[:, :1].isnan()

    def forward(self, draws: Draws) -> None:
        """Fit all, replica by replica."""
        half, k = self.options.neurons, self.options.data.relevant
        seeds = draws.uniform(1).flatten().mul(2**24).long().tolist()
        for replica, seed in enumerate(seeds):
            (x, y), (there, labels) = (
                tuple(part[replica].double().cpu().numpy() for part in one)
                for one in (self.source.train_set, self.source.test_set)
            )
            network = _OneNetwork(*(one[replica, :half].cpu() for one in self.start))
            drawn = random_features(half, scale=1 / k, bias_scale=1 / k**2, random_state=seed)
            for at, model in enumerate((drawn, tangent_features(network))):
                self.accuracy[replica, at] = model.fit(x, y).score(there, labels)
            spread = np.sqrt(x.shape[1])  # of unit variance each
            machine = RecursiveFeatureMachine(TURNS, _BANDWIDTH).fit(spread * x, y)
            for turn, named in enumerate(machine.staged_predict(spread * there)):
                diagonal = machine.stages_[turn][0].diagonal()
                self.accuracy[replica, 2 + turn] = float((named == labels).mean())
                self.found[replica, turn] = diagonal[:k].sum() / diagonal.sum()


class _OneNetwork(nn.Module):
    """A network without a replica axis; of copies, which have the same gradients, one is enough."""

    def __init__(self, weights: Tensor, biases: Tensor, outer: Tensor) -> None:
        super().__init__()
        self.weights, self.biases, self.outer = (nn.Parameter(one.float()) for one in (weights, biases, outer))

    def forward(self, inputs: Float[Tensor, "sample d"]) -> Float[Tensor, "sample"]:
        """g(x)."""
        return truncated_relu(inputs @ self.weights.T + self.biases) @ self.outer

"""Batches of modular addition for networks that are trained on part of the points, and accuracy on both parts."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from featscope.data.modular_addition import ModularAdditionSource, points_at
from featscope.options import require
from featscope.streams import Draws, Streams

JUDGED = 512
"""Points of either part on which accuracy is measured, or all where there are fewer: always the same."""


@dataclass(frozen=True)
class BatchCrossEntropy:
    """Options of `Batches`.

    Attributes:
        points: in a batch, with replacement.
        shuffled: whether each point has the label of another one, so that there is nothing to learn but by heart.
    """

    points: int = 512
    shuffled: bool = False

    def __post_init__(self) -> None:
        require(self, "points", self.points >= 1, ">= 1")

    def build(self, source: Any, learner: nn.Module, streams: Streams) -> "Batches":
        """The objective, with the points of both parts in random order, which is of the draws "order"."""
        order = streams.at("order").choice(source.options.count, source.options.count)
        shown = source.shown.gather(1, order)
        parts = [order[which].view(len(order), -1) for which in (shown, ~shown)]
        batches = Batches(self, source, parts[0], parts[1][:, :JUDGED].clone())
        if any(torch.isin(these, those).any() for these, those in zip(batches.hidden, batches.shown, strict=True)):
            raise ValueError("points that others are judged by are among those to train on")
        return batches


class Batches(nn.Module):
    """Mean cross-entropy of a batch of the points to train on, in nats.

    Args:
        options: size of a batch, and whether labels are shuffled.
        source: k and p.
        shown: places of the points to train on, in random order.
        hidden: places of some others.
    """

    finite: ClassVar[bool] = True
    shown: Int[Tensor, "replica point"]
    hidden: Int[Tensor, "replica other"]

    def __init__(
        self,
        options: BatchCrossEntropy,
        source: ModularAdditionSource,
        shown: Int[Tensor, "replica point"],
        hidden: Int[Tensor, "replica other"],
    ) -> None:
        super().__init__()
        self.options, self.inputs, self.modulus = options, source.options.inputs, source.options.modulus
        self.register_buffer("shown", shown)
        self.register_buffer("hidden", hidden)

    def points(self, places: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch input"]:
        """The points at ``places``."""
        return points_at(places, self.inputs, self.modulus)

    def labels(self, places: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """Sums of the points at ``places``."""
        return self.points(places).sum(-1) % self.modulus

    def forward(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica on a batch drawn from ``draws``."""
        count = self.shown.shape[1]
        chosen = (draws.uniform(self.options.points, dtype=torch.float64) * count).long()
        logits = learner(self.points(self.shown.gather(1, chosen)))
        right = self.shown_labels(chosen)
        return cross_entropy(logits.flatten(0, 1), right.flatten(), reduction="none").view(right.shape).mean(1)

    def shown_labels(self, chosen: Int[Tensor, "replica sample"]) -> Int[Tensor, "replica sample"]:
        """Labels of the ``chosen`` ones of the points to train on; if shuffled, of the next in their random order."""
        labelled = (chosen + 1) % self.shown.shape[1] if self.options.shuffled else chosen
        return self.labels(self.shown.gather(1, labelled))

    def right_on_shown(self, learner: nn.Module) -> Float[Tensor, "replica"]:
        """Accuracy on points to train on, with the labels that they are trained with."""
        first = torch.arange(min(JUDGED, self.shown.shape[1]), device=self.shown.device).expand(len(self.shown), -1)
        answers = learner(self.points(self.shown.gather(1, first))).argmax(-1)
        return (answers == self.shown_labels(first)).double().mean(1)

    def right_on_hidden(self, learner: nn.Module) -> Float[Tensor, "replica"]:
        """Accuracy on other points, with their true labels."""
        return (learner(self.points(self.hidden)).argmax(-1) == self.labels(self.hidden)).double().mean(1)

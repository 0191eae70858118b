"""How the loss of one step comes about for images: draw a batch, make two views, compare or classify."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import skip_init

from featscope.data import ImageSet, ImageSource
from featscope.data.images import as_float
from featscope.losses import NonContrastive, NTXent
from featscope.models import PredictionHead, ProjectionHead
from featscope.models.encoders import initialise
from featscope.options import ConfigError, require
from featscope.streams import Draws, Streams
from featscope.training.ema import EMA, MovingAverage
from featscope.training.gradient import GradientTraining, Training
from featscope.views import View

LEAST_SIDE = 8
"""The smallest height and width, in pixels, of images that can be trained on."""


@dataclass(frozen=True)
class ImageTraining(Training):
    """The recipe of an arm that trains an ordinary module, one replica at a time, on images."""

    replica_axis: ClassVar[bool] = False
    drawn_at: ClassVar[tuple[str, str]] = ("data", "learner")

    def build(self, streams: Streams) -> GradientTraining:
        """As of any training.

        Raises:
            ConfigError: images are smaller than what networks with two poolings and a stride can take.
        """
        made = super().build(streams)
        source: Any = made.source
        for images in (source.train_set, source.test_set):
            height, width = images.pixels.shape[-2:]
            if min(height, width) < LEAST_SIDE:
                raise ConfigError(
                    f"images of {height} x {width} pixels are out of range: allowed is {LEAST_SIDE} x {LEAST_SIDE} or "
                    "more. Take larger ones, or another --side where the study has it."
                )
        return made

    def initial(self, experiment: GradientTraining) -> Any:
        """The learner of ``experiment``, which this built, as it was before its first step; a new one at every call."""
        streams = experiment.streams
        return self.learner.build(experiment.source, streams.at(self.drawn_at[1])).to(streams.device)


@dataclass(frozen=True)
class ContrastImages:
    """Options of `InBatchContrastive`.

    Attributes:
        view: makes the positive pair.
        projection: maps features to what is compared; trained, and not part of the learner.
        loss: compares.
        batch: images in a batch, which has twice as many views.
    """

    view: View
    projection: ProjectionHead = field(default_factory=ProjectionHead)
    loss: NTXent = field(default_factory=NTXent)
    batch: int = 128

    def __post_init__(self) -> None:
        require(self, "batch", self.batch >= 2, ">= 2", "One pair has no negatives.")

    def build(self, source: ImageSource, learner: Any, streams: Streams) -> "InBatchContrastive":
        """The objective, with a projection of its own."""
        projection = self.projection.build(learner.features, streams.at("head"))
        return InBatchContrastive(self.view, projection, self.loss, self.batch)


@dataclass(frozen=True)
class ClassifyImages:
    """Options of `ClassifyViews`.

    Attributes:
        view: augments.
        batch: images in a batch, which has twice as many views.
    """

    view: View
    batch: int = 128

    def __post_init__(self) -> None:
        require(self, "batch", self.batch >= 2, ">= 2")

    def build(self, source: ImageSource, learner: Any, streams: Streams) -> "ClassifyViews":
        """The objective, with a linear head of its own."""
        head = initialise(skip_init(nn.Linear, learner.features, len(source.class_names)), streams.at("head"))
        return ClassifyViews(self.view, head, self.batch)


@dataclass(frozen=True)
class PredictImages:
    """Options of `PredictViews`.

    Attributes:
        view: makes the positive pair.
        projection: maps features to representations; trained, and not part of the learner.
        head: maps representations to predictions, in the online branch only; trained.
        loss: compares. It is averaged over the two directions.
        batch: images in a batch, which has twice as many views.
        target: how the target network follows the trained one; None where it is the trained one itself. The training
            has the same among its rules.
    """

    view: View
    projection: ProjectionHead
    head: PredictionHead
    loss: NonContrastive
    batch: int = 128
    target: EMA | None = None

    def __post_init__(self) -> None:
        require(self, "batch", self.batch >= 2, ">= 2", "One pair has no variance.")

    def build(self, source: ImageSource, learner: Any, streams: Streams) -> "PredictViews":
        """The objective, with a projection, a head and a target network of its own."""
        projection = self.projection.build(learner.features, streams.at("projection"))
        head = self.head.build(self.projection.outputs, streams.at("head"))
        target = self.target.target(nn.Sequential(learner, projection)) if self.target else None
        return PredictViews(self.view, projection, head, self.loss, self.batch, target)


class InBatchContrastive(nn.Module):
    """Contrast the two views of each image with all other views in the batch.

    Args:
        view: makes the positive pair.
        head: maps features to what is compared; trained, and not part of the learner.
        loss: compares.
        batch: images in a batch.
    """

    def __init__(self, view: View, head: nn.Module, loss: NTXent, batch: int) -> None:
        super().__init__()
        self.view, self.head, self.loss, self.batch = view, head, loss, batch

    def forward(self, learner: nn.Module, source: ImageSource, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of the one replica on a fresh batch, in nats."""
        views = self.view(source.sample(draws, self.batch).x, draws)
        anchor, positive = self.head(learner(torch.cat(views, dim=1)[0])).chunk(2)
        return self.loss(anchor, positive)[None]

    def doubts(
        self, networks: Sequence[nn.Module], images: ImageSet, draws: Draws
    ) -> tuple[Float[Tensor, "network view"], Int[Tensor, " view"]]:
        """1 - ℓ'_p of the two views of each image of a batch, by each of ``networks``; and the views' classes."""
        chosen = draws.choice(len(images.labels), min(self.batch, len(images.labels)))[0]
        views = torch.cat(self.view(as_float(images.pixels[chosen])[None], draws), dim=1)[0]
        found = [self.loss.doubt(*self.head(network(views)).chunk(2)) for network in networks]
        return torch.stack(found), images.labels[chosen].repeat(2)


class ClassifyViews(nn.Module):
    """Cross-entropy of a linear head on both views of each image.

    Both, so that a step costs and shows the network as much as a contrastive one.

    Args:
        view: augments.
        head: maps features to one number a class; trained, and not part of the learner.
        batch: images in a batch.
    """

    def __init__(self, view: View, head: nn.Module, batch: int) -> None:
        super().__init__()
        self.view, self.head, self.batch = view, head, batch

    def forward(self, learner: nn.Module, source: ImageSource, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of the one replica on a fresh batch, in nats."""
        sample = source.sample(draws, self.batch)
        views = torch.cat(self.view(sample.x, draws), dim=1)[0]
        return cross_entropy(self.head(learner(views)), sample.labels[0].repeat(2))[None]


class PredictViews(nn.Module):
    """Predict from each view of an image what the target network says of the other (Wen & Li 2022, Figure 8).

    Args:
        view: makes the positive pair.
        projection: maps features to representations; trained, and not part of the learner.
        head: maps representations to predictions, in the online branch only; trained.
        loss: compares. It is averaged over the two directions.
        batch: images in a batch.
        target: the target network, from images to representations; None for the trained one itself.
    """

    def __init__(
        self,
        view: View,
        projection: nn.Module,
        head: nn.Module,
        loss: NonContrastive,
        batch: int,
        target: MovingAverage | None = None,
    ) -> None:
        super().__init__()
        self.view, self.projection, self.head = view, projection, head
        self.loss, self.batch, self.target = loss, batch, target

    def online(self, learner: nn.Module) -> nn.Module:
        """From images to representations: what the target network is an average of."""
        return nn.Sequential(learner, self.projection)

    def forward(self, learner: nn.Module, source: ImageSource, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of the one replica on a fresh batch."""
        views = torch.cat(self.view(source.sample(draws, self.batch).x, draws), dim=1)[0]
        representations = self.projection(learner(views))
        targets = representations if self.target is None else self.target(views)
        first, second = self.head(representations).chunk(2)
        of_first, of_second = targets.chunk(2)
        return (self.loss(first, of_second) + self.loss(second, of_first))[None] / 2

"""How the loss of one step comes about for images: draw a batch, make two views, compare or classify."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from featscope.data import ImageSource
from featscope.losses import NTXent
from featscope.streams import Draws
from featscope.views import View


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

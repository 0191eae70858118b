"""InfoNCE within a batch of pairs (NT-Xent): the other pairs of the batch are the negatives."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from featscope.options import require


@dataclass(frozen=True)
class NTXent:
    """The loss of SimCLR (Chen et al. 2020, equation 1): -log softmax of a view's similarity to its partner.

    Each of the 2 B views of a batch is an anchor once; its positive is its partner, its negatives are the
    2 B - 2 other views. Gradients flow through both sides of every similarity, there is no stop-gradient and
    no leading τ: this is the loss of practice. `InfoNCE` is the loss of the theory.

    Attributes:
        temperature: τ, which divides the similarities.
        normalize: similarities are cosines; if False, inner products of the representations as they are (the
            paper's choice, Section 2.2).
    """

    temperature: float = 0.5
    normalize: bool = True

    def __post_init__(self) -> None:
        require(self, "temperature", self.temperature > 0, "> 0")

    def __call__(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, ""]:
        """The mean over all 2 B views, in nats; log(2 B - 1) when all views look the same."""
        return self.of_views(anchor, positive).mean()

    def doubt(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, " view"]:
        """1 - ℓ'_p of each view: how far the softmax is from naming its partner; first the anchors."""
        return 1 - torch.exp(-self.of_views(anchor, positive))

    def of_views(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, " view"]:
        """The loss of each view, -log of its partner's share ℓ'_p, in nats; first the anchors, then the positives."""
        views = torch.cat([anchor, positive])
        if self.normalize:
            views = normalize(views, dim=-1)
        similarity = views @ views.mT / self.temperature
        similarity.fill_diagonal_(-torch.inf)
        partner = torch.arange(len(views), device=views.device).roll(len(anchor))
        return cross_entropy(similarity, partner, reduction="none")

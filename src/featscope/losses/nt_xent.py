"""InfoNCE within a batch of pairs (NT-Xent): the other pairs of the batch are the negatives."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, distributed
from torch.nn.functional import cross_entropy

from featscope.losses.processes import gathered, others, require_equal
from featscope.losses.similarity import of_length_one, require_pairs, require_rows
from featscope.numbers import as_written, require_tensor, wide
from featscope.options import require


@dataclass(frozen=True)
class NTXent:
    """The loss of SimCLR (Chen et al. 2020, equation 1): -log softmax of a view's similarity to its partner.

    Each of the 2 B views of a batch is an anchor once; its positive is its partner, its negatives are the
    2 B - 2 other views. Gradients flow through both sides of every similarity, there is no stop-gradient and
    no leading τ: this is the loss of practice. `InfoNCE` is the loss of the theory.

    Where torch.distributed runs, views of all processes are each other's negatives: called in all of them, the mean of
    the losses, and of their gradients as `DistributedDataParallel` takes it, are those of one process with all views.

    It works in float32 at least, under autocast too: half precision holds no difference of cosines that a low
    temperature makes count.

    Attributes:
        temperature: τ, which divides the similarities.
        normalize: similarities are cosines; if False, inner products of the representations as they are (the
            paper's choice, Section 2.2).
    """

    temperature: float = 0.5
    normalize: bool = True

    def __post_init__(self) -> None:
        require(self, "temperature", self.temperature > 0, "> 0")
        require(self, "normalize", isinstance(self.normalize, bool), "True or False")

    def __call__(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, ""]:
        """The mean over all 2 B views of this process, in nats; log(2 B - 1) when all views look the same.

        Of a single pair in a single process it is 0, and so is its gradient, as there are no negatives: drop_last=True
        of a loader keeps it out.

        Raises:
            ValueError: processes have batches of different sizes, the two halves of the pairs differ in theirs, or the
                batch is empty.
        """
        require_tensor(anchor)
        if others():
            with as_written(anchor.device):
                return self._among_processes(anchor, positive)
        return self.of_views(anchor, positive).mean()

    def _among_processes(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, ""]:
        require_equal(len(anchor), anchor.device)
        views = self._measured(anchor, positive)
        own = distributed.get_rank() * len(views) + torch.arange(len(views), device=views.device)
        similarity = views @ gathered(views).mT / self.temperature
        similarity = similarity.scatter(1, own[:, None], -torch.inf)
        return cross_entropy(similarity, own.roll(len(anchor)))

    def _measured(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, "view neuron"]:
        require_pairs(anchor, positive)
        require_rows("anchor", anchor)
        views = torch.cat([anchor, positive])
        views = wide(views)
        return of_length_one(views) if self.normalize else views

    def doubt(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, " view"]:
        """1 - ℓ'_p of each view: how far the softmax is from naming its partner; first the anchors, in this process."""
        return 1 - torch.exp(-self.of_views(anchor, positive))

    def of_views(
        self, anchor: Float[Tensor, "batch neuron"], positive: Float[Tensor, "batch neuron"]
    ) -> Float[Tensor, " view"]:
        """The loss of each view, -log of its partner's share ℓ'_p, in nats; first the anchors, then the positives.

        Among the views given here alone, whatever other processes have.

        Raises:
            ValueError: the two halves of the pairs differ in shape, or are empty.
        """
        require_tensor(anchor)
        with as_written(anchor.device):
            views = self._measured(anchor, positive)
            similarity = views @ views.mT / self.temperature
            similarity.fill_diagonal_(-torch.inf)
            partner = torch.arange(len(views), device=views.device).roll(len(anchor))
            return cross_entropy(similarity, partner, reduction="none")

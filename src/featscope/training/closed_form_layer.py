"""A layer of symmetrised ReLU neurons, as gradients in closed form see it."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.kernels import multiply, suits
from featscope.models import symmetric_relu, token_mlp
from featscope.models.symmetric_relu import SymmetricReLUNetwork
from featscope.models.token_mlp import TokenMLPNetwork
from featscope.training.as_derived import AsDerived, does_what_its_class_says
from featscope.training.pruning import Pruner, PruningMask

DERIVED_FROM = AsDerived(
    (symmetric_relu, "soft_threshold"),
    (token_mlp, "soft_threshold"),
    (SymmetricReLUNetwork, "forward"),
    (TokenMLPNetwork, "forward"),
    (Pruner, "forward"),
    (PruningMask, "pruned_parameters"),
    (PruningMask, "_weights"),
    (PruningMask, "_hide"),
)
KINDS = SymmetricReLUNetwork, TokenMLPNetwork

Rows = Float[Tensor, "replica batch neuron"]


class Layer(NamedTuple):
    """A layer of symmetrised ReLU neurons; of sequences it sees the mean token, and says L times what it does of one.

    Attributes:
        weight: as the loss sees it.
        threshold: b.
        tokens: L; None where inputs are no sequences.
        kept: 1 for each neuron that logits see, 0 for one that is hidden from them; None for all.
    """

    weight: Float[Tensor, "replica neuron input"]
    threshold: Float[Tensor, "replica neuron"]
    tokens: int | None
    kept: Float[Tensor, "replica 1 neuron"] | None

    def project(self, x: Tensor) -> Rows:
        """u = W x."""
        return multiply(self.seen(x), self.weight.mT)

    def seen(self, x: Tensor) -> Float[Tensor, "replica batch input"]:
        """Mean tokens of sequences, and inputs that are no sequences, or mean tokens already, as they are."""
        return x.mean(-2) if self.tokens is not None and x.ndim == 4 else x

    def of(self, u: Rows) -> Rows:
        """L (ReLU(u - b) - ReLU(-u - b)), in place of u."""
        if suits(u, gpu=True):
            from featscope.kernels.rows import shrink

            shrink(u, self.threshold)
        else:
            b = self.threshold.unsqueeze(-2)
            u -= u.clamp(-b, b)
        return u if self.tokens in (None, 1) else u.mul_(self.tokens)

    def passed(self, pull: Rows, anchor: Rows) -> Rows:
        """The gradient by u, of neurons that fire."""
        fired = torch.ops.aten.hardshrink_backward(pull, anchor, 0.0)  # where anchor != 0, in one pass
        return fired if self.tokens in (None, 1) else fired.mul_(self.tokens)


def layer_of(learner: nn.Module) -> tuple[Layer, nn.Parameter] | None:
    """What a loss sees of a learner, and the parameter that it is trained by; None if it is no such layer."""
    mask: PruningMask | None = None
    if type(learner) is Pruner:
        if not does_what_its_class_says(learner):
            return None
        mask, learner = learner._held
        if type(mask) is not PruningMask or not (does_what_its_class_says(mask) and DERIVED_FROM.holds(mask)):
            return None
        if mask.gradient == "theory" and mask.granularity != "neuron":
            return None
    kind: Any = type(learner)
    if kind not in KINDS or not does_what_its_class_says(learner):
        return None
    network: Any = learner
    if kind is TokenMLPNetwork and network.attention != "uniform":
        return None
    weight, bias, tokens = network.weight, network.bias, network.tokens if kind is TokenMLPNetwork else None
    trained = weight.ndim == 3 and weight.is_leaf and weight.requires_grad and not bias.requires_grad
    if not (trained and bias.shape == weight.shape[:2] and bias.dtype == weight.dtype and bias.is_contiguous()):
        return None
    seen, kept = weight.detach(), None
    if mask is not None and mask.gradient == "straight-through":
        with torch.no_grad():
            seen = mask.pruned_parameters(network)["weight"]
    elif mask is not None:
        kept = mask.kept.to(seen.dtype).unsqueeze(1)
    return Layer(seen, bias, tokens, kept), weight

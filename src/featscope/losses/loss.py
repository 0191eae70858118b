"""What a loss is asked for. One's own needs no base class: a method of this form is enough."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class ContrastiveLoss(Protocol):
    """Compares each anchor with its positive and with negatives that all anchors share; `InfoNCE` is one."""

    def __call__(
        self,
        anchor: Float[Tensor, "replica batch neuron"],
        positive: Float[Tensor, "replica batch neuron"],
        negatives: Float[Tensor, "replica negative neuron"],
        /,
    ) -> Float[Tensor, "replica"]:
        """The loss of each replica."""


@runtime_checkable
class InBatchLoss(Protocol):
    """Compares the members of pairs, with those of other pairs as negatives; `InfoNCE` is one."""

    def in_batch(
        self, anchor: Float[Tensor, "replica batch neuron"], positive: Float[Tensor, "replica batch neuron"], /
    ) -> Float[Tensor, "replica"]:
        """The loss of each replica."""


@runtime_checkable
class PredictionLoss(Protocol):
    """Compares predictions with their targets; `NonContrastive` is one."""

    def __call__(
        self, prediction: Float[Tensor, "replica batch neuron"], target: Float[Tensor, "replica batch neuron"], /
    ) -> Float[Tensor, "replica"]:
        """The loss of each replica."""

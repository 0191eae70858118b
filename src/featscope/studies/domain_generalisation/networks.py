"""What is trained on images of several domains: networks of one shape, one a penalty, on the same batches."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from featscope.streams import Draws, Streams

Weights = Sequence[Tensor]
"""The parts of the networks; each has an axis of penalties first."""


@runtime_checkable
class Inputs(Protocol):
    """What is known of each image, by its index."""

    def __getitem__(self, index: Int[Tensor, " chosen"]) -> Tensor:
        """What networks are given of the images at ``index``."""
        ...


@runtime_checkable
class Networks(Protocol):
    """How networks begin, and what they make of samples."""

    @property
    def together(self) -> int:
        """How many are trained at a time; each sees the same, so that it changes nothing but time and memory."""
        ...

    @property
    def at_once(self) -> int:
        """Samples that they are judged on in one pass."""
        ...

    def start(self, penalties: int, classes: int, streams: Streams, target: int) -> Weights:
        """The same network ``penalties`` times, where domain ``target`` is left out."""
        ...

    def view(self, x: Tensor, draws: Draws) -> Tensor:
        """Samples as they are trained on."""
        ...

    def outputs(
        self, weights: Weights, x: Tensor
    ) -> tuple[Float[Tensor, "penalty sample unit"], Float[Tensor, "penalty sample class"]]:
        """Features Φ and logits of each network."""
        ...


def losses(
    logits: Float[Tensor, "penalty sample class"], labels: Int[Tensor, " sample"]
) -> Float[Tensor, "penalty sample"]:
    """Cross-entropy of each sample."""
    many = labels.expand(len(logits), -1)
    return cross_entropy(logits.flatten(0, 1), many.reshape(-1), reduction="none").view(many.shape)


@torch.no_grad()
def seen(
    networks: Networks, weights: Weights, inputs: Inputs, index: Int[Tensor, " sample"]
) -> tuple[Float[Tensor, "penalty sample unit"], Float[Tensor, "penalty sample class"]]:
    """Features and logits of the samples at ``index``, a part of them at a time."""
    parts = [networks.outputs(weights, inputs[part]) for part in index.split(networks.at_once)]
    return torch.cat([phi for phi, _ in parts], 1), torch.cat([logits for _, logits in parts], 1)


def judged(
    logits: Float[Tensor, "penalty sample class"], labels: Int[Tensor, " sample"]
) -> tuple[Float[Tensor, " penalty"], Float[Tensor, " penalty"]]:
    """Accuracy and mean loss of each network."""
    return (logits.argmax(-1) == labels).double().mean(1), losses(logits, labels).double().mean(1)

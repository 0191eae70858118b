"""Many small networks on frozen features, trained side by side on the same batches."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from featscope.streams import Streams


class Weights(NamedTuple):
    """A layer of ReLUs and a linear head; one network a penalty."""

    inner: Float[Tensor, "penalty unit feature"]
    threshold: Float[Tensor, "penalty unit"]
    head: Float[Tensor, "penalty class unit"]
    bias: Float[Tensor, "penalty class"]


def start(penalties: int, features: int, units: int, classes: int, streams: Streams, target: int) -> Weights:
    """The same network ``penalties`` times: He-normal units, a head that says little."""
    draws = streams.at("adapter", target)
    inner = draws.normal(units, features)[0] * (2 / features) ** 0.5
    head = draws.normal(classes, units)[0] * (1 / units) ** 0.5
    parts = inner, torch.zeros(units), head, torch.zeros(classes)
    return Weights(*(part.expand(penalties, *part.shape).clone().requires_grad_() for part in parts))


def outputs(
    weights: Weights, x: Float[Tensor, "sample feature"]
) -> tuple[Float[Tensor, "penalty sample unit"], Float[Tensor, "penalty sample class"]]:
    """Features Φ and logits of each network. One product serves all: they see the same samples."""
    penalties, units, _ = weights.inner.shape
    before = x @ weights.inner.flatten(0, 1).T
    phi = (before.view(len(x), penalties, units).transpose(0, 1) + weights.threshold[:, None]).relu()
    return phi, phi @ weights.head.mT + weights.bias[:, None]


def losses(
    logits: Float[Tensor, "penalty sample class"], labels: Int[Tensor, " sample"]
) -> Float[Tensor, "penalty sample"]:
    """Cross-entropy of each sample."""
    many = labels.expand(len(logits), -1)
    return cross_entropy(logits.flatten(0, 1), many.reshape(-1), reduction="none").view(many.shape)


@torch.no_grad()
def judged(
    weights: Weights, x: Float[Tensor, "sample feature"], labels: Int[Tensor, " sample"]
) -> tuple[Float[Tensor, " penalty"], Float[Tensor, " penalty"]]:
    """Accuracy and mean loss of each network."""
    _, logits = outputs(weights, x)
    return (logits.argmax(-1) == labels).double().mean(1), losses(logits, labels).double().mean(1)

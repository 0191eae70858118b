"""What symmetrised ReLU neurons are and see before any training (Wen & Li 2021, Appendices B, C and F)."""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import SparseCodingSource
from featscope.losses import InfoNCE
from featscope.models import OrthogonalRows, SymmetricReLUNetwork
from featscope.probes.alignment import lucky
from featscope.probes.contrastive_gradient import ContrastiveBatch
from featscope.streams import Draws, Streams

NETWORKS = 256
BATCHES = 8


class Likeness(NamedTuple):
    """How alike samples are to neurons that see noise alone.

    Attributes:
        own: mean ||f(x)||².
        cross: root mean square of <f(x), f(x')>.
        loss: the contrastive loss without augmentation.
    """

    own: Float[Tensor, "replica"]
    cross: Float[Tensor, "replica"]
    loss: Float[Tensor, "replica"]


def lucky_set_size(
    dictionary: Float[Tensor, "replica input feature"], width: int, constant: float, streams: Streams
) -> Float[Tensor, "replica"]:
    """Mean |Set_j| over features and over `NETWORKS` random networks of ``width`` neurons (Definition B.1)."""
    count = torch.zeros(len(dictionary), dtype=torch.float64, device=dictionary.device)
    for network in range(NETWORKS):
        weight = streams.at("lucky sets", network).normal(width, dictionary.shape[-2])
        count += lucky(weight, dictionary, constant).sum((-2, -1)).double() / dictionary.shape[-1] / NETWORKS
    return count


def dense_peaks(
    weight: Float[Tensor, "replica neuron input"], dictionary: Float[Tensor, "replica input feature"]
) -> Float[Tensor, "replica neuron"]:
    """Largest |cosine| of each neuron with an orthonormal completion M⊥ of the features (Theorem C.1(e))."""
    features = dictionary.shape[-1]
    completion = torch.linalg.qr(dictionary, mode="complete").Q[..., features:]
    return (weight @ completion).abs().amax(-1) / weight.norm(dim=-1)


def logit_deviation(batch: ContrastiveBatch, scale: float) -> Float[Tensor, "replica"]:
    """Largest |ℓ - 1/|B|| times |B| with weights times √scale and b = 0 (Lemma C.3)."""
    network = SymmetricReLUNetwork(batch.network.weight.detach() * scale**0.5)
    logits = replace(batch, network=network).logits()
    keys = logits.shape[-1]
    return (logits - 1 / keys).abs().amax((-2, -1)) * keys


def likeness_by_noise(
    source: SparseCodingSource, rows: OrthogonalRows, loss: InfoNCE, draws: Draws, anchors: int, negatives: int
) -> Likeness:
    """What ``rows`` make of samples, in batches of ``anchors`` that are contrasted with the next (Lemma F.2)."""
    network, each = rows.build(source, draws), []
    for _ in range(BATCHES):
        f = network(source.sample(draws, anchors + negatives).x)
        first, others = f[:, :anchors], f[:, anchors:]
        squares = (first @ others.mT).square().mean((-2, -1))
        each.append(torch.stack([f.square().sum(-1).mean(-1), squares, loss(first, first, others)]).double())
    own, cross, mean_loss = torch.stack(each).mean(0)
    return Likeness(own, cross.sqrt(), mean_loss)

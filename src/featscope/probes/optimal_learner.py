"""The optimal learner of Wen & Li 2021 (Definition E.10, Lemma E.11): true features behind the gates of a network."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from featscope.probes.alignment import alignment, owner, singletons
from featscope.probes.contrastive_gradient import ContrastiveBatch

SCALES = tuple(2.0**k for k in range(-3, 4))  # of the amplitude that the network has


class OptimalLearner(NamedTuple):
    """Losses on one batch, against keys of the network.

    Attributes:
        trained: of the network.
        optimal: pseudo-loss of θ* at the best of `SCALES`.
    """

    trained: Float[Tensor, "replica"]
    optimal: Float[Tensor, "replica"]


def optimal_learner_loss(batch: ContrastiveBatch, dictionary: Float[Tensor, "replica input feature"]) -> OptimalLearner:
    """θ*_i = c M_j for the singletons of feature j, with their sign, and 0 for all other neurons.

    The paper has neurons that were lucky at the start in the place of singletons, and c = κ √τ/|Set*_j|; here c is the
    mean amplitude of the singletons times the best of `SCALES`.
    """
    weight, b = batch.network.weight, batch.network.bias[:, None]
    cosines = alignment(weight, dictionary)
    holds = one_hot(owner(cosines), cosines.shape[-1]) * singletons(cosines)[..., None]
    held = (weight @ dictionary) * holds
    mean = held.abs().sum((-2, -1), keepdim=True) / holds.sum((-2, -1), keepdim=True).clamp_min(1)
    u = batch.anchor @ weight.mT
    keys = batch.network(batch.positive), batch.network(batch.negatives)
    losses = []
    for scale in SCALES:
        theta = (scale * mean * held.sign()) @ dictionary.mT
        live = (u.abs() >= b) & holds.any(-1)[:, None]
        seen = (batch.anchor @ theta.mT - b * u.sign()) * live
        losses.append(batch.loss(seen, *keys))
    return OptimalLearner(batch.loss(batch.network(batch.anchor), *keys), torch.stack(losses).amin(0))

"""What a pair of samples pulls neurons by, before anything is learned.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data, Lemmas F.1 and F.3.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import SparseTokensSource
from featscope.models import TokenMLPNetwork
from featscope.streams import Streams


class Pull(NamedTuple):
    """E[h_i(Y) ∇h_i(X)] of positive and negative pairs, in coefficients on the weights themselves.

    Attributes:
        along_features: on A_ij, over neurons: a_j of P Lemma F.3.
        of_negatives: the same for h_i of another pair, mean over features: 0 (P Lemma F.1(c)).
        off_features: on the part of the weights outside of the features, in units of what it would be if X and Y had
            their noise in common, L² σ²/L: 0. NaN without noise.
        noise: variance of mean tokens outside of the features, a coordinate, in units of σ²/L. NaN without noise.
    """

    along_features: Float[Tensor, "replica feature"]
    of_negatives: Float[Tensor, "replica"]
    off_features: Float[Tensor, "replica"]
    noise: Float[Tensor, "replica"]


def first_pull(source: SparseTokensSource, network: TokenMLPNetwork, streams: Streams, pairs: int, blocks: int) -> Pull:
    """The pull of ``blocks`` times ``pairs`` pairs on a network under uniform attention with b = 0."""
    dictionary, weight = source.dictionary, network.weight
    along = weight @ dictionary
    outside = weight - along @ dictionary.mT
    positive = negative = noise = torch.zeros(())
    for block in range(blocks):
        batch = source.pairs(streams.at("growth identity", block), pairs)
        mean = batch.x if batch.x.ndim == weight.ndim else batch.x.mean(-2)
        slope, h = network.tokens * mean, network(batch.y)  # ∇h_i(X) at b = 0
        positive = positive + h.mT @ slope / (pairs * blocks)
        negative = negative + h.roll(1, 1).mT @ slope / (pairs * blocks)
        inside = (mean @ dictionary).square().sum((-2, -1))
        noise = noise + (mean.square().sum((-2, -1)) - inside) / (pairs * blocks)

    def coefficients(of: Tensor) -> Float[Tensor, "replica feature"]:
        return (of @ dictionary * along).sum(-2) / along.square().sum(-2)

    variance = source.noise_std.square() / network.tokens
    variance = variance.where(variance > 0, torch.nan)
    off = positive - (positive @ dictionary) @ dictionary.mT
    off_features = (off * outside).sum((-2, -1)) / outside.square().sum((-2, -1)) / network.tokens**2 / variance
    free = dictionary.shape[-2] - dictionary.shape[-1]
    return Pull(coefficients(positive), coefficients(negative).mean(-1), off_features, noise / free / variance)

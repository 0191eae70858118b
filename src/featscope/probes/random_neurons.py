"""Counts of what random neurons hold.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data, Definition B.1, (26)-(28).
"""

from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.streams import Streams

GAMMA = 0.01
_BLOCKS = 20


class Counts(NamedTuple):
    """Pairs of a neuron and a feature.

    Attributes:
        ordinary: the neuron is in M_j: it has at least c2 log d/d of its squared norm on the feature.
        strong: it has c1 log d/d, the first condition on a lucky neuron.
        lucky: it is in M_j*: strong for the feature, and ordinary for no other.
    """

    ordinary: Float[Tensor, "replica"]
    strong: Float[Tensor, "replica"]
    lucky: Float[Tensor, "replica"]


def count_lucky(streams: Streams, neurons: int, features: int, ratio: float) -> Counts:
    """Ordinary, strong and lucky pairs among ``neurons`` random neurons of each replica.

    Args:
        streams: random numbers.
        neurons: how many are drawn, rounded down to whole blocks.
        features: d.
        ratio: r = ε_min/ε_max, in c1 = 2(1 + γ)/r² and c2 = 2(1 - γ)r².
    """
    per_share = log(features) / features
    low, high = 2 * (1 - GAMMA) * ratio**2 * per_share, 2 * (1 + GAMMA) / ratio**2 * per_share
    counts = torch.zeros(3, len(streams.replicas), dtype=torch.float64)
    for block in range(_BLOCKS):
        share = streams.at(f"census of {features}", block).normal(neurons // _BLOCKS, features).square_()
        share /= share.sum(-1, keepdim=True)
        ordinary, strong = share >= low, share >= high
        lucky = strong & (ordinary.sum(-1, keepdim=True) == 1)
        counts += torch.stack([pairs.sum((-2, -1)).cpu() for pairs in (ordinary, strong, lucky)])
    return Counts(*counts)

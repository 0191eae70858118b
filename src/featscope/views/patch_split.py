"""Complementary halves of a sample's patches (Wen & Li 2022, equation 3.2)."""

import torch
from jaxtyping import Bool
from torch import Tensor

from featscope.streams import Draws


def patch_split(draws: Draws, count: int, patches: int) -> Bool[Tensor, "replica batch patch"]:
    """Which patches of each sample are in its first view: a random half. The others are in the second.

    Views share no patch, so noise is never shared between them.
    """
    chances = draws.uniform(patches, count)
    chosen = torch.empty_like(chances, dtype=torch.bool)
    wanted = torch.full_like(chances[:, 0], patches // 2)
    for place in range(patches):  # each with the probability that those still wanted fall on it
        chosen[:, place] = chances[:, place] * (patches - place) < wanted
        wanted -= chosen[:, place].to(wanted.dtype)
    return chosen.mT

"""Complementary halves of a sample's patches (Wen & Li 2022, equation 3.2)."""

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.kernels import suits
from featscope.streams import Draws


def patch_split(draws: Draws, count: int, patches: int) -> Float[Tensor, "replica batch patch"]:
    """1 for patches of each sample that are in its first view, a random half, and 0 for those in the second.

    Views share no patch, so noise is never shared between them.
    """
    drawn = draws.uniform(patches, count)
    wanted = torch.full_like(drawn[:, 0], patches // 2)
    if suits(drawn):
        from featscope.kernels.rows import choose

        choose(drawn, wanted)
    else:
        for place in range(patches):  # each with the probability that those still wanted fall on it
            drawn[:, place] = drawn[:, place] * (patches - place) < wanted
            wanted -= drawn[:, place]
    return drawn.mT.contiguous()  # a sample's patches lie side by side, as in what networks say of them

"""Complementary halves of a sample's patches (Wen & Li 2022, equation 3.2)."""

from jaxtyping import Bool
from torch import Tensor

from featscope.streams import Draws


def patch_split(draws: Draws, count: int, patches: int) -> Bool[Tensor, "replica batch patch"]:
    """Which patches of each sample are in its first view: a random half. The others are in the second.

    Views share no patch, so noise is never shared between them.
    """
    order = draws.uniform(count, patches)
    return order <= order.kthvalue(patches // 2, -1, keepdim=True).values

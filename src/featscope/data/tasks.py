"""Downstream tasks on hidden signals (Wen & Li 2021, Definition 3.1)."""

from jaxtyping import Float
from torch import Tensor

from featscope.streams import Draws


def linear_task(draws: Draws, features: int) -> Float[Tensor, "replica feature"]:
    """Task vectors w* with |w*_j| uniform on [1/2, 3/2] and random signs; labels are <w*, z> or its sign.

    The paper asks for |w*_j| = Θ(1); unequal sizes avoid ties, so that <w*, z> = 0 only where z = 0.
    """
    return (0.5 + draws.uniform(features)) * (2 * draws.coins(features) - 1)

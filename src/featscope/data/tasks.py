"""Downstream tasks on hidden signals (Wen & Li 2021, Definition 3.1)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.sparse_coding import SparseSample
from featscope.streams import Draws


def linear_task(draws: Draws, features: int) -> Float[Tensor, "replica feature"]:
    """Task vectors w* with |w*_j| uniform on [1/2, 3/2] and random signs; labels are <w*, z> or its sign.

    The paper asks for |w*_j| = Θ(1); unequal sizes avoid ties, so that <w*, z> = 0 only where z = 0.
    """
    return (0.5 + draws.uniform(features)) * (2 * draws.coins(features) - 1)


class LinearTask(nn.Module):
    """Labels y = <w*, z> of samples whose hidden signals z are known, in one task or in several.

    Args:
        vector: w*, see `linear_task`.
    """

    vector: Float[Tensor, "replica *task feature"]

    def __init__(self, vector: Float[Tensor, "replica *task feature"]) -> None:
        super().__init__()
        self.register_buffer("vector", vector)

    def forward(self, sample: SparseSample) -> Float[Tensor, "replica batch *task"]:
        """The label of each sample."""
        return torch.einsum("rbf,r...f->rb...", sample.codes, self.vector)

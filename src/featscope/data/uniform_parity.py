"""Parities of a few of many uniform signs (dissertation, Section B.5.5).

x uniform on {±1}^d;   y = Π_{l in A} x_l, |A| = k even
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data.labelled_gaussians import LabelledBatch
from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class UniformParity:
    """Options of `UniformParitySource`.

    Attributes:
        dimension: of inputs, d, odd.
        block: signs that count, k, even.
        shuffled: whether labels are other inputs', so that nothing can be learned.
    """

    dimension: int = 33
    block: int = 4
    shuffled: bool = False

    def __post_init__(self) -> None:
        require(self, "block", self.block >= 2 and self.block % 2 == 0, "even, >= 2")
        allowed = f"odd, > block + 1 = {self.block + 1}"
        require(self, "dimension", self.dimension > self.block + 1 and self.dimension % 2 == 1, allowed)

    def build(self, draws: Draws) -> "UniformParitySource":
        """A source with a random A."""
        places = draws.choice(self.dimension, self.block)
        inside = torch.zeros(len(places), self.dimension, dtype=torch.bool, device=places.device)
        return UniformParitySource(self, inside.scatter(1, places, True))


class UniformParitySource(nn.Module):
    """Draws inputs.

    Args:
        options: sizes.
        inside: whether a sign is in A.
    """

    inside: Bool[Tensor, "replica input"]

    def __init__(self, options: UniformParity, inside: Bool[Tensor, "replica input"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("inside", inside)

    @property
    def features(self) -> Float[Tensor, "replica block input"]:
        """D = Σ_{l in A} e_l/√k as the one block, float64."""
        return self.inside.double()[:, None] / self.options.block**0.5

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> LabelledBatch:
        """``count`` inputs for each replica; their part is -1."""
        x = 2 * draws.coins(count, self.options.dimension, dtype=dtype) - 1
        y = x.where(self.inside[:, None], 1).prod(-1)
        if self.options.shuffled:
            y = 2 * draws.coins(count, dtype=dtype) - 1
        return LabelledBatch(x, y, torch.full(y.shape, -1, dtype=torch.long, device=y.device))

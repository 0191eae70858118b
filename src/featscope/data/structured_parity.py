"""Parities of blocks of hidden signs, with inputs whose structure shows the blocks (dissertation, Section B.5.4).

x = M φ, M orthonormal;   y = sign(Σ_j Π_{l in A_j} φ_l)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.labelled_gaussians import LabelledBatch, orthonormal
from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class StructuredParity:
    """Options of `StructuredParitySource`.

    Attributes:
        dimension: of inputs, d.
        block: signs in a block, k, odd.
        blocks: r, odd.
        tuned: chance that one block is all +1 (and as much that it is all -1) while the others are 0, p_A, the same
            for each block; else all blocks are random signs.
        other: chance of +1 (and of -1) of each sign off the blocks, p_o; else it is 0.
    """

    dimension: int = 30
    block: int = 5
    blocks: int = 1
    tuned: float = 0.25
    other: float = 0.1

    def __post_init__(self) -> None:
        require(self, "block", self.block >= 1 and self.block % 2 == 1, "odd")
        require(self, "blocks", self.blocks >= 1 and self.blocks % 2 == 1, "odd")
        signs = self.block * self.blocks
        require(self, "dimension", self.dimension >= signs, f">= block x blocks = {signs}")
        require(self, "tuned", 0 <= self.tuned <= 0.5 / self.blocks, f">= 0 and <= 1/2 over blocks = {self.blocks}")
        require(self, "other", 0 <= self.other <= 0.5, ">= 0 and <= 1/2")

    def build(self, draws: Draws) -> "StructuredParitySource":
        """A source with a random M."""
        return StructuredParitySource(self, orthonormal(draws, self.dimension, self.dimension))


class StructuredParitySource(nn.Module):
    """Draws inputs.

    Args:
        options: sizes and chances.
        dictionary: columns of M as rows; the first k r of them are the blocks', one block after another.
    """

    dictionary: Float[Tensor, "replica input input"]

    def __init__(self, options: StructuredParity, dictionary: Float[Tensor, "replica input input"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("dictionary", dictionary)

    @property
    def features(self) -> Float[Tensor, "replica block input"]:
        """D_j = Σ_{l in A_j} M_l/√k, float64."""
        k, r = self.options.block, self.options.blocks
        return self.dictionary[:, : k * r].unflatten(1, (r, k)).sum(2) / k**0.5

    @property
    def bends(self) -> Float[Tensor, "bend"]:
        """Values (k - 2 j)/√k that <D, x> takes, where a wave with the labels bends."""
        k = self.options.block
        return torch.arange(k, -k - 1, -2) / k**0.5

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> LabelledBatch:
        """``count`` inputs for each replica; their part is the block that is tuned, or -1."""
        options = self.options
        k, r, d = options.block, options.blocks, options.dimension
        signs = 2 * draws.coins(count, r, k, dtype=dtype) - 1
        chance = draws.uniform(count, dtype=torch.float64)
        chosen = (chance / options.tuned).floor().long() if options.tuned else torch.full_like(chance, 2 * r).long()
        part = torch.where(chosen < 2 * r, chosen // 2, -1)
        one = torch.nn.functional.one_hot(part.clamp(min=0), r).to(dtype) * (1 - 2 * (chosen % 2).to(dtype))[..., None]
        signs = torch.where((part >= 0)[..., None, None], one[..., None].expand_as(signs), signs)
        y = signs.prod(-1).sum(-1).sign()
        off = draws.uniform(count, d - r * k, dtype=dtype)
        rest = (off < options.other).to(dtype) - (off >= 1 - options.other).to(dtype)
        return LabelledBatch(torch.cat([signs.flatten(-2), rest], -1) @ self.dictionary.to(dtype), y, part)

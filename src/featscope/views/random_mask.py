"""RandomMask: two views that share no coordinate (Wen & Li 2021, Definition 2.3)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.streams import Draws


@dataclass(frozen=True)
class RandomMask:
    """Split the coordinates of each sample at random: x⁺ = 2 D x and x⁺⁺ = 2 (I - D) x.

    D is diagonal with independent fair 0/1 entries, drawn anew for each sample. The factor 2 keeps the mean:
    E[x⁺ | x] = x. The halves share no noise coordinate, so noise cannot tell that they belong together; a
    feature that is spread over many coordinates survives in both.
    """

    def __call__(
        self, x: Float[Tensor, "*batch"], draws: Draws | None = None
    ) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
        """The two views; their sum is 2 x.

        Args:
            x: samples of any shape, with the replica axis of ``draws`` in front.
            draws: where coins come from. None for a plain batch: torch's global generator.

        Raises:
            ValueError: samples have not the replica axis of ``draws`` in front, or are whole numbers, whose double may
                not be one of theirs.
        """
        if not x.is_floating_point():
            raise ValueError(f"samples are {x.dtype}: allowed are floating-point numbers. Divide bytes by 255.")
        if draws is not None:
            return draws.halves(x)
        doubled = 2 * x
        anchor = doubled * torch.randint_like(x, 2)
        return anchor, doubled.sub_(anchor)

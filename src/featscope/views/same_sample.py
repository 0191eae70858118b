"""No augmentation: both members of the pair are the sample itself."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from featscope.streams import Draws


@dataclass(frozen=True)
class SameSample:
    """The identity pair x⁺ = x⁺⁺ = x (Wen & Li 2021, learning without augmentation)."""

    def __call__(
        self, x: Float[Tensor, "replica batch *input"], draws: Draws
    ) -> tuple[Float[Tensor, "replica batch *input"], Float[Tensor, "replica batch *input"]]:
        """The sample, twice."""
        return x, x

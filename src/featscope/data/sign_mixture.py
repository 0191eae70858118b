"""2^k Gaussians at the corners of a cube, labelled by the parity of their signs (dissertation, Appendix A.7.3)."""

from dataclasses import dataclass
from itertools import product
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.labelled_gaussians import LabelledBatch, orthonormal
from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class SignMixture:
    """Options of `SignMixtureSource`.

    Attributes:
        dimension: of inputs, d.
        directions: k, at most 10.
        noise: σ_r; the noise has the length σ_r √k, about, where centres have √k.
    """

    dimension: int = 100
    directions: int = 4
    noise: float = 1.0

    def __post_init__(self) -> None:
        require(self, "directions", 1 <= self.directions <= 10, "1 to 10")
        require(self, "dimension", self.dimension >= self.directions, f">= directions = {self.directions}")
        require(self, "noise", self.noise > 0, "> 0")

    def build(self, draws: Draws) -> "SignMixtureSource":
        """A source with random directions."""
        return SignMixtureSource(self, orthonormal(draws, self.dimension, self.directions))


class SignMixtureSource(nn.Module):
    """x = Σ ε_i M_i + g, ε_i = ±1 and g ~ N(0, σ_r² k/d I), with the label Π ε_i (A.288).

    Args:
        options: sizes.
        patterns: M_i, orthonormal.
    """

    patterns: Float[Tensor, "replica k input"]
    signs: Float[Tensor, "centre k"]

    def __init__(self, options: SignMixture, patterns: Float[Tensor, "replica k input"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("patterns", patterns)
        corners = torch.tensor(list(product((1.0, -1.0), repeat=options.directions)), dtype=patterns.dtype)
        self.register_buffer("signs", corners.to(patterns.device), persistent=False)  # the same for all replicas

    @property
    def centres(self) -> Float[Tensor, "replica centre input"]:
        """Σ ±M_i, of length √k."""
        return self.signs @ self.patterns

    @property
    def labels(self) -> Float[Tensor, " centre"]:
        """Of each centre."""
        return self.signs.prod(-1)

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> LabelledBatch:
        """``count`` inputs for each replica; their part is their centre."""
        o = self.options
        part = (draws.uniform(count) * len(self.signs)).long().clamp(max=len(self.signs) - 1)
        noise = o.noise * sqrt(o.directions / o.dimension) * draws.normal(count, o.dimension, dtype=dtype)
        where = part[..., None].expand(-1, -1, o.dimension)
        return LabelledBatch(self.centres.to(dtype).gather(1, where) + noise, self.labels.to(dtype)[part], part)

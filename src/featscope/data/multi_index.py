"""Polynomials of few directions of Gaussian inputs (dissertation, Section B.5.7).

x ~ N(0, I_d);   g*(x) a polynomial of <u_1, x>, ..., <u_r, x>, u orthonormal, with E[g*²] = 1
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.data.labelled_gaussians import orthonormal
from featscope.options import require
from featscope.streams import Draws


class RegressionSample(NamedTuple):
    """Inputs and what is asked of them.

    Attributes:
        x: inputs.
        y: g*(x).
    """

    x: Float[Tensor, "replica batch input"]
    y: Float[Tensor, "replica batch"]


@dataclass(frozen=True)
class MultiIndex:
    """Options of `MultiIndexSource`. Shares of the variance E[g*²] = 1 are of Hermite polynomials of one degree each.

    Attributes:
        dimension: d.
        directions: r.
        constant: share of the constant.
        linear: share of a linear part along the first direction.
        quadratic: share of Σ ±(<u_j, x>² - 1), with as many plus as minus signs, or one more plus.
        cubic: share of Σ (<u_j, x>³ - 3 <u_j, x>).
    """

    dimension: int = 30
    directions: int = 2
    constant: float = 0.0
    linear: float = 0.0
    quadratic: float = 1.0
    cubic: float = 0.0

    def __post_init__(self) -> None:
        require(self, "dimension", self.dimension >= 2, ">= 2")
        require(self, "directions", 1 <= self.directions <= self.dimension, f"1 to dimension = {self.dimension}")
        shares = (self.constant, self.linear, self.quadratic, self.cubic)
        fine = min(shares) >= 0 and abs(sum(shares) - 1) < 1e-9
        require(self, "quadratic", fine, "such that constant, linear, quadratic and cubic are >= 0 and sum to 1")

    @property
    def of_residual(self) -> float:
        """The quadratic part's share of the variance that is left without constant and linear part."""
        left = self.quadratic + self.cubic
        return self.quadratic / left if left else 0.0

    def build(self, draws: Draws) -> "MultiIndexSource":
        """A source with random directions."""
        return MultiIndexSource(self, orthonormal(draws, self.dimension, self.directions))


class MultiIndexSource(nn.Module):
    """Draws inputs.

    Args:
        options: sizes and shares.
        features: u_j, float64.
    """

    features: Float[Tensor, "replica direction input"]

    def __init__(self, options: MultiIndex, features: Float[Tensor, "replica direction input"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("features", features)

    @property
    def sides(self) -> Float[Tensor, " direction"]:
        """Signs of the quadratic part."""
        return 1.0 - 2 * (torch.arange(self.options.directions, device=self.features.device) % 2).double()

    @property
    def hessian(self) -> Float[Tensor, "replica input input"]:
        """H = E[∇² g*], float64."""
        scale = (2 * self.options.quadratic / self.options.directions) ** 0.5
        return scale * (self.features.mT * self.sides) @ self.features

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> RegressionSample:
        """``count`` inputs for each replica."""
        options, r = self.options, self.options.directions
        x = draws.normal(count, options.dimension, dtype=dtype)
        z = x @ self.features.to(dtype).mT
        y = options.constant**0.5 + options.linear**0.5 * z[..., 0]
        y = y + (options.quadratic / (2 * r)) ** 0.5 * ((z.square() - 1) * self.sides.to(dtype)).sum(-1)
        return RegressionSample(x, y + (options.cubic / (6 * r)) ** 0.5 * (z**3 - 3 * z).sum(-1))

"""Two classes of Gaussians: linear data with a margin, and mixtures (dissertation, Sections B.5.1 to B.5.3)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.data.frames import orthonormal_columns
from featscope.numbers import running_sum
from featscope.options import require
from featscope.streams import Draws


class LabelledBatch(NamedTuple):
    """Inputs of two classes.

    Attributes:
        x: inputs.
        y: labels, -1 or 1.
        part: which part of the law each input is from (a component, a block); -1 where it is of none.
    """

    x: Float[Tensor, "replica batch input"]
    y: Float[Tensor, "replica batch"]
    part: Int[Tensor, "replica batch"]


def orthonormal(draws: Draws, dimension: int, count: int) -> Float[Tensor, "replica direction input"]:
    """``count`` random orthonormal directions, float64, see `orthonormal_columns`."""
    return orthonormal_columns(draws, dimension, count).mT.contiguous()


@dataclass(frozen=True)
class LinearMargin:
    """Options of `LinearMarginSource`.

    Attributes:
        dimension: of inputs, d.
        margin: the least y <w*, x>, β.
        mean: the mean of it, ρ.
    """

    dimension: int = 100
    margin: float = 0.5
    mean: float = 2.0

    def __post_init__(self) -> None:
        require(self, "dimension", self.dimension >= 2, ">= 2")
        require(self, "margin", self.margin > 0, "> 0")
        require(self, "mean", self.mean >= self.margin, f">= margin = {self.margin}")

    def build(self, draws: Draws) -> "LinearMarginSource":
        """A source with a random w*."""
        return LinearMarginSource(self, orthonormal(draws, self.dimension, 1))


class LinearMarginSource(nn.Module):
    """Linear data x = y u w* + z, u uniform on [β, 2ρ - β] and z ~ N(0, I) orthogonal to w* (Section B.5.1).

    Args:
        options: margin and mean.
        features: w*, of norm 1.
    """

    features: Float[Tensor, "replica 1 input"]

    def __init__(self, options: LinearMargin, features: Float[Tensor, "replica 1 input"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("features", features)

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> LabelledBatch:
        """``count`` inputs for each replica."""
        w = self.features.to(dtype)
        y = 2 * draws.coins(count, dtype=dtype) - 1
        beta, rho = self.options.margin, self.options.mean
        u = beta + 2 * (rho - beta) * draws.uniform(count, dtype=dtype)
        z = draws.normal(count, self.options.dimension, dtype=dtype)
        z = z - (z @ w.mT) * w
        return LabelledBatch(z + (y * u)[..., None] * w, y, torch.zeros_like(y, dtype=torch.long))


@dataclass(frozen=True)
class GaussianMixture:
    """Options of `GaussianMixtureSource`. The default has XOR labels (Section B.5.3); see `xor`.

    Attributes:
        dimension: of inputs, d.
        axes: on which of some random orthonormal directions the mean of each component lies, from 1; with a minus on
            its other side.
        labels: of each component, -1 or 1.
        norms: ‖μ_j‖ of each; √d for all if empty.
        weights: p_j of each; all the same if empty.
        spread: standard deviation of every component, σ_B.
    """

    dimension: int = 100
    axes: tuple[int, ...] = (1, -1, 2, -2)
    labels: tuple[int, ...] = (1, 1, -1, -1)
    norms: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    spread: float = 1.0

    def __post_init__(self) -> None:
        count = len(self.axes)
        on_axes = count >= 2 and all(1 <= abs(axis) <= self.dimension for axis in self.axes)
        require(self, "dimension", self.dimension >= 2, ">= 2")
        require(self, "axes", on_axes, f"two or more whole numbers but 0, at most dimension = {self.dimension}")
        known = len(self.labels) == count and set(self.labels) <= {-1, 1}
        require(self, "labels", known, f"-1 or 1 for each of the {count} axes")
        positive = all(norm > 0 for norm in self.norms)
        require(self, "norms", len(self.norms) in (0, count) and positive, f"empty, or {count} numbers > 0")
        shares = all(w > 0 for w in self.weights) and abs(sum(self.weights, -1.0)) < 1e-9
        require(self, "weights", not self.weights or (len(self.weights) == count and shares), f"empty, or {count} > 0")
        require(self, "spread", self.spread > 0, "> 0")

    def build(self, draws: Draws) -> "GaussianMixtureSource":
        """A source with random directions."""
        directions = orthonormal(draws, self.dimension, max(map(abs, self.axes)))
        signs = torch.tensor([1.0 if axis > 0 else -1.0 for axis in self.axes], dtype=torch.float64)
        features = directions[:, [abs(axis) - 1 for axis in self.axes]] * signs.to(directions.device)[:, None]
        return GaussianMixtureSource(self, features)


class GaussianMixtureSource(nn.Module):
    """A mixture of Gaussians with a label for each component (Sections B.5.2 and B.5.3).

    Args:
        options: the components.
        features: directions of the means, D_j.
    """

    features: Float[Tensor, "replica component input"]

    def __init__(self, options: GaussianMixture, features: Float[Tensor, "replica component input"]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("features", features)

    def _each(self, values: tuple[float, ...], default: float) -> Float[Tensor, " component"]:
        chosen = values or (default,) * len(self.options.axes)
        return torch.tensor(chosen, dtype=torch.float64, device=self.features.device)

    @property
    def labels(self) -> Float[Tensor, " component"]:
        """y_(j), float64."""
        return self._each(self.options.labels, 1.0)

    @property
    def weights(self) -> Float[Tensor, " component"]:
        """p_j, float64."""
        return self._each(self.options.weights, 1 / len(self.options.axes))

    @property
    def norms(self) -> Float[Tensor, " component"]:
        """‖μ_j‖, float64."""
        return self._each(self.options.norms, self.options.dimension**0.5)

    @property
    def means(self) -> Float[Tensor, "replica component input"]:
        """μ_j, float64."""
        return self.features * self.norms[:, None]

    def sample(self, draws: Draws, count: int, dtype: torch.dtype = torch.float32) -> LabelledBatch:
        """``count`` inputs for each replica."""
        uniform = draws.uniform(count, dtype=torch.float64)
        part = torch.searchsorted(running_sum(self.weights, 0)[:-1].contiguous(), uniform)
        x = self.options.spread * draws.normal(count, self.options.dimension, dtype=dtype)
        means = self.means.to(dtype)
        x += means.gather(1, part[..., None].expand(-1, -1, means.shape[-1]))
        return LabelledBatch(x, self.labels.to(dtype)[part], part)

"""Two ways down the loss of infinitely many prompts: alternating least squares, and gradient descent."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from featscope.data import RegressionPrompts
from featscope.models import LowRankRegressors
from featscope.options import require
from featscope.streams import Draws


def random_factors(draws: Draws, dimension: int, scale: float) -> list[Float[Tensor, "replica rank d d"]]:
    """W_K and W_Q of every rank, 0 to d: normal with standard deviation ``scale``, rows beyond the rank zero."""
    rows = torch.ones(dimension + 1, dimension, dtype=torch.float64, device=draws.device).tril(-1)[..., None]
    return [scale * draws.normal(dimension + 1, dimension, dimension, dtype=rows.dtype) * rows for _ in range(2)]


@dataclass(frozen=True)
class Population:
    """Options of `PopulationLoss`.

    Attributes:
        data: the prompts.
        by: "least-squares": each factor in turn set to its best; "descent": gradient descent on both.
        at_a_time: iterations in a step.
        rate: step size of descent.
        scale: standard deviation of the factors at the start.
    """

    data: RegressionPrompts = field(default_factory=RegressionPrompts)
    by: Literal["least-squares", "descent"] = "least-squares"
    at_a_time: int = 50
    rate: float = 0.4
    scale: float = 0.05

    def __post_init__(self) -> None:
        require(self, "at_a_time", self.at_a_time >= 1, ">= 1")
        require(self, "rate", self.rate > 0, "> 0")
        require(self, "scale", self.scale > 0, "> 0")

    def build(self, draws: Draws) -> "PopulationLoss":
        """All ranks at their starts."""
        return PopulationLoss(self, draws)


class PopulationLoss(nn.Module):
    """Models of every rank on their way.

    Args:
        options: what is done.
        draws: for eigenvectors and starts.
    """

    def __init__(self, options: Population, draws: Draws) -> None:
        super().__init__()
        self.options, self.source = options, options.data.build(draws)
        self.model = LowRankRegressors(*random_factors(draws, options.data.dimension, options.scale))
        covariance = self.source.covariance[:, None]
        n, total = options.data.samples, self.source.spectrum.sum()
        unit = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        gamma = (1 + 1 / n) * covariance + total / n * unit
        self.register_buffer("covariance", covariance)
        self.register_buffer("weighted", gamma @ covariance)

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """It goes on for as many steps as it is given."""
        return torch.zeros(len(self.get_buffer("covariance")), 1, dtype=torch.bool, device=self.source.spectrum.device)

    def forward(self, draws: Draws) -> None:
        """Some iterations."""
        covariance, weighted = self.get_buffer("covariance"), self.get_buffer("weighted")
        square = covariance @ covariance
        key, query = self.model.key.data, self.model.query.data
        for _ in range(self.options.at_a_time):
            if self.options.by == "least-squares":
                query = _inverse(key @ weighted @ key.mT) @ key @ covariance
                key = _inverse(query @ covariance @ query.mT) @ query @ square @ torch.linalg.inv(weighted)
            else:
                gradient = weighted @ key.mT @ query @ covariance - square
                key, query = (
                    key - self.options.rate * query @ gradient.mT,
                    query - self.options.rate * key @ gradient,
                )
        self.model.key.data.copy_(key)
        self.model.query.data.copy_(query)


def _inverse(gram: Float[Tensor, "replica rank d d"]) -> Float[Tensor, "replica rank d d"]:
    """Of the rows and columns that are not zero."""
    empty = (gram.diagonal(dim1=-2, dim2=-1) == 0).to(gram)
    return torch.linalg.inv(gram + torch.diag_embed(empty)) - torch.diag_embed(empty)

"""Models that are trained on sampled prompts: of every rank side by side, or one layer with all its blocks free."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.models import LinearSelfAttention, LowRankRegressors
from featscope.options import require
from featscope.streams import Draws
from featscope.studies.icl_regression.population import random_factors
from featscope.training.objectives import Ready

_START = 0.3


@dataclass(frozen=True)
class EveryRank:
    """Options of `LowRankRegressors` at a random start.

    Attributes:
        scale: standard deviation of the factors.
    """

    scale: float = _START

    def build(self, source: Any, draws: Draws) -> LowRankRegressors:
        """Models of rank 0 to d."""
        return LowRankRegressors(*random_factors(draws, source.options.dimension, self.scale))


@dataclass(frozen=True)
class AllBlocks:
    """Options of `LinearSelfAttention` at a random start, u = 1.

    Attributes:
        rank: r, of W_KQ; or of its block U alone.
        of_block: whether of the block alone.
        scale: standard deviation of all other weights.
    """

    rank: int = 1
    of_block: bool = False
    scale: float = _START

    def build(self, source: Any, draws: Draws) -> LinearSelfAttention:
        """The layer."""
        d = source.options.dimension
        require(self, "rank", 1 <= self.rank <= d, f"1 to dimension = {d}")
        value, key, query, label = (
            self.scale * draws.normal(*shape, dtype=torch.float64)
            for shape in ((d + 1,), (self.rank, d + 1), (self.rank, d), (d,))
        )
        value[:, -1] = 1
        return LinearSelfAttention(value, key, query, label if self.of_block else None)


@dataclass(frozen=True)
class SquaredError(Ready):
    """Half the mean squared error over fresh prompts, the sum over models where several stand side by side.

    Attributes:
        prompts: in a batch, B.
    """

    prompts: int = 256

    def __post_init__(self) -> None:
        require(self, "prompts", self.prompts >= 1, ">= 1")

    def __call__(self, learner: nn.Module, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        prompts, targets = source.sample(draws, self.prompts)
        answers: Tensor = learner(prompts)
        off = answers - (targets if answers.ndim == 2 else targets[:, None])
        return off.square().mean(-1).flatten(1).sum(1) / 2 if answers.ndim == 3 else off.square().mean(-1) / 2

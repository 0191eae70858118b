"""Contrastive training of a linear representation within bounds on its norms."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from featscope.data import TaskFeatures, TaskFeatureSource
from featscope.numbers import per_replica
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.training import GradientTraining, Measurement

_ROUNDS = 5  # of projections on the ball around W* and on the spectral ball
_LEAST = 1e-300
_BISECTIONS = 40


@dataclass(frozen=True)
class LinearRepresentation:
    """Options of `LinearRepresentationNetwork`.

    Attributes:
        start: "random"; "joint", the optimum of an even mixture as the text has it; "superposed", the one that has the
            private features of all tasks in the same outputs.
    """

    start: Literal["random", "joint", "superposed"] = "random"

    def __post_init__(self) -> None:
        require(self, "start", self.start in ("random", "joint", "superposed"), "random, joint or superposed")

    def build(self, source: TaskFeatureSource, draws: Draws) -> "LinearRepresentationNetwork":
        """The network."""
        o = source.options
        normal = draws.normal(o.invariant, o.features, dtype=torch.float64)
        if self.start == "random":
            return LinearRepresentationNetwork(normal.float() / sqrt(o.features))
        q, _ = torch.linalg.qr(normal[..., : o.invariant])  # any rotation of outputs would do
        matrix = q @ (diagonal(o) if self.start == "joint" else superposed(o)).to(q)
        return LinearRepresentationNetwork((matrix @ source.dictionary.mT).float())


def diagonal(o: TaskFeatures) -> Float[Tensor, "k d"]:
    """A* of Proposition F.8 beside zeros for spurious features."""
    weights = torch.full((o.invariant,), o.tasks**-0.5, dtype=torch.float64)
    weights[: o.shared] = 1
    return torch.cat([weights.diag(), torch.zeros(o.invariant, o.spurious, dtype=torch.float64)], -1)


def superposed(o: TaskFeatures) -> Float[Tensor, "k d"]:
    """The same weights, with every task's private features in the outputs after the shared ones; r rows are not 0."""
    found = torch.zeros(o.invariant, o.features, dtype=torch.float64)
    found[: o.shared, : o.shared] = torch.eye(o.shared)
    for task in range(o.tasks):
        found[o.shared : o.rank, o.own(task)] = o.tasks**-0.5 * torch.eye(o.private, dtype=torch.float64)
    return found


class LinearRepresentationNetwork(nn.Module):
    """φ(x) = W x."""

    def __init__(self, matrix: Float[Tensor, "replica k d"]) -> None:
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, x: Float[Tensor, "replica n d"]) -> Float[Tensor, "replica n k"]:
        """φ."""
        return x @ self.matrix.mT


@dataclass(frozen=True)
class PairLoss:
    """Options of `PairLossOf`: ℓ(φ(x)ᵀ φ(x⁺)), as the mean over negatives, E φ(x⁻), is 0.

    Attributes:
        batch: pairs.
        loss: ℓ, "logistic" or "exponential".
    """

    batch: int = 1024
    loss: Literal["logistic", "exponential"] = "logistic"

    def __post_init__(self) -> None:
        require(self, "batch", self.batch >= 2, ">= 2")
        require(self, "loss", self.loss in ("logistic", "exponential"), "logistic or exponential")

    def build(self, source: TaskFeatureSource, learner: nn.Module, streams: Streams) -> "PairLossOf":
        """The loss."""
        return PairLossOf(self)


class PairLossOf(nn.Module):
    """`PairLoss` at work."""

    def __init__(self, options: PairLoss) -> None:
        super().__init__()
        self.options = options

    def forward(self, learner: nn.Module, source: TaskFeatureSource, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        x, other = source.pairs(draws, self.options.batch)
        agreement = (learner(x) * learner(other)).sum(-1)
        values = softplus(-agreement) if self.options.loss == "logistic" else (-agreement).exp()
        return values.mean(-1)


@dataclass(frozen=True)
class NormBounds:
    """A rule: ‖W‖ <= 1 and ‖W‖_F <= √r, by projection of singular values."""

    def build(self, experiment: Any) -> "NormBoundsRule":
        """The rule."""
        return NormBoundsRule()


class NormBoundsRule(nn.Module):
    """`NormBounds` at work."""

    def forward(self, experiment: Any, step: int) -> None:
        """Project."""
        matrix = experiment.learner.matrix
        matrix.copy_(within(matrix, experiment.source.options.rank))


def within(matrix: Float[Tensor, "replica k d"], rank: int) -> Float[Tensor, "replica k d"]:
    """The nearest matrix with ‖W‖ <= 1 and ‖W‖_F² <= ``rank``: singular values min(1, σ/(1 + μ))."""
    values, u, wide = _singular(matrix)
    low = torch.zeros_like(values[:, :1])
    high = values.norm(dim=-1, keepdim=True)  # at this μ the Frobenius norm is below 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = (values / (1 + middle)).clamp(max=1).square().sum(-1, keepdim=True) > rank
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    loose = values.clamp(max=1).square().sum(-1, keepdim=True) <= rank
    by = torch.minimum(1 / (1 + torch.where(loose, 0, high)), 1 / values)
    return ((u * by[:, None]) @ (u.mT @ wide)).to(matrix)


def _singular(matrix: Float[Tensor, "replica k d"]) -> tuple[Tensor, Tensor, Tensor]:
    """Singular values, left singular vectors, and the matrix, all float64.

    From its Gram matrix: an SVD may not converge where many singular values are 1, as they are here.
    """
    wide = matrix.double()
    squares, u = torch.linalg.eigh(wide @ wide.mT)
    return squares.clamp_min(_LEAST).sqrt(), u, wide


@dataclass(frozen=True)
class NearStart:
    """A rule: ‖W - W*‖_F <= γ around where it began, and ‖W‖ <= 1 (F.105).

    Attributes:
        gamma: γ.
    """

    floats_per_replica: ClassVar[bool] = True

    gamma: float = 0.5

    def __post_init__(self) -> None:
        require(self, "gamma", self.gamma > 0, "> 0")

    def build(self, experiment: Any) -> "NearStartRule":
        """The rule."""
        return NearStartRule(self, experiment.learner.matrix)


class NearStartRule(nn.Module):
    """`NearStart` at work."""

    start: Float[Tensor, "replica k d"]

    def __init__(self, config: NearStart, matrix: Float[Tensor, "replica k d"]) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("start", matrix.detach().clone())

    def forward(self, experiment: Any, step: int) -> None:
        """Project on one and the other by turns."""
        matrix = experiment.learner.matrix.detach().clone()
        for _ in range(_ROUNDS):
            way = matrix - self.start
            most = per_replica(self.config.gamma, way)
            matrix = self.start + way * (most / way.norm(dim=(-2, -1), keepdim=True)).clamp(max=1)
            values, u, wide = _singular(matrix)
            matrix = ((u * (1 / values).clamp(max=1)[:, None]) @ (u.mT @ wide)).to(matrix)
        experiment.learner.matrix.copy_(matrix)


def gram(experiment: GradientTraining) -> Float[Tensor, "replica d d"]:
    """G = (W M)ᵀ (W M), float64: squared weights of features on its diagonal."""
    made = experiment.learner.matrix.detach().double() @ experiment.source.dictionary
    return made.mT @ made


@torch.no_grad()
def progress(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Squared weights of each kind of feature, on the way."""
    o = experiment.source.options
    weights = gram(experiment).diagonal(dim1=-2, dim2=-1)
    private = torch.stack([weights[:, o.own(task)].mean(-1) for task in range(o.tasks)], -1)
    return {
        "shared": Measurement(weights[:, : o.shared].mean(-1), "mean squared weight of shared features"),
        "private": Measurement(private, "mean squared weight of a task's private features", ("task",)),
        "spurious": Measurement(weights[:, o.invariant :].mean(-1), "mean squared weight of spurious features"),
    }


@torch.no_grad()
def ended(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """The Gram matrix of the features, and norms of W."""
    values = torch.linalg.svdvals(experiment.learner.matrix.double())
    return {
        "gram": Measurement(gram(experiment), "(W M)ᵀ (W M)", ("feature", "other")),
        "spectral": Measurement(values[:, 0], "largest singular value of W"),
        "frobenius": Measurement(values.square().sum(-1), "squared Frobenius norm of W"),
    }

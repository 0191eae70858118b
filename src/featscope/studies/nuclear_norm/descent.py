"""Gradient descent on features A x and a linear head, with and without the nuclear norm of the features."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from featscope.data import SpuriousSource
from featscope.losses import NuclearNorm
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.studies.nuclear_norm.convex import Penalty, minimiser
from featscope.training import GradientTraining, Measurement

SCALE = 10.0
"""By which features are made smaller and the head larger."""


@dataclass(frozen=True)
class LinearFeatures:
    """Options of `LinearFeatureNetwork`; what is trained is standard normal at the start.

    Attributes:
        outputs: k, features.
        free_head: whether the head is trained; if not, it is all ones.
    """

    outputs: int = 2
    free_head: bool = True

    def __post_init__(self) -> None:
        require(self, "outputs", self.outputs >= 1, ">= 1")

    def build(self, source: SpuriousSource, draws: Draws) -> "LinearFeatureNetwork":
        """The network."""
        matrix, head = draws.normal(self.outputs, source.options.features), draws.normal(self.outputs)
        return LinearFeatureNetwork(matrix, head if self.free_head else torch.ones_like(head), self.free_head)


class LinearFeatureNetwork(nn.Module):
    """Φ(x) = A x and aᵀ Φ(x).

    Attributes:
        matrix: A.
        head: a.
    """

    def __init__(self, matrix: Float[Tensor, "replica k d"], head: Float[Tensor, "replica k"], free_head: bool) -> None:
        super().__init__()
        self.matrix, self.head = nn.Parameter(matrix), nn.Parameter(head, requires_grad=free_head)

    @property
    def weights(self) -> Float[Tensor, "replica d"]:
        """w = Aᵀ a."""
        return (self.head[:, None] @ self.matrix)[:, 0]

    def forward(self, z: Float[Tensor, "replica n d"]) -> Float[Tensor, "replica n k"]:
        """Φ."""
        return z @ self.matrix.mT


@dataclass(frozen=True)
class PenalisedRisk:
    """Options of `PenalisedRiskLoss`.

    Attributes:
        strength: λ of `NuclearNorm`, divided by the root of the rows.
        samples: in the one batch that is trained on.
    """

    strength: float = 0.0
    samples: int = 1000

    def __post_init__(self) -> None:
        require(self, "strength", self.strength >= 0, ">= 0")
        require(self, "samples", self.samples >= 2, ">= 2")

    def build(self, source: SpuriousSource, learner: nn.Module, streams: Streams) -> "PenalisedRiskLoss":
        """The loss, its batch drawn."""
        return PenalisedRiskLoss(self, source.sample(streams.at("sample"), self.samples).float())


class PenalisedRiskLoss(nn.Module):
    """Mean logistic loss and λ ‖Φ(X)‖_*/√n, always of the same batch."""

    finite: ClassVar[bool] = True
    z: Float[Tensor, "replica n d"]

    def __init__(self, options: PenalisedRisk, z: Float[Tensor, "replica n d"]) -> None:
        super().__init__()
        self.penalty = NuclearNorm(options.strength, "batch")
        self.register_buffer("z", z)

    def parts(self, learner: LinearFeatureNetwork, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        """Loss and penalty of each replica, with features divided and the head multiplied by ``scale``."""
        features = learner(self.z) / scale
        margins = (features @ (scale * learner.head)[..., None])[..., 0]
        return softplus(-margins).mean(-1), self.penalty(features)

    def forward(self, learner: Any, source: Any, draws: Draws) -> Float[Tensor, "replica"]:
        """The loss of each replica."""
        loss, penalty = self.parts(learner)
        return loss + penalty if self.penalty.weight else loss


@torch.no_grad()
def progress(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Tilt, accuracy out of domain, and singular values of the features on the way."""
    learner: LinearFeatureNetwork = experiment.learner
    w = learner.weights.double()
    tilt = w[:, 1] / w[:, 0]
    values = torch.linalg.svdvals(learner(experiment.objective.z).double())
    outside = accuracy_out_of_domain(experiment, w)
    return {
        "tilt": Measurement(tilt, "w_2/w_1"),
        "ood_accuracy": Measurement(outside, "accuracy out of domain"),
        "rank_one": Measurement(values[:, 1] / values[:, 0], "second singular value of the features over the first"),
        "head_norm": Measurement(learner.head.detach().double().norm(dim=-1), "‖a‖"),
    }


def accuracy_out_of_domain(experiment: GradientTraining, w: Float[Tensor, "replica 2"]) -> Tensor:
    """Accuracy out of domain of the boundary w z = 0, whatever its tilt, by the midpoint rule over |z_2|."""
    gamma, count = experiment.source.options.gamma, 1000
    found = torch.zeros_like(w[:, 0])
    size = (torch.arange(count).to(w) + 0.5) / count
    for side, chance in ((1, 0.5 - gamma), (-1, 0.5 + gamma)):
        edge = (-side * w[:, 1:] * size / w[:, :1]).clamp(0, 1)  # z_1 at the boundary
        found = found + chance * torch.where(w[:, :1] > 0, 1 - edge, edge).mean(1)
    return found


@torch.no_grad()
def ended(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """What smaller features with a larger head change, and how far the weights are from the convex optimum."""
    learner, objective = experiment.learner, experiment.objective
    loss, penalty = objective.parts(learner)
    scaled_loss, scaled_penalty = objective.parts(learner, SCALE)
    found = {
        "loss_change": Measurement((scaled_loss - loss).abs().double(), "change of the logistic loss"),
        "penalty_ratio": Measurement((scaled_penalty / penalty).double(), "penalty over the one before"),
        "penalty": Measurement(penalty.double(), "λ ‖Φ(X)‖_*/√n"),
        "final_loss": Measurement(loss.double(), "logistic loss"),
    }
    if not learner.head.requires_grad:
        z = objective.z.double()
        w = learner.weights.double()
        zero = torch.zeros(z.shape[-1]).to(z)
        best = []
        for one in range(len(z)):  # replicas may have heads of their own
            strength = float(objective.penalty.weight / learner.head[one].norm())
            square = z[one : one + 1].mT @ z[one : one + 1] / z.shape[1]
            best.append(minimiser(z[one : one + 1], Penalty(zero, zero, strength, square))[0])
        found["off_optimum"] = Measurement(
            (w - torch.stack(best)).norm(dim=-1) / torch.stack(best).norm(dim=-1),
            "distance of w to the convex optimum, over its norm",
        )
    return found

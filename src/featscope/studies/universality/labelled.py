"""What a few labels of a task teach on representations whose weights are known: errors, complexities, similarities."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.data import TaskFeatures
from featscope.data.frames import orthonormal_columns
from featscope.options import require
from featscope.streams import Draws
from featscope.studies.universality.pretraining import diagonal, superposed
from featscope.studies.untrained import Once, Quantity
from featscope.theory import universality as theory

SHARED, RANK = 10, 20
"""s and r."""
TASKS = (1, 4, 16, 64)
"""T that the representation was trained on."""
GAMMA = 0.5
"""Of fine-tuning, after 16 tasks."""
SAMPLES = (5, 10, 15, 25, 40, 160)
NOISE = (0.0, 0.5)
RANKS = (10, 20, 40, 80)
ROW = (1, 2, 4, 8, 16)
"""T of representations that are compared."""
_DRAWN, _BISECTIONS = 50, 50


def betas() -> list[float]:
    """Squared weights of private features: for each of `TASKS`, and after fine-tuning."""
    return [1 / t for t in TASKS] + [theory.finetuned_weight(16, GAMMA, RANK - SHARED)]


def ball_minimiser(
    x: Float[Tensor, "... m r"], y: Float[Tensor, "... m"], radius: Float[Tensor, "..."]
) -> Float[Tensor, "... r"]:
    """The least-squares fit with ‖u‖ <= ``radius``; of least norm where several are."""
    values, basis = torch.linalg.eigh(x.mT @ x)
    along = (basis.mT @ (x.mT @ y[..., None]))[..., 0]
    values = torch.where(values > 1e-10 * values[..., -1:], values, 0)
    free = torch.where(values > 0, along / torch.where(values > 0, values, 1), 0)
    low, high = torch.zeros_like(radius), along.norm(dim=-1) / radius  # at this ridge the norm is below the radius
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = (along / (values + middle[..., None]).clamp(min=1e-300)).norm(dim=-1) > radius
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    held = along / (values + high[..., None])
    inside = free.norm(dim=-1) <= radius * (1 + 1e-9)
    return (basis @ torch.where(inside[..., None], free, held)[..., None])[..., 0]


@dataclass(frozen=True)
class Labelled:
    """Options of `LabelledFitted`.

    Attributes:
        repeats: draws of a task and its samples.
        pairs: inputs on which representations are compared.
    """

    repeats: int = 60
    pairs: int = 4000

    def __post_init__(self) -> None:
        require(self, "repeats", self.repeats >= 2, ">= 2")
        require(self, "pairs", self.pairs >= 2, ">= 2")

    def build(self, draws: Draws) -> "LabelledFitted":
        """Before anything is drawn."""
        return LabelledFitted(self, draws)


class LabelledFitted(Once):
    """Predictors by least squares in the ball that holds the label, Rademacher complexities, and CKA."""

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "error": Quantity("mean absolute error", ("noise", "samples", "weight"), (2, len(SAMPLES), 5)),
        "complexity": Quantity("√m R_m", ("weight",), (5,)),
        "complexity_of_rank": Quantity("√m R_m for T = 4, r = 2s", ("rank",), (len(RANKS),)),
        "other_specific": Quantity("mean absolute error on another task, representation of one task"),
        "other_joint": Quantity("mean absolute error on another task, representation of four"),
        "row": Quantity("CKA with the representation of one task", ("tasks",), (len(ROW),)),
        "between": Quantity("CKA of representations of 4 and of 16 tasks"),
        "specifics": Quantity("CKA of representations of two single tasks"),
        "printed_variance": Quantity("variance of α_t Σ z_j over m α_t"),
        "mended_variance": Quantity("variance of √α_t Σ z_j over m α_t"),
    }

    def forward(self, draws: Draws) -> None:
        """Draw, fit, compare."""
        o = self.options
        error = torch.stack([torch.stack([self._errors(draws, n, m) for m in SAMPLES], 1) for n in NOISE], 1)
        private = RANK - SHARED
        one, four, sixteen = (self._weights(b, draws.device) for b in (1.0, 0.25, 1 / 16))
        z = draws.normal(o.pairs, RANK, dtype=torch.float64)
        other = torch.cat([torch.ones(SHARED), torch.zeros(private)]).to(z)
        sums = summed(draws, 400 * o.repeats)
        target = self._targets(draws)
        sample = draws.normal(o.repeats, 500, RANK, dtype=torch.float64)
        label = (sample @ target[..., None])[..., 0]
        blind = (ball_minimiser(sample * other, label, target.norm(dim=-1)) * other - target).norm(dim=-1)
        radius = ((target / four).square().sum(-1)).sqrt()
        seen = (ball_minimiser(sample * four, label, radius) * four - target).norm(dim=-1)
        self.keep(
            error=error,
            complexity=torch.stack([self._complexity(draws, SHARED, RANK, b) for b in betas()], -1),
            complexity_of_rank=torch.stack([self._complexity(draws, r // 2, r, 0.25) for r in RANKS], -1),
            other_specific=sqrt(2 / pi) * blind.mean(-1),
            other_joint=sqrt(2 / pi) * seen.mean(-1),
            row=torch.stack([similarity(z * one, z * self._weights(1 / t, draws.device)) for t in ROW], -1),
            between=similarity(z * four, z * sixteen),
            specifics=similarity(z * one, z * other),
            printed_variance=(0.25 * sums).var(-1) / (_DRAWN * 0.25),
            mended_variance=(0.5 * sums).var(-1) / (_DRAWN * 0.25),
        )

    def _weights(self, beta: float, device: torch.device) -> Float[Tensor, "r"]:
        found = torch.full((RANK,), sqrt(beta), dtype=torch.float64, device=device)
        found[:SHARED] = 1
        return found

    def _targets(self, draws: Draws) -> Float[Tensor, "replica repeat r"]:
        """u* with v_1 = v_2 = 1/2."""
        parts = draws.normal(self.options.repeats, RANK, dtype=torch.float64).split([SHARED, RANK - SHARED], -1)
        return torch.cat([part / part.norm(dim=-1, keepdim=True) for part in parts], -1) / sqrt(2)

    def _errors(self, draws: Draws, noise: float, samples: int) -> Float[Tensor, "replica weight"]:
        """Of all representations on the same samples: E|ŷ - y| = √(2/π) ‖A û - u*‖."""
        target = self._targets(draws)
        z = draws.normal(self.options.repeats, samples, RANK, dtype=torch.float64)
        label = (z @ target[..., None])[..., 0]
        label = label + noise * draws.normal(self.options.repeats, samples, dtype=torch.float64)
        found = []
        for beta in betas():
            weights = self._weights(beta, draws.device)
            fitted = ball_minimiser(z * weights, label, (target / weights).norm(dim=-1))
            found.append((fitted * weights - target).norm(dim=-1).mean(-1))
        return sqrt(2 / pi) * torch.stack(found, -1)

    def _complexity(self, draws: Draws, shared: int, rank: int, beta: float) -> Float[Tensor, "replica"]:
        """B E‖Σ σ_i φ(x_i)‖/√m over draws of signs and inputs."""
        repeats = 10 * self.options.repeats
        signs = 2 * draws.coins(repeats, _DRAWN, dtype=torch.float64) - 1
        z = draws.normal(repeats, _DRAWN, rank, dtype=torch.float64)
        weights = torch.cat([torch.ones(shared), torch.full((rank - shared,), sqrt(beta))]).to(z)
        sums = (signs[..., None, :] @ (z * weights))[..., 0, :].norm(dim=-1).mean(-1)
        return theory.least_norm(0.5, 0.5, 1.0, beta) * sums / sqrt(_DRAWN)


def similarity(x: Float[Tensor, "replica n p"], y: Float[Tensor, "replica n q"]) -> Float[Tensor, "replica"]:
    """Linear CKA: ‖YᵀX‖² over ‖XᵀX‖ ‖YᵀY‖, columns centred."""
    x, y = (one - one.mean(1, keepdim=True) for one in (x, y))
    across, first, second = (torch.linalg.matrix_norm(a.mT @ b) for a, b in ((y, x), (x, x), (y, y)))
    return across.square() / (first * second)


def summed(draws: Draws, count: int) -> Float[Tensor, "replica count"]:
    """Σ_i z_j of samples."""
    return draws.normal(count, _DRAWN, dtype=torch.float64).sum(-1)


@dataclass(frozen=True)
class TwoOptima:
    """Options of `TwoOptimaCompared`: W* as the text has it, and one that has all P_t in the same outputs.

    Attributes:
        data: features and tasks.
        batch: pairs on which losses are compared.
    """

    data: TaskFeatures = field(default_factory=TaskFeatures)
    batch: int = 2000

    def __post_init__(self) -> None:
        require(self, "batch", self.batch >= 1, ">= 1")

    def build(self, draws: Draws) -> "TwoOptimaCompared":
        """Before anything is drawn."""
        return TwoOptimaCompared(self, draws)


class TwoOptimaCompared(Once):
    """Losses of both on the same pairs, their norms, ranks and Gram matrices, and the predictors that they need."""

    quantities: ClassVar[Mapping[str, Quantity]] = {
        "loss_difference": Quantity("largest difference of the logistic loss of a pair"),
        "spectral": Quantity("largest singular value of the superposed W"),
        "frobenius": Quantity("its squared Frobenius norm"),
        "outputs": Quantity("its rank"),
        "diagonal_outputs": Quantity("rank of the text's W*"),
        "across_tasks": Quantity("largest entry of its Gram matrix between private features of two tasks"),
        "superposed_norm": Quantity("least norm of a predictor of a task on it"),
        "diagonal_norm": Quantity("least norm of a predictor of a task on the text's W*"),
        "formula_norm": Quantity("B_φ"),
        "free": Quantity("dimensions of predictors that do not change a task's predictions"),
    }

    def forward(self, draws: Draws) -> None:
        """Draw and compare."""
        o, data = self.options, self.options.data
        z, other = data.build(draws).hidden_pairs(draws, o.batch, torch.float64)
        turn = orthonormal_columns(draws, data.invariant, data.invariant)
        both = turn @ diagonal(data).to(z), turn @ superposed(data).to(z)
        losses = [torch.nn.functional.softplus(-((z @ w.mT) * (other @ w.mT)).sum(-1)) for w in both]
        values, gram = torch.linalg.svdvals(both[1]), both[1].mT @ both[1]
        target = draws.normal(data.rank, dtype=torch.float64)
        own = [*range(data.shared), *range(data.own(1).start, data.own(1).stop)]
        norms = [(torch.linalg.pinv(w[..., own]).mT @ target[..., None]).norm(dim=(-2, -1)) for w in both]
        parts = target.square().split([data.shared, data.private], -1)
        rank = torch.linalg.matrix_rank(both[0][..., own])
        self.keep(
            loss_difference=(losses[0] - losses[1]).abs().amax(-1),
            spectral=values[:, 0],
            frobenius=values.square().sum(-1),
            outputs=(values > 1e-9).sum(-1),
            diagonal_outputs=torch.linalg.matrix_rank(both[0]),
            across_tasks=gram[:, data.own(0), data.own(1)].abs().amax((-2, -1)),
            superposed_norm=norms[1],
            diagonal_norm=norms[0],
            formula_norm=theory.least_norm(parts[0].sum(-1), parts[1].sum(-1), 1.0, 1 / data.tasks),
            free=data.invariant - rank,
        )

"""Convex problems in the weights of linear features: the logistic loss of margins and a penalty, by Newton's method."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

_STEPS, _HALVINGS, _SMALL = 100, 40, 1e-9


class Penalty(NamedTuple):
    """ridge·w²/2 + linear·w + strength √(wᵀ Q w), one of each kind a replica.

    Attributes:
        ridge: of every weight.
        linear: of every weight.
        strength: of the norm.
        square: Q.
    """

    ridge: Float[Tensor, "k"]
    linear: Float[Tensor, "k"]
    strength: float
    square: Float[Tensor, "replica k k"]

    def at(self, w: Float[Tensor, "replica k"]) -> tuple[Tensor, Tensor, Tensor]:
        """Value, gradient and Hessian."""
        value = (self.ridge * w.square() / 2 + self.linear * w).sum(-1)
        gradient, hessian = self.ridge * w + self.linear, torch.diag(self.ridge).expand(len(w), -1, -1)
        if self.strength:
            along = (self.square @ w[..., None])[..., 0]
            norm = (along * w).sum(-1, keepdim=True).clamp(min=1e-30).sqrt()
            value = value + self.strength * norm[..., 0]
            gradient = gradient + self.strength * along / norm
            bent = self.square / norm[..., None] - along[..., None] * along[:, None] / norm[..., None] ** 3
            hessian = hessian + self.strength * bent
        return value, gradient, hessian


def decay(strength: float | Tensor, like: Float[Tensor, "replica n k"], counts: Tensor | None = None) -> Penalty:
    """λ/2 ‖w‖², each entry of w standing for ``counts`` equal weights (one if None)."""
    zero = torch.zeros(like.shape[-1]).to(like)
    ridge = strength * (torch.ones_like(zero) if counts is None else counts.to(like))
    return Penalty(ridge, zero, 0.0, torch.zeros(len(like), len(zero), len(zero)).to(like))


def risk(z: Float[Tensor, "replica n k"], w: Float[Tensor, "replica k"]) -> Float[Tensor, "replica"]:
    """Mean logistic loss."""
    return softplus(-(z @ w[..., None])[..., 0]).mean(-1)


def minimiser(
    z: Float[Tensor, "replica n k"], penalty: Penalty, start: Float[Tensor, "replica k"] | None = None
) -> Float[Tensor, "replica k"]:
    """The weights of least logistic loss and penalty, by Newton's method with halved steps.

    Args:
        z: features times labels.
        penalty: makes the minimiser unique; a norm is not smooth at w = 0, which must not be the minimiser.
        start: where to begin; a hundredth of the mean of ``z`` if None.
    """
    w = 0.01 * z.mean(1) if start is None else start
    for _ in range(_STEPS):
        pull = torch.sigmoid(-(z @ w[..., None])[..., 0])
        held, slope, bent = penalty.at(w)
        slope = slope - (z * pull[..., None]).mean(1)
        bent = bent + (z * (pull * (1 - pull))[..., None]).mT @ z / z.shape[1]
        eye = torch.eye(z.shape[-1]).to(z)
        step = torch.linalg.solve(bent + 1e-14 * eye, slope[..., None])[..., 0]
        fall = (slope * step).sum(-1)
        if bool((fall < _SMALL**2).all()):
            break
        before, size = risk(z, w) + held, torch.ones_like(fall)
        for _ in range(_HALVINGS):
            trial = w - size[:, None] * step
            short = risk(z, trial) + penalty.at(trial)[0] > before - 1e-4 * size * fall + 1e-15
            if not short.any():
                break
            size = torch.where(short, size / 2, size)
        w = w - size[:, None] * step
    return w


def nonnegative_minimiser(z: Float[Tensor, "replica n 2"], penalty: Penalty) -> Float[Tensor, "replica 2"]:
    """The same of two weights with the second one not below 0, where a penalty may hold it."""
    alone = Penalty(penalty.ridge[:1], penalty.linear[:1], penalty.strength, penalty.square[:, :1, :1])
    first = minimiser(z[..., :1], alone)
    edge = torch.cat([first, torch.zeros_like(first)], -1)
    pull = torch.sigmoid(-(z @ edge[..., None])[..., 0])
    slope = penalty.at(edge)[1][:, 1] - (z[..., 1] * pull).mean(1)
    if not bool((slope < 0).any()):
        return edge
    inside = minimiser(z, penalty, edge + 0.1 * first * torch.tensor([0.0, 1.0]).to(z))
    return torch.where((slope < 0)[:, None], inside, edge)

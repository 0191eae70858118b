"""Prediction heads that begin as the identity (Wen & Li 2022, Section 3.1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import require


@dataclass(frozen=True)
class IdentityInit:
    """A linear head E with E_jj = 1 throughout and all other entries 0 at first (Algorithm 1).

    Attributes:
        rate: η_E/η, the step size of the entries relative to that of all else under gradient descent. The theorem
            wants it below 1; other optimizers normalise it away.
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        require(self, "rate", self.rate > 0, "> 0", "For no head, take none.")

    def build(self, outputs: int, replicas: int | None = None) -> "IdentityHead":
        """A head for ``outputs`` neurons, or one for each of ``replicas``."""
        leading = () if replicas is None else (replicas,)
        return IdentityHead(torch.zeros(*leading, outputs, outputs), torch.full((*leading, 1, 1), self.rate))


class IdentityHead(nn.Module):
    """F_j = f_j + Σ_{r≠j} E_jr f_r.

    The trained parameter is (E - I)/√rate: gradient descent on it with step η moves E with step rate · η.

    Args:
        off_diagonal: initial E - I; its diagonal is ignored.
        rate: η_E/η, broadcast against it.
    """

    rate: Float[Tensor, "*replica 1 1"]

    def __init__(
        self, off_diagonal: Float[Tensor, "*replica output output"], rate: Float[Tensor, "*replica 1 1"]
    ) -> None:
        super().__init__()
        self.register_buffer("rate", rate)
        self.scaled = nn.Parameter(off_diagonal / rate.sqrt())

    @property
    def off_diagonal(self) -> Float[Tensor, "*replica output output"]:
        """E - I."""
        diagonal = torch.eye(self.scaled.shape[-1], dtype=torch.bool, device=self.scaled.device)
        return (self.scaled * self.rate.sqrt()).masked_fill(diagonal, 0.0)

    @property
    def matrix(self) -> Float[Tensor, "*replica output output"]:
        """E."""
        return self.off_diagonal + torch.eye(self.scaled.shape[-1], device=self.scaled.device)

    def forward(self, f: Float[Tensor, "*replica batch output"]) -> Float[Tensor, "*replica batch output"]:
        """The predictions F of representations f."""
        return f + f @ self.off_diagonal.mT


def matrix_of(head: nn.Module) -> Float[Tensor, "output other"]:
    """E of any affine head z -> E z + b, from what it does to the unit vectors."""
    weight = next(head.parameters())
    zero, unit = weight.new_zeros(1, weight.shape[-1]), torch.eye(weight.shape[-1], device=weight.device)
    return (head(unit) - head(zero)).mT

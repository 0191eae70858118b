"""A linear network with a head that is set by hand, not trained: a symmetric baseline (Wen & Li 2022, Section 1.1).

f(x) = W x of two neurons and two inputs. Views are x + noise with a common x ~ N(0, Λ); the head is W_p = W X Wᵀ with
X = Λ + σ² I (1.1), recomputed at every moment and taken as a constant. Outputs are not normalised, decay ρ is on W:

    dW/dt = W_p (W Λ - W_p W X) - ρ W        (of ½ E ||W_p W x_1 - SG(W x_2)||²)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from featscope.models.population import products
from featscope.options import require
from featscope.streams import Draws

NOISE, DECAY, START = 0.5, 0.02, 0.5  # σ, ρ, and the standard deviation of W's entries at the start
_NOTHING = 1e-6  # of the head's larger eigenvalue: W has decayed


@dataclass(frozen=True)
class HandSetHead:
    """Options of `HandSetNetwork`.

    Attributes:
        gap: Λ_11/Λ_22, where Λ_11 = 1.
        starts: random starts in a replica.
    """

    gap: float = 16.0
    starts: int = 125

    def __post_init__(self) -> None:
        require(self, "gap", self.gap > 0, "> 0")
        require(self, "starts", self.starts >= 1, ">= 1")

    def build(self, draws: Draws) -> "HandSetNetwork":
        """Networks at random starts."""
        start = START * draws.normal(self.starts, 4, dtype=torch.float64)
        variance = torch.tensor([1.0, 1 / self.gap], dtype=torch.float64).repeat(draws.replicas, 1)
        return HandSetNetwork(start, variance)


class HandSetNetwork(nn.Module):
    """The `Dynamics` of W.

    Args:
        start: W at the start, row by row.
        variance: the diagonal of Λ.
    """

    state: Float[Tensor, "replica start 4"]
    variance: Float[Tensor, "replica 2"]

    def __init__(self, start: Float[Tensor, "replica start 4"], variance: Float[Tensor, "replica 2"]) -> None:
        super().__init__()
        self.state = nn.Parameter(start)
        self.register_buffer("variance", variance)

    def constants(self) -> Float[Tensor, "2 trajectory"]:
        """See `Dynamics`; the diagonal of Λ."""
        return self.variance.repeat_interleave(self.state.shape[1], 0).mT

    def velocity(
        self, y: Inexact[Tensor, "4 trajectory"], signal: Float[Tensor, "2 trajectory"]
    ) -> Inexact[Tensor, "4 trajectory"]:
        """See `Dynamics`."""
        w = y.unflatten(0, (2, 2))
        total = signal + NOISE**2
        head = _head(w, total)
        wanted = w * signal - products(head, w * total)
        return (products(head, wanted) - DECAY * w).flatten(0, 1)

    def loss(self) -> Float[Tensor, "replica start"]:
        """½ E ||W_p W x_1 - W x_2||², without decay."""
        w = self.state.detach().flatten(0, 1).mT.unflatten(0, (2, 2))
        signal = self.constants()
        total = signal + NOISE**2
        predicted = products(_head(w, total), w)
        squares = predicted**2 * total + w**2 * total - 2 * predicted * w * signal
        return squares.sum((0, 1)).view(self.state.shape[:2]) / 2

    def top_share(self) -> Float[Tensor, "replica start"]:
        """Share of the larger eigenvalue in the trace of the head; NaN where W has decayed to nothing."""
        w = self.state.detach().unflatten(-1, (2, 2))
        total = self.variance + NOISE**2
        values = torch.linalg.eigvalsh((w * total[:, None, None]) @ w.mT)
        return (values[..., 1] / values.sum(-1)).masked_fill(values[..., 1] < _NOTHING, torch.nan)


def _head(
    w: Inexact[Tensor, "2 2 trajectory"], total: Float[Tensor, "2 trajectory"]
) -> Inexact[Tensor, "2 2 trajectory"]:
    """W X Wᵀ."""
    return products(w * total, w.transpose(0, 1))

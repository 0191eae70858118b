"""A linear network with a head that is set by hand, not trained: the symmetric baseline (Section 1.1, equation 1.1).

f(x) = W x of two neurons and two inputs. Views are x + noise with a common x ~ N(0, Λ); the head is W_p = W X Wᵀ with
X = Λ + σ² I, recomputed at every moment and taken as a constant. Outputs are not normalised, decay ρ is on W:

    dW/dt = W_p (W Λ - W_p W X) - ρ W        (of ½ E ||W_p W x_1 - SG(W x_2)||²)
"""

from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from featscope.streams import Draws
from featscope.training import Experiment, Measurement
from featscope.training.flow import Flow
from featscope.training.population import products

NOISE, DECAY, START = 0.5, 0.02, 0.5


class HandSetHead(nn.Module):
    """The `Dynamics` of W, from random starts.

    Args:
        draws: random numbers.
        starts: starts in a replica.
        gap: Λ_11/Λ_22, where Λ_11 = 1.
    """

    def __init__(self, draws: Draws, starts: int, gap: float) -> None:
        super().__init__()
        self.state = nn.Parameter(START * draws.normal(starts, 4, dtype=torch.float64))
        self.register_buffer("variance", torch.tensor([1.0, 1 / gap], dtype=torch.float64).repeat(draws.replicas, 1))

    def velocity(self, y: Inexact[Tensor, "4 trajectory"], which: Tensor) -> Inexact[Tensor, "4 trajectory"]:
        """See `Dynamics`."""
        w = y.unflatten(0, (2, 2))
        signal = self.get_buffer("variance")[which // self.state.shape[1]].mT
        total = signal + NOISE**2
        head = self.head(w, total)
        wanted = w * signal - products(head, w * total)
        return (products(head, wanted) - DECAY * w).flatten(0, 1)

    def head(self, w: Tensor, total: Tensor) -> Inexact[Tensor, "2 2 trajectory"]:
        """W X Wᵀ."""
        return products(w * total, w.transpose(0, 1))

    def loss(self) -> Float[Tensor, "replica start"]:
        """½ E ||W_p W x_1 - W x_2||², without decay."""
        w = self.state.detach().flatten(0, 1).mT.unflatten(0, (2, 2))
        signal = self.get_buffer("variance").repeat_interleave(self.state.shape[1], 0).mT
        total = signal + NOISE**2
        predicted = products(self.head(w, total), w)
        squares = predicted**2 * total + w**2 * total - 2 * predicted * w * signal
        return squares.sum((0, 1)).view(self.state.shape[:2]) / 2


def rank(experiment: Experiment) -> Mapping[str, Measurement]:
    """Share of the larger eigenvalue in the trace of the head; NaN where W has decayed to nothing."""
    learner = cast(HandSetHead, cast(Flow, experiment).learner)
    w = learner.state.detach().unflatten(-1, (2, 2))
    total = learner.get_buffer("variance") + NOISE**2
    head = (w * total[:, None, None]) @ w.mT
    values = torch.linalg.eigvalsh(head)
    top = values[..., 1] / values.sum(-1)
    top = top.masked_fill(values[..., 1] < 1e-6, torch.nan)
    about = "share of the larger eigenvalue in the trace of the head"
    return {"top_share": Measurement(top, ("start",), "1", about)}

"""Two-layer ReLU networks whose biases stay as they are, from a start at which they say 0 (dissertation, Chapter 3).

g(x) = Σ a_i ReLU(<w_i, x> - b_i)
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.options import require
from featscope.streams import Draws


@dataclass(frozen=True)
class FixedBiasReLU:
    """Options of `FixedBiasReLUNetwork` at the symmetric start (Equation 3.9).

    Attributes:
        quarter: a fourth of its neurons, m.
        threshold: b~ in units of ``spread``; nothing else decides which way first gradients point.
        spread: standard deviation of first weights, σ_w.
        readout: standard deviation of a_i, σ_a.
    """

    quarter: int = 100
    threshold: float = 12.0
    spread: float = 0.1
    readout: float = 0.1

    def __post_init__(self) -> None:
        require(self, "quarter", self.quarter >= 1, ">= 1")
        require(self, "threshold", self.threshold >= 0, ">= 0")
        require(self, "spread", self.spread > 0, "> 0")
        require(self, "readout", self.readout > 0, "> 0")

    def build(self, source: Any, draws: Draws, dtype: torch.dtype = torch.float32) -> "FixedBiasReLUNetwork":
        """A network a replica for what ``source`` samples."""
        w = self.spread * draws.normal(self.quarter, source.options.dimension, dtype=dtype)
        a = self.readout * draws.normal(self.quarter, dtype=dtype)
        b = torch.full_like(a, self.threshold * self.spread)
        w, a, b = torch.cat([w, -w], 1), torch.cat([a, -a], 1), torch.cat([b, -b], 1)
        return FixedBiasReLUNetwork(torch.cat([w, w], 1), torch.cat([a, -a], 1), torch.cat([b, b], 1))


class FixedBiasReLUNetwork(nn.Module):
    """The network. Biases are taken off, and are not trained.

    Args:
        weight: w_i.
        readout: a_i.
        bias: b_i, which is taken off.
    """

    replica_axis = True
    bias: Float[Tensor, "replica neuron"]

    def __init__(
        self,
        weight: Float[Tensor, "replica neuron input"],
        readout: Float[Tensor, "replica neuron"],
        bias: Float[Tensor, "replica neuron"],
    ) -> None:
        super().__init__()
        self.weight, self.readout = nn.Parameter(weight), nn.Parameter(readout)
        self.register_buffer("bias", bias)

    def hidden(self, x: Float[Tensor, "replica batch input"]) -> Float[Tensor, "replica batch neuron"]:
        """ReLU(<w_i, x> - b_i)."""
        return torch.baddbmm(-self.bias[:, None], x, self.weight.mT).relu()

    def forward(self, x: Float[Tensor, "replica batch input"]) -> Float[Tensor, "replica batch"]:
        """g(x)."""
        return (self.hidden(x) @ self.readout[..., None])[..., 0]

"""One hidden layer of symmetrised ReLU neurons (Wen & Li 2021, Section 2.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from featscope.kernels import multiply
from featscope.options import require
from featscope.streams import Draws


def soft_threshold(
    u: Float[Tensor, "*replica batch neuron"], threshold: Float[Tensor, "*replica neuron"]
) -> Float[Tensor, "*replica batch neuron"]:
    """ReLU(u - b) - ReLU(-u - b): zero on [-b, b] and shrunk by b outside, an odd function of u.

    Args:
        u: pre-activations.
        threshold: b >= 0, one for each neuron.
    """
    return _SoftThreshold.apply(u, threshold.unsqueeze(-2))


class _SoftThreshold(torch.autograd.Function):
    """u - clamp(u, -b, b), with a backward pass of one product instead of the five passes that autograd makes."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, b: Tensor) -> Tensor:
        h = u - torch.clamp(u, -b, b)
        ctx.save_for_backward(h)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        (h,) = ctx.saved_tensors
        passed = torch.ops.aten.hardshrink_backward(gradient, h, 0.0)  # gradient where h != 0, in one pass
        return passed, -(passed * h.sign()).sum(-2, keepdim=True) if ctx.needs_input_grad[1] else None


@dataclass(frozen=True)
class SymmetricReLU:
    """A layer of symmetrised ReLU neurons without output layer or normalisation.

    Attributes:
        width: number of neurons, m. The paper's m = d^1.01 leaves most features without a lucky neuron at
            reachable d; 6 to 10 times d works.
        init_norm: expected norm of a neuron's initial weights, σ0 √d1.
    """

    width: int = 256
    init_norm: float = 0.05

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")
        require(self, "init_norm", self.init_norm > 0, "> 0")

    def build(self, source: Any, draws: Draws) -> "SymmetricReLUNetwork":
        """A network a replica with w_i ~ N(0, σ0² I) and b_i = 0, for inputs as long as ``source.dictionary``'s."""
        input_dim = source.dictionary.shape[-2]
        return SymmetricReLUNetwork(draws.normal(self.width, input_dim) * (self.init_norm / sqrt(input_dim)))


class SymmetricReLUNetwork(nn.Module):
    """h_i(x) = ReLU(<w_i, x> - b_i) - ReLU(-<w_i, x> - b_i) for a stack of replicas.

    Only the weights are trained; the biases are a buffer that a rule such as `BiasSchedule` sets.
    At b = 0 the network is linear.
    """

    replica_axis = True
    bias: Float[Tensor, "*replica neuron"]

    def __init__(self, weight: Float[Tensor, "*replica neuron input"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.register_buffer("bias", torch.zeros_like(weight[..., 0]))

    def forward(self, x: Float[Tensor, "*replica batch input"]) -> Float[Tensor, "*replica batch neuron"]:
        """The representation f(x)."""
        u = multiply(x, self.weight.mT) if x.ndim == self.weight.ndim == 3 else x @ self.weight.mT
        return soft_threshold(u, self.bias)

    def one_by_one(self, x: Float[Tensor, "replica batch input"]) -> Iterator[Float[Tensor, "batch neuron"]]:
        """The same of each replica, made when it is asked for: of many samples all together take more than training."""
        layers = zip(x, self.weight, self.bias, strict=True)
        return (soft_threshold(one @ weight.mT, bias) for one, weight, bias in layers)


@dataclass(frozen=True)
class OrthogonalRows:
    """Neurons that see noise alone: unit rows orthogonal to each other and to the features (Lemma F.2); b = 0.

    Attributes:
        width: number of neurons; never more than there are dimensions that hold no feature.
    """

    width: int = 256

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")

    def build(self, source: Any, draws: Draws) -> SymmetricReLUNetwork:
        """A network a replica, in random directions off the features of ``source``."""
        features = source.dictionary
        width = min(self.width, features.shape[-2] - features.shape[-1])
        rows = draws.normal(features.shape[-2], width)
        rows = torch.linalg.qr(rows - features @ (features.mT @ rows))[0]
        return SymmetricReLUNetwork(rows.mT.contiguous())

"""Gaussian noise that exists only as far as a network looks at it.

A step of a one-layer network sees noise Ξ ``[sample, input]`` through its projections A = Ξ Wᵀ, and once more in the
gradient of the weights, Cᵀ Ξ with C = ∂L/∂A. Both have exact laws that need no Ξ: with W Wᵀ = L Lᵀ and V = L⁻¹ W, whose
rows are orthonormal,

    A = σ G Lᵀ,     Cᵀ Ξ given A = σ (Cᵀ G) V + σ R Z (I - VᵀV),     R Rᵀ = CᵀC,

with standard normal G ``[sample, neuron]`` and Z ``[neuron, input]``. That is fewer normals where a batch has more
samples than the network has neurons and inputs have more dimensions than either.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.streams import Draws

_ROUNDING = 1e-6  # of the mean diagonal, added where a Gram matrix is singular to the digits of float32


class ProjectedInputs:
    """Samples signal + σ Ξ of which only projections are ever made.

    Their law is that of the dense samples as long as one network looks, once a batch of weights: a second look with
    other weights would see other noise, and is refused.

    Args:
        codes: coefficients of the signal.
        dictionary: the features, in columns.
        std: σ.
        draws: random numbers; gradients take more from them.
    """

    def __init__(
        self,
        codes: Float[Tensor, "replica batch feature"],
        dictionary: Float[Tensor, "replica input feature"],
        std: Float[Tensor, "replica"],
        draws: Draws,
    ) -> None:
        self.codes, self.dictionary, self.std = codes, dictionary, std[:, None, None]
        self._draws = draws
        self._seen: Tensor | None = None

    def project(self, weight: Float[Tensor, "replica neuron input"]) -> Float[Tensor, "replica batch neuron"]:
        """The inputs times ``weight`` transposed.

        Raises:
            ValueError: the inputs were projected before.
        """
        if self._seen is not None:
            raise ValueError("projected noise was looked at twice; take dense noise where a batch is seen twice")
        self._seen = weight
        signal = self.codes @ (weight @ self.dictionary).mT
        return signal + projected_noise(weight, self.std, self.codes.shape[1], self._draws)


def projected_noise(
    weight: Float[Tensor, "replica neuron input"], std: Float[Tensor, "replica 1 1"], count: int, draws: Draws
) -> Float[Tensor, "replica batch neuron"]:
    """σ Ξ Wᵀ for ``count`` fresh rows of Ξ that nothing else will look at; gradients have their exact law."""
    return _Projection.apply(weight, std, count, draws)


class _Projection(torch.autograd.Function):
    """σ Ξ Wᵀ for fresh noise Ξ."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, std: Tensor, count: int, draws: Draws) -> Tensor:
        factor = _factor(weight @ weight.mT)
        normals = draws.normal(weight.shape[-2], count, dtype=weight.dtype)
        ctx.save_for_backward(weight, std, factor, normals)
        ctx.draws = draws
        return (std * (factor @ normals)).mT  # a neuron's values lie side by side

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, pull: Tensor) -> tuple[Tensor, None, None, None]:
        weight, std, factor, normals = ctx.saved_tensors
        frame = torch.linalg.solve_triangular(factor, weight, upper=False)
        rest = ctx.draws.normal(*weight.shape[1:], dtype=weight.dtype)
        spread = _factor(pull.mT @ pull)
        seen = (normals @ pull).mT - spread @ (rest @ frame.mT)
        return std * torch.baddbmm(spread @ rest, seen, frame), None, None, None


def _factor(gram: Float[Tensor, "replica neuron neuron"]) -> Float[Tensor, "replica neuron neuron"]:
    """A Cholesky factor, of the matrix as good as it is known where rounding has made it singular."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    if failed.any():
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        least = torch.finfo(gram.dtype).tiny
        extra = (_ROUNDING * diagonal.mean(-1)).clamp_min(least)[:, None] * torch.ones_like(diagonal)
        factor, failed = torch.linalg.cholesky_ex(gram + torch.diag_embed(extra))
    return factor

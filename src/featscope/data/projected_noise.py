"""Gaussian noise that exists only as far as a network looks at it.

A step of a one-layer network sees noise Ξ ``[sample, input]`` through its projections A = Ξ Wᵀ, and once more in the
gradient of the weights, Cᵀ Ξ with C = ∂L/∂A. Both have exact laws that need no Ξ: with W Wᵀ = L Lᵀ and V = L⁻¹ W, whose
rows are orthonormal,

    A = σ G Lᵀ,     Cᵀ Ξ given A = σ (Cᵀ G) V + σ R Z (I - VᵀV),     R Rᵀ = CᵀC,

with standard normal G ``[sample, neuron]`` and Z ``[neuron, input]``. That is fewer normals where a batch has more
samples than the network has neurons and inputs have more dimensions than either.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.kernels import multiply
from featscope.streams import Draws

Slope = Callable[[Float[Tensor, "replica first neuron"]], Float[Tensor, "replica neuron input"]]
"""A gradient by weights, of one by products with them."""

_ROUNDING = 1e-6, 1e-5, 1e-4  # of the mean diagonal, added where a Gram matrix is singular to the digits of float32


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
        self._looked = False

    def project(self, weight: Float[Tensor, "replica neuron input"]) -> Float[Tensor, "replica batch neuron"]:
        """The inputs times ``weight`` transposed.

        Raises:
            ValueError: the inputs were projected before.
        """
        self._look_once()
        signal = self.codes @ (weight @ self.dictionary).mT
        return signal + projected_noise(weight, self.std, self.codes.shape[1], self._draws)

    def project_without_autograd(
        self, weight: Float[Tensor, "replica neuron input"]
    ) -> tuple[Float[Tensor, "replica batch neuron"], Slope]:
        """The same, and what makes a gradient by ``weight`` of one by the products of the first inputs, or of all.

        Raises:
            ValueError: the inputs were projected before.
        """
        self._look_once()
        seen = Seen.by(weight, self.std, self.codes.shape[1], self._draws)
        products = multiply(multiply(weight, self.dictionary), self.codes.mT, seen.projections())

        def slope(pull: Tensor) -> Tensor:
            along_features = multiply(pull.mT, self.codes[:, : pull.shape[1]])
            return multiply(along_features, self.dictionary.mT, seen.slope(pull, self._draws))

        return products.mT.contiguous(), slope

    def _look_once(self) -> None:
        if self._looked:
            raise ValueError("projected noise was looked at twice; take dense noise where a batch is seen twice")
        self._looked = True


def projected_noise(
    weight: Float[Tensor, "replica neuron input"], std: Float[Tensor, "replica 1 1"], count: int, draws: Draws
) -> Float[Tensor, "replica batch neuron"]:
    """σ Ξ Wᵀ for ``count`` fresh rows of Ξ that nothing else will look at; gradients have their exact law.

    Of one backward pass: a second one raises a ValueError.
    """
    return _Projection.apply(weight, std, count, draws)


class _Projection(torch.autograd.Function):
    """σ Ξ Wᵀ for fresh noise Ξ."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, std: Tensor, count: int, draws: Draws) -> Tensor:
        seen = Seen.by(weight.detach(), std, count, draws)
        ctx.save_for_backward(*seen)
        ctx.draws, ctx.pulled = draws, False
        return seen.projections().mT  # a neuron's values lie side by side

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, pull: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.pulled:
            raise ValueError(
                "projected noise has two gradients asked of it, which would be of two draws: take them of the sum of "
                "the losses, or dense noise"
            )
        ctx.pulled = True
        return Seen(*ctx.saved_tensors).slope(pull, ctx.draws), None, None, None


class Seen(NamedTuple):
    """What weights see of noise.

    Attributes:
        weight: W.
        std: σ.
        factor: L.
        normals: Gᵀ.
    """

    weight: Float[Tensor, "replica neuron input"]
    std: Float[Tensor, "replica 1 1"]
    factor: Float[Tensor, "replica neuron neuron"]
    normals: Float[Tensor, "replica neuron batch"]

    @classmethod
    def by(cls, weight: Tensor, std: Tensor, count: int, draws: Draws) -> "Seen":
        """Of ``count`` fresh rows."""
        normals = draws.normal(weight.shape[-2], count, dtype=weight.dtype)
        return cls(weight, std, _factor(multiply(weight, weight.mT)), normals)

    def projections(self) -> Float[Tensor, "replica neuron batch"]:
        """Aᵀ."""
        return multiply(self.std * self.factor, self.normals)

    def slope(self, pull: Float[Tensor, "replica first neuron"], draws: Draws) -> Float[Tensor, "replica neuron input"]:
        """Cᵀ Ξ from C of the first rows; where there are more, theirs is 0. V itself, of which only V Zᵀ and what is
        multiplied by it are wanted, is not made."""
        rest = draws.normal(*self.weight.shape[1:], dtype=pull.dtype)
        spread = _factor(multiply(pull.mT, pull))
        drawn = torch.linalg.solve_triangular(self.factor, multiply(self.weight, rest.mT), upper=False)
        seen = multiply(-spread, drawn.mT, multiply(pull.mT, self.normals[..., : pull.shape[1]].mT))
        along = torch.linalg.solve_triangular(self.factor, seen, upper=False, left=False)
        return self.std * multiply(along, self.weight, multiply(spread, rest))


def _factor(gram: Float[Tensor, "replica neuron neuron"]) -> Float[Tensor, "replica neuron neuron"]:
    """A Cholesky factor, of the matrix as good as it is known where rounding has made it singular."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    diagonal, least = gram.diagonal(dim1=-2, dim2=-1), torch.finfo(gram.dtype).tiny
    ridge = torch.zeros_like(diagonal[..., 0])
    for rounding in _ROUNDING:
        if not failed.any():
            break
        ridge = torch.where(failed.bool(), (rounding * diagonal.mean(-1)).clamp_min(least), ridge)
        factor, failed = torch.linalg.cholesky_ex(gram + torch.diag_embed(ridge[..., None].expand_as(diagonal)))
    return factor

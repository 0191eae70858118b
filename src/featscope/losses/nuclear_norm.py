"""The nuclear norm of a batch of features as a penalty (Shi 2024, dissertation, Section 6.2, (6.3))."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from featscope.losses.processes import gathered, others, require_equal
from featscope.losses.similarity import require_rows
from featscope.numbers import Number, in_double, per_replica, require_tensor
from featscope.options import ConfigError, require, require_word


@dataclass(frozen=True)
class NuclearNorm:
    """The sum of the singular values of a batch of features, a convex stand-in for their rank.

    The gradient is U Vᵀ of the singular vectors whose values are not zero, so repeated values do no harm, and where
    features have no extent the gradient is zero: a dead neuron (a column of zeros) and a direction that is gone stay
    as they are, and so do batches of zeros. (`torch.linalg.svdvals` gives them a gradient of size one in a direction
    that chance picks.) Singular values below ``max(batch, neuron)`` roundings of the largest are taken as zero there,
    and of features in half precision those that rounding may have made of zero.

    It works in float64 whatever the features are, under autocast too, and gives float32 at least; where the
    features' device has no float64, on the processor. Half precision and float32 go through the Gram matrix of the
    smaller side, which is faster and loses nothing that they hold; float64 features through their singular vectors.

    A head that is trained without a penalty of its own takes the norm away: features of half the size before a head
    of twice the size predict the same. Keep the head fixed, bound it, or give it weight decay.

    Attributes:
        weight: λ.
        normalize: "rows" divides by the rows of the batch, as the paper's released code does: the larger the batch,
            the weaker, by its root. "batch" divides by the root of the rows: the same strength at any size of batch.
            "none" is the formula as printed.
        warmup: steps without a penalty; the released code has 100. They need ``step``.
        gather: whether the rows of all processes are one batch, where torch.distributed runs: called in all of them,
            it and its gradient as `DistributedDataParallel` takes it are those of one process with all rows. If not,
            each process penalises its own rows, whose rank is at most their number.
    """

    floats_per_replica: ClassVar[bool] = True

    weight: Number = 0.01
    normalize: Literal["rows", "none", "batch"] = "rows"
    warmup: int = 0
    gather: bool = False

    def __post_init__(self) -> None:
        require_word(self, "normalize")
        weights = self.weight if isinstance(self.weight, Tensor) else torch.tensor(float(self.weight))
        require(self, "weight", bool((weights >= 0).all()), ">= 0")
        require(self, "warmup", self.warmup >= 0, ">= 0")

    def __call__(
        self, features: Float[Tensor, "*replica batch neuron"], step: int | None = None
    ) -> Float[Tensor, "*replica"]:
        """The penalty of each replica, to be added to the loss; NaN where features are not finite.

        Args:
            features: Φ of a batch.
            step: steps done so far; only with a warm-up.

        Raises:
            ConfigError: there is a warm-up, and no step is given.
            ValueError: the batch is empty, or processes that gather have batches of different sizes, or of replicas.
        """
        require_tensor(features)
        if self.warmup and step is None:
            raise ConfigError(f"NuclearNorm.warmup = {self.warmup} needs the step: call it as penalty(features, step)")
        if step is not None and step < self.warmup:
            return features.sum((-2, -1), dtype=torch.promote_types(features.dtype, torch.float32)) * 0.0
        if self.gather and others():
            if features.ndim != 2:
                raise ValueError(f"features have shape {list(features.shape)}: what processes share is [batch, neuron]")
            require_equal(len(features), features.device)
            features = gathered(features)
        require_rows("features", features)
        rows = features.shape[-2]
        norm = _NuclearNorm.apply(features) / {"rows": rows, "batch": sqrt(rows), "none": 1.0}[self.normalize]
        return per_replica(self.weight, norm) * norm


class _NuclearNorm(torch.autograd.Function):
    """Σ σ_i with the gradient U Vᵀ of rank as high as the features'."""

    @staticmethod
    def forward(ctx: Any, features: Tensor) -> Tensor:
        f = in_double(features)
        finite = f.sum((-2, -1)).isfinite()  # to ask each entry takes 20 times as long
        if not finite.all():
            f = f.where(finite[..., None, None], 0.0)
        result = torch.float64 if features.dtype == torch.float64 else torch.float32  # half precision is exact in it
        decompose = _by_vectors if features.dtype == torch.float64 else _by_gram
        noise = 0.0
        if features.dtype.itemsize < torch.float32.itemsize:  # what rounding of all entries adds, as a random matrix
            noise = torch.finfo(features.dtype).eps / 2 * sum(size**-0.5 for size in f.shape[-2:])
        values, slope = decompose(f, max(f.shape[-2:]) * torch.finfo(result).eps, noise)
        ctx.save_for_backward(slope.to(features.dtype).to(features.device))
        return values.masked_fill(~finite, torch.nan).to(result).to(features.device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return (gradient[..., None, None] * slope).to(slope.dtype)


def _kept(values: Tensor, rounding: float, noise: float) -> Tensor:
    """Which singular values are not zero but for ``rounding`` of the largest, and ``noise`` of the root of squares."""
    return values > torch.maximum(rounding * values.amax(-1, keepdim=True), noise * values.norm(dim=-1, keepdim=True))


def _by_vectors(f: Tensor, rounding: float, noise: float) -> tuple[Tensor, Tensor]:
    """Norm and gradient by singular vectors."""
    left, values, right = torch.linalg.svd(f, full_matrices=False)
    kept = _kept(values, rounding, noise)
    return values.sum(-1), (left * kept[..., None, :]) @ right


def _by_gram(f: Tensor, rounding: float, noise: float) -> tuple[Tensor, Tensor]:
    """The same by the eigenvectors of F Fᵀ or Fᵀ F, whichever is smaller."""
    wide = f.shape[-2] < f.shape[-1]
    squares, vectors = torch.linalg.eigh(f @ f.mT if wide else f.mT @ f)
    values = squares.clamp(min=0).sqrt()
    kept = _kept(values, rounding, noise)
    inverse = torch.where(kept, 1 / values.where(kept, 1.0), 0.0)
    root = (vectors * inverse[..., None, :]) @ vectors.mT
    return values.sum(-1), root @ f if wide else f @ root

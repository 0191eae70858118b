"""Losses without negatives: predict of one view what the target network says of the other (Wen & Li 2022)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from featscope.losses.similarity import of_length_one, require_rows, stop_gradient
from featscope.numbers import as_written, per_replica, require_tensor, wide
from featscope.options import require, require_word

Normalization = Literal["batch", "l2", "none"]


@dataclass(frozen=True)
class NonContrastive:
    """Minus the inner product of normalised predictions and targets, averaged over the batch, plus a constant.

    The constant makes 0 the least value: with "batch" the loss is m - Σ_j corr(F_j, G_j) of m outputs, the scale of
    (A.1); with "l2" it is 1 - cos. Half the squared distance is the same. (The paper's (3.3) prints the squared
    distance and an expression in the scale of (A.1) as if they were equal; ``scale`` says which is meant.) With "none"
    it is minus the inner product: no distance, and nothing bounds it from below.

    It works in float32 at least, under autocast too: half precision holds no difference of what nearly agrees.

    Attributes:
        normalization: "batch": each output has mean 0 and variance 1 over the batch, without affine parameters or
            running statistics (3.1); "l2": each representation has norm 1; "none".
        scale: "correlation": m - Σ_j corr(F_j, G_j) or 1 - cos; "squared": twice that, the mean squared distance of
            what is normalised.
        stop_gradient: whether targets are constants.
        eps: added to variances. The paper has 0, which makes the loss NaN where an output is constant over the batch.
            One of a real network may be: give 1e-5, say.
    """

    floats_per_replica: ClassVar[bool] = True

    normalization: Normalization = "batch"
    scale: Literal["correlation", "squared"] = "correlation"
    stop_gradient: bool = True
    eps: float = 0.0

    def __post_init__(self) -> None:
        require_word(self, "normalization")
        require_word(self, "scale")
        require(self, "eps", self.eps >= 0, ">= 0")

    def __call__(
        self, prediction: Float[Tensor, "*replica batch output"], target: Float[Tensor, "*replica batch output"]
    ) -> Float[Tensor, "*replica"]:
        """The loss of each replica.

        Raises:
            ValueError: prediction and target differ in shape, are empty or no matrices, or a batch of one sample is to
                be normalised over itself.
        """
        require_tensor(prediction)
        require_tensor(target)
        if prediction.shape != target.shape:
            raise ValueError(
                f"prediction and target have shapes {list(prediction.shape)} and {list(target.shape)}: expected one "
                "shape, as each row of one is compared with the row in the same place of the other"
            )
        if self.normalization == "batch" and prediction.ndim > 1 and prediction.shape[-2] < 2:
            raise ValueError(
                f"the batch has {prediction.shape[-2]} samples: expected two or more with normalization = 'batch', as "
                "an output has no variance over fewer. Let the loader leave out a last batch of one: drop_last=True"
            )
        require_rows("prediction", prediction)
        if self.stop_gradient:
            target = stop_gradient(target)
        with as_written(prediction.device):
            product = (self.normalized(prediction) * self.normalized(target)).sum(-1).mean(-1)
        least = {"batch": float(prediction.shape[-1]), "l2": 1.0, "none": 0.0}[self.normalization]
        return (least - product) * (2.0 if self.scale == "squared" else 1.0)

    def normalized(self, f: Float[Tensor, "*replica batch output"]) -> Float[Tensor, "*replica batch output"]:
        """Representations as the loss compares them, in float32 at least."""
        f = wide(f)
        if self.normalization == "batch":
            variance = f.var(-2, correction=0, keepdim=True)
            return (f - f.mean(-2, keepdim=True)) * (variance + per_replica(self.eps, variance)).rsqrt()
        if self.normalization == "l2":
            return of_length_one(f)
        return f

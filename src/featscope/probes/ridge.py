"""Ridge regression of many replicas at once, over several penalties."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def ridge_fits(
    x: Float[Tensor, "replica sample feature"], y: Float[Tensor, "replica sample"], penalties: Sequence[float]
) -> Float[Tensor, "penalty replica feature"]:
    """The weights a that make mean (<a, x> - y)² + λ s |a|² least, for each penalty λ.

    Args:
        x: features; one that is 1 everywhere stands for an intercept, and is penalised like the others.
        y: what is to be answered.
        penalties: λ, relative to s, the mean square of a replica's features.
    """
    gram, target = x.mT @ x / x.shape[1], x.mT @ y[..., None] / x.shape[1]
    scale = torch.diagonal(gram, dim1=1, dim2=2).mean(1)[:, None, None] * torch.eye(x.shape[-1]).to(x)
    return torch.stack([torch.linalg.solve(gram + penalty * scale, target)[..., 0] for penalty in penalties])

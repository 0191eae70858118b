"""What first-layer filters look like, and how far weights have moved."""

from jaxtyping import Float
from torch import Tensor


def colourfulness(filters: Float[Tensor, "filter channel height width"]) -> Float[Tensor, " filter"]:
    """Share of each filter's energy that differs between its colour channels.

    A filter is the sum of a grey filter (the mean over channels, in all channels) and the rest; the two are
    orthogonal. This is ||rest||² / ||filter||²: 0 for a grey filter, 1 for one that sees only colour
    contrast, and 1 - 1/channels on average for random weights. An all-zero filter gives NaN.
    """
    w = filters.double()
    chromatic = w - w.mean(1, keepdim=True)
    return chromatic.square().flatten(1).sum(-1) / w.square().flatten(1).sum(-1)


def distance_from_init(weight: Float[Tensor, "*shape"], initial: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """||W - W(0)|| / ||W(0)||, Frobenius norms."""
    return (weight.double() - initial.double()).norm() / initial.double().norm()

"""What first-layer filters look like, and how far weights have moved."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def colourfulness(filters: Float[Tensor, "filter channel height width"]) -> Float[Tensor, " filter"]:
    """Share of each filter's energy that differs between its colour channels.

    A filter is the sum of a grey filter (the mean over channels, in all channels) and the rest; the two are
    orthogonal. This is ||rest||² / ||filter||²: 0 for a grey filter, 1 for one that sees only colour
    contrast, and 1 - 1/channels on average for random weights. An all-zero filter gives NaN.
    """
    w = filters.double()
    chromatic = w - w.mean(1, keepdim=True)
    return chromatic.square().flatten(1).sum(-1) / w.square().flatten(1).sum(-1)


def as_images(filters: Float[Tensor, "filter channel height width"]) -> Float[Tensor, "filter height width channel"]:
    """Filters to look at: each over its largest weight, zero as mid-grey, in the order from grey to colourful."""
    largest = filters.abs().amax((1, 2, 3), keepdim=True)
    scaled = 0.5 + 0.5 * filters / largest.where(largest > 0, torch.ones_like(largest))
    return scaled[colourfulness(filters).argsort()].permute(0, 2, 3, 1)


def distance_from_init(weight: Float[Tensor, "*shape"], initial: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """||W - W(0)|| / ||W(0)||, Frobenius norms."""
    return (weight.double() - initial.double()).norm() / initial.double().norm()


def distance(one: nn.Module, other: nn.Module) -> Float[Tensor, ""]:
    """||θ - θ'|| of all parameters of two modules of one shape."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return torch.stack([(a - b).norm() for a, b in pairs]).norm()

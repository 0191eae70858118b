"""What first-layer filters look like, and how far weights have moved."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
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


def as_images(filters: ArrayLike) -> Float[np.ndarray, "filter height width channel"]:
    """Filters ``[filter, channel, height, width]`` to look at, in the order from grey to colourful.

    Each is scaled to its largest weight; zero is mid-grey.
    """
    weights = torch.as_tensor(np.asarray(filters))
    largest = weights.abs().amax((1, 2, 3), keepdim=True)
    scaled = 0.5 + 0.5 * weights / largest.where(largest > 0, torch.ones_like(largest))
    return scaled[colourfulness(weights).argsort()].permute(0, 2, 3, 1).numpy()


def distance_from_init(weight: Float[Tensor, "*shape"], initial: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """||W - W(0)|| / ||W(0)||, Frobenius norms."""
    return (weight.double() - initial.double()).norm() / initial.double().norm()


def distance(one: nn.Module, other: nn.Module) -> Float[Tensor, ""]:
    """||θ - θ'|| of all parameters of two modules of one shape."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return torch.stack([(a - b).norm() for a, b in pairs]).norm()

"""How sparse activations are: three measures, for activations that are >= 0 (after a ReLU).

Density counts who fires; the Treves-Rolls and Hoyer measures also weigh how much. They disagree on purpose: a
layer in which all neurons fire a little and few fire much is dense by the first and sparse by the others.
"""

from math import nan

import torch
from jaxtyping import Float
from torch import Tensor


def density(activations: Float[Tensor, "sample *unit"]) -> Float[Tensor, ""]:
    """Fraction of (sample, unit) with an activation above zero: 1 is dense, 0 is dead; NaN where one is NaN."""
    return (activations > 0).double().masked_fill(activations.isnan(), nan).mean()


def firing_pattern(
    maps: Float[Tensor, "sample channel height width"], samples: int, units: int
) -> Float[Tensor, "shown unit"]:
    """A piece of a layer to look at: the centre of some channels on the first samples, over its highest value there.

    Channels are spaced evenly; a layer with fewer than ``units`` repeats some.
    """
    height, width = maps.shape[-2:]
    centres = maps[:samples, :, height // 2, width // 2]
    chosen = torch.linspace(0, centres.shape[1] - 1, units, device=maps.device).round().long()
    shown = centres[:, chosen]
    return shown / shown.amax(0).clamp_min(torch.finfo(shown.dtype).tiny)


def treves_rolls(activations: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch"]:
    """(mean a)² / mean a² over the last axis (Treves & Rolls 1991): 1 if all are equal, 1/n for one alone.

    Over units it is population sparseness, over samples lifetime sparseness. All zeros give NaN.
    """
    a = activations.double()
    return a.mean(-1).square() / a.square().mean(-1)


def hoyer(activations: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch"]:
    """(√n - ||a||₁/||a||₂) / (√n - 1) over the last axis (Hoyer 2004): 0 if all are equal, 1 for one alone.

    All zeros give NaN; there must be two units or more.
    """
    a = activations.double()
    root = a.shape[-1] ** 0.5
    return (root - a.abs().sum(-1) / a.norm(dim=-1)) / (root - 1)

"""What a curve over an option says: how it falls, what it is between its points, where it crosses a level."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def slope(curve: Float[Tensor, "replica point"], x: Sequence[float]) -> Float[Tensor, "replica"]:
    """Of the line of least squares."""
    centred = torch.tensor(x, dtype=curve.dtype, device=curve.device)
    centred = centred - centred.mean()
    return curve @ centred / (centred @ centred)


def value_at(curve: Float[Tensor, "replica point"], x: Sequence[float], place: float) -> Float[Tensor, "replica"]:
    """At ``place``, on a straight line between its neighbours among the ascending ``x``."""
    values = [float(np.interp(place, x, one)) for one in curve.cpu().numpy()]
    return torch.tensor(values, dtype=curve.dtype)


def first_fall(curve: Float[Tensor, "replica point"], x: Sequence[float], level: float) -> Float[Tensor, "replica"]:
    """Where lines between neighbours first come from above ``level`` to it or below; NaN where they do not."""
    crossed = []
    for one in curve.tolist():
        place = float("nan")
        for x0, x1, y0, y1 in zip(x, x[1:], one, one[1:], strict=False):
            if y0 > level >= y1:
                place = x0 + (x1 - x0) * (y0 - level) / (y0 - y1)
                break
        crossed.append(place)
    return torch.tensor(crossed, dtype=curve.dtype)

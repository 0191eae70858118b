"""First gradients on polynomials of few directions (dissertation, Section B.5.7), derived.

x ~ N(0, I_d), g*(x) a polynomial of <u_1, x>, ..., <u_r, x>, H its mean Hessian. After its constant and its linear part
are taken off, the first gradient of a neuron knows H alone: parts of degree three have none, and are noise.
"""

from math import pi

import numpy as np
from jaxtyping import Float
from numpy import ndarray


def first_gradient(
    w: Float[ndarray, "*batch neuron input"], hessian: Float[ndarray, "*batch input input"]
) -> Float[ndarray, "*batch neuron input"]:
    """E[y x 1[<w, x> > 0]] for y = (x'Hx - tr H)/2: (2π)^(-1/2) (H ŵ - (ŵ'Hŵ) ŵ/2), ŵ = w/‖w‖."""
    unit = _unit(w)
    turned = unit @ hessian.swapaxes(-1, -2)
    return (turned - (turned * unit).sum(-1, keepdims=True) * unit / 2) / (2 * pi) ** 0.5


def across(
    w: Float[ndarray, "*batch neuron input"],
    hessian: Float[ndarray, "*batch input input"],
    directions: int,
    samples: int,
    variance: float,
) -> Float[ndarray, "*batch neuron"]:
    """Mean square of what a sample's gradient has outside of the span: the rest of the closed form, and noise.

    Without its linear part a label has no correlation with any input on the sample, so that of 1[<w, x> > 0] =
    (1 + sign)/2 the half with the sign alone is noise: variance/(4n) for each coordinate. So it is of laws without
    constant and linear part; where there are such, the other half leaves (ρ² + ‖β‖²)/(4n), the same for all neurons.
    """
    unit = _unit(w)
    along = ((unit @ hessian.swapaxes(-1, -2)) * unit).sum(-1)
    inside = unit @ np.linalg.pinv(hessian, rcond=1e-12) @ hessian
    rest = along**2 / 4 * (1 - (inside**2).sum(-1)) / (2 * pi)
    return rest + (w.shape[-1] - directions) * variance / (4 * samples)


def opening_ratio(quadratic: float) -> float:
    """n/d² at which half of ‖W‖² lies in the span of the directions, in high dimension, where ``quadratic`` is the
    quadratic part's share of the variance of what is left of g*: π/4 over it."""
    return pi / 4 / quadratic


def share_in_span(ratio: float, quadratic: float) -> float:
    """That share at n/d² = ``ratio``, in high dimension."""
    return ratio / (ratio + opening_ratio(quadratic))


def _unit(w: ndarray) -> ndarray:
    return w / np.linalg.norm(w, axis=-1, keepdims=True)

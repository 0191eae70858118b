"""How fast a looped transformer solves least squares in its prompt (dissertation, Chapter 8).

X is n x d, A = XᵀX with largest eigenvalue L and condition number κ, η = 1/L the step size, t the number of loops,
θ_t the estimate and e_t = ‖θ_t - θ*‖². All functions take arrays that broadcast.

Where the source is mended: Theorem 8.16 leaves out that η = 1/L; its bound contracts the *squared* error by 1 - 1/κ a
loop, where gradient descent contracts the error itself, so it is loose by two in the exponent and the slope of log e_t
is 2 log(1 - 1/κ); Figure 8.1 shows squared errors beside a bound on errors, which is right with -t/κ.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

FLOOR = -2 * np.log(np.finfo(np.float64).eps) + np.log(32 * np.log(2))
"""-log of the squared error of a vector of norm 1 whose coordinates are rounded to float64: 75.2.

A number x is off by a variance of ulp²/12, ulp between ε|x|/2 and ε|x|: in the mean over the digits ahead of it, with
E ulp² = 3 ε² x²/(8 log 2), the sum is ε²/(32 log 2)."""
_TRACY_WIDOM = -1.2065
"""Mean of the Tracy-Widom law of real matrices."""


def error_bound(kappa: ArrayLike, loops: ArrayLike) -> Any:
    """Most of |<answer, θ*> - α|/|α| after ``loops`` (Theorem 8.16, with ‖θ*‖ = 1 and q_0 = 0)."""
    return np.exp(-np.asarray(loops) / (2 * np.asarray(kappa)))


def sharper_bound(kappa: ArrayLike, loops: ArrayLike) -> Any:
    """The same without the loss of two in the exponent: (1 - 1/κ)^t, which the slowest direction attains."""
    return (1 - 1 / np.asarray(kappa)) ** np.asarray(loops)


def printed_slope(kappa: ArrayLike) -> Any:
    """log e_t a loop, at most (Theorem 8.25)."""
    return -1 / np.asarray(kappa)


def slope(kappa: ArrayLike) -> Any:
    """log e_t a loop once the slowest direction is all that is left."""
    return 2 * np.log1p(-1 / np.asarray(kappa))


def contraction(step: ArrayLike, eigenvalues: ArrayLike) -> Any:
    """What a loop of step size ``step``/L leaves of the slowest direction; beyond 1 it diverges.

    Args:
        step: η L ``[...]``.
        eigenvalues: of A ``[..., d]``.
    """
    eigenvalues = np.asarray(eigenvalues)
    return np.abs(1 - np.asarray(step)[..., None] * eigenvalues / eigenvalues.max(-1, keepdims=True)).max(-1)


def finite_condition_number(samples: ArrayLike, dimension: ArrayLike) -> Any:
    """κ of Gaussian X: the edges of the Marchenko-Pastur law, each corrected by the mean of the Tracy-Widom law."""
    root_n, root_d = np.sqrt(np.asarray(samples, float)), np.sqrt(np.asarray(dimension, float))
    upper = (root_n + root_d) * np.cbrt(1 / root_n + 1 / root_d)
    lower = (root_n - root_d) * np.cbrt(1 / root_d - 1 / root_n)
    return ((root_n + root_d) ** 2 + _TRACY_WIDOM * upper) / ((root_n - root_d) ** 2 - _TRACY_WIDOM * lower)


def gatmiry_bound(loops: ArrayLike, dimension: ArrayLike, samples: ArrayLike) -> Any:
    """Most of the error by Theorem 8.17 (Gatmiry et al. 2024); it grows with ``loops``."""
    loops = np.asarray(loops, float)
    return 8 * loops * np.asarray(dimension, float) ** 2 * 4**loops / np.sqrt(samples)

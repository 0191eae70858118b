"""What joint and specific contrastive pre-training learn (Shi 2024, dissertation, Chapter 7 and Appendix F.1 to F.2).

s features are shared by T tasks, p = r - s are private to each. A representation weighs them √α and √α_t; α and α_t are
diagonal entries of its Gram matrix in the features.

Where the source is mended: α = 1 for all s < r and every convex decreasing loss that is not linear, not "for some α";
the error of the joint representation is O(√(rT/m)), the main text drops √r; the optimum is not unique up to rotation
(`superposed_finetuned` has what follows for fine-tuning); a threshold of Theorem 7.2 is one of its proof
(`encoding_threshold`), not of what is learned.
"""

from collections.abc import Callable, Sequence
from math import cos, log, pi, sin, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import roots_genlaguerre
from scipy.stats import chi2

Numbers = Any
"""A number, or an array of NumPy or xarray."""
Loss = Callable[[Numbers], Numbers]

XOR_LOSS, TETRAHEDRON_LOSS = 0.36164964, 0.34875873
"""Least logistic losses of four equally likely states on the unit circle and on the unit sphere."""


def logistic(t: Numbers) -> Numbers:
    """log(1 + exp(-t))."""
    return np.logaddexp(0, -t)


def exponential(t: Numbers) -> Numbers:
    """exp(-t)."""
    return np.exp(-t)


# --- Weights of features ----------------------------------------------------------------------------------------------


def private_weight(alpha: Numbers, shared: int, rank: int, tasks: int) -> Numbers:
    """β of Proposition 7.3: what the budget of r leaves to a private feature of an even mixture."""
    return np.minimum(1.0, (rank - alpha * shared) / (tasks * (rank - shared)))


def shared_optimum(loss: Loss, shared: int, rank: int, tasks: int) -> float:
    """The α in 0, 0.01 ... 1 of least E ℓ(α Z + β Z_1), by Gauss and Laguerre's quadrature of both chi-squares."""
    (z, of_z), (z1, of_z1) = (roots_genlaguerre(60, n / 2 - 1) for n in (shared, rank - shared))
    alpha = np.linspace(0, 1, 101)
    beta = private_weight(alpha, shared, rank, tasks)
    values = loss(2 * (alpha[:, None, None] * z[:, None] + beta[:, None, None] * z1))
    return float(alpha[np.argmin(np.einsum("aij,i,j->a", values, of_z / of_z.sum(), of_z1 / of_z1.sum()))])


def exponential_weights(weights: Sequence[float], shared: int, rank: int) -> Float[np.ndarray, "task"]:
    """α_t under ℓ(t) = exp(-t): those of least Σ w_t (1 + 2 α_t)^(-p/2) with Σ α_t = 1, which goes with α = 1."""
    powers = np.asarray(weights, float) ** (2 / (rank - shared + 2))

    def at(scale: float) -> Float[np.ndarray, "task"]:
        return ((scale * powers - 1) / 2).clip(0, 1)

    # From the first scale on the sum is 0 at most, at the last every weight is at its bound.
    scale = brentq(lambda one: at(one).sum() - 1, 1 / powers.max(), 3 / powers.min())
    return at(scale)


# --- Fine-tuning ------------------------------------------------------------------------------------------------------


def finetuned_weight(tasks: int, gamma: float, private: int) -> float:
    """β of the target's private features after fine-tuning within ``gamma`` (Proposition F.9), from the diagonal W*."""
    return min(1.0, sqrt(1 / tasks) + gamma / sqrt(private)) ** 2


def superposed_finetuned(tasks: int, gamma: float, private: int) -> tuple[float, float]:
    """β of the target's and of another task's private features, from the W* that has all P_t in the same p outputs.

    There ‖W‖ <= 1 is tight, so a row of √(1/T)'s can only be turned, on the unit sphere, by a chord of γ/√p, and no
    further than to the target, which is where descent goes: rows of outputs that are not used stay 0. Where there are
    such, a second row would add to β beyond T = 4 and at large γ. (1, 0) of one task.
    """
    if tasks == 1:
        return 1.0, 0.0
    angle = min(2 * np.arcsin(min(1.0, gamma / sqrt(private) / 2)), np.arccos(1 / sqrt(tasks)))
    along, across = 1 / sqrt(tasks), sqrt(1 - 1 / tasks)
    return (
        float(cos(angle) * along + sin(angle) * across) ** 2,
        float(cos(angle) * along - sin(angle) / (tasks * across)) ** 2,
    )


# --- What is learned from labels --------------------------------------------------------------------------------------


def least_norm(shared_part: Numbers, private_part: Numbers, alpha: Numbers, beta: Numbers) -> Numbers:
    """B_φ of (F.68); the parts are v_1 and v_2."""
    return (shared_part / alpha + private_part / beta) ** 0.5


def expected_norm(variances: Sequence[float]) -> float:
    """E‖x‖ of independent normals: (2√π)⁻¹ ∫ (1 - Π (1 + 2 v u)^(-1/2)) u^(-3/2) du."""
    v = np.asarray(variances, float)
    # u = y² takes the singularity away.
    value, _ = quad(lambda y: 2 * -np.expm1(-0.5 * np.log1p(2 * v * y * y).sum()) / (y * y), 0, np.inf, limit=200)
    return float(value / (2 * sqrt(pi)))


def rademacher(shared: int, rank: int, beta: float) -> float:
    """√m R_m of predictors that match a label with v_1 = v_2 = 1/2, where α = 1."""
    variances = [1.0] * shared + [beta] * (rank - shared)
    return least_norm(0.5, 0.5, 1.0, beta) * expected_norm(variances)


def rademacher_leading(shared: int, rank: int, beta: float) -> float:
    """The leading term of Lemma F.5, times √m."""
    return least_norm(0.5, 0.5, 1.0, beta) * sqrt(shared + (rank - shared) * beta)


def risk_bound(leading: float, samples: int) -> float:
    """4 R_m + 8 √(2 ln(4/δ)/m) for a loss of slope 1 and δ = 0.05, with ``leading`` for √m R_m."""
    return (4 * leading + 8 * sqrt(2 * log(4 / 0.05))) / sqrt(samples)


def complexity_ratio(beta: Numbers) -> Numbers:
    """Leading terms, of weights 1 and β over those of 1 and 1, where r = 2s and v_1 = v_2: √(2 + β + 1/β)/2.

    (T + 1)/(2√T) for β = 1/T.
    """
    return (2 + beta + 1 / beta) ** 0.5 / 2


def absolute_floor(private_part: float) -> float:
    """Mean absolute error on a task whose private features are not there."""
    return sqrt(2 / pi * private_part)


# --- Similarity of representations ------------------------------------------------------------------------------------


def cka(shared: int, rank: int, one: float, other: float) -> float:
    """Linear CKA on a task's data of two representations with α = 1 and β = ``one`` and ``other``."""
    private = rank - shared
    return (shared + private * one * other) / sqrt((shared + private * one**2) * (shared + private * other**2))


# --- Theorem 7.2 ------------------------------------------------------------------------------------------------------


def encoding_gain(norm: float, alone: float, others: float) -> float:
    """By how much the proof's construction lowers the logistic loss of a representation ±B that leaves z_i out.

    Args:
        norm: B_r.
        alone: Pr[z_i differs and nothing else does].
        others: Pr[something else differs].
    """
    fall = logistic(0.0) - logistic(0.5)
    rise = logistic(2 * norm**2 - 0.5) - logistic(2 * norm**2)
    return float(alone * fall - others * rise)


def encoding_threshold(alone: float, others: float) -> float:
    """B_i of Theorem 7.2 by its proof, for representations ±B: the norm from which on `encoding_gain` is positive;
    √(1/2), where the construction begins to be possible, if it always is."""
    fall = alone / others * float(logistic(0.0) - logistic(0.5))
    low = sqrt(0.5)
    if encoding_gain(low, alone, others) >= 0:
        return low
    # log((1 + e^(1/2) y)/(1 + y)) = fall, y = exp(-2 B²).
    y = np.expm1(fall) / (np.exp(0.5) - np.exp(fall))
    return float(sqrt(-np.log(y) / 2))


def dominance_violation(shared: int, rank: int, tasks: int) -> float:
    """The largest P(αZ + βZ_1 <= x) at α = 1 less that at a smaller α, over both; not positive if α = 1 dominates."""
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def below(x: float, alpha: float) -> float:
        beta = float(private_weight(alpha, shared, rank, tasks))
        y = sqrt(x / alpha) * (nodes + 1) / 2  # Z = y², whose density is smooth for one feature, too
        density = 2 * y * chi2.pdf(y * y, shared) * sqrt(x / alpha) / 2
        return float((weights * density * chi2.cdf((x - alpha * y * y) / beta, rank - shared)).sum())

    points = np.linspace(0.05, 3, 30) * rank
    return max(below(x, 1.0) - below(x, alpha) for x in points for alpha in np.linspace(0.05, 0.95, 10))

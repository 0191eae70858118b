"""Domain generalisation by nuclear norm in the linear model (Shi 2024, dissertation, Sections 6.3.1 and 6.4, E.1).

r invariant features z_j ~ U[0, 1], q = d - r environmental ones ~ D_γ in training and D_-γ out of it; A and B are their
sums, w_j = α on the first and β on the others, S = αA + βB the margin, ℓ the logistic loss.

Where the source is mended: for a bounded rank the infimum of the loss is not attained, as weights on invariant features
may grow for ever (`ridge` anywhere makes it so); α_k z_k + β z_l >= 0 (E.34) fails with probability `termwise_failure`;
out of domain ERM falls below chance from `crossing` on, a quarter of what Proposition 6.3 needs; what the figures of
the plane print as accuracies cannot stand beside each other (`plane_accuracies`); the nuclear norm has a minimiser with
a fixed head a only, where the least norm of features is one of the weights, ‖Xw‖/‖a‖.
"""

from math import exp, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import expit, ndtr

Numbers = Any
"""A number, or an array of NumPy or xarray."""

GAMMA = 0.2
"""γ in the plane."""

INVARIANT_DEVIATION = sqrt(1 / 12)
"""Of U[0, 1]."""


def environmental_deviation(gamma: float) -> float:
    """Of D_γ."""
    return sqrt(1 / 3 - gamma**2)


# --- The plane: one feature of each kind ------------------------------------------------------------------------------


def plane_accuracies(tilt: Numbers) -> tuple[Numbers, Numbers]:
    """In and out of domain, of the boundary z_1 + c z_2 = 0 with c = ``tilt`` in [0, 1]."""
    return 1 - (0.5 - GAMMA) * tilt / 2, 1 - (0.5 + GAMMA) * tilt / 2


def error_ratio() -> float:
    """Errors out of domain over errors in it, for any tilt in (0, 1]: 7/3 as printed."""
    return (0.5 + GAMMA) / (0.5 - GAMMA)


def tilt_of_ood(accuracy: float, gamma: float = GAMMA) -> float:
    """The tilt with that accuracy out of domain."""
    return 2 * (1 - accuracy) / (0.5 + gamma)


def mean_tilt() -> float:
    """Of the mean E[yx], to which strong weight decay goes."""
    return 2 * GAMMA


def lda_tilt() -> float:
    """Of E[xxᵀ]⁻¹ E[yx], the direction of linear discriminant analysis, to which a strong nuclear norm goes."""
    first, second = np.linalg.solve([[1 / 3, GAMMA / 2], [GAMMA / 2, 1 / 3]], [0.5, GAMMA])
    return float(second / first)


def critical_strength() -> float:
    """λ from which on λ ‖Xw‖/√n makes w = 0 the minimiser: ‖E[xxᵀ]^(-1/2) E[yx]‖/2."""
    mean = np.array([0.5, GAMMA])
    return float(sqrt(mean @ np.linalg.solve([[1 / 3, GAMMA / 2], [GAMMA / 2, 1 / 3]], mean)) / 2)


# --- Many features: weight decay --------------------------------------------------------------------------------------


def printed_ratio(gamma: float) -> float:
    """What α/β is below (Lemma 6.1)."""
    return 3 / (4 * gamma)


def collapse_bound(invariant: int) -> float:
    """Accuracy out of domain at most (Proposition 6.3)."""
    return exp(-invariant / 10)


def printed_strength(invariant: int) -> float:
    """λ from which on Proposition 6.3 says so, with constant 1 in its Ω."""
    return sqrt(invariant) / exp(sqrt(invariant) / 5)


def crossing(invariant: int, gamma: float) -> float:
    """d - r at which the accuracy out of domain passes 1/2, at α/β = 1/(2γ)."""
    return invariant / (4 * gamma**2)


def sufficient_strength(invariant: int, environmental: int, gamma: float) -> float:
    """λ from which on (E.31) gives α < 1/√r."""
    root = sqrt(invariant)
    near = 1 / (2 * (1 + exp((invariant - 1) / (4 * root))))
    return root * (near + exp(-(invariant - 1) / 8) / 4 + exp(-environmental * gamma**2 / 2) / 2)


def ood_accuracy(alpha: Numbers, beta: Numbers, invariant: int, environmental: Numbers, gamma: float) -> Numbers:
    """P[αA - βB >= 0] as if A and B were normal."""
    mean = alpha * invariant / 2 - beta * gamma * environmental
    variance = alpha**2 * invariant / 12 + beta**2 * environmental * environmental_deviation(gamma) ** 2
    return ndtr(mean / np.sqrt(variance))


def termwise_failure(alpha: Numbers, beta: Numbers, gamma: float) -> Numbers:
    """P[α z_k + β z_l < 0] for 0 < β <= α, which (E.34) takes for 0."""
    return (0.5 - gamma) * beta / (2 * alpha)


def hoeffding_bounds(invariant: int, environmental: int, gamma: float) -> tuple[float, float]:
    """Of P[B <= 0] and of P[A <= r/4] (Lemma E.4)."""
    return exp(-environmental * gamma**2 / 2), exp(-invariant / 8)


def decay_optimum(invariant: int, environmental: int, gamma: float, strength: float) -> tuple[float, float]:
    """α and β of ERM with weight decay λ = ``strength``, A and B as if they were normal (Gauss-Hermite quadrature)."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = np.outer(weights, weights) / weights.sum() ** 2
    a = (invariant / 2 + sqrt(invariant) * INVARIANT_DEVIATION * points)[:, None]
    b = (environmental * gamma + sqrt(environmental) * environmental_deviation(gamma) * points)[None]
    ridge = strength * np.array([invariant, environmental])

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = w[0] * a + w[1] * b
        pull = weights * expit(-margin)
        slope = ridge * w - np.array([(pull * a).sum(), (pull * b).sum()])
        return float((weights * np.logaddexp(0, -margin)).sum() + ridge @ w**2 / 2), slope

    found = minimize(objective, np.array([0.05, 0.05]), jac=True, method="BFGS", options={"gtol": 1e-9})
    return float(found.x[0]), float(found.x[1])


# --- Many features: the nuclear norm ----------------------------------------------------------------------------------


def nuclear_norm_of_weights(
    invariant: int, environmental: int, gamma: float
) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, "2 2"]]:
    """c and Q with ‖Z diag(w)‖_*/√n = c·(α, β) + √((α, β) Q (α, β)ᵀ) for α, β >= 0 and many rows.

    E[zzᵀ] is diagonal but for two directions, the means of the two kinds, whose 2 x 2 block M has the trace of the root
    √(tr M + 2 √det M).
    """
    deviations = np.array([INVARIANT_DEVIATION, environmental_deviation(gamma)])
    counts, means = np.array([invariant, environmental]), np.array([0.5, gamma])
    powers = deviations**2 + counts * means**2
    root = sqrt(powers[0] * powers[1] - np.prod(counts * means**2))
    return (counts - 1) * deviations, np.array([[powers[0], root], [root, powers[1]]])

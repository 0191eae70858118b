"""Linear self-attention of rank r on linear regression in its prompt (Shi 2024, dissertation, Chapter 5, Appendix D.2).

The covariance of the inputs is Λ = Q D Qᵀ with eigenvalues λ_1 >= ... >= λ_d (`spectrum`), w_i are coordinates of the
task in Q, N is the number of examples in a prompt of pretraining, M in one of evaluation, σ² the variance of label
noise. The model predicts <hᵀ A, x_q> with h = Σ y_i x_i/M and A = u U. In Q the best A of rank r is diag(v).

Where the source is mended: the proof sketch of Theorem 5.4.1 leaves out the half of the excess; "C is independent of θ"
(Lemma 5.1) needs all blocks but u and U to be zero, and so does its rank; Lemma D.2 prints wᵀw between two Λ, where
w wᵀ belongs; the proof of Theorem 5.4.3 prints D² for the D³ of Theorem 5.4.2 (it cancels); term (II) of the proof of
5.4.2 prints x_iᵀ U x_i for x_iᵀ U x_q; Section 5.7 calls the directions that a model leaves out noise of pretraining,
whose labels have none. All functions are exact but `approximate_loss`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def curvature(spectrum: ArrayLike, samples: float) -> Any:
    """T_i = (1 + 1/N) λ_i + Σ λ/N, the eigenvalues of Γ ``[..., d]``."""
    spectrum = np.asarray(spectrum, float)
    return (1 + 1 / samples) * spectrum + spectrum.sum(-1, keepdims=True) / samples


def coefficients(spectrum: ArrayLike, samples: float) -> Any:
    """v of the best model of each rank, 0 to d, ``[rank, d]`` (Theorem 5.4.1): 1/T_i for i <= r, else 0."""
    best = 1 / curvature(spectrum, samples)
    return np.tri(len(best) + 1, len(best), -1) * best


def pretraining_loss(product: ArrayLike, covariance: ArrayLike, samples: float) -> Any:
    """The loss less C = tr(Λ)/2 (Lemma 5.1), of any model whose other blocks are zero.

    Args:
        product: A = u U ``[..., d, d]``.
        covariance: Λ ``[..., d, d]``.
        samples: N.
    """
    a, covariance = np.asarray(product), np.asarray(covariance)
    loss = _gamma(covariance, samples) @ covariance @ a @ covariance @ a.swapaxes(-1, -2) / 2
    return np.trace(loss - covariance @ covariance @ a.swapaxes(-1, -2), axis1=-2, axis2=-1)


def excess(product: ArrayLike, covariance: ArrayLike, samples: float) -> Any:
    """`pretraining_loss` above its least value, as half a squared norm (Equation D.4); arguments as there."""
    covariance = np.asarray(covariance)
    gamma = _gamma(covariance, samples)
    root = _root(covariance)
    off = _root(gamma) @ (root @ product @ root - covariance @ np.linalg.inv(gamma))
    return (off**2).sum((-2, -1)) / 2


def printed_excess(values: ArrayLike, spectrum: ArrayLike, samples: float) -> Any:
    """Σ T_i λ_i² (v_i - 1/T_i)² (proof sketch of Theorem 5.4.1): twice the excess of A = Q diag(v) Qᵀ, ``[...]``."""
    t = curvature(spectrum, samples)
    return (t * np.asarray(spectrum) ** 2 * (values - 1 / t) ** 2).sum(-1)


def least_losses(spectrum: ArrayLike, samples: float) -> Any:
    """`pretraining_loss` of the best model of each rank, 0 to d: -Σ_{i<=r} λ_i²/(2 T_i) ``[rank]``."""
    gained = np.asarray(spectrum) ** 2 / curvature(spectrum, samples) / 2
    return -np.concatenate([[0.0], gained.cumsum()])


def input_noise(v: ArrayLike, spectrum: ArrayLike, task: ArrayLike, samples: float, power: int = 3) -> Any:
    """What few examples add to the squared error of evaluation: (‖s‖²_{V²D³} + ‖w‖²_D tr(V²D²))/M ``[...]``.

    Args:
        v: ``[..., d]``.
        spectrum: ``[d]``.
        task: w_i ``[d]``.
        samples: M.
        power: of D in the first norm; 2 as the proof of Theorem 5.4.3 prints it.
    """
    v, spectrum, task = np.asarray(v), np.asarray(spectrum), np.asarray(task)
    own = (task**2 * v**2 * spectrum**power).sum(-1)
    return (own + (task**2 * spectrum).sum() * (v**2 * spectrum**2).sum(-1)) / samples


def label_noise(v: ArrayLike, spectrum: ArrayLike, samples: float, variance: float) -> Any:
    """What noisy labels add: σ² tr(V²D²)/M ``[...]``."""
    return variance * (np.asarray(v) ** 2 * np.asarray(spectrum) ** 2).sum(-1) / samples


def residual_bias(v: ArrayLike, spectrum: ArrayLike, task: ArrayLike) -> Any:
    """What directions without a coefficient leave: ‖ξ‖²_D ``[...]``."""
    return ((np.asarray(v) == 0) * np.asarray(task) ** 2 * spectrum).sum(-1)


def shrinkage_bias(v: ArrayLike, spectrum: ArrayLike, task: ArrayLike) -> Any:
    """What coefficients short of 1/λ_i leave: Σ_{i<=r} w_i² λ_i (λ_i v_i - 1)² ``[...]``."""
    v, spectrum = np.asarray(v), np.asarray(spectrum)
    return ((v != 0) * np.asarray(task) ** 2 * spectrum * (spectrum * v - 1) ** 2).sum(-1)


def evaluation_loss(v: ArrayLike, spectrum: ArrayLike, task: ArrayLike, samples: float, variance: float) -> Any:
    """The mean squared error in evaluation, the sum of all four ``[...]`` (Theorem 5.4.2; no factor 1/2)."""
    return (
        input_noise(v, spectrum, task, samples)
        + label_noise(v, spectrum, samples, variance)
        + residual_bias(v, spectrum, task)
        + shrinkage_bias(v, spectrum, task)
    )


def approximate_loss(spectrum: ArrayLike, task: ArrayLike, samples: float, variance: float) -> Any:
    """The same for N λ_r >> tr D, for every rank, 0 to d, ``[rank]`` (after Theorem 5.4.2)."""
    power = np.asarray(task) ** 2 * np.asarray(spectrum)
    covered = np.concatenate([[0.0], power.cumsum()])
    left, rank = power.sum() - covered, np.arange(len(power) + 1)
    return left + ((rank + 1) * covered + rank * left + rank * variance) / samples


def gap(
    rank: int, spectrum: ArrayLike, task: ArrayLike, pretraining: float, samples: float, variance: ArrayLike
) -> Any:
    """By how much a model of full rank is worse than one of ``rank``, which covers the task (Theorem 5.4.3).

    Args:
        rank: r, with w_i = 0 beyond it.
        spectrum: ``[d]``.
        task: ``[d]``.
        pretraining: N.
        samples: M.
        variance: σ² ``[...]``.
    """
    spectrum = np.asarray(spectrum)
    p = spectrum / curvature(spectrum, pretraining)
    return ((np.asarray(task) ** 2 * spectrum).sum() + np.asarray(variance)) / samples * (p[rank:] ** 2).sum()


def marginal_values(spectrum: ArrayLike, task: ArrayLike, pretraining: float, samples: float, variance: float) -> Any:
    """What each direction adds to the error of evaluation, negative where it helps, ``[d]``; arguments as `gap`'s."""
    spectrum, task = np.asarray(spectrum), np.asarray(task)
    p = spectrum / curvature(spectrum, pretraining)
    whole = (task**2 * spectrum).sum()
    return p**2 * (whole + variance) / samples + task**2 * spectrum * (p**2 / samples + (p - 1) ** 2 - 1)


def examples_for_a_rank(spectrum: ArrayLike, rank: int) -> float:
    """N from which on blocks other than u and U of rank r lower the loss: r ((tr Λ)² + 2 tr Λ²)/λ_{r+1}².

    To first order in 1/N and for N λ_r >> tr Λ. At the model of Theorem 5.4.1 let w_21 of W_PV be a q and of W_KQ b q,
    q the eigenvector r + 1. They change the loss by -λ² ab + (α a² + β b²)/2 with α = λ r/N, from what examples say of
    q, and β = λ E (Σ y²/N)² = λ ((tr Λ)² + 2 tr Λ²); it falls for some a and b once λ⁴ > α β.
    """
    spectrum = np.asarray(spectrum, float)
    return float(rank * (spectrum.sum() ** 2 + 2 * (spectrum**2).sum()) / spectrum[rank] ** 2)


def moment_terms(covariance: ArrayLike, task: ArrayLike, printed: bool = False) -> Any:
    """The two matrices of Lemma D.2, Λ and Λ w wᵀ Λ, ``[2, d, d]``.

    E[y² x xᵀ] = (σ² + ‖w‖²_Λ) Λ + 2 Λ w wᵀ Λ, and Cov(y x) has 1 in the place of 2. ``printed``: Λ wᵀw Λ.
    """
    covariance, task = np.asarray(covariance), np.asarray(task)
    middle = (task @ task) * np.eye(len(task)) if printed else np.outer(task, task)
    return np.stack([covariance, covariance @ middle @ covariance])


def _gamma(covariance: np.ndarray, samples: float) -> np.ndarray:
    total = np.trace(covariance, axis1=-2, axis2=-1)[..., None, None]
    return (1 + 1 / samples) * covariance + total / samples * np.eye(covariance.shape[-1])


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values.clip(min=0))[..., None, :]) @ vectors.swapaxes(-1, -2)

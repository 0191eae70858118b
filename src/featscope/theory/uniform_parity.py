"""First gradients on parities of uniform signs in closed form (dissertation, Sections B.5.5 and B.5.6), and what is
mended.

x is uniform on {±1}^d, y = Π_{l in A} x_l with |A| = k even, d odd; neurons have w in {±1}^d and |b| < 1, so that
1[<w, x> > b] is (1 + majority of w_l x_l)/2. The majority's Fourier coefficients ξ are all that first gradients need.
The source prints them without the factor 1/2, and with ξ_{k-1} off A, where it is ξ_{k+1}.
"""

from math import comb, sqrt

import numpy as np
from jaxtyping import Bool, Float


def majority_coefficient(dimension: int, size: int) -> float:
    """ξ: the Fourier coefficient of the majority of d signs on any set of ``size``, odd (Equation B.547, n read as d).

    Equation B.480 prints the first binomial as C((d-1)/2, (d-1)/2).
    """
    half = (dimension - 1) // 2
    shared = comb(half, (size - 1) // 2) * comb(dimension - 1, half)
    return (-1) ** ((size - 1) // 2) * (shared / (comb(dimension - 1, size - 1) << (dimension - 1)))


def misprinted_coefficient(dimension: int, size: int) -> float:
    """ξ as Equation B.480 prints it."""
    half = (dimension - 1) // 2
    return (-1) ** ((size - 1) // 2) * (comb(dimension - 1, half) / (comb(dimension - 1, size - 1) << (dimension - 1)))


def coefficient_ratio(dimension: int, block: int) -> float:
    """|ξ_{k+1}/ξ_{k-1}| (derived)."""
    return (block - 1) / (dimension - block)


def first_gradient(
    w: Float[np.ndarray, "neuron input"], inside: Bool[np.ndarray, " input"]
) -> Float[np.ndarray, "neuron input"]:
    """G(w, b) for any |b| < 1: (ξ_{k-1} on A, ξ_{k+1} off A)/2 times w_j Π_{l in A} w_l (derived)."""
    d, k = inside.size, int(inside.sum())
    size = np.where(inside, majority_coefficient(d, k - 1), majority_coefficient(d, k + 1))
    return size / 2 * w * w[:, inside].prod(-1, keepdims=True)


def printed_gradient(
    w: Float[np.ndarray, "neuron input"], inside: Bool[np.ndarray, " input"]
) -> Float[np.ndarray, "neuron input"]:
    """The same as Equations B.548 and B.549 print it."""
    size = majority_coefficient(inside.size, int(inside.sum()) - 1)
    return size * w * w[:, inside].prod(-1, keepdims=True)


def cosine(dimension: int, block: int) -> float:
    """|cos| of G to D = Σ_A e_l/√k for neurons with w equal on A (derived)."""
    return 1 / sqrt(1 + (block - 1) ** 2 / (block * (dimension - block)))


def sup_norm_cone(dimension: int, block: int) -> float:
    """γ_∞ of Lemma B.64, with constant 1."""
    return sqrt(block) / (dimension - block)


def across(dimension: int, block: int, samples: float) -> float:
    """Mean square of what a sample's G has across D, for neurons with w equal on A (derived)."""
    off = majority_coefficient(dimension, block + 1) / 2
    return (dimension - block) * off**2 + ((dimension - 1) / 2 - (dimension - block) * off**2) / samples


def along(dimension: int, block: int, samples: float) -> float:
    """Mean square of what it has along D (derived). A neuron is active half of the time."""
    on = majority_coefficient(dimension, block - 1) / 2
    return block * on**2 + (1 / 2 - block * on**2) / samples


def sampled_tangent(dimension: int, block: int, samples: float) -> float:
    """Square of the tangent of the angle to D, `across` over `along`: about 2d/(n k ξ_{k-1}²) at small n (derived)."""
    return across(dimension, block, samples) / along(dimension, block, samples)


def opening_samples(dimension: int, block: int) -> float:
    """Samples at which `sampled_tangent` is 1, and the angle 45 degrees (derived)."""
    on, off = (majority_coefficient(dimension, size) / 2 for size in (block - 1, block + 1))
    signal, leak = block * on**2, (dimension - block) * off**2
    return (dimension / 2 - 1 - leak + signal) / (signal - leak)


def first_readout(dimension: int, block: int) -> float:
    """|E[y ReLU(<w, x> - b)]| for any |b| < 1: |ξ_{k-1}|/2, where the proof of Theorem B.56 has a = 0 (derived)."""
    return abs(majority_coefficient(dimension, block - 1)) / 2

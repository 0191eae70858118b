"""Closed forms of k-input addition modulo p by a network with activation x^k (dissertation, Chapter 4, Appendix C).

    f(a)[c] = Σ_i (u_i1(a_1) + ... + u_ik(a_k))^k w_i(c)

Margins are over ‖θ‖^(k+1), with ‖θ‖ = (Σ_i ‖θ_i‖_2^(k+1))^(1/(k+1)) over neurons. û(j) = Σ_x u(x) e^(-2πijx/p).

Where the source is mended: wrong labels get -1/2, not 0 (C.7.2, C.7.3), so that the margin is p/2; one frequency takes
2^(2k-1) neurons, 32 at k = 3, not 56; cos(a_1 + ... + a_k) has 2^(k-1) terms, and only with -c among the angles 2^k;
1 + 1/(p - 1) = p/(p - 1), printed with a minus; for general k the last step of C.15 needs the norm with exponent
(k + 1)/2, not 2. The number of neurons is enough and not needed (`LATTICES`), and p may be any odd number.
"""

from itertools import product
from math import factorial, pi
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

LATTICES = {2: (6, (1, 4)), 3: (18, (1, 3, 12)), 4: (54, (1, 3, 9, 36))}
"""k -> N and g: N neurons with phases 2π t g/N, t < N, compute one frequency; fewer than the printed 2^(2k-1)."""


def best_margin(inputs: int, modulus: int) -> float:
    """γ*, the largest normalised margin on all p^k points (Theorem 4.9), p odd."""
    k, p = inputs, modulus
    return 2 * factorial(k) / ((2 * k + 2) ** ((k + 1) / 2) * (p - 1) * p ** ((k - 1) / 2))


def neuron_margin(
    embeddings: Float[np.ndarray, "*neuron input residue"], readout: Float[np.ndarray, "*neuron residue"]
) -> Float[np.ndarray, "*neuron"]:
    """Margin of one neuron against the mean wrong label, mean over all points (Eq. C.10).

    k!/((p-1) p^k) Σ_{j≠0} ŵ(-j) Π_i û_i(j)
    """
    k, p = embeddings.shape[-2:]
    spectrum = np.fft.fft(embeddings, axis=-1).prod(-2) * np.fft.fft(readout, axis=-1).conj()
    return np.asarray(factorial(k) / ((p - 1) * p**k) * spectrum[..., 1:].sum(-1).real)


def ratio_without_a_frequency(modulus: ArrayLike) -> Any:
    """Margin over γ* of the construction with one frequency deleted, p >= 5 odd (derived here)."""
    p = np.asarray(modulus, float)
    return (p - 2 - 2 * np.cos(pi / p)) * (p - 1) / (p * (p - 3))


def even_ratio(modulus: ArrayLike) -> Any:
    """Margin over the formula of `best_margin` at even p, where frequency p/2 is left out (derived here)."""
    p = np.asarray(modulus, float)
    return (p - 1) / p


def even_ratio_with_all(inputs: int, modulus: ArrayLike) -> Any:
    """The same with frequency p/2 and the mass that it needs (derived here): above 1.

    A neuron of frequency p/2 has ±1 for cosines, and so for its norm a margin 2^((k-1)/2) times as large.
    """
    p = np.asarray(modulus, float)
    return (p - 1) / (p - 2 + 2 ** (-(inputs - 1) / 2))


def nyquist_mass(inputs: int) -> float:
    """Mass of frequency p/2 in the network of `even_ratio_with_all`, over that of each other; the same at every p."""
    return 2 ** (-(inputs - 1) / 2) / 2


def cross_entropy(margin: ArrayLike, modulus: int) -> Any:
    """Of logits that are ``margin`` larger on the right label than on all wrong ones, which tie."""
    return np.log1p((modulus - 1) * np.exp(-np.asarray(margin)))


class Optimum(NamedTuple):
    """Where the penalised cross-entropy is smallest.

    Attributes:
        norm: ‖θ‖.
        cross_entropy: in nats.
        objective: cross-entropy + λ ‖θ‖.
    """

    norm: float
    cross_entropy: float
    objective: float


def penalised_optimum(inputs: int, modulus: int, penalty: float) -> Optimum:
    """The least of log(1 + (p-1) exp(-γ* r^(k+1))) + λ r away from r = 0 (derived here).

    By convexity no network with ‖θ‖ = r has a smaller cross-entropy, and the best margin reaches it: not only in the
    limit λ -> 0 of Lemma 4.7. r = 0, of value log p, is another local minimum; at large λ it is the smaller one.

    Raises:
        ValueError: λ is so large that there is none but r = 0.
    """
    gamma = best_margin(inputs, modulus)

    def objective(log_norm: float) -> float:
        norm = np.exp(log_norm)
        return float(cross_entropy(gamma * norm ** (inputs + 1), modulus)) + penalty * norm

    top = np.log(2 * np.log(modulus) / penalty)  # beyond it the penalty alone is more than at 0
    bottom = min(top - 12, -np.log(gamma) / (inputs + 1) - 1)  # below where the margin begins to tell
    grid = np.linspace(bottom, top, 4000)
    rises = np.diff([objective(x) for x in grid]) > 0
    least = np.flatnonzero(~rises[:-1] & rises[1:]) + 1
    if not len(least):
        raise ValueError(f"penalty = {penalty:g} has no optimum but zero weights: allowed is a smaller one")
    ends = (grid[least[-1] - 1], grid[least[-1] + 1])
    found = minimize_scalar(objective, bounds=ends, method="bounded", options={"xatol": 1e-10})
    norm = float(np.exp(found.x))
    return Optimum(norm, float(cross_entropy(gamma * norm ** (inputs + 1), modulus)), float(found.fun))


def signed_powers(values: Float[np.ndarray, "*batch k"], half: bool = False) -> Float[np.ndarray, "*batch"]:
    """Left side of Lemma C.16: Σ_e (-1)^((k - Σe)/2) (Σ_j e_j d_j)^k over e in {±1}^k; ``half``: e_1 = +1 only."""
    k = values.shape[-1]
    total = np.zeros(values.shape[:-1])
    for signs in product((1, -1), repeat=k):
        if not half or signs[0] == 1:
            total = total + (-1) ** signs.count(-1) * (values * np.array(signs)).sum(-1) ** k
    return total


def product_of_values(values: Float[np.ndarray, "*batch k"]) -> Float[np.ndarray, "*batch"]:
    """Right side of Lemma C.16: 2^k k! Π d_i."""
    k = values.shape[-1]
    return 2**k * factorial(k) * values.prod(-1)


def cosine_terms(angles: Float[np.ndarray, "*batch angle"]) -> Float[np.ndarray, "*batch term"]:
    """The terms of cos(Σ angles) by Eq. C.21, one for each even number of sines: 2^(n-1) for n angles."""
    n = angles.shape[-1]
    terms = []
    for sines in product((0, 1), repeat=n):
        if sum(sines) % 2 == 0:
            each = np.where(np.array(sines), np.sin(angles), np.cos(angles))
            terms.append((-1) ** (sum(sines) // 2) * each.prod(-1))
    return np.stack(terms, -1)

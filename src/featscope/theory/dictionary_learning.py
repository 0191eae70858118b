"""Two gradient steps on dictionary data: closed forms (Shi 2024, dissertation, Chapter 2 and Appendix A).

D patterns are there or not, φ̃ ∈ {0, 1}^D; the label says whether the count of the k relevant ones is accepted. Inputs
are centred and over σ̃, the root of their total variance; γ is the correlation of a relevant pattern and the label, p_o
the probability of the others. "Mixture" is the distribution of A.5: with probability p_o all patterns are fair coins,
else the relevant ones are all there or all not.

Where the source is mended: B stands outside the root in Theorem 2.2; the mixture has independent patterns at p_o = 1/2
only (`background_covariance`); a dot product in A.304 lacks σ̃, as E[y x] = Σ_A M_j lacks γ/σ̃.
"""

from itertools import combinations, combinations_with_replacement, product
from math import comb, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import quad
from scipy.stats import beta, norm


class GroundTruth(NamedTuple):
    """A network of truncated ReLUs whose weights are all ``weight`` times σ̃ Σ_A M_j.

    Attributes:
        outer: a*.
        weight: 1/(4k).
        biases: b*.
    """

    outer: Float[np.ndarray, " neuron"]
    weight: float
    biases: Float[np.ndarray, " neuron"]

    def __call__(self, projection: Float[np.ndarray, " input"]) -> Float[np.ndarray, " input"]:
        """Its answer to inputs with Σ_A φ̃ - E Σ_A φ̃ = ``projection``."""
        hidden = np.clip(self.weight * projection[:, None] + self.biases, 0, 1)
        return hidden @ self.outer


def accepted(relevant: int, labels: str) -> Bool[np.ndarray, " count"]:
    """Which counts from 0 to k have the label 1: odd ones ("parity"), or those from 2k/3 on ("interval")."""
    counts = np.arange(relevant + 1)
    return counts % 2 == 1 if labels == "parity" else counts >= 2 * relevant / 3


def ground_truth(accepting: Bool[np.ndarray, " count"], mean: float) -> GroundTruth:
    """The network of Lemma A.2 for relevant patterns whose count has the mean ``mean``.

    A triangle stands at every count; of two lattices of biases that one is taken which stays away from 0.
    """
    k = len(accepting) - 1
    signs = np.where(accepting, 1.0, -1.0)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for shift, slope in ((0.0, 2.0), (0.25, 4.0)):
        at = np.arange(k + 1) - mean + shift
        found.append((slope * signs[:, None] * [1, -2, 1], -np.stack([at - 0.5, at, at + 0.5], 1)))
    outer, biases = max(found, key=lambda one: np.abs(one[1]).min())
    return GroundTruth(4 * k * outer.ravel(), 1 / (4 * k), biases.ravel() / (4 * k))


def correlation(background: float) -> float:
    """γ of the mixture with p_o = ``background``."""
    return (1 - background) / 2


def scale(patterns: int, relevant: int, background: float) -> float:
    """σ̃ of the mixture, D = ``patterns`` and k = ``relevant``."""
    return sqrt(relevant / 4 + (patterns - relevant) * background * (1 - background))


def background_covariance(background: float) -> float:
    """Covariance of two patterns that are not relevant in the mixture; 0 at p_o = 1/2 only."""
    p, low = background, background / (2 - 2 * background)
    return p * (0.5 - p) ** 2 + (1 - p) * (low - p) ** 2


def threshold_ceiling(relevant: int, background: float) -> float:
    """Accuracy on parities of the mixture of the best single threshold on the count, k odd.

    Thresholds at odd counts c are right in a share 1/2 + (k-1 over c-1)/2^k of all patterns, and always where the
    relevant ones agree.
    """
    best = max(comb(relevant - 1, c - 1) for c in range(1, relevant + 1, 2))
    return 1 - background * (0.5 - best / 2**relevant)


def linear_ceiling(relevant: int, background: float) -> float:
    """Accuracy on parities of the mixture of the best linear rule sign(w·φ̃ - t), k odd.

    A pattern that changes always changes the parity. It changes a linear rule, for the average pattern, in at most
    (k-1 over (k-1)/2)/2^(k-1) of all coins, as it does the majority, so no rule is right in more than 1/2 and half of
    that. The majority is, where k is 1 more than a multiple of 4; else the one with a single weight negative. Both are
    right where the relevant patterns agree.
    """
    return 1 - background * (0.5 - comb(relevant - 1, (relevant - 1) // 2) / 2**relevant)


def best_linear_rule(relevant: int, background: float, largest: int) -> float:
    """Accuracy of the best rule sign(w·φ̃ - t) on parities of the mixture, over all integer w up to ``largest``.

    The distribution does not change if relevant patterns change places, so |w| may be sorted.
    """
    inputs = np.array(list(product((0, 1), repeat=relevant)))
    counts = inputs.sum(1)
    labels = np.where(counts % 2 == 1, 1.0, -1.0)
    chances = background / 2**relevant + (1 - background) / 2 * np.isin(counts, (0, relevant))
    signs = np.array(list(product((1, -1), repeat=relevant)))
    best = 0.0
    for sizes in combinations_with_replacement(range(largest + 1), relevant):
        sums = inputs @ (signs * sizes).T
        for threshold in range(sums.min(), sums.max() + 2):
            right = chances @ (np.where(sums >= threshold, 1, -1) == labels[:, None])
            best = max(best, right.max())
    return best


def blur(patterns: int, relevant: int, background: float, dimension: int, noise: float) -> float:
    """Variance of <x̃, Σ_A M_j> about the count of relevant patterns, where M has random directions for columns.

    Of the D - k other patterns, each of which has an inner product of variance k/d with the sum, and of noise. What
    relevant patterns have in common with each other is left out: it is the same for all samples with the same ones.
    """
    others = (patterns - relevant) * background * (1 - background) / dimension
    return relevant * (others + noise**2)


def blurred_accuracy(relevant: int, background: float, variance: float) -> float:
    """Accuracy of the best rule for parities of the mixture that sees the count with normal errors of ``variance``."""
    width = sqrt(variance)
    at = np.linspace(-1 - 5 * width, relevant + 1 + 5 * width, 20_001)

    def density(odd: bool) -> Float[np.ndarray, " place"]:
        weights = {c: background * comb(relevant, c) / 2 ** (relevant - 1) for c in range(odd, relevant + 1, 2)}
        weights[relevant if odd else 0] += 1 - background
        return sum((weight * norm.pdf(at, c, width) for c, weight in weights.items()), np.zeros_like(at))

    return float(np.trapezoid(np.maximum(density(True), density(False)), at)) / 2


def spread(patterns: int, relevant: int, background: float, samples: int) -> float:
    """τ²: the squared tangent of the angle to Σ_A M_j that n samples leave if all of them activate a neuron.

    Samples make noise in the D - k other directions; in the k - 1 that are left among the relevant ones only in the
    share p_o of samples whose relevant patterns are coins.
    """
    noise = (patterns - relevant) * background * (1 - background) + (relevant - 1) * background / 4
    return noise / (samples * relevant * correlation(background) ** 2)


def late_step_size(relevant: int, neurons: int, steps: int) -> float:
    """η of the third step and later ones (Theorem A.20)."""
    return relevant**2 / (steps * neurons ** (1 / 3))


def best_random_cosine(directions: int, dimension: int) -> float:
    """Mean of the largest cosine of independent uniform directions with a fixed one."""
    half = (dimension - 1) / 2
    return quad(lambda c: 1 - beta.cdf((1 + c) / 2, half, half) ** directions, -1, 1, points=[0.0], limit=200)[0] - 1


def subset_correlations(features: Float[np.ndarray, "input feature"], size: int) -> Float[np.ndarray, "subset feature"]:
    """E_z[Ψ(z) Π_A z_j] for all A of ``size`` elements, z uniform on all 2^D signs.

    Args:
        features: Ψ of every z, in the order of the numbers whose binary digits are (1 - z)/2, the first bit last.
        size: k.
    """
    patterns = len(features).bit_length() - 1
    values = features.astype(float).copy()
    for bit in range(patterns):  # Walsh-Hadamard
        values = values.reshape(-1, 2, 2**bit, features.shape[1])
        values = np.stack([values[:, 0] + values[:, 1], values[:, 0] - values[:, 1]], 1)
    values = values.reshape(features.shape) / len(features)
    return values[[sum(1 << j for j in subset) for subset in combinations(range(patterns), size)]]


def parities(patterns: int, size: int) -> Float[np.ndarray, "subset input"]:
    """Π_A z_j for all A of ``size`` elements and all z."""
    signs = 1.0 - 2 * ((np.arange(2**patterns) >> np.arange(patterns)[:, None]) & 1)
    return np.array([signs[list(subset)].prod(0) for subset in combinations(range(patterns), size)])

"""Sparse parity in a prompt by ReLU linear attention with few or many heads (Shi 2024, dissertation, Section 5.5, D.3).

Features are numbered from 0 here and from 1 there; d = 2^ν of them, a task is a pair (i, j), its label φ_i φ_j. A
network has signs a ``[head]`` and diagonals of V ``[head, d]``, and answers Σ_h a_h ReLU(2γ (V_i φ_i + V_j φ_j)) once a
prompt is long enough. γ is half the correlation of a task's features with its label, k = 2^ν_1 the number of
important features.

Where the source is mended: `optimal_network` is no network of least norm (`antichain_network` has less at d = 8, full
matrices less at every d); negative heads needed are `separating_heads`, not `printed_negative_heads`; the positive
heads of g_1* are to be scaled by ν_1 + 1, not ν_1, once other tasks occur; D has half the rank of its columns, so the
projection on it needs the pseudo-inverse; indices count from 0 in bin(i - 1), which the proof forgets.
"""

from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

PATTERNS = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
"""Signs of (φ_i, φ_j) ``[pattern, 2]``."""


class Network(NamedTuple):
    """A network whose matrices are diagonal in the features.

    Attributes:
        signs: a.
        diagonals: of V.
    """

    signs: Float[np.ndarray, " head"]
    diagonals: Float[np.ndarray, "head d"]


def pattern_probabilities(gamma: float) -> Float[np.ndarray, " pattern"]:
    """Of `PATTERNS`."""
    return np.array([0.25 + gamma, 0.25, 0.25, 0.25 - gamma])


def digits(features: int, count: int, first: int = 0) -> Int[np.ndarray, "digit feature"]:
    """The lowest ``count`` binary digits of every feature's number, which begins at ``first``, lowest digit first."""
    return (np.arange(first, first + features) >> np.arange(count)[:, None]) & 1


def optimal_network(digit: int, features: int, gamma: float, scale: float | None = None, first: int = 0) -> Network:
    """g* of Theorem 5.5.1 with ν = ``digit``: g_1* for ν_1 and g_2* for ν_2, each on all ``features``.

    Args:
        digit: ν, the digits that it looks at; it has 2(ν + 1) heads.
        features: d.
        gamma: γ.
        scale: of the positive heads in units of 1/(4γ); ν if None.
        first: number of the first feature.
    """
    rows = 2 * digits(features, digit, first) - 1
    positive = -np.full((1, features), float(digit if scale is None else scale))
    half = np.concatenate([rows, positive]) / (4 * gamma)
    signs = np.array([-1.0] * digit + [1.0])
    return Network(np.tile(signs, 2), np.concatenate([half, -half]))


def antichain_network(features: int, gamma: float) -> Network:
    """A network that answers every task with fewer heads: each feature is a subset of the negative heads.

    With n = `separating_heads` and subsets of size s = n//2 a negative head is +1/(4γ) on features whose subset it is
    in and -1/(4γ) on others; positive heads are s/(4γ) and -(n - s)/(4γ).
    """
    heads = separating_heads(features)
    size = heads // 2
    negative = -np.ones((heads, features))
    for feature, subset in zip(range(features), combinations(range(heads), size), strict=False):
        negative[list(subset), feature] = 1
    positive = np.outer([size, size - heads], np.ones(features))
    return Network(np.array([-1.0] * heads + [1.0] * 2), np.concatenate([negative, positive]) / (4 * gamma))


def hamming(digit: int, features: int) -> Float[np.ndarray, "d d"]:
    """In how many of the lowest ``digit`` digits two features' numbers differ: the margin of g* on every task."""
    bits = digits(features, digit)
    return (bits[:, :, None] != bits[:, None, :]).sum(0).astype(float)


def important(features: int, k: int) -> Float[np.ndarray, "d d"]:
    """Which tasks are in S_1: 1 for two different features below ``k``, else 0."""
    inside = np.zeros((features, features))
    inside[:k, :k] = 1
    return inside * (1 - np.eye(features))


def other_loss(k: int, features: int) -> float:
    """Hinge loss of g_1* on S_2: 1 on pairs that agree in the lowest digits and 0 on others."""
    return features * (features / k - 1) / (features * (features - 1) - k * (k - 1))


def noise_ratio(small: int, large: int) -> float:
    """E ‖P_{D_1} Ξ‖² over E ‖P_{D_2} Ξ‖² (Theorem 5.5.2) for ν_1 = ``small`` and ν_2 = ``large``."""
    return (small + 1) / (large + 1)


def projection(network: Network) -> Float[np.ndarray, "d d"]:
    """P_D, D with the diagonals as columns, by the pseudo-inverse: D^T D has no inverse."""
    d = network.diagonals.T
    return d @ np.linalg.pinv(d)


def printed_norm(digit: int, features: int, gamma: float) -> float:
    """Σ ‖V‖_F² of Theorem 5.5.1's network."""
    return features * (2 * digit + 2 * digit**2) / (16 * gamma**2)


def printed_rate(features: int, gamma: float) -> float:
    """p_T below which Theorem 5.5.1 is stated."""
    rare = 0.25 - gamma
    return rare / (features * (features - 1) / 2 * (0.25 + gamma) + rare)


def printed_negative_heads(features: int) -> int:
    """Negative heads that the proof of Theorem 5.5.1 says are needed: 2 ν."""
    return 2 * (features.bit_length() - 1)


def separating_heads(features: int) -> int:
    """Negative heads that are needed: the least n with n over n//2 at least ``features``.

    Every pair must be told apart both ways round: features are subsets of the heads of which none holds another, and
    by Sperner's theorem there are so many at most.
    """
    return next(n for n in range(1, features + 1) if comb(n, n // 2) >= features)


def searched_heads(features: int) -> int:
    """The same by trying all families of sign vectors, without Sperner's theorem; for 16 features at most."""
    return searched_family(features)[0]


@cache
def searched_family(features: int) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """How many heads that search ends with, and which of them, from 0, each feature has."""
    for heads in range(1, features + 1):
        if len(found := largest_antichain(heads, features)) >= features:
            break
    return heads, tuple(tuple(head for head in range(heads) if one >> head & 1) for one in found)


def largest_antichain(heads: int, enough: int) -> tuple[int, ...]:
    """Most subsets of ``heads`` heads of which none holds another, by search; ``enough`` if there are as many.

    Returns:
        a number each, whose binary digits are the heads.
    """
    subsets = range(2**heads)
    apart = [{b for b in subsets if b & a != a and b & a != b} for a in subsets]
    best: tuple[int, ...] = ()

    def extend(family: tuple[int, ...], left: set[int]) -> None:
        nonlocal best
        best = max(best, family, key=len)
        for a in sorted(left, key=lambda one: (abs(one.bit_count() - heads // 2), one)):
            if len(best) >= enough or len(family) + len(left) <= len(best):
                return
            left = left - {a}
            extend((*family, a), left & apart[a])

    extend((), set(subsets))
    return best

"""A neuron between two complementary masks: what noise pulls it towards, and what else than its feature moves it.

Wen & Li 2021 (arXiv 2105.15134), Lemmas B.6 and D.4. Given the mask D and the codes z, noise in the two views is
independent, and Gaussian: <w, x⁺> ~ N(<w, 2D M z>, 4 s² wᵀ D w), and so <w, x⁺⁺> with I - D.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr


def gate_edge(centre: ArrayLike, spread: ArrayLike, threshold: ArrayLike) -> np.ndarray:
    """d/du of Pr(|u + n| >= b), n ~ N(0, spread²), at u = centre: the density at b less that at -b."""
    centre, spread, threshold = map(np.asarray, (centre, spread, threshold))
    upper, lower = (np.exp(-np.square((side * threshold - centre) / spread) / 2) for side in (1.0, -1.0))
    return np.asarray((upper - lower) / (spread * np.sqrt(2 * np.pi)))


def mean_activation(centre: ArrayLike, spread: ArrayLike, threshold: ArrayLike) -> np.ndarray:
    """E h(u) for u ~ N(centre, spread²), h(u) = ReLU(u - b) - ReLU(-u - b)."""
    centre, spread, threshold = map(np.asarray, (centre, spread, threshold))
    first = np.zeros(np.broadcast_shapes(centre.shape, spread.shape, threshold.shape))
    for side in (1.0, -1.0):
        gap = (side * centre - threshold) / spread
        first = first + side * spread * (gap * ndtr(gap) + np.exp(-np.square(gap) / 2) / np.sqrt(2 * np.pi))
    return np.asarray(first)


def noise_pull(
    held: Float[np.ndarray, "*replica neuron"], edge: Float[np.ndarray, "*replica neuron"], s2: float
) -> Float[np.ndarray, "*replica neuron"]:
    """E[h(x⁺⁺) 1{|<w, x⁺>| >= b} <2D ξ, v>] = 2 s² <w, v> E[edge · mean activation], but for chance in the mask.

    By Stein's lemma it is 4 s² E[edge · mean activation · <v, D w>] exactly, and a fair mask keeps half of w.

    Args:
        held: <w, v>.
        edge: E[`gate_edge` of x⁺ · `mean_activation` of x⁺⁺] over masks and codes.
        s2: noise variance.
    """
    return 2 * s2 * held * edge


def spread_of_others(
    weight: Float[np.ndarray, "*replica neuron input"],
    dictionary: Float[np.ndarray, "*replica input feature"],
    own: Float[np.ndarray, "*replica neuron feature"],
    p: float,
    s2: float,
) -> Float[np.ndarray, "*replica neuron"]:
    """Standard deviation of Σ_{j not own} <w, 2D M_j> z_j + <w, 2D ξ>: what else than its own features a neuron sees.

    <w, 2D M_j> has mean <w, M_j> and variance Σ_s w_s² M_sj²; the noise has 2 s² ||w||².

    Args:
        weight: the neurons.
        dictionary: the features.
        own: 1 where a feature is the neuron's own, else 0.
        p: Pr(|z_j| = 1).
        s2: noise variance.
    """
    each = np.square(weight @ dictionary) + np.square(weight) @ np.square(dictionary)
    return np.asarray(np.sqrt(p * (each * (1 - own)).sum(-1) + 2 * s2 * np.square(weight).sum(-1)))

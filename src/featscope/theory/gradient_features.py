"""Gradient features in closed form (dissertation, Chapter 3 and Appendix B), and what is mended.

Thresholds are in units of how far first weights go along a feature: t = b~/(σ_w ‖μ_j‖), c = b~/(σ_w √k).
"""

from collections.abc import Sequence
from itertools import product
from math import comb, erfc, hypot, log, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

XOR_OUTER, OUTER, INNER = 1.2, 1.5, 0.5
"""C_Sure,1 of Section B.5.3; C_Sure,1 and C_Sure,2 of Sections B.5.2 and B.5.4."""


def normal_tail(z: float) -> float:
    """Q(z), the chance that a standard normal is above ``z``."""
    return erfc(z / sqrt(2)) / 2


def xor_sure_probability(t: float, spread: float) -> float:
    """Chance that a neuron of the XOR mixture is sure of one cluster, but for its norm: <w, μ_1> >= 1.2 b~ and
    |<w, μ_3>| <= √2 σ_B σ_w ‖μ‖, the printed C_Sure,2 b~ whatever the threshold (derived, for Lemma B.37)."""
    return normal_tail(XOR_OUTER * t) * (1 - 2 * normal_tail(sqrt(2) * spread))


def mixture_sure_probability(t: Sequence[float], component: int) -> float:
    """Chance that a neuron is sure of one of several components with orthogonal means, each at its own threshold, but
    for its norm (derived, for Lemma B.30)."""
    others = np.prod([1 - normal_tail(INNER * one) for place, one in enumerate(t) if place != component])
    return normal_tail(OUTER * t[component]) * float(others)


def parity_sure_probability(c: float, blocks: int) -> float:
    """Chance that a neuron is sure of one block of a structured parity, but for norms (derived, for Lemma B.47)."""
    return normal_tail(OUTER * c) * (1 - 2 * normal_tail(INNER * c)) ** (blocks - 1)


def label_input_mean(block: int, tuned: float) -> float:
    """Length of E[yx] along each D_j of a structured parity; Remark B.45 has 0 (derived)."""
    return 2 * tuned * sqrt(block)


def block_gradient_length(blocks: int, block: int, tuned: float) -> float:
    """‖G‖ of a neuron w = D_j that fires where all of block j is 1, over p_A √k (derived, for Lemma B.50).

    Beside D_j's own part, 1, it fires for uniform inputs, of which 2^-k have the block whole. There the label is that
    of 1 + S, S the sum of r - 1 signs, which is 1 more often than -1 by the chance that S = 0.
    """
    uniform = (1 - 2 * blocks * tuned) * 2.0**-block * comb(blocks - 1, (blocks - 1) // 2) / 2 ** (blocks - 1)
    return 1 + uniform / tuned


def mirrored_cosine(blocks: int, block: int, tuned: float) -> float:
    """Cosine to D_j of the gradient of the mirror image of that neuron: G(-w, -b) = E[yx] - G(w, b) (derived)."""
    own = 2 - block_gradient_length(blocks, block, tuned)
    return own / hypot(own, 2 * sqrt(blocks - 1))


# --- Networks that are right (Lemmas B.26, B.34, B.41, B.51) ------------------------------------------------------


class TrueNetwork(NamedTuple):
    """g*(x) = Σ a_i ReLU(<D_i, x> - b_i).

    Attributes:
        readout: a_i.
        feature: place of D_i among the features.
        knot: b_i.
        side: 1, or -1 where it is -D_i that stands there.
    """

    readout: Float[np.ndarray, " neuron"]
    feature: Float[np.ndarray, " neuron"]
    knot: Float[np.ndarray, " neuron"]
    side: Float[np.ndarray, " neuron"]

    def __call__(self, z: Float[np.ndarray, "*case feature"]) -> Float[np.ndarray, "*case"]:
        """g* at inputs with <D_j, x> = ``z``."""
        inputs = np.asarray(z)[..., self.feature.astype(int)] * self.side
        return np.maximum(inputs - self.knot, 0) @ self.readout

    @property
    def norm(self) -> float:
        """‖a‖."""
        return float(np.linalg.norm(self.readout))


def linear_network(margin: float) -> TrueNetwork:
    """<w*, x>/β as two neurons (Lemma B.26)."""
    one = np.ones(2)
    side = np.array([1.0, -1.0])
    return TrueNetwork(side / margin, 0 * one, 0 * one, side)


def mixture_network(labels: Sequence[float], dimension: int, tau: float, spread: float) -> TrueNetwork:
    """One neuron a component, of knot 2K, K = σ_B √(τ log d) (Lemmas B.34 and B.41)."""
    scale, one = spread * sqrt(tau * log(dimension)), np.ones(len(labels))
    return TrueNetwork(np.array(labels, float) / scale, np.arange(len(labels)) * one, 2 * scale * one, one)


def parity_wave(blocks: int, block: int) -> TrueNetwork:
    """3r(k + 1) neurons whose sum is a triangle wave in each <D_j, x> (Lemma B.51)."""
    readout, feature, knot = [], [], []
    for j, i in product(range(blocks), range(block + 1)):
        for corner, size in ((-1, 1), (0, -2), (1, 1)):
            readout.append((-1) ** (i + 1) * size * sqrt(block))
            feature.append(j)
            knot.append((2 * i - block + corner) / sqrt(block))
    return TrueNetwork(np.array(readout), np.array(feature, float), np.array(knot), np.ones(len(knot)))


def parity_cases(blocks: int, block: int) -> tuple[Float[np.ndarray, "case block"], Float[np.ndarray, " case"]]:
    """All that <D_j, x> can be for a structured parity, with labels: what is off the blocks does not count."""
    sums = range(-block, block + 1, 2)
    mixed = [(each, sum((-1) ** ((block - one) // 2) for one in each)) for each in product(sums, repeat=blocks)]
    alone = [
        (tuple(side * block * (j == other) for other in range(blocks)), side)
        for j, side in product(range(blocks), (1, -1))
    ]
    z, y = ([case[part] for case in mixed + alone] for part in (0, 1))
    return np.array(z, float) / sqrt(block), np.sign(np.array(y, float))


def printed_wave_norm(blocks: int, block: int) -> float:
    """B_a2 of Lemma B.51."""
    return 2 * sqrt(blocks * block * (block + 1))


def wave_norm(blocks: int, block: int) -> float:
    """‖a‖ of the wave of Lemma B.51 (derived)."""
    return sqrt(6 * blocks * block * (block + 1))


def mixture_hinge_bound(dimension: int, tau: float) -> float:
    """Hinge loss that `mixture_network` has at most (Lemmas B.34 and B.41)."""
    return 3 / dimension**tau + 4 / (dimension ** (0.9 * tau - 1) * sqrt(tau * log(dimension)))


# --- Theorems -----------------------------------------------------------------------------------------------------


def concentration_bound(second_moment: float, samples: float) -> float:
    """Distance of a sample's G to G, but for a constant, as printed (Lemma B.18)."""
    return sqrt(second_moment) / samples ** (1 / 3)


def good_network_excess(
    features: int, readout: float, input_norm: float, cone: float, knot: float, least: float, neurons: float
) -> float:
    """Loss that Lemma 3.14 adds to OPT: r B_a1 B_x1 (√(2γ) + 2 √(B_b/B_G)/(mp)^(1/4)), the arguments in this order."""
    return features * readout * input_norm * (sqrt(2 * cone) + 2 * sqrt(knot / least) / neurons**0.25)

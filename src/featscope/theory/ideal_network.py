"""The network that contrastive learning on sparse coding should end at, w_i = M_i, in closed form or by sampling.

Wen & Li 2021 (arXiv 2105.15134), Theorems 3.4 and E.1, Lemmas E.5 and E.6. Each feature has a neuron that holds it
alone, with a threshold of t times its norm. What it sees is z_j + n with n ~ N(0, s²); under RandomMask each view has
noise of twice that variance, independent of the other's, and a little crosstalk of other features.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import optimize, stats

BATCHES = 12


def fires(centre: ArrayLike, spread: ArrayLike, threshold: ArrayLike) -> np.ndarray:
    """Pr(|u| > b) for u ~ N(centre, spread²)."""
    centre, spread, threshold = map(np.asarray, (centre, spread, threshold))
    return np.asarray(stats.norm.sf((threshold - centre) / spread) + stats.norm.cdf((-threshold - centre) / spread))


def soft_threshold_moments(centre: float, spread: float, threshold: float) -> tuple[float, float]:
    """E h(u) and E h(u)² for u ~ N(centre, spread²) and h the symmetrised ReLU with that threshold."""
    first, second = 0.0, 0.0
    for side in (1.0, -1.0):
        gap = side * centre - threshold
        tail, density = float(stats.norm.cdf(gap / spread)), float(stats.norm.pdf(gap / spread))
        first += side * (gap * tail + spread * density)
        second += (gap**2 + spread**2) * tail + gap * spread * density
    return first, second


@dataclass(frozen=True)
class IdealNetwork:
    """w_i = M_i for every feature, with thresholds in one ratio to the norms.

    Attributes:
        p: Pr(|z_j| = 1).
        s2: noise variance.
        features: d.
        input_dim: d1.
        threshold: b_i over ||w_i||.
    """

    p: float
    s2: float
    features: int
    input_dim: int
    threshold: float

    def _moments(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Of h where the feature is present, and where it is not."""
        at = sqrt(self.s2), self.threshold
        return soft_threshold_moments(1.0, *at), soft_threshold_moments(0.0, *at)

    @property
    def noise_moves(self) -> float:
        """Root mean square of ||f(x) - f(Mz)|| over that of ||f(Mz)||, over inputs that hold a signal, z != 0."""
        (first, second), (_, silent) = self._moments()
        clean, there = 1 - self.threshold, self.p / (1 - (1 - self.p) ** self.features)  # Pr(|z_j| = 1 | z != 0)
        moved = there * (second - 2 * clean * first + clean**2) + (1 - there) * silent
        return sqrt(moved / (there * clean**2))

    @property
    def readout_error(self) -> float:
        """Relative squared error of the best linear readout of <w*, z>."""
        (first, second), (_, silent) = self._moments()
        return 1 - self.p * first**2 / (self.p * second + (1 - self.p) * silent)

    @property
    def wrong_firing(self) -> float:
        """Pr(fires xor feature present) over Pr(fires or feature present)."""
        missed = 1 - float(fires(1.0, sqrt(self.s2), self.threshold))
        false = (1 - self.p) * float(fires(0.0, sqrt(self.s2), self.threshold))
        return (self.p * missed + false) / (self.p + false)

    @property
    def best(self) -> "IdealNetwork":
        """With the threshold at which noise moves the output least."""
        found = optimize.minimize_scalar(
            lambda t: replace(self, threshold=t).noise_moves, bounds=(0.0, 0.95), method="bounded"
        )
        return replace(self, threshold=float(found.x))

    def saturation(self, temperature: float, weight_decay: float, anchors: int, negatives: int) -> tuple[float, float]:
        """The amplitude F_j at which the loss no longer outweighs the decay, and the loss there.

        The gradient along the weights, keys held fixed, is τ-free but for the logits:
        F_j E[(-(1 - ℓ_p) h(x⁺⁺) + Σ ℓ_s h(x_s)) 1{fires} <M_j, x⁺>] + λ F_j = 0. Means are over sampled batches,
        always the same.
        """
        return _saturation(self, temperature, weight_decay, anchors, negatives)


@lru_cache(maxsize=64)
def _saturation(
    ideal: IdealNetwork, temperature: float, weight_decay: float, anchors: int, negatives: int
) -> tuple[float, float]:
    batches = _batches(ideal, anchors, negatives)

    def at(log_amplitude: float) -> tuple[float, float]:
        amplitude, pull, loss = np.exp(log_amplitude), 0.0, 0.0
        for likeness, slope in batches:
            logits = amplitude * likeness / temperature
            highest = logits.max(1, keepdims=True)
            weights = np.exp(logits - highest)
            total = weights.sum(1, keepdims=True)
            loss += temperature * float((np.log(total) + highest - logits[:, :1]).mean()) / len(batches)
            share = weights / total
            share[:, 0] -= 1
            pull += float((share * slope).sum(1).mean()) / len(batches)
        return pull + weight_decay * ideal.features, loss

    low, high = np.log(temperature) - 5, np.log(temperature) + 8
    if at(low)[0] > 0 or at(high)[0] < 0:
        return float("nan"), float("nan")
    root = float(optimize.brentq(lambda log_amplitude: at(log_amplitude)[0], low, high, xtol=1e-4))
    return float(np.exp(root)), at(root)[1]


def _batches(
    ideal: IdealNetwork, anchors: int, negatives: int
) -> list[tuple[Float[np.ndarray, "anchor key"], Float[np.ndarray, "anchor key"]]]:
    """Similarities of anchors and keys at amplitude 1, and how they grow with the anchors' weights."""
    draws, t = np.random.default_rng(0), ideal.threshold

    def h(u: np.ndarray) -> np.ndarray:
        return np.asarray(u - u.clip(-t, t))

    found = []
    for _ in range(BATCHES):
        signs = draws.choice([-1.0, 1.0], (anchors + negatives, ideal.features))
        z = np.where(draws.random(signs.shape) < ideal.p, signs, 0.0)
        own = z[:anchors]
        spill = np.sqrt(np.abs(own).sum(1, keepdims=True) / ideal.input_dim)
        crosstalk = spill * draws.standard_normal(own.shape)  # of opposite sign in the other view
        first, second = (
            own + side * crosstalk + sqrt(2 * ideal.s2) * draws.standard_normal(own.shape) for side in (1, -1)
        )
        keys = h(z[anchors:] + sqrt(ideal.s2) * draws.standard_normal(z[anchors:].shape)).T
        each = []
        for seen in (h(first), (np.abs(first) > t) * first):
            positive = (seen * h(second)).sum(1, keepdims=True)
            each.append(np.concatenate([positive, seen @ keys], 1))
        found.append((each[0], each[1]))
    return found

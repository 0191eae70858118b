"""Predictions for contrastive learning on sparse-coding data, in closed form and in float64.

Wen & Li 2021 (arXiv 2105.15134). Symbols: d features, d1 input dimensions, M the dictionary, P = M Mᵀ,
p = Pr(|z_j| = 1), s² the noise variance per coordinate, η step size, λ weight decay, τ temperature,
|B| keys of an anchor. Nothing here touches a model or a training step.
"""

from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

_C0, _GAMMA = 0.01, 0.01  # which are small constants in Definition B.1


def activity(features: int, sparsity: float) -> float:
    """p = C_z log log d / d (Definition 2.1)."""
    return sparsity * log(log(features)) / features


def noise_variance(features: int, noise: float = 1.0) -> float:
    """s² = noise · √(log d) / d (Definition 2.1)."""
    return noise * log(features) ** 0.5 / features


def masked_positive_term(
    weight: Float[np.ndarray, "*replica neuron input"],
    dictionary: Float[np.ndarray, "*replica input feature"],
    p: float,
) -> Float[np.ndarray, "*replica neuron input"]:
    """E[h_i(x⁺⁺) x⁺] = p (P - diag P) w_i at b = 0 under RandomMask, exactly: no noise term is left.

    Lemma C.2 states it up to lower order; the exact form follows from independence of the two halves.
    """
    diagonal = np.square(dictionary).sum(axis=-1)[..., None, :]
    return p * ((weight @ dictionary) @ np.swapaxes(dictionary, -1, -2) - weight * diagonal)


def plain_rates(p: float, s2: float) -> tuple[float, float]:
    """Growth rates of E[h_i(x) x] = (p P + s² I) w_i along features and orthogonal to them (Lemma F.1, b = 0)."""
    return p + s2, s2


def pair_covariance(
    weight: Float[np.ndarray, "*replica neuron input"],
    dictionary: Float[np.ndarray, "*replica input feature"],
    p: float,
) -> Float[np.ndarray, "*replica neuron"]:
    """Cov(<w_i, x⁺>, <w_i, x⁺⁺>) = p (||Mᵀw_i||² - Σ_s w_is² P_ss) under RandomMask."""
    diagonal = np.square(dictionary).sum(axis=-1, keepdims=True)
    return p * (np.square(weight @ dictionary).sum(axis=-1) - (np.square(weight) @ diagonal)[..., 0])


@dataclass(frozen=True)
class Stage1:
    """Stage I for a Hadamard dictionary: b = 0 and uniform logits, so that the dynamics are linear.

    The expected squared norms of the weights, along features and orthogonal to them, follow

        E(t+1) = g² E(t) + η² V / K · (second moment of h(x⁺⁺)),

    growth by the population gradient plus what batches of K anchors add by chance, with V the summed second
    moments of the coordinates of x⁺ in that part. The paper's Hypothesis C.4 is the limit of large K.

    Attributes:
        p: Pr(|z_j| = 1).
        s2: noise variance.
        features: d.
        input_dim: d1.
        lr: η.
        weight_decay: λ.
        keys: |B|, positive and negatives.
        anchors: K; infinity for population gradients.
    """

    p: float
    s2: float
    features: int
    input_dim: int
    lr: float
    weight_decay: float
    keys: int
    anchors: float

    @property
    def factors(self) -> tuple[float, float]:
        """Population growth of weights in a step, along features and orthogonal to them.

        1 - ηλ + ηκp(1 - d/d1) and 1 - ηλ - ηκp d/d1 with κ = 1 - 1/|B|.
        """
        pull = self.lr * (1 - 1 / self.keys) * self.p
        share = self.features / self.input_dim
        decay = 1 - self.lr * self.weight_decay
        return decay + pull * (1 - share), decay - pull * share

    @property
    def of_population(self) -> "Stage1":
        """The same with population gradients, as in the paper's Hypothesis C.4."""
        return replace(self, anchors=inf)

    def _transition(self) -> Float[np.ndarray, "2 2"]:
        share = self.features / self.input_dim
        # Second moments of <u, x⁺> for unit u in the span of the features and orthogonal to it; the mask adds
        # the diagonal of the covariance a second time.
        inside, outside = self.p + 2 * self.s2 + self.p * share, 2 * self.s2 + self.p * share
        spread = np.array([inside * self.features, outside * (self.input_dim - self.features)])
        chance = self.lr**2 / self.anchors * np.outer(spread, [inside, outside])
        return np.diag(np.square(self.factors)) + chance

    def energies(self, steps: int) -> Float[np.ndarray, "time 2"]:
        """Squared norms along features and orthogonal to them at steps 0..``steps``, summing to 1 at the start."""
        path = [np.array([self.features, self.input_dim - self.features]) / self.input_dim]
        for _ in range(steps):
            path.append(self._transition() @ path[-1])
        return np.stack(path)

    def log_growth(self, steps: int) -> float:
        """Logarithm of the growth of the squared norm along features in ``steps`` steps."""
        path = self.energies(steps)[:, 0]
        return float(np.log(path[-1] / path[0]))

    def duration(self, feature_energy: float) -> float:
        """Steps until the share of feature energy reaches ``feature_energy``; infinite if not in 100,000 steps."""
        transition, energy = self._transition(), np.array([self.features, self.input_dim - self.features])
        energy = energy / self.input_dim
        if energy[0] < feature_energy > self.ceiling():
            return inf  # the share goes from its start towards the ceiling and not beyond
        for step in range(100_000):
            if energy[0] >= feature_energy * energy.sum():
                return float(step)
            energy = transition @ energy
            energy /= energy.sum()  # only the share matters, and energies outgrow floats
        return inf

    def share_of_chance(self, feature_energy: float) -> float:
        """Share of the feature energy at the end of Stage I that batches added by chance, not growth of the start.

        NaN if Stage I never ends; 0 if it is over at the start.
        """
        if not isfinite(duration := self.duration(feature_energy)):
            return float("nan")
        steps = int(duration)
        path = self.energies(steps)[:, 0]
        return float(1 - path[0] * self.factors[0] ** (2 * steps) / path[-1])

    def off_features(self, steps: int) -> float:
        """The norm off the features after ``steps`` steps, over its start: root mean square over neurons."""
        path = self.energies(steps)[:, 1]
        return float((path[-1] / path[0]) ** 0.5)

    def ceiling(self) -> float:
        """The share of feature energy that Stage I tends to: 1 for population gradients."""
        values, vectors = np.linalg.eig(self._transition())
        leading = np.abs(vectors[:, np.argmax(values.real)].real)
        return float(leading[0] / leading.sum())


def lucky_constant() -> float:
    """c2 = 2 + 2(1 - γ)c0 - γ c0, the constant of the lucky sets (Definition B.1)."""
    return 2 + 2 * (1 - _GAMMA) * _C0 - _GAMMA * _C0


def sure_constant() -> float:
    """c1 = 2 + 2(1 - γ)c0, the constant of the sets Set*_j of neurons that are lucky for one feature alone."""
    return 2 + 2 * (1 - _GAMMA) * _C0


def lucky_probability(features: int, constant: float) -> float:
    """Pr(α_ij² >= c log d/d · ||Mᵀw_i||²) at random initialisation.

    The squared coordinates of a random direction follow a Beta(1/2, (d-1)/2) law.
    """
    return float(stats.beta.sf(constant * log(features) / features, 0.5, (features - 1) / 2))


def order_kept(features: int, correlation: float) -> float:
    """Rank correlation of |a_j| and |b_j| over ``features`` jointly Gaussian pairs of that correlation, by sampling."""
    draws = np.random.default_rng(0)
    before, chance = draws.standard_normal((2, 20_000, features))
    after = correlation * before + (1 - correlation**2) ** 0.5 * chance
    ranks = (np.abs(a).argsort(-1).argsort(-1) - (features - 1) / 2 for a in (before, after))
    first, second = ranks
    return float((first * second).sum() / np.square(first).sum())


def raw_readout_error(p: float, s2: float) -> float:
    """Relative squared error of the best linear readout of <w*, z> from the raw input: s²/(p + s²)."""
    return s2 / (p + s2)


def noise_cosine(energy: Any, p: float, s2: float) -> Any:
    """cos(f(x), f(ξ)) of a linear network (thresholds of 0), where ``energy`` is ‖WM‖²/‖W‖²: (1 + p/s² energy)^-1/2."""
    return (1 + p / s2 * energy) ** -0.5


def loss_floor(features: int, p: float, negatives: int) -> float:
    """Loss over τ of a perfect, infinitely scaled representation of z: E log(1 + N (p/2)^k), k ~ Bin(d, p).

    Negatives that agree with an anchor on its active signals cannot be told from its positive. An upper
    estimate (Jensen) of the mean over batches.
    """
    k = np.arange(features + 1)
    return float(stats.binom.pmf(k, features, p) @ np.log1p(negatives * (p / 2) ** k))


def orthogonal_rows_similarity(width: int, norm: float, s2: float) -> tuple[float, float]:
    """E||f(x)||² and the root mean square of <f(x), f(x')> when rows are orthogonal to each other and to M.

    Lemma F.2 at b = 0: m r² s² and √m r² s².
    """
    return width * norm**2 * s2, width**0.5 * norm**2 * s2


def orthogonal_rows_loss(width: int, norm: float, s2: float, temperature: float, negatives: int) -> float:
    """Loss without mask of neurons that see noise alone, where it is small (Lemma F.2 with constants).

    It is E S in place of E log(1 + S), and so an upper bound: 7 % above at .1 τ and d = 64, 20 % at .3 τ, and soon far
    above any loss. With v = r² s², the sum over negatives of E exp((<f, f'> - ||f||²)/τ) is N (1 + 2v/τ -
    v²/τ²)^(-m/2): <f, f'> is Gaussian given f, and ||f||² is v times a chi-square variable of m degrees. Infinite for
    v >= (1 + √2) τ, where single pairs outweigh all others.
    """
    v = norm**2 * s2 / temperature
    base = max(1 + 2 * v - v**2, 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        return float(temperature * negatives * np.float64(base) ** (-width / 2))


def mask_perturbation(
    weight: Float[np.ndarray, "*replica neuron input"],
    dictionary: Float[np.ndarray, "*replica input feature"],
    p: float,
    s2: float,
) -> Float[np.ndarray, "*replica neuron"]:
    """E<w_i, (I - 2D)x>² = Σ_s w_is² (p P_ss + s²): what the mask moves a neuron by (Lemma B.4)."""
    diagonal = np.square(dictionary).sum(axis=-1, keepdims=True)
    return (np.square(weight) @ (p * diagonal + s2))[..., 0]

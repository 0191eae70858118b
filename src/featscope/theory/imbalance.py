"""Predictions for contrastive learning on imbalanced sparse-coding data, in closed form and in float64.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data (the version with pruning).
V: Liao et al., On the Training Dynamics of Contrastive Learning with Imbalanced Feature Distributions.

The system: a sample is L tokens M z^(l) + noise; feature j is in a sample with probability p_j = p0 ε_j, with one
random sign ±1 for all tokens, and shows in a token with chance q, in one at least. The two samples of a positive
pair share features and signs. Attention is uniform, so that a neuron sees L times the token mean x̄:
h_i(X) = L BReLU_b(<w_i, x̄>). Symbols: d features, d1 input dimensions, M the dictionary, A_ij = <w_i, M_j>, s² the
noise variance of a coordinate of x̄ (σ²/L for independent noise of variance σ² in each token), η step size, λ weight
decay, τ temperature, |B| keys of an anchor, K anchors of a batch. Nothing here touches a model or a training step.
"""

from dataclasses import dataclass
from functools import cache
from math import isfinite, log, pi, sqrt
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import integrate, optimize, special, stats

_LONGEST = 100_000  # steps of Stage 1

# --- data -----------------------------------------------------------------------------------------------------------


def activities(features: int, minority: int, eps_min: float, activity: float) -> Float[np.ndarray, " feature"]:
    """p_j = p0 ε_j, the probability that a sample has feature j (P, Definition 3.1).

    The last ``minority`` features have ε_j = ``eps_min``, all others 1; p0 = ``activity``.

    Raises:
        ValueError: if ``minority`` is not in 0..``features``, or a probability not in [0, 1].
    """
    if not 0 <= minority <= features:
        raise ValueError(f"minority = {minority} must be between 0 and features = {features}.")
    p = np.full(features, float(activity))
    p[features - minority :] *= eps_min
    if (p < 0).any() or (p > 1).any():
        raise ValueError(f"activity = {activity} and eps_min = {eps_min} must give probabilities in [0, 1].")
    return p


def token_moments(tokens: int, token_activity: float = 1.0) -> tuple[float, float]:
    """Mean and mean square of N/L given N >= 1, with N ~ Bin(L, q): how much of an active feature is in x̄.

    Args:
        tokens: L.
        token_activity: q, in (0, 1]; 1 if every token shows every feature of its sample.
    """
    q, some = token_activity, 1 - (1 - token_activity) ** tokens
    return q / some, (q * (1 - q) / tokens + q**2) / some


def pair_correlation(
    p: Float[np.ndarray, " feature"], tokens: int, token_activity: float = 1.0
) -> Float[np.ndarray, " feature"]:
    """a_j = E[ẑ_j⁺ ẑ_j]/L², the growth of feature j in Stage 1 (V (45), (68); P Lemma F.3).

    With h_i(X) = L <w_i, x̄>, E[h_i(Y) <∇h_i(X), M_j>] = a_j A_ij for ẑ_j = L Σ_l z_j^(l), exactly and whatever the
    noise. Tokens of X and Y are masked independently given the feature: a_j = L² p_j (q/(1 - (1-q)^L))², which is
    L² p_j at q = 1.
    """
    return tokens**2 * p * token_moments(tokens, token_activity)[0] ** 2


def linear_attention_gain(
    p: Float[np.ndarray, " feature"], tokens: int, input_dim: int, noise_std: float
) -> Float[np.ndarray, " feature"]:
    """By how much linear attention, z^(r) = X Xᵀ x^(r)/L, makes a_j larger than uniform attention does, at q = 1.

    A sample with N active features and tokens s + ξ^(l) has, in expectation over the noise, h_i = (L N + σ²(d1 + L +
    1)) <w_i, s> in place of L <w_i, s>: tokens weigh each other by |s|² = N, each itself by its noise besides,
    and what noise and signal have in common adds σ²(L + 1). X and Y have noise of their own, so that the gain is
    E[(N + σ²(d1 + L + 1)/L)² | j active].

    Args:
        p: p_j.
        tokens: L.
        input_dim: d1.
        noise_std: σ of a token.
    """
    extra = noise_std**2 * (input_dim + tokens + 1) / tokens
    mean, variance = 1 + p.sum() - p, (p * (1 - p)).sum() - p * (1 - p)
    return np.square(mean + extra) + variance


# --- Stage 1 --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairStage1:
    """Stage 1: b = 0 and uniform logits 1/|B|, so that a step is linear in the weights.

    A step is w <- (1 - ηλ) w + c Ĉ w with c = ηL², or ηL²/τ for the loss without a leading τ, and with Ĉ the
    covariance of the x̄ of anchors and keys in a batch of K anchors. Expectations of A_ij, and of its square, follow
    linear recursions that are exact for every K. The papers' statements are the limit of large K.

    What is left out is the departure of logits from 1/|B|, of order Σ_i ||w_i||²/τ (V (39)). Neurons of one network
    share batches: what a batch adds by chance does not average out over neurons, only over networks.

    Attributes:
        activities: p_j of each feature.
        tokens: L.
        input_dim: d1.
        noise_variance: s², of a coordinate of x̄.
        lr: η.
        weight_decay: λ.
        keys: |B|, positive and negatives. ``keys`` = ``anchors`` means in-batch negatives, the positives of the
            other anchors; else negatives are samples of their own.
        anchors: K; infinity for population gradients.
        temperature: τ.
        loss_scale: "tau": the loss is multiplied by τ, as in the papers' gradients (P (21), (118)); "1": the loss of
            P (1) as printed, whose gradient is 1/τ times that.
        token_activity: q.
    """

    activities: Float[np.ndarray, " feature"]
    tokens: int
    input_dim: int
    noise_variance: float
    lr: float
    weight_decay: float
    keys: float
    anchors: float
    temperature: float = 1.0
    loss_scale: Literal["1", "tau"] = "tau"
    token_activity: float = 1.0

    @property
    def correlation(self) -> Float[np.ndarray, " feature"]:
        """a_j, see `pair_correlation`."""
        return pair_correlation(self.activities, self.tokens, self.token_activity)

    @property
    def non_feature_factor(self) -> float:
        """1 - ηλ: what a step multiplies the expected part outside the features by (P (8))."""
        return 1 - self.lr * self.weight_decay

    @property
    def growth(self) -> Float[np.ndarray, " feature"]:
        """g_j = 1 - ηλ + η(1 - 1/|B|) a_j: what a step multiplies the expectation of A_ij by (V (45), P (7)).

        η/τ in place of the second η for ``loss_scale`` "1". The papers drop 1 - 1/|B|.
        """
        return self.non_feature_factor + self._pull * (1 - 1 / self.keys) * self.correlation / self.tokens**2

    def amplitudes(self, steps: int) -> Float[np.ndarray, "time feature"]:
        """g_j^t = E[A_ij(t)]/A_ij(0) over batches, at steps 0..``steps``."""
        return self.growth ** np.arange(steps + 1)[:, None]

    def growth_ratio(self, steps: int) -> float:
        """(g_max/g_min)^t: by how much the most frequent feature has outgrown the rarest after ``steps`` steps."""
        return float((self.growth.max() / self.growth.min()) ** steps)

    def linear_growth_ratio(self, steps: Int[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
        """(1 + x_max t)/(1 + x_min t) with x = g - 1: `growth_ratio` if growth were linear in time (P (47))."""
        rates = self.growth - 1
        return (1 + rates.max() * steps) / (1 + rates.min() * steps)

    @property
    def stated_growth_ratio(self) -> float:
        """ε_max/ε_min, where P (47) and (49) bound `growth_ratio`.

        They read (1 + εx)^t as 1 + εxt, which is linear in ε: a bound while εxt is small, and broken soon after.
        """
        return float(self.activities.max() / self.activities.min())

    def outgrown(self) -> float:
        """`growth_ratio` at T1 over `stated_growth_ratio`; NaN where T1 is not reached."""
        t1 = self.duration()
        return self.growth_ratio(int(t1)) / self.stated_growth_ratio if isfinite(t1) else float("nan")

    @property
    def _pull(self) -> float:
        scale = {"1": 1 / self.temperature, "tau": 1.0}[self.loss_scale]
        return self.lr * scale * self.tokens**2

    def _start(self) -> Float[np.ndarray, " part"]:
        features = len(self.activities)
        return np.append(np.ones(features), self.input_dim - features) / self.input_dim

    def _transition(self) -> Float[np.ndarray, "part part"]:
        mean, square = token_moments(self.tokens, self.token_activity)
        p, s2, keys, anchors = self.activities, self.noise_variance, self.keys, self.anchors
        counts = np.append(np.ones(len(p)), self.input_dim - len(p))
        own = np.append(p * square, 0) + s2  # E[x̄_a²]
        pair = np.append(p * mean**2, 0)  # E[x̄_a ȳ_a] of a positive pair
        both = np.append(p * square**2 + 2 * s2 * p * square, 0) + s2**2  # E[x̄_a² ȳ_a²]
        kept = 1 - 1 / keys
        # Var Ĉ_ab = kept/K E[x̄_a²] E[x̄_b²] for a ≠ b. For a = b the fourth moment of sparse pairs comes in, and
        # that in-batch negatives use each pair of samples twice.
        diagonal = kept**2 / anchors * (both - own**2 - pair**2)
        if keys == anchors:
            diagonal = diagonal + kept * pair**2 / anchors**2
        chance = kept / anchors * np.outer(counts * own, own) + np.diag(diagonal)
        factors = np.append(self.growth, self.non_feature_factor)
        return np.diag(np.square(factors)) + self._pull**2 * chance

    def energies(self, steps: int) -> Float[np.ndarray, "time part"]:
        """Expected A_ij² of each feature, then the squared norm outside of all, at steps 0..``steps``.

        In units of the initial squared norm, so that they sum to 1 at step 0. The expectation is over Gaussian
        initialisation and batches:

            E_a(t+1) = factor_a² E_a(t) + c² Σ_b Var(Ĉ_ab) E_b(t),

        growth by the population gradient, plus what batches of K anchors add by chance.
        """
        transition, path = self._transition(), [self._start()]
        for _ in range(steps):
            path.append(transition @ path[-1])
        return np.stack(path)

    def share_of_chance(self, steps: int) -> Float[np.ndarray, " part"]:
        """Share of each energy after ``steps`` steps that batches added by chance, not growth of the start."""
        factors = np.append(self.growth, self.non_feature_factor)
        return 1 - self._start() * factors ** (2 * steps) / self.energies(steps)[-1]

    def duration(self, feature_energy: float = 0.5) -> float:
        """T1: steps until features hold the share ``feature_energy`` of the energy (P (34): one half).

        Infinite if that takes more than 100,000. For expected energies; P asks it of every neuron, and the last
        one is later. With population gradients and equal p_j it is log[φ(d1-d)/((1-φ)d)]/(2 log(g/(1-ηλ))),
        rounded up: of order log d1 / (η a), as in V and not P (33).
        """
        transition, energy = self._transition(), self._start()
        for step in range(_LONGEST):
            if energy[:-1].sum() >= feature_energy * energy.sum():
                return float(step)
            energy = transition @ energy
            energy /= energy.sum()  # only the share matters, and energies outgrow floats
        return float("inf")


# --- census of neurons at initialisation ----------------------------------------------------------------------------


def feature_share_probability(features: int, share: float) -> float:
    """Pr(A_ij² >= share · ||Mᵀw_i||²) at random initialisation.

    The squared coordinates of a random direction in d dimensions follow a Beta(1/2, (d-1)/2) law.
    """
    return float(stats.beta.sf(share, 0.5, (features - 1) / 2))


@dataclass(frozen=True)
class Census:
    """Ordinary and lucky neurons at random initialisation (P Definition B.1, Lemma B.2).

    Neuron i is ordinary for feature j (i in M_j) if A_ij² >= c2 log d/d ||Mᵀw_i||². It is lucky for j (i in M_j*)
    if A_ij² >= c1 log d/d ||Mᵀw_i||² and A_ij'² <= c2 log d/d ||Mᵀw_i||² for every other j'. Both constants use
    the ratio of the extremes for all features alike. Laws are exact at every d; counts of a network of m neurons are
    m times a probability.

    Attributes:
        features: d >= 3.
        ratio: r = ε_min/ε_max.
        gamma: γ; γ c0 in V.
    """

    features: int
    ratio: float
    gamma: float = 0.01

    @property
    def lucky_constant(self) -> float:
        """c1 = 2(1 + γ)/r² (P (28))."""
        return 2 * (1 + self.gamma) / self.ratio**2

    @property
    def ordinary_constant(self) -> float:
        """c2 = 2(1 - γ)r² (P (28))."""
        return 2 * (1 - self.gamma) * self.ratio**2

    @property
    def lucky_share(self) -> float:
        """c1 log d/d, the share of ||Mᵀw_i||² that a lucky neuron needs. None can be lucky where it exceeds 1."""
        return self.lucky_constant * log(self.features) / self.features

    @property
    def ordinary_share(self) -> float:
        """c2 log d/d, the share of ||Mᵀw_i||² that makes a neuron ordinary."""
        return self.ordinary_constant * log(self.features) / self.features

    @property
    def strong_probability(self) -> float:
        """p_1, of A_ij² reaching the lucky share whatever the other features: bounds `lucky_probability`."""
        return feature_share_probability(self.features, self.lucky_share)

    @property
    def ordinary_probability(self) -> float:
        """p_2 = Pr(i in M_j), so that E|M_j| = m p_2."""
        return feature_share_probability(self.features, self.ordinary_share)

    @property
    def features_per_neuron(self) -> float:
        """E|N_i| = d p_2, with N_i the features that neuron i is ordinary for (P (245))."""
        return self.features * self.ordinary_probability

    @property
    def shared_probability(self) -> float:
        """Pr(i in M_j and in M_j'), so that E|M_j ∩ M_j'| = m times this (V (23)); of one feature it is p_2.

        Given the share x of the one, the other's share of the rest follows a Beta(1/2, (d-2)/2) law.
        """
        d, share = self.features, self.ordinary_share
        one, other = stats.beta(0.5, (d - 1) / 2), stats.beta(0.5, (d - 2) / 2)
        return float(integrate.quad(lambda x: one.pdf(x) * other.sf(share / (1 - x)), share, max(1 - share, share))[0])

    @property
    def lucky_probability(self) -> float:
        """Pr(i in M_j*) for one feature j, so that E|M_j*| = m times this.

        Exact up to quadrature (ten digits, also where it is 1e-17). The squared coordinates are independent
        Γ(1/2) variables given that their sum is 1; the density of the sum, with one variable above the lucky share
        and the others below the ordinary one, is the inverse Laplace transform of a product of error functions,
        taken along the vertical line through its saddle point.
        """
        return _one_above_others_below(self.features, self.lucky_share, self.ordinary_share)

    @property
    def stated_lucky_probability(self) -> float:
        """d^{-(1+γ)/r²}, the lower bound of P (239) on |M_j*|/m.

        P (238) sets Pr(no other feature above the ordinary share) to 1. It tends to 0 for r < 1, and the bound fails.
        """
        return self.features ** -(self.lucky_constant / 2)

    @property
    def stated_features_per_neuron(self) -> float:
        """d^{1-(1-γ)r²}, the order of E|N_i| (P (247)); an upper bound as the tail has a factor 1/√log d besides."""
        return self.features ** (1 - self.ordinary_constant / 2)


@cache
def _one_above_others_below(d: int, high: float, low: float) -> float:
    """Pr(one squared coordinate of a random direction reaches ``high`` and no other exceeds ``low``)."""
    if high >= 1:
        return 0.0

    def exponent(theta: Any) -> Any:
        root = np.sqrt(theta)
        one = np.log(special.erfcx(root * sqrt(high))) - theta * high
        others = (d - 1) * np.log(special.erf(root * sqrt(low)))
        return theta + one + others - d / 2 * np.log(theta)

    found = optimize.minimize_scalar(lambda u: exponent(np.exp(u)), bounds=(-3, log(50 * d)), method="bounded")
    saddle = np.exp(found.x)
    # Summing in place of integrating adds the density at 1 + 2πk/step, k >= 1, times e^(-2πk saddle/step): below
    # e^-50. The terms fall slowest at d = 3, for which there are enough.
    step = min(saddle / 10, 0.5)
    omega = step * np.arange(400_000)
    peak = exponent(saddle)
    values = np.exp(exponent(saddle + 1j * omega) - peak).real
    line = step / pi * (values.sum() - values[0] / 2)
    return float(line * np.exp(peak + special.gammaln(d / 2)))


# --- the end of training --------------------------------------------------------------------------------------------


def optimal_learner(
    dictionary: Float[np.ndarray, "input feature"],
    lucky: Bool[np.ndarray, "neuron feature"],
    amplitude: Float[np.ndarray, "neuron feature"],
    temperature: float,
    kappa: float,
) -> Float[np.ndarray, "neuron input"]:
    """θ*: every lucky neuron is √τ κ/|M_j*| · M_j with the sign that its A_ij has, all others 0 (P (115)).

    Args:
        dictionary: M.
        lucky: whether neuron i is in M_j*, at initialisation.
        amplitude: A_ij at the end of Stage 2; signs alone matter.
        temperature: τ.
        kappa: κ, of order max_j |M_j| and at most 1/(λd) in P.

    Raises:
        ValueError: if a neuron is lucky for more than one feature.
    """
    if (lucky.sum(axis=1) > 1).any():
        raise ValueError("A neuron is lucky for one feature at most.")
    size = sqrt(temperature) * kappa / np.maximum(lucky.sum(axis=0), 1)
    return (lucky * np.sign(amplitude) * size) @ dictionary.T


def stated_feature_energy(p: Float[np.ndarray, " feature"]) -> Float[np.ndarray, " feature"]:
    """(ε_j/ε_max)², what F_j = Σ_i A_ij² is at the end of training relative to the most frequent feature.

    From F_j = Θ((ε_j/ε_max)² τ log³ d) (P Theorem E.1) and α_ij ~ ε_j/ε_max (P Theorem 3.1). A comparison, not a
    prediction: see `featscope.theory.pruning.stationary_energies` for where training ends.
    """
    return np.square(p / p.max())

"""Predictions for forward magnitude pruning with unmasked updates, in closed form and in float64.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data, Algorithm 1, Theorem 3.2 and Appendix F. System
and symbols are those of `featscope.theory.imbalance`. Pruning takes neurons out of the logits ℓ' alone: the update of
every neuron uses its own, unpruned h_i(Y) ∇h_i(X) (P (5), (184)).
"""

from collections.abc import Iterator
from itertools import product
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from featscope.theory.imbalance import pair_correlation

# --- one step -------------------------------------------------------------------------------------------------------


def similarity_change(
    anchors: Float[np.ndarray, "*replica anchor neuron"],
    keys: Float[np.ndarray, "*replica key neuron"],
    pruned: Bool[np.ndarray, "*replica neuron"],
) -> Float[np.ndarray, "*replica anchor key"]:
    """Δu = -Σ h_i(X) h_i(Y) over pruned neurons: what pruning does to similarities (P (208)).

    Args:
        anchors: activations h_i(X).
        keys: activations h_i(Y).
        pruned: which neurons the mask takes out.
    """
    return -(anchors * pruned[..., None, :]) @ keys.swapaxes(-1, -2)


def positive_logit_change(
    logits: Float[np.ndarray, "*replica anchor key"],
    change: Float[np.ndarray, "*replica anchor key"],
    positive: Int[np.ndarray, " anchor"],
    temperature: float,
) -> Float[np.ndarray, "*replica anchor"]:
    """Δℓ'_p = ℓ'_p (Δu_p - Σ_keys ℓ' Δu)/τ, to first order in Δu (P (211)).

    P takes Δu_p out of the sum, which makes the factors ℓ'_p (1 - ℓ'_p) and ℓ'_p ℓ'_s.

    Args:
        logits: ℓ', softmax over the keys of an anchor before pruning.
        change: Δu.
        positive: index of the positive key of each anchor.
        temperature: τ.
    """
    at = ..., np.arange(len(positive)), positive
    return logits[at] * (change[at] - (logits * change).sum(axis=-1)) / temperature


def stated_factors(
    lr: float, weight_decay: float, pruning_ratio: float, eps: float, activity: float, features: int
) -> tuple[float, float]:
    """Theorem 3.2 as printed: least factor of a minority neuron's A in a step, and greatest of other features' A.

    1 - ηλ + ηε²αx (P (15)) and 1 + ηε³αx/d (P (16)), x = C_z log log d/d. The constants in Ω and O are not given and
    taken as 1, so that trends in α and ε can be compared, values not.

    P disagrees with itself here. Theorem F.1, of which this is said to be a simplification, has in place of ε²α in the
    first ε(Θ(1/polylog d) + Ω(αmε log log d/(dΞ_2²))), which is the same only for m log log d = dΞ_2² and without the
    first term; and in the second a decay 1 - ηλ and ε_j ε² in place of ε³, ε_j of the other feature. F.1 (c) is about
    pruned neurons, 3.2 (c) about lucky ones. The time in which a minority feature catches up is taken as
    (1/ε - 1)/(ηε²αx), which reads an exponential as linear: log(1/ε) belongs in place of 1/ε - 1. P (185) takes the
    expectation of a product as that of its factors. For a law without free constants see `logit_gap`.

    Args:
        lr: η.
        weight_decay: λ.
        pruning_ratio: α, share of neurons that are pruned; all of them learn the minority feature.
        eps: ε of the minority feature, 1 for the others.
        activity: p0, in place of C_z log log d/d.
        features: d.
    """
    gain = lr * eps**2 * pruning_ratio * activity
    return 1 - lr * weight_decay + gain, 1 + gain * eps / features


# --- logits of singletons ---------------------------------------------------------------------------------------------

# ∫_0^∞ f(t) dt as a sum over log t, which converges like e^(-π²/step). In units of the positive's weight Z is between 1
# and |B|, so that all of the integral is far above t = e^-30.
_LOG_T, _STEP = np.linspace(-30, 4, 137, retstep=True)
_T = np.exp(_LOG_T)


def logit_gap(
    strength: Float[np.ndarray, " feature"], activities: Float[np.ndarray, " feature"], keys: int
) -> Float[np.ndarray, " feature"]:
    """E[1 - Σ_keys ℓ' s_j s'_j | feature j in the sample]: what logits leave of the pull to feature j.

    s and s' are the signs of the anchor and of a key, 0 where the feature is absent. The gap is 1 for uniform logits
    over many keys and 0 once every key with weight agrees. For neurons that are multiples of features, the expectation
    of A_ij is multiplied in a step by exactly

        1 - ηλ + η a_j (1 - b_i/||w_i||) gap_j

    (η/τ in place of the second η for the loss without a leading τ), whether the neuron itself is pruned or not. So the
    gap stands where P (185) has E[1 - ℓ'_p | j]. That is larger: keys that share the anchor's features and signs take
    weight from the positive without pulling, because negatives do not cancel once logits prefer such keys.

    Holds for token activity 1, no noise, and negatives independent of each other. Cost grows with the product, over
    sets of features that have both p_j and strength in common, of how many of a set a sample can have.

    Args:
        strength: Σ_i L²(A_ij - b_i)²/τ over the neurons of feature j that are not pruned: similarity over τ of two
            samples that share the feature.
        activities: p_j.
        keys: |B| >= 2, the positive among them.
    """
    groups, member, size = np.unique(np.stack([activities, strength]), axis=1, return_inverse=True, return_counts=True)
    return _gap_and_tilt(groups[1], groups[0], size, keys)[0][member.reshape(-1)]


def singleton_growth(
    strength: Float[np.ndarray, " feature"],
    activities: Float[np.ndarray, " feature"],
    tokens: int,
    keys: int,
    temperature: float = 1.0,
    loss_scale: Literal["1", "tau"] = "tau",
) -> Float[np.ndarray, " feature"]:
    """a_j gap_j: growth of neurons that are multiples of feature j in a step, over η, before decay and at b = 0.

    a_j/τ for ``loss_scale`` "1". Token activity is 1. Arguments as of `logit_gap` and `stationary_energies`.
    """
    pull = pair_correlation(activities, tokens) * {"1": 1 / temperature, "tau": 1.0}[loss_scale]
    return pull * logit_gap(strength, activities, keys)


def _gap_and_tilt(
    strength: Float[np.ndarray, " group"], p: Float[np.ndarray, " group"], size: Int[np.ndarray, " group"], keys: int
) -> tuple[Float[np.ndarray, " group"], Float[np.ndarray, " group"]]:
    """`logit_gap` and E[Σ ℓ'(1 - ℓ') | j in the sample], the sum over keys that have feature j, for groups of features.

    With 1/Z = ∫ e^{-tZ} dt and 1/Z² = ∫ t e^{-tZ} dt, expectations over independent keys become products.
    """
    gap, tilt = np.zeros(len(p)), np.zeros(len(p))
    for own in range(len(p)):
        for probability, u, weight in _companions(strength, p, size - (np.arange(len(p)) == own)):
            # One key: e^{u - u_p}, its probability, 1 - s s' and whether it has the feature.
            e = np.exp(np.add.outer(u, strength[own] * np.array([-2, -1, 0]))).ravel()
            chance = np.outer(weight, [p[own] / 2, 1 - p[own], p[own] / 2]).ravel()
            apart, present = np.tile([2.0, 1.0, 0.0], len(u)), np.tile([1.0, 0.0, 1.0], len(u))
            laplace = np.exp(-np.outer(_T, e)) * chance
            positive = _STEP * _T * np.exp(-_T)  # dt = t d(log t)
            others = positive * laplace.sum(axis=1) ** (keys - 2)
            gap[own] += probability * (keys - 1) * others @ (laplace @ (e * apart))
            negatives = others @ (laplace @ (e * present)) - (others * _T) @ (laplace @ (e * e * present))
            own_weight = positive * laplace.sum(axis=1) ** (keys - 1) * (1 - _T)
            tilt[own] += probability * ((keys - 1) * negatives + own_weight.sum())
    return gap, tilt


def _companions(
    strength: Float[np.ndarray, " group"], p: Float[np.ndarray, " group"], size: Int[np.ndarray, " group"]
) -> Iterator[tuple[float, Float[np.ndarray, " case"], Float[np.ndarray, " case"]]]:
    """What else is in a sample: its probability, and the law of u - u_p that a key has from these features."""
    pmf = [stats.binom.pmf(np.arange(n + 1), n, q) for n, q in zip(size, p, strict=True)]
    for counts in product(*(np.flatnonzero(f > 1e-8) for f in pmf)):
        probability = float(np.prod([f[n] for f, n in zip(pmf, counts, strict=True)]))
        if probability < 1e-7:
            continue
        u, weight = np.zeros(1), np.ones(1)
        for kappa, q, n in zip(strength, p, counts, strict=True):
            signs = np.ones(1)
            for _ in range(n):
                signs = np.convolve(signs, [q / 2, 1 - q, q / 2])
            u = np.add.outer(u, kappa * np.arange(-2 * n, 1)).ravel()
            weight = np.outer(weight, signs).ravel()
        yield probability, u, weight


# --- where training ends ----------------------------------------------------------------------------------------------


def stationary_energies(
    activities: Float[np.ndarray, " feature"],
    tokens: int,
    weight_decay: float,
    bias_ratio: float,
    keys: int,
    temperature: float = 1.0,
    loss_scale: Literal["1", "tau"] = "tau",
    noise_variance: float = 0.0,
) -> Float[np.ndarray, " feature"]:
    """F_j = Σ_i A_ij² at which weight decay balances what the logits leave of the pull, for a network of singletons.

    Solves λ = a_j (1 - c)(gap_j - v κ_j tilt_j) with a_j = L² p_j and κ_j = L²(1-c)² F_j/τ, see `logit_gap`; a_j/τ
    for ``loss_scale`` "1". Neurons of a feature share a growth factor, so that F_j does not depend on how many there
    are or how they share it. F_j is 0 where λ exceeds the pull even at κ_j = 0. Nothing like (ε_j/ε_max)² comes out.

    A mask that stays, and hides the share 1 - φ of a feature's energy from the logits, moves its F_j to F_j/φ, without
    bound for φ = 0. A mask that follows the smallest norms from step to step is not covered.

    The term with v = s²/(1-c)² is the leading effect of noise, tilt_j = E[Σ ℓ'(1 - ℓ') | j] over keys that have the
    feature: among keys that agree, logits prefer those whose noise exaggerates the feature, and push away from them.
    It needs a bias that noise alone does not pass, s << c. Left out are orders κ²v relative to gap_j, and fluctuations
    of the weights, of order η. Measured in simulations with d = 20, 5 minority features at ε >= .1, p0 = .1, |B| = 512,
    c = 1/4: F_j is within .6 % at s <= .025, 2 % at .05, 4 % at .1; 1.6 % instead of .6 % for features in only 5
    samples of a batch at η = .1, which is gone at η = .025.

    Args:
        activities: p_j; token activity is 1.
        tokens: L.
        weight_decay: λ > 0.
        bias_ratio: c = b_i/||w_i||.
        keys: |B|.
        temperature: τ.
        loss_scale: as in `featscope.theory.imbalance.PairStage1`.
        noise_variance: s², of a coordinate of the token mean.

    Raises:
        ValueError: if ``weight_decay`` is not positive, so that weights grow without bound.
        ArithmeticError: if no stationary state is found.
    """
    if weight_decay <= 0:
        raise ValueError(f"weight_decay = {weight_decay} must be positive for weights to settle.")
    scale = {"1": 1 / temperature, "tau": 1.0}[loss_scale]
    p, member, size = np.unique(activities, return_inverse=True, return_counts=True)
    pull = scale * tokens**2 * p * (1 - bias_ratio)
    spread = noise_variance / (1 - bias_ratio) ** 2
    kappa = np.ones(len(p))
    before = change = np.zeros(len(p))
    for _ in range(1000):
        gap, tilt = _gap_and_tilt(kappa, p, size, keys)
        excess = np.log(gap / (weight_decay / pull + spread * kappa * tilt))
        # A secant step in log κ: features hardly depend on each other. At first the gap is taken to fall like e^-κ.
        slope = (before - excess) / np.where(change == 0, 1, change)
        change = np.clip(excess / np.where((slope > 0.05) & (before != 0), slope, 1 + kappa), -1, 1)
        before, kappa = excess, kappa * np.exp(change)
        if (np.abs(change) < 1e-10)[kappa > 1e-9].all():
            kappa = np.where(kappa > 1e-9, kappa, 0.0)
            return kappa[member.reshape(-1)] * temperature / (tokens * (1 - bias_ratio)) ** 2
    raise ArithmeticError(f"No stationary state found at weight_decay = {weight_decay}, bias_ratio = {bias_ratio}.")

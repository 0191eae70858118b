"""What theory says of the prediction head (Wen & Li 2022), in closed form, float64.

"D": derived here from the paper's system, where the paper has an order of magnitude or nothing. Time is in units of
1/η, the loss in the scale of (A.1). Two neurons unless said otherwise; features 1 (strong) and 2 (weak).
"""

from dataclasses import dataclass
from math import atan, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom


@dataclass(frozen=True)
class PatchMoments:
    """What the learner's population loss needs to know of data and views.

    Attributes:
        same: E[k_l k'_l] α_l⁶ of a feature's patches in either view, for both features; the paper's C0 α_l⁶.
        own: E[k_l²] α_l⁶; C1 α_l⁶.
        noise_patches: C2, mean number of noise patches in a view. The paper has all of them; half is right.
    """

    same: tuple[float, float]
    own: tuple[float, float]
    noise_patches: float

    @property
    def agreement(self) -> float:
        """C0/C1, the most that the outputs of two views can correlate."""
        return self.same[0] / self.own[0]


def patch_moments(
    patches: int, feature_patches: int, strong: float, weak: float, strong_share: float = 0.5, *, both: bool = False
) -> PatchMoments:
    """Moments of views that are complementary random halves (D).

    Args:
        patches: P.
        feature_patches: P0.
        strong: α_1.
        weak: α_2.
        strong_share: probability of feature 1; ignored with ``both``.
        both: whether every sample has both features, with independent signs.
    """
    shown = hypergeom(patches, feature_patches, patches // 2)
    square = float(shown.var() + shown.mean() ** 2)
    crossed = float(feature_patches * shown.mean() - square)
    shares = (1.0, 1.0) if both else (strong_share, 1 - strong_share)
    powers = [share * alpha**6 for share, alpha in zip(shares, (strong, weak), strict=True)]
    noise = (patches - feature_patches * (2 if both else 1)) / 2
    return PatchMoments((crossed * powers[0], crossed * powers[1]), (square * powers[0], square * powers[1]), noise)


def optimum(moments: PatchMoments, width: int = 2) -> float:
    """The least loss, m (1 - C0/C1): that of noiseless neurons and E = I, whichever features they have (Cor. E.3)."""
    return width * (1 - moments.agreement)


def ends_on_strong(overlaps: ArrayLike, same: tuple[float, float] | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a neuron without head ends on feature 1 (D): α_1^1.5 |B_j1| > α_2^1.5 |B_j2| at the start.

    1/(α_1⁶ B_j1⁴) - 1/(α_2⁶ B_j2⁴) does not change.

    Args:
        overlaps: B_jl, ``[..., feature]``.
        same: C0 α_l⁶ of the data, see `PatchMoments`; ``[..., feature]``.
    """
    pull = np.abs(np.asarray(overlaps, dtype=float)) * np.asarray(same) ** 0.25
    return pull[..., 0] > pull[..., 1]


def strong_probability(moments: PatchMoments) -> float:
    """Probability that a neuron without head ends on feature 1, from a Gaussian start (D).

    All m neurons do with its m-th power.
    """
    return 1 - 2 / pi * atan((moments.same[1] / moments.same[0]) ** 0.25)


def phase_one_time(
    overlap: ArrayLike, noise_norm: ArrayLike, moments: PatchMoments, noise_std: float, reached: float
) -> NDArray[np.float64]:
    """When a neuron's overlap with feature 1 reaches ``reached``, while its α_1 |B| is small (D, order in Lemma B.13).

    Args:
        overlap: B_11 at the start.
        noise_norm: R_1 at the start, which is taken as constant.
        moments: of the data.
        noise_std: s.
        reached: |B_11| at the end.
    """
    b, r = np.abs(np.asarray(overlap, dtype=float)), np.asarray(noise_norm, dtype=float)
    noise = moments.noise_patches * 15 * noise_std**6 * r**3
    return np.asarray(noise / (12 * moments.same[0]) * (b**-4.0 - reached**-4.0))


def head_at_phase_one(
    slow: ArrayLike, fast: ArrayLike, reached: ArrayLike, fast_noise: ArrayLike, slow_noise: ArrayLike, rate: float
) -> NDArray[np.float64]:
    """E_21 when the fast neuron has learned feature 1, while α_1 |B| is small (D, order in Lemma B.13).

    dE_21/dt = η_E C0 α_1⁶ B_21³ B_11³/(C2 15 s⁶ R_2³) over dB_11/dt = 3 η C0 α_1⁶ B_11⁵/(C2 15 s⁶ R_1³) is
    integrated over B_11, at constant R_1 and R_2, while B_21⁻⁴ falls (R_1/R_2)³ times as fast as B_11⁻⁴.

    Args:
        slow: B_21 at the start.
        fast: B_11 at the start.
        reached: B_11 then.
        fast_noise: R_1 at the start.
        slow_noise: R_2 at the start.
        rate: η_E/η.
    """
    given = (slow, fast, reached, fast_noise, slow_noise)
    b21, start, end, r1, r2 = (np.asarray(x, dtype=float)[..., None] for x in given)
    places, weights = np.polynomial.legendre.leggauss(64)
    b11 = start * (end / start) ** ((1 + places) / 2)
    with np.errstate(invalid="ignore"):  # a slow neuron that would be there first has none
        b21_then = (b21**-4.0 - (r1 / r2) ** 3 * (start**-4.0 - b11**-4.0)) ** -0.25
    each = rate / 3 * (r1 / r2) ** 3 * b21_then**3 / b11**2
    return np.asarray((each * b11 * weights).sum(-1) * np.log(end / start)[..., 0] / 2)


def noise_decay(
    time: ArrayLike, noise_norm: ArrayLike, overlap: ArrayLike, feature: int, moments: PatchMoments, noise_std: float
) -> NDArray[np.float64]:
    """R_j some time after a neuron learned a feature: (R_0^-2 + 180 s⁶ C0 C2 t/(C1² α⁶ B⁶))^-1/2 (D, order in E.2b).

    Args:
        time: t since R_j was ``noise_norm``.
        noise_norm: R_0, small.
        overlap: B_jl, which does not change.
        feature: 0 or 1, the one learned.
        moments: of the data.
        noise_std: s.
    """
    same, own = moments.same[feature], moments.own[feature]
    rate = 180 * noise_std**6 * same * moments.noise_patches / (own**2 * np.asarray(overlap, dtype=float) ** 6)
    return np.asarray((np.asarray(noise_norm, dtype=float) ** -2.0 + rate * np.asarray(time, dtype=float)) ** -0.5)


def head_decay_rate(borrowed: ArrayLike, own: ArrayLike, moments: PatchMoments, rate: float) -> NDArray[np.float64]:
    """How fast E_21 decays once neuron 1 has feature 1 and neuron 2 feature 2, without noise (D, order in E.1).

    Args:
        borrowed: B_11, of the neuron whose output is added.
        own: B_22, of the neuron that it is added to.
        moments: of the data.
        rate: η_E/η.
    """
    ratio = np.asarray(borrowed, dtype=float) / np.asarray(own, dtype=float)
    return np.asarray(rate * moments.agreement * moments.own[0] / moments.own[1] * ratio**6)


def head_peak_bound(norm: ArrayLike, rate: float) -> NDArray[np.float64]:
    """The most that |E_21| can reach: ||w_2(0)|| √(η_E/3η), as ||w_2||² + 3 (η/η_E)(E_21² - E_12²) is constant (D).

    Args:
        norm: ||w_2|| at the start.
        rate: η_E/η.
    """
    return np.asarray(np.asarray(norm, dtype=float) * sqrt(rate / 3))

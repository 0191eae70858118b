"""Claims that no run is needed for: closed forms of Section 6.4 and Appendix E.1."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from featscope.claims import POSITIVE, ROUNDING, bound, identity
from featscope.studies.nuclear_norm.arms import SINGULAR
from featscope.studies.nuclear_norm.bounded_rank import RankClaims
from featscope.theory import nuclear_norm as theory

SIZES = ((37, 163, 0.496), (50, 260, 0.45), (100, 850, 0.35))
"""r, d - r and γ at which strengths are compared."""


@dataclass(frozen=True)
class ClosedForms(RankClaims):
    """Claims about formulas alone."""

    @bound("Lemma E.1", on=SINGULAR, at_most=0.0, law="exact", note="And it is strictly concave from 0 on.")
    def logistic_slope_lemma(self) -> float:
        r"""The slope of the logistic loss falls at least exponentially.

        $\ell'(z+c)\le e^{-c}\ell'(z)$ for $c>0$. Measured: the largest of left less right, and of the curvature of
        $\ell'$ for $z>0$, on a grid.
        """
        z, c = np.linspace(-10, 10, 201)[:, None], np.linspace(0.01, 10, 100)
        left, right = -1 / (1 + np.exp(z + c)), -np.exp(-c) / (1 + np.exp(z))
        positive = np.linspace(0.01, 10, 200)
        bend = np.exp(positive) * (1 - np.exp(positive)) / (1 + np.exp(positive)) ** 3
        return max(float((left - right).max()), float(bend.max()))

    @identity(
        "derived, for Proposition 6.3",
        on=SINGULAR,
        equals=37.0,
        within=0.0,
        law="exact",
        because="Whole numbers.",
        note="'r > C, C < 20' is never what binds.",
    )
    def fewest_invariant_features(self) -> float:
        r"""The range of $\gamma$ asks for at least 37 invariant features.

        $3/\sqrt r<\gamma<1/2$. Measured: least r for which there is such a $\gamma$.
        """
        return float(next(r for r in range(1, 1000) if 3 / r**0.5 < 0.5))

    @bound("derived, for Proposition 6.3", on=SINGULAR, at_most=1 / 3, law="exact", range=POSITIVE)
    def sharper_strength(self) -> float:
        r"""(E.31) gives $\alpha<1/\sqrt r$ from a third of the printed strength on.

        Measured: the largest of its strength over $\sqrt r/e^{\sqrt r/5}$, r = 37, 50 and 100.
        """
        return max(theory.sufficient_strength(*one) / theory.printed_strength(one[0]) for one in SIZES)

    @identity("(E.31)", on=SINGULAR, equals=1.0, within=1e-12, law="exact", because=ROUNDING)
    def strength_is_its_three_parts(self) -> float:
        r"""The strength of (E.31) is what three kinds of samples push $\alpha$ up by at $\alpha=1/\sqrt r$.

        Half the logistic slope at $\alpha(r-1)/4$, a quarter of $P[A\le(r-1)/4]$ and half of $P[B\le0]$, by Hoeffding
        (Lemma E.4). Measured: strength over $\sqrt r$ times their sum, at the r above, the one farthest from 1.
        """
        ratios = []
        for r, q, gamma in SIZES:
            low_b, low_a = theory.hoeffding_bounds(r - 1, q, gamma)
            parts = expit(-(r - 1) / (4 * r**0.5)) / 2 + low_a / 4 + low_b / 2
            ratios.append(float(theory.sufficient_strength(r, q, gamma) / (r**0.5 * parts)))
        return max(ratios, key=lambda ratio: abs(ratio - 1))

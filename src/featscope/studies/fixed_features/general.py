"""Claims of `fixed-features` about the general setting: incoherent patterns, noise, a rare class (Appendix A.8)."""

from dataclasses import dataclass

import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, STATED, bound, identity, ordering
from featscope.studies.base import last
from featscope.studies.fixed_features.arms import COHERENT, GENERAL, GENERAL_RANDOM
from featscope.studies.fixed_features.first_steps import FirstStepsClaims


def learned(run: xr.Dataset) -> xr.DataArray:
    """Whether balanced accuracy is 95 % at the end."""
    balanced = last(run, run.balanced)
    return (balanced >= 0.95).where(balanced.notnull())


@dataclass(frozen=True)
class GeneralClaims(FirstStepsClaims):
    """Claims of `fixed-features` about the general setting."""

    @identity("Lemma A.33", on=GENERAL, equals=1.0, within=0.02, because=f"Tolerance: {STATED}", range=POSITIVE)
    def weighted_moments(self, run: xr.Dataset) -> xr.DataArray:
        r"""With classes weighed alike, labels point at relevant patterns as they do where classes are balanced.

        $E[\alpha_yy\phi_j]=\gamma/\tilde\sigma$. Measured: coefficients of $E[\alpha_yyx]$ on the relevant patterns
        over it, mean over patterns.
        """
        return run.moment.mean("pattern", skipna=False)

    @bound(
        "Theorem A.28",
        on=GENERAL,
        not_on={GENERAL_RANDOM: "Its features are fixed."},
        at_least=0.5,
        law="yes/no",
        because="Bound: most.",
        note="The theorem wants patterns whose cosines are all below 1/D, up to a constant. Here they are random, of "
        "1/√d in the mean square, which at default sizes is 3.5 times that.",
    )
    def general_setting_is_learned(self, run: xr.Dataset) -> xr.DataArray:
        """A network learns parities of patterns that are hardly orthogonal, with noise and a rare class.

        Measured: whether the mean over classes of the test accuracy is 95 % at the end.
        """
        return learned(run)

    @ordering("derived, for Theorem A.28", on=COHERENT, more_than=0.05, range=COSINE)
    def two_steps_need_incoherence(self, run: xr.Dataset) -> xr.DataArray:
        """Features of two steps are worth the more, the less patterns have to do with each other.

        Measured: test accuracy of a second layer on them in the largest dimension less in the smallest.
        """
        accuracy = last(run, run.accuracy)
        return accuracy.isel(dimension=-1) - accuracy.isel(dimension=0)

    @identity(
        "derived, for Theorem A.28",
        on=COHERENT,
        equals=0.0,
        within=0.03,
        because="Tolerance: chosen when the mean over dimensions had been seen, which was within 0.015.",
        range=SHARE,
        note="What relevant patterns have in common with each other is left out. It differs from replica to replica.",
    )
    def coherence_blurs_the_count(self, run: xr.Dataset) -> xr.DataArray:
        r"""In every dimension features of two steps are worth what other patterns and noise leave of the count.

        A normal error of variance $k((D-k)p_o(1-p_o)/d+\sigma_\zeta^2)$. Measured: test accuracy less that of the best
        rule for the count with it, without sign, the largest over dimensions.
        """
        return abs(self._above_the_blur(run)).max("dimension", skipna=False)

    @bound(
        "derived, for Theorem A.28",
        on=COHERENT,
        at_most=0.02,
        because="Bound: 2 % for test sets.",
        range=COSINE,
    )
    def blurred_count_is_a_ceiling(self, run: xr.Dataset) -> xr.DataArray:
        r"""In no dimension are features of two steps worth more than other patterns and noise leave of the count.

        The normal error is that of `coherence-blurs-the-count`. Measured: test accuracy less that of the best rule for
        the count with it, the largest over dimensions.
        """
        return self._above_the_blur(run).max("dimension", skipna=False)

    def _above_the_blur(self, run: xr.Dataset) -> xr.DataArray:
        return last(run, run.accuracy) - xr.DataArray(self.blurred(run), dims="dimension")

"""Claims of Theorem 5.5.2 and Section 5.7: what prompts with an end do to small and large networks."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, STATED, bound, fitted_exponent, identity, ordering, scaling
from featscope.studies.icl_parity.arms import EXAMPLES, FLIPPED, WIDER, WIDEST
from featscope.studies.icl_parity.constructed import ConstructedClaims
from featscope.studies.reductions import largest
from featscope.theory import sparse_parity as theory

PROMPTED = (EXAMPLES, WIDER, WIDEST)
HALF_POWER = f"Tolerance: 0.1 for Monte Carlo and prompts that are not yet long; {STATED}"
LOG = (
    "At the first length noise is larger than signal. Whether log 1/δ stands within the root, as in the proof, or not, "
    "as in the theorem, is not judged."
)
MONTE_CARLO = f"Tolerance: 5 % for Monte Carlo; {STATED}"
to_rounding = partial(bound, law="exact", at_most=1e-10, because="Bound: rounding.")


@dataclass(frozen=True)
class DecompositionClaims(ConstructedClaims):
    """Claims about networks that are set by hand, on prompts with an end."""

    def sizes(self, arm: str) -> tuple[int, int]:
        """ν_1 and ν_2."""
        d, k = self._size(arm)
        return k.bit_length() - 1, d.bit_length() - 1

    def both(self, values: xr.DataArray, arm: str) -> list[xr.DataArray]:
        """Values of the small and of the large network."""
        return [values.isel(size=nu - 1) for nu in self.sizes(arm)]

    # --- Theorem 5.5.2 ------------------------------------------------------------------------------------------------

    @to_rounding("Theorem 5.5.2, derived", on=(*PROMPTED, FLIPPED))
    def decomposition_identity(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A network sees of a prompt and a query one vector only: $g = h(\theta, S)$.

        $S_l = \phi_{q,l}\,(G^\top X^\top y/M)_l$. Measured: largest difference over prompts and networks.
        """
        return largest(run.off_identity)

    @to_rounding("Theorem 5.5.2", on=(*PROMPTED, FLIPPED))
    def projection_changes_nothing(self, run: xr.Dataset) -> xr.DataArray:
        r"""What lies outside the span of a network's heads does not change its answer.

        $h(\theta, P_DS) = h(\theta, S)$. Measured: largest difference over prompts and networks.
        """
        return largest(run.off_projection)

    @to_rounding("Theorem 5.5.2", on=PROMPTED)
    def signal_loss_zero(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The signal alone is answered without loss by both networks.

        $\ell(y\,h(\theta_j, 2\gamma\hat\phi_q)) = 0$ on S_1. Measured: mean hinge loss of the worse one.
        """
        return largest(xr.concat(self.both(run.signal_loss, arm), "which"))

    @identity("derived, for Theorem 5.5.2", on=PROMPTED, equals=1.0, within=0.05, because=MONTE_CARLO, range=POSITIVE)
    def noise_power(self, run: xr.Dataset) -> xr.DataArray:
        r"""The noise that reaches a network grows with its digits: $E\|P_D\Xi\|^2 = (\nu+1)/M$.

        Measured: over this, mean over networks and lengths of prompts.
        """
        nu = xr.DataArray(np.arange(1, run.sizes["size"] + 1), dims="size")
        return (run.noise_power * run.samples / (nu + 1)).mean(["size", "samples"], skipna=False)

    @identity("Theorem 5.5.2", on=PROMPTED, equals=1.0, within=0.05, because=MONTE_CARLO, range=POSITIVE)
    def noise_ratio(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The small network gets less noise than the large one, by $(\nu_1+1)/(\nu_2+1)$.

        Measured: ratio of $E\|P_{D_1}\Xi\|^2$ and $E\|P_{D_2}\Xi\|^2$ over this, mean over lengths of prompts.
        """
        small, large = self.both(run.noise_power, arm)
        return (small / large / theory.noise_ratio(*self.sizes(arm))).mean("samples", skipna=False)

    @scaling("Theorem 5.5.2", on=PROMPTED, equals=-0.5, within=0.1, because=HALF_POWER, note=LOG)
    def decomposition_rate_of_small(self, run: xr.Dataset, arm: str) -> np.ndarray:
        r"""What the decomposition leaves out of the small network's answer falls as $M^{-1/2}$.

        Measured: exponent of the 90 % quantile of $|g_1^*-h(\theta_1, 2\gamma\hat\phi_q+P_{D_1}(\Xi))|$ over M, from
        the second length on.
        """
        return _exponent(self.both(run.gap_quantile, arm)[0])

    @scaling("Theorem 5.5.2", on=PROMPTED, equals=-0.5, within=0.1, because=HALF_POWER, note=LOG)
    def decomposition_rate_of_large(self, run: xr.Dataset, arm: str) -> np.ndarray:
        r"""What the decomposition leaves out of the large network's answer falls as $M^{-1/2}$.

        Measured: exponent of the 90 % quantile of $|g_2^*-h(\theta_2, 2\gamma\hat\phi_q+P_{D_2}(\Xi))|$ over M, from
        the second length on.
        """
        return _exponent(self.both(run.gap_quantile, arm)[1])

    @bound(
        "Theorem 5.5.2",
        not_on=WIDEST,
        at_most=0.5,
        note="The proof takes the square root of ν heads' sum as if their errors were independent.",
    )
    def error_grows_like_root_nu(self, run: xr.Dataset) -> np.ndarray:
        r"""What the decomposition leaves out grows no faster than $\sqrt\nu$.

        Measured: exponent of the 90 % quantile of $|g-h|$ over $\nu$ from 2 on, at the longest prompts.
        """
        return _over_digits(run)

    @scaling(
        "derived here",
        on=WIDEST,
        more_than=0.5,
        note="Positive heads have weight ν, and no error of other heads.",
        corrects="error-grows-like-root-nu",
    )
    def error_grows_faster_than_root_nu(self, run: xr.Dataset) -> np.ndarray:
        r"""What the decomposition leaves out grows faster than $\sqrt\nu$, towards $\nu$.

        All heads share the error of two coordinates. Measured: exponent of the 90 % quantile of $|g-h|$ over $\nu$ from
        2 on, at the longest prompts.
        """
        return _over_digits(run)

    # --- Small beats large (Section 5.5.2) ----------------------------------------------------------------------------

    @ordering("Theorem 5.5.2, implications", on=PROMPTED, more_than=0.0, range=COSINE)
    def small_beats_large(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """The small network answers important tasks better than the large one.

        Measured: its accuracy less that of the large one on the same prompts, mean over their lengths.
        """
        small, large = self.both(run.accuracy, arm)
        return (small - large).mean("samples", skipna=False)

    @ordering("Theorem 5.5.2, implications", on=PROMPTED, less_than=0.0)
    def small_has_less_loss(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """The small network has less loss on important tasks than the large one.

        Measured: its hinge loss less that of the large one on the same prompts, mean over their lengths.
        """
        small, large = self.both(run.hinge, arm)
        return (small - large).mean("samples", skipna=False)

    @ordering("derived here", on=PROMPTED, more_than=0.0)
    def every_digit_more_costs(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Every digit beyond the $\nu_1$ that are needed costs.

        Measured: hinge loss with a digit more less that without, mean over lengths of prompts; the smallest of them.
        """
        steps = run.hinge.isel(size=slice(self.sizes(arm)[0] - 1, None)).diff("size")
        return steps.mean("samples", skipna=False).min("size", skipna=False)

    @ordering("derived here", on=WIDER, more_than=0.0)
    def too_few_digits_cost_more(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""A network with fewer digits than $\nu_1$ is worse, too: the best size is $\nu_1$.

        Measured: hinge loss with a digit less, less that of the small network, mean over lengths of prompts.
        """
        at = self.sizes(arm)[0] - 1
        return (run.hinge.isel(size=at - 1) - run.hinge.isel(size=at)).mean("samples", skipna=False)

    @ordering("Section 5.7", on=PROMPTED, less_than=0.0)
    def gap_falls_with_examples(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """The more examples, the smaller the gap between large and small.

        Measured: difference of their hinge losses after the longest prompts, less that after the shortest.
        """
        small, large = self.both(run.hinge, arm)
        gap = large - small
        return gap.isel(samples=-1) - gap.isel(samples=0)

    @ordering(
        "Section 5.7",
        not_on=FLIPPED,
        less_than=0.0,
        note="The section says that S_2 stands for label noise; there is none in the chapter's evaluation of parities.",
    )
    def flipped_labels_hurt_large_more(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Inverted labels take more accuracy from the large network than from the small one.

        Measured: change of the large one's accuracy from none to the most inverted, less that of the small one.
        """
        return self._hurt(run, arm)

    @ordering(
        "derived here",
        on=FLIPPED,
        more_than=0.0,
        note="They weaken the signal of both alike, and the small network has more to lose.",
        range=COSINE,
        corrects="flipped-labels-hurt-large-more",
    )
    def flipped_labels_hurt_small_more(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Inverted labels take more accuracy from the small network than from the large one.

        Measured: change of the large one's accuracy from none to the most inverted, less that of the small one.
        """
        return self._hurt(run, arm)

    def _hurt(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        small, large = (one.isel(flipped=-1) - one.isel(flipped=0) for one in self.both(run.accuracy, arm))
        return large - small


def _exponent(values: xr.DataArray) -> np.ndarray:
    """Over lengths of prompts from the second on, of each replica."""
    values = values.isel(samples=slice(1, None))
    return fitted_exponent(values.samples.values.astype(float), values.transpose("replica", "samples").values)


def _over_digits(run: xr.Dataset) -> np.ndarray:
    """Exponent of |g - h| over ν >= 2, at the longest prompts, of each replica."""
    last = run.gap_quantile.isel(samples=-1, size=slice(1, None)).transpose("replica", "size")
    return fitted_exponent(np.arange(2.0, last.sizes["size"] + 2), last.values)

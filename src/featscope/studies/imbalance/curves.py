"""What `imbalance` claims of the papers' four curves over the frequency of a rare feature (the paper, Figures 1-4)."""

from dataclasses import dataclass
from functools import partial

import xarray as xr

from featscope.claims import COSINE, POSITIVE, identity, ordering
from featscope.studies import last
from featscope.studies.imbalance.assumed import every_token_shows
from featscope.studies.imbalance.variations import Variations
from featscope.studies.reductions import mean

NO_DIFFERENCE = "Bound: no difference."
FALLS = "The paper draws a line for each noise level."
rises = partial(ordering, on="figures-3-4", more_than=0.0, because=NO_DIFFERENCE)
monotone = partial(
    ordering,
    more_than=0.0,
    because="Bound: no rise.",
    note="One number a network: points of a curve, and its noise levels, share their draws. The paper's curves are "
    "means over networks, whose least rise is no smaller than this.",
)


@dataclass(frozen=True)
class PapersCurves(Variations):
    """Claims of the papers' four curves."""

    # --- their ends ---------------------------------------------------------------------------------------------------

    @ordering("Figure 1", on="figures-1-2", more_than=1.0, because="Bound: one neuron; none is no rise.")
    def minority_count_rises(self, run: xr.Dataset) -> xr.DataArray:
        r"""The more frequent a feature, the more neurons hold it.

        The number of neurons of cosine $\geq 0.3$ with the minority feature rises with $\epsilon_{\min}$. Measured:
        neurons that hold it at the largest $\epsilon_{\min}$ minus those at the smallest, mean over noise levels.
        """
        return rise(last(run, run.minority_count), 0.01, 0.03, 0.05)

    @ordering("Figure 2", on="figures-1-2", more_than=0.0, because=NO_DIFFERENCE, range=COSINE)
    def minority_alignment_rises(self, run: xr.Dataset) -> xr.DataArray:
        r"""The more frequent a feature, the closer some neuron comes to it.

        The largest cosine of a neuron with the minority feature rises with $\epsilon_{\min}$. Measured: largest
        $|\cos|$ at the largest $\epsilon_{\min}$ minus that at the smallest, mean over noise levels.
        """
        return rise(last(run, run.minority_cosine), 0.01, 0.03, 0.05)

    @rises(
        "Figure 3",
        note="Test data are balanced, which P does not say, and pairs without a signal are left out.",
        range=COSINE,
    )
    def cosine_rises(self, run: xr.Dataset) -> xr.DataArray:
        r"""The more frequent the rare feature in training, the more alike test pairs look.

        $\cos(f(X), f(Y))$ of test pairs rises with $\epsilon_{\min}$. Measured: cosine of test pairs at the largest
        $\epsilon_{\min}$ minus that at the smallest, mean over $\sigma$ = 0.05, 0.075 and 0.1.
        """
        return rise(run.cosine, 0.05, 0.075, 0.1)

    @rises(
        "Figure 4",
        note="The target is <v, z> with a Gaussian v, one a replica; P does not say what it is. Test data are "
        "balanced. The head learns from 1000 pairs like those of training, so part of the fall is that few of them "
        "show the minority.",
    )
    def mse_falls(self, run: xr.Dataset) -> xr.DataArray:
        r"""The more frequent the rare feature in training, the more linear heads can read.

        The test error of a linear regression head falls with $\epsilon_{\min}$. Measured: error of linear heads at the
        smallest $\epsilon_{\min}$ minus that at the largest, mean over $\sigma$ = 0.03, 0.05 and 0.075.
        """
        return -rise(run.mse, 0.03, 0.05, 0.075)

    @rises("Figure 4", note="Not in the paper, whose target is unknown; here the effect should be largest.")
    def minority_mse_falls(self, run: xr.Dataset) -> xr.DataArray:
        r"""The more frequent the rare feature in training, the better linear heads read it.

        The test error of a linear head on the minority feature's own signal falls with $\epsilon_{\min}$. Measured:
        error on the rare feature's signal at the smallest $\epsilon_{\min}$ minus that at the largest, mean over
        $\sigma$ = 0.03, 0.05 and 0.075.
        """
        return -rise(run.mse_minority, 0.03, 0.05, 0.075)

    # --- the whole of them --------------------------------------------------------------------------------------------

    @monotone("Figure 1", on="figures-1-2")
    def minority_count_curve(self, run: xr.Dataset) -> xr.DataArray:
        r"""The number of neurons that hold a rare feature rises all along the curve.

        Measured: least rise from a point to the next, at all noise levels.
        """
        return least_rise(last(run, run.minority_count))

    @monotone("Figure 2", on="figures-1-2")
    def minority_alignment_curve(self, run: xr.Dataset) -> xr.DataArray:
        r"""The largest cosine with a rare feature rises all along the curve.

        Measured: least rise from a point to the next, at all noise levels.
        """
        return least_rise(last(run, run.minority_cosine))

    @monotone("Figure 3", on="figures-3-4", corrects="cosine-curve-imbalanced")
    def cosine_curve(self, run: xr.Dataset) -> xr.DataArray:
        r"""The likeness of test pairs rises all along the curve.

        Measured: least rise from a point to the next, at all noise levels.
        """
        return least_rise(run.cosine)

    @monotone("Figure 4", on="figures-3-4")
    def minority_mse_curve(self, run: xr.Dataset) -> xr.DataArray:
        r"""The error on a rare feature's signal falls all along the curve.

        Measured: least fall from a point to the next, at all noise levels.
        """
        return least_rise(-run.mse_minority)

    @monotone("Figure 3", not_on={"figures-3-4": "The paper does not say that its test data are balanced."})
    def cosine_curve_imbalanced(self, run: xr.Dataset) -> xr.DataArray:
        r"""The likeness of pairs like those of training rises all along the curve.

        Measured: least rise from a point to the next, at all noise levels.
        """
        return least_rise(run.cosine_imbalanced)

    # --- noise --------------------------------------------------------------------------------------------------------

    @identity(
        "Figure 2",
        on="figures-1-2",
        equals=0.0,
        within=0.02,
        because="Tolerance: 0.02, a stated choice.",
        note=f"{FALLS} At b = 0 neurons do not learn the noise, and the lines fall together.",
        range=COSINE,
    )
    def noise_and_alignment(self, run: xr.Dataset) -> xr.DataArray:
        r"""How noisy tokens are makes no difference to what neurons learn.

        Measured: largest cosine with the rare feature at $\sigma = 0.01$ minus that at 0.05, mean over
        $\epsilon_{\min}$.
        """
        return quieter(last(run, run.minority_cosine))

    @ordering("Figure 1", not_on="figures-1-2", more_than=0.5, because="Bound: half a neuron.", note=FALLS)
    def noise_and_count(self, run: xr.Dataset) -> xr.DataArray:
        r"""The noisier tokens are, the fewer neurons hold a rare feature.

        Measured: neurons that hold it at $\sigma = 0.01$ minus those at 0.05, mean over $\epsilon_{\min}$.
        """
        return quieter(last(run, run.minority_count))

    @rises("Figure 3", note=FALLS, range=COSINE)
    def noise_lowers_cosine(self, run: xr.Dataset) -> xr.DataArray:
        r"""The noisier tokens are, the less test pairs are alike.

        Measured: cosine of test pairs at $\sigma = 0.03$ minus that at 0.1, mean over $\epsilon_{\min}$.
        """
        return quieter(run.cosine)

    @rises("Figure 4", note=FALLS)
    def noise_raises_error(self, run: xr.Dataset) -> xr.DataArray:
        r"""The noisier tokens are, the less linear heads can read.

        Measured: error of linear heads at $\sigma = 0.1$ minus that at 0.03, mean over $\epsilon_{\min}$.
        """
        return -quieter(run.mse)

    @identity(
        "Appendix A.2",
        on="figures-3-4",
        equals=1.0,
        within=0.1,
        because="Tolerance: 10 %, for 1000 pairs of training.",
        note="Not in the paper: it checks targets and test data, not a network.",
        range=POSITIVE,
        given=every_token_shows,
    )
    def ideal_error(self, run: xr.Dataset) -> xr.DataArray:
        r"""What a linear head cannot read is what noise hides.

        A representation that is the features themselves leaves an error of $s^2/(p_0 + s^2)$ of the variance, $s^2 =
        \sigma^2/L$, and what $d$ weights learned from $n$ pairs add, a factor $1 + d/n$. Measured: its error on a
        target <v, z> of common features over that, mean over noise levels and $\epsilon_{\min}$.
        """
        return mean(run.ideal_error)

    @identity(
        "Appendix A.2",
        on="figures-3-4",
        equals=0.0,
        within=0.2,
        because="Tolerance: 0.2, a stated choice; pairs in common would give 1.",
        range=COSINE,
        note="Not in the paper: errors are those of pairs that no head was fitted to.",
    )
    def heads_are_tested_on_fresh_pairs(self, run: xr.Dataset) -> xr.DataArray:
        r"""Linear heads are tested on pairs that they were not fitted to.

        Measured: correlation of the signals of training pairs with those of as many test pairs, frequencies as in
        training, mean over noise levels and $\epsilon_{\min}$.
        """
        return mean(run.test_repeats)


def rise(values: xr.DataArray, *noise: float) -> xr.DataArray:
    """From the smallest to the largest ε_min, mean over noise levels."""
    at = values.sel(noise_std=list(noise)).mean("noise_std", skipna=False)
    return at.sel(eps_min=at["eps_min"].max()) - at.sel(eps_min=at["eps_min"].min())


def least_rise(values: xr.DataArray) -> xr.DataArray:
    """The least change from an ε_min to the next larger one, of all noise levels; NaN where a value is unknown."""
    return values.sortby("eps_min").diff("eps_min").min(("noise_std", "eps_min"), skipna=False)


def quieter(values: xr.DataArray) -> xr.DataArray:
    """From the noisiest to the least noisy tokens, mean over ε_min."""
    at = values.mean("eps_min", skipna=False)
    return at.sel(noise_std=at["noise_std"].min()) - at.sel(noise_std=at["noise_std"].max())

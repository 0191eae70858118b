"""Claims of `uniform-parity` about the first gradient (Lemma B.63)."""

from dataclasses import dataclass
from math import comb

import xarray as xr

from featscope.claims import POSITIVE, STATED, bound, identity
from featscope.studies.base import farthest
from featscope.studies.reductions import largest
from featscope.studies.uniform_parity.arms import (
    ENUMERATED,
    FOUR,
    FOUR_ANGLES,
    PAIR,
    PAIR_ANGLES,
    UniformParityArms,
)
from featscope.theory import uniform_parity as theory

EXACT = 1e-10
ROUNDED = "Bound: rounding of float64."


@dataclass(frozen=True)
class FirstGradientClaims(UniformParityArms):
    """Claims of `uniform-parity` about the first gradient (Lemma B.63)."""

    # --- The first gradient (Lemma B.63) ------------------------------------------------------------------------------

    @bound(
        "derived, for Lemma B.63",
        on=ENUMERATED,
        at_most=EXACT,
        law="exact",
        because=ROUNDED,
        corrects="printed-form-on-block",
    )
    def first_gradient_on_block(self, run: xr.Dataset) -> xr.DataArray:
        r"""On the signs that count the first gradient has a closed form.

        $G_j = \frac12\xi_{k-1}\prod_{l\in A\setminus j}w_l$ for $j \in A$ and any $|b|<1$. Measured: largest difference
        over all inputs, relative, over neurons and $k$ = 2, 4, 6.
        """
        return largest(run.on_gap)

    @bound(
        "derived, for Lemma B.63",
        on=ENUMERATED,
        at_most=EXACT,
        law="exact",
        because=ROUNDED,
        corrects=("printed-form-off-block", "misprinted-coefficient"),
    )
    def first_gradient_off_block(self, run: xr.Dataset) -> xr.DataArray:
        r"""On the signs that do not count it has one, too, with the next coefficient.

        $G_j = \frac12\xi_{k+1}\prod_{l\in A\cup j}w_l$ for $j \notin A$. Measured: largest difference over all inputs,
        relative, over neurons and $k$.
        """
        return largest(run.off_gap)

    @identity(
        "Equation B.548",
        not_on=ENUMERATED,
        equals=1.0,
        within=EXACT,
        law="exact",
        note="A threshold is (1 + majority)/2; the factor 1/2 is missing.",
    )
    def printed_form_on_block(self, run: xr.Dataset) -> xr.DataArray:
        r"""On the signs that count the first gradient is as printed.

        $|G_j| = |\xi_{k-1}|$ for $j \in A$. Measured: their ratio, the farthest from 1 over $k$.
        """
        return farthest(run.on_printed, "block")

    @identity(
        "Equation B.549",
        not_on=ENUMERATED,
        equals=0.5,
        within=EXACT,
        law="exact",
        note=r"Judged with the factor 1/2 that is missing, too: the coefficient is $\xi_{k+1}$, as in Equation B.554.",
    )
    def printed_form_off_block(self, run: xr.Dataset) -> xr.DataArray:
        r"""On the signs that do not count it is as printed, but for the factor 1/2.

        $|G_j| = \frac12|\xi_{k-1}|$ for $j \notin A$. Measured: $|G_j|/|\xi_{k-1}|$, the farthest from 1/2 over $k$.
        """
        return farthest(run.off_printed, "block", 0.5)

    @identity("derived", on=ENUMERATED, equals=1.0, within=EXACT, law="exact", because=ROUNDED, range=POSITIVE)
    def coefficient_ratio(self, run: xr.Dataset) -> xr.DataArray:
        r"""Signs that do not count leak in by a known ratio.

        $|\xi_{k+1}/\xi_{k-1}| = (k-1)/(d-k)$. Measured: the ratio of both parts of $G$ over it, the farthest from 1
        over $k$.
        """
        return farthest(run.ratio, "block")

    @identity(
        "Equation B.480",
        not_on=ENUMERATED,
        equals=1.0,
        within=EXACT,
        law="exact",
        note="Its inner binomial is misprinted; Equation B.547 is right with n read as d.",
    )
    def misprinted_coefficient(self, run: xr.Dataset) -> xr.DataArray:
        r"""Coefficients of the majority are as Equation B.480 prints them.

        Measured: $\xi_{k-1}$ of all inputs over the printed one, the farthest from 1 over $k$.
        """
        return farthest(run.misprint, "block")

    @identity("derived", on=ENUMERATED, equals=1.0, within=EXACT, law="exact", because=ROUNDED, range=POSITIVE)
    def misprint_is_a_binomial(self, run: xr.Dataset) -> xr.DataArray:
        r"""They are larger than it prints them by a binomial that is left out.

        The choices of $(k-2)/2$ among $(d-1)/2$, 1 at $k = 2$. Measured: $\xi_{k-1}$ over the printed one and this, the
        farthest from 1 over $k$.
        """
        run = self.placed(run, ENUMERATED)
        left_out = [comb((self.enumerated - 1) // 2, (int(k) - 2) // 2) for k in run.block]
        return farthest(run.misprint / xr.DataArray(left_out, dims="block"), "block")

    @identity("derived", on=ENUMERATED, equals=1.0, within=EXACT, law="exact", because=ROUNDED, range=POSITIVE)
    def angle_closed_form(self, run: xr.Dataset) -> xr.DataArray:
        r"""The angle between the first gradient and the feature has a closed form.

        Where $w$ is equal on $A$: $|\cos(G, D)| = (1+\frac{(k-1)^2}{k(d-k)})^{-1/2}$. Measured: over this, the farthest
        from 1 over $k$.
        """
        return farthest(run.cosine, "block")

    @bound(
        "derived, for Theorem B.56",
        on=ENUMERATED,
        at_most=EXACT,
        law="exact",
        because=ROUNDED,
        corrects="readout-is-zero-after-the-step",
    )
    def first_readout(self, run: xr.Dataset) -> xr.DataArray:
        r"""The read-out's first gradient is the same for every neuron, but for sign.

        $|E[y\,\mathrm{ReLU}(\langle w,x\rangle-b)]| = |\xi_{k-1}|/2$, whatever $w$ and $|b|<1$. Measured: largest
        relative difference over all inputs, over neurons and $k$.
        """
        return largest(run.readout)

    @identity(
        "Proof of Theorem B.56",
        not_on=ENUMERATED,
        equals=0.0,
        within=EXACT,
        law="exact",
        note="It is ±1/(2k) for every neuron, of the order of what is wanted.",
    )
    def readout_is_zero_after_the_step(self, run: xr.Dataset) -> xr.DataArray:
        r"""The read-out is 0 after the first step.

        Measured: mean $|a^{(1)}|$ times $2k$ at the printed $\eta_1$, the farthest from 0 over $k$.
        """
        return farthest(run.readout_size, "block", 0.0)

    @identity(
        "derived, for Theorem B.56",
        on=[ENUMERATED, PAIR, FOUR],
        equals=1.0,
        within=1e-6,
        law="exact",
        because="Tolerance: weights are of single precision.",
        range=POSITIVE,
    )
    def readout_after_the_step(self, run: xr.Dataset) -> xr.DataArray:
        r"""The read-out of every neuron is $\pm1/(2k)$ after the first step.

        Measured: mean $|a^{(1)}|$ times $2k$ at the printed $\eta_1$, over all inputs the farthest from 1 over $k$, and
        of the networks that are trained.
        """
        return farthest(run.readout_size, "block") if "block" in run.readout_size.dims else run.readout_size

    @identity(
        "derived, for Lemma B.54",
        on=[PAIR_ANGLES, FOUR_ANGLES],
        equals=1.0,
        within=0.03,
        because=f"Tolerance: 3 %; {STATED}",
        range=POSITIVE,
    )
    def largest_sample_points_as_predicted(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""The cosine to the feature is that of the closed form's angle.

        $(1+\tan^2)^{-1/2}$. Measured: mean $|\cos(G, D)|$ over this, at the largest sample.
        """
        data, size = self.arm(arm).recipe.data, int(self.placed(run, arm).samples[-1])
        tangent = theory.sampled_tangent(data.dimension, data.block, size)
        return run.cosine.isel(samples=-1) * (1 + tangent) ** 0.5

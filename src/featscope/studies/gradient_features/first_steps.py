"""Claims of `gradient-features` about first steps, samples of gradients, and networks that are written down."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, STATED, bound, fitted_exponent, identity, scaling
from featscope.studies.gradient_features.arms import (
    FIRST,
    FROZEN_RATE,
    MIXTURES,
    SAMPLING,
    TRUE,
    GradientFeaturesArms,
)
from featscope.studies.gradient_features.exact import TAU, WAVES, WIDE, Sampling
from featscope.studies.reductions import largest, mean
from featscope.theory import gradient_features as theory

EXACT = 1e-12
ROUNDED = "Bound: rounding of float64."


@dataclass(frozen=True)
class FirstSteps(GradientFeaturesArms):
    """Claims in which at most a read-out is trained."""

    # --- The first step (Definition 3.5, Lemmas B.70, B.71) -----------------------------------------------------------

    @bound("Equation 3.9, Lemma B.70", on=FIRST, at_most=EXACT, law="exact", because=ROUNDED)
    def step1_identity(self, run: xr.Dataset) -> xr.DataArray:
        r"""After the first step weights are simplified gradients.

        With $\lambda_1 = 1/\eta_1$: $w_i = -\eta_1\ell'(0)a_iG(w_i, b_i)$ and
        $a_i = -\eta_1\ell'(0)E[y\,\mathrm{ReLU}(\langle w_i,x\rangle-b_i)]$, all on the sample, for hinge and logistic
        loss. Measured: largest difference to automatic differentiation, relative to the largest entry, over laws.
        """
        return largest(xr.concat([run.step_gap, run.readout_gap], "of"))

    @bound("Lemma B.71", on=FIRST, at_most=1e-11, law="exact", because=ROUNDED)
    def symmetric_start(self, run: xr.Dataset) -> xr.DataArray:
        r"""The network says 0 at the start, and its second half stays minus its first in the first step.

        $g(x) = 0$ on all inputs, $w_i = -w_{i+2m}$ after the step. Measured: the largest of both over laws.
        """
        return largest(xr.concat([run.start, run.copies_gap], "of"))

    @bound("Equation 3.9", on=FIRST, at_most=0.0, law="exact", because="Bound: numbers that are copied.")
    def mirrored_start(self, run: xr.Dataset) -> xr.DataArray:
        r"""At the start every neuron of the first quarter has a mirror image.

        $w_{i+m}=-w_i$, $a_{i+m}=-a_i$, $b_{i+m}=-b_i$. Measured: largest sum of two, over laws.
        """
        return largest(run.mirror_start)

    @bound(
        "derived, for Lemma B.71",
        on=FIRST,
        at_most=EXACT,
        law="exact",
        because=ROUNDED,
        note="Where no input lies on a neuron's edge.",
        corrects="mirrors-agree",
    )
    def mirror_identity(self, run: xr.Dataset) -> xr.DataArray:
        r"""A neuron and its mirror image share the mean of yx between them.

        $G(-w,-b) = E[yx] - G(w,b)$, on the sample, too. Measured: largest difference, relative, over laws.
        """
        return largest(run.mirror_gap)

    @bound(
        "Lemma B.71",
        not_on=FIRST,
        at_most=EXACT,
        law="exact",
        note="True where E[yx] = 0: of the five laws only the XOR mixture has that, and its samples have it nearly.",
    )
    def mirrors_agree(self, run: xr.Dataset) -> xr.DataArray:
        r"""A neuron and its mirror image have the same weights after the step.

        $w_i = w_{i+m}$. Measured: largest difference, relative, the largest over laws.
        """
        return largest(run.mirrors_agree)

    # --- Samples (Lemma B.18) -----------------------------------------------------------------------------------------

    @identity(
        "derived, for Section B.5.2",
        on=SAMPLING,
        equals=1.0,
        within=0.05,
        because=f"Tolerance: 5 %; {STATED}",
        range=POSITIVE,
        note="The step by automatic differentiation is the sample's G: `step1-identity`.",
    )
    def gaussian_mixture_gradient(self, run: xr.Dataset) -> xr.DataArray:
        r"""The gradient of a neuron on a mixture of Gaussians has a closed form.

        $G(w,b)=\sum_lp_ly_l\big(\mu_l\Phi(t_l)+s_l\frac{w}{\|w\|}\varphi(t_l)\big)$,
        $t_l = (\langle w,\mu_l\rangle - b)/(s_l\|w\|)$. Measured: root mean square distance of samples' gradients to
        it over what their spread about it must be, mean over two mixtures and sizes of samples.
        """
        return mean(run.error / run.expected)

    @scaling(
        "derived, for Lemma B.18",
        on=SAMPLING,
        equals=-0.5,
        within=0.03,
        because=f"Tolerance: {STATED}",
        note="The lemma has -1/3, which is slower: `gradient-concentration-bound`.",
    )
    def gradient_concentration(self, run: xr.Dataset) -> xr.DataArray:
        r"""Gradients of samples approach G like one over the root of their number.

        Measured: exponent of the distance in $n$, mean over two mixtures.
        """
        distance = np.exp(np.log(run.error).mean("mixture", skipna=False)).transpose("replica", "samples")
        return xr.DataArray(fitted_exponent(np.array(Sampling.sizes, float), distance.values), dims="replica")

    @bound(
        "Lemma B.18",
        on=SAMPLING,
        at_most=1.0,
        law="extreme",
        things=lambda study: 2 * len(Sampling.sizes) * Sampling.repeats,
        note="The lemma's constant is read as 1. Draws: samples of two mixtures in three sizes, eight of each.",
    )
    def gradient_concentration_bound(self, run: xr.Dataset) -> xr.DataArray:
        r"""Gradients of samples are as near to G as printed.

        $\|\tilde G-G\| \le \sqrt{E\|x\|^2}\,n^{-1/3}$. Measured: distance over bound, the largest over all.
        """
        return largest(run.of_bound)

    # --- Networks that are right (Lemmas B.26, B.34, B.41, B.51) ------------------------------------------------------

    @bound("Lemmas B.26, B.51", on=TRUE, at_most=1e-9, law="exact", because=ROUNDED)
    def true_network_has_zero_hinge(self, run: xr.Dataset) -> xr.DataArray:
        r"""The networks of linear data and of parities have no hinge loss.

        $yg^*(x) \ge 1$: two neurons on 2000 inputs with a margin; triangle waves on everything that a structured
        parity can be, $(r, k)$ = (1, 3), (1, 5), (3, 3), (3, 5). Measured: the largest loss of all.
        """
        return largest(run.hinge)

    @bound(
        "Lemmas B.34, B.41",
        on=MIXTURES,
        at_most=theory.mixture_hinge_bound(WIDE, TAU),
        range=POSITIVE,
        note=f"d = {WIDE}, σ = 1, τ = {TAU}, where ‖μ‖ is just 4K as the proof needs. The chapter's τ >= 8 needs "
        "d >= 900.",
    )
    def mixture_network_hinge(self, run: xr.Dataset) -> xr.DataArray:
        r"""The networks of mixtures have a hinge loss below the printed bound.

        $3d^{-\tau}+4/(d^{0.9\tau-1}\sqrt{\tau\log d})$. Measured: loss on 10,000 samples, the larger of XOR and of four
        orthogonal clusters.
        """
        return largest(run.hinge)

    @identity(
        "Lemma B.51",
        not_on=TRUE,
        equals=1.0,
        within=1e-9,
        law="exact",
        note="So B_a2 as printed does not hold the network that the lemma writes down.",
    )
    def b51_norm(self, run: xr.Dataset) -> xr.DataArray:
        r"""The wave's read-out has the printed norm.

        $2\sqrt{rk(k+1)}$. Measured: norm over this at $r = 1$, $k = 5$.
        """
        one = run.isel(network=1 + WAVES.index((1, 5)))
        return one.norm / one.printed_norm

    @identity(
        "derived, for Lemma B.51", on=TRUE, equals=1.0, within=1e-9, law="exact", because=ROUNDED, corrects="b51-norm"
    )
    def b51_norm_corrected(self, run: xr.Dataset) -> xr.DataArray:
        r"""The wave's read-out has norm $\sqrt{6rk(k+1)}$.

        Measured: norm over this, the one farthest from 1 over waves.
        """
        waves = run.norm.isel(network=slice(1, None))
        ratio = waves / xr.DataArray([theory.wave_norm(r, k) for r, k in WAVES], dims="network")
        return 1 + largest(abs(ratio - 1))

    # --- A frozen first layer (Theorem 3.4) ---------------------------------------------------------------------------

    @bound(
        "Theorem 3.4, Equation B.12",
        on=FROZEN_RATE,
        at_most=1.0,
        law="exact",
        because="Every network and every rival must keep to it.",
        note="On a logistic loss, as the hinge loss is not smooth. The sum begins after the first step: at a^(1) the "
        "printed sum has one term more. Rivals are sought by a quasi-Newton method.",
        corrects="printed-step-size",
    )
    def first_layer_frozen_rate(self, run: xr.Dataset) -> xr.DataArray:
        r"""With a frozen first layer the loss approaches a rival's like 1/T.

        $\frac1T\sum_tL(a_t) \le L(a^*)+L\|a_1-a^*\|^2/(2T)$ with step size $1/L$, for every $a^*$. Measured: left over
        right, $a^*$ the one that makes the right side least, the largest over $T$ = 10, 100, 1000.
        """
        return run.of_bound.sel(printed=0).max("horizon", skipna=False)

    @bound(
        "Theorem 3.4",
        not_on=FROZEN_RATE,
        at_most=1.0,
        law="exact",
        note="Section 3.3 prints 1/t, Theorem B.2 and the proof have 1/L.",
    )
    def printed_step_size(self, run: xr.Dataset) -> xr.DataArray:
        r"""The same holds for the step size 1/t that the main text prints.

        Measured: the same with step size $1/t$.
        """
        return run.of_bound.sel(printed=1).max("horizon", skipna=False)

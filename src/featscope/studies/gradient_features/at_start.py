"""Claims of `gradient-features` about random neurons: how many are sure, and where their gradients point."""

from dataclasses import dataclass
from itertools import product

import xarray as xr

from featscope.claims import COSINE, POSITIVE, STATED, Found, bound, identity, ordering
from featscope.studies.base import farthest
from featscope.studies.gradient_features.arms import GOOD, LINEAR_NEURONS, MIXTURE_NEURONS, PARITY_NEURONS, XOR_NEURONS
from featscope.studies.gradient_features.first_steps import FirstSteps
from featscope.studies.gradient_features.mixture_neurons import NORMS, THRESHOLDS
from featscope.studies.gradient_features.neurons import (
    CONE,
    PARITY_SIZES,
    PARITY_THRESHOLDS,
    SHORTEST,
    XOR_THRESHOLDS,
    GoodNetworks,
)
from featscope.studies.reductions import known, largest, mean
from featscope.studies.summaries import in_words
from featscope.theory import gradient_features as theory

LIMIT = "At the highest threshold, where neurons approach their limit."
FIVE, TENTH = f"Tolerance: 5 %; {STATED}", f"Tolerance: 10 %; {STATED}"


def of_xor(run: xr.Dataset) -> xr.Dataset:
    """What was measured of neurons of the XOR mixture, by their threshold."""
    return run.assign_coords(threshold=list(XOR_THRESHOLDS))


def pointing(run: xr.Dataset) -> xr.DataArray:
    """Cosine of sure neurons' gradients to their feature; NaN where no neuron was sure."""
    return run.cosine.where(run.sure > 0)


@dataclass(frozen=True)
class AtStart(FirstSteps):
    """Claims about neurons with random weights."""

    # --- Linear data (Lemma B.25) -------------------------------------------------------------------------------------

    @identity("Lemma B.25", on=LINEAR_NEURONS, equals=1.0, within=0.05, because=FIVE, range=POSITIVE, note=LIMIT)
    def linear_gradient_is_rho(self, run: xr.Dataset) -> xr.DataArray:
        r"""On linear data neurons that fire for nearly everything have the whole feature as their gradient.

        $G(w,-\tilde b) \to \rho w^*$. Measured: norm of G over $\rho$, mean over neurons, at
        $\tilde b = 4\sigma_w\sqrt d$.
        """
        return run.length.isel(ratio=-1)

    @bound("Lemma B.25", on=LINEAR_NEURONS, at_least=0.95, because=f"Bound: {STATED}", range=COSINE, note=LIMIT)
    def linear_gradient_points_at_the_feature(self, run: xr.Dataset) -> xr.DataArray:
        r"""It points at the feature.

        Measured: cosine of $G(w,-\tilde b)$ to $w^*$, mean over neurons, at $\tilde b = 4\sigma_w\sqrt d$.
        """
        return run.cosine.isel(ratio=-1)

    @bound("Lemma B.25", on=LINEAR_NEURONS, at_most=0.01, because=f"Bound: {STATED}", range=POSITIVE, note=LIMIT)
    def silent_neurons_have_no_gradient(self, run: xr.Dataset) -> xr.DataArray:
        r"""Their mirror images, which fire for nearly nothing, have none.

        Measured: norm of $G(w,\tilde b)$ over $\rho$, mean over neurons, at $\tilde b = 4\sigma_w\sqrt d$.
        """
        return run.other_length.isel(ratio=-1)

    # --- Mixtures (Lemmas 3.17, B.30) ---------------------------------------------------------------------------------

    @identity(
        "derived, for Lemma B.30",
        on=MIXTURE_NEURONS,
        equals=1.0,
        within=0.1,
        because=TENTH,
        note="The condition on ‖w‖ is left out. Where fewer than one neuron in a thousand is sure nothing is counted: "
        "the lemma's own threshold, of τ ≥ 8, leaves none.",
        range=POSITIVE,
    )
    def mixture_sure_probability(self, run: xr.Dataset) -> xr.DataArray:
        r"""How many neurons are sure of one of several orthogonal clusters has a closed form.

        $Q(1.5t)\Phi(t/2)^{r-1}$, $t=\tilde b/(\sigma_w\|\mu_j\|)$. Measured: share of random neurons over this, mean
        over $t$ = 0.5 to 1.5.
        """
        clusters = len(self.arm(MIXTURE_NEURONS).recipe.data.axes)
        predicted = [theory.mixture_sure_probability((t,) * clusters, 0) for t in THRESHOLDS]
        shares = run.sure.isel(norm=0) / xr.DataArray(predicted, dims="threshold")
        return mean(shares.isel(threshold=[place for place, one in enumerate(predicted) if one > 1e-3]))

    @bound(
        "Lemma 3.17",
        on=MIXTURE_NEURONS,
        at_least=0.95,
        because="Bound: chosen after a first look, which had .99.",
        range=COSINE,
        note="At t = 2 and ‖μ_j‖ = √d.",
    )
    def sure_mixture_neurons_point_at_their_cluster(self, run: xr.Dataset) -> xr.DataArray:
        """Gradients of neurons that are sure of one cluster point at its mean.

        Measured: cosine to the mean, times the cluster's label, mean over sure neurons.
        """
        return pointing(run).isel(norm=0, threshold=THRESHOLDS.index(2.0))

    @identity(
        "Equation B.33",
        on=MIXTURE_NEURONS,
        equals=1.0,
        within=0.05,
        because=FIVE,
        range=POSITIVE,
        note=f"At t = 2 and ‖μ_j‖ = {NORMS[-1]:.0f}√d: far from its threshold, in units of its cluster's "
        "spread, a sure neuron fires for nearly all of it.",
    )
    def mixture_gradient_length(self, run: xr.Dataset) -> xr.DataArray:
        r"""Of clusters that are far apart such a gradient has the whole mean.

        $\|G\| \to p_j\|\mu_j\|$. Measured: norm of G over this, mean over sure neurons.
        """
        return run.length.where(run.sure > 0).isel(norm=-1, threshold=THRESHOLDS.index(2.0))

    # --- XOR (Lemmas B.37 to B.40) ------------------------------------------------------------------------------------

    @identity(
        "derived, for Lemma B.37",
        on=XOR_NEURONS,
        equals=1.0,
        within=0.1,
        because=TENTH,
        note="The condition on ‖w‖ is left out. The inner threshold is the printed one at every outer one.",
        range=POSITIVE,
    )
    def xor_sure_probability(self, run: xr.Dataset) -> xr.DataArray:
        r"""How many neurons are sure of a cluster has a closed form.

        $Q(1.2t)(1-2Q(\sqrt2\sigma_B))$, $t=\tilde b/(\sigma_w\|\mu\|)$. Measured: share of random neurons over this,
        mean over $t$ = 0.5 to 2.
        """
        few = of_xor(run).sel(threshold=slice(None, 2.0))
        spread = self.arm(XOR_NEURONS).recipe.data.spread
        predicted = [theory.xor_sure_probability(float(t), spread) for t in few.threshold]
        return mean(few.sure / xr.DataArray(predicted, dims="threshold"))

    @ordering("Lemma B.40, derived", on=XOR_NEURONS, more_than=0.0)
    def higher_thresholds_point_better(self, run: xr.Dataset) -> xr.DataArray:
        """The higher the threshold, the nearer gradients of sure neurons are to their feature.

        Measured: their mean cosine at t = 2 less that at t = 0.5.
        """
        cosine = pointing(of_xor(run))
        return cosine.sel(threshold=2.0) - cosine.sel(threshold=0.5)

    @bound(
        "Lemma B.40, Section B.5.3",
        not_on=XOR_NEURONS,
        at_least=0.95,
        law="share",
        note="Rates in log d: (log d)^(-1/50) is .97 at d = 100, .96 at 10,000. At t = 1, below the printed 1.24; at "
        "higher ones the gradients are shorter still.",
    )
    def sure_neurons_are_long_enough(self, run: xr.Dataset) -> Found:
        r"""Gradients of sure neurons have the printed length.

        $\|G\| \ge B_G = \sqrt d/5$. Measured: share of sure neurons at $t = 1$.
        """
        at = of_xor(run).sel(threshold=1.0)
        return Found(at.long_enough, trials=(at.sure * 4 * self.neurons).round())

    @bound(
        "Definition 3.9, derived",
        on=XOR_NEURONS,
        at_least=0.95,
        because=f"Bound: {STATED}",
        range=COSINE,
        note="At t = 2, where sums and differences of features come after them; see `the-set-holds-features-alone`.",
    )
    def greedy_cones_find_the_features(self, run: xr.Dataset) -> xr.DataArray:
        """Cones sought greedily among gradients, knowing no more than how many features there are, find them.

        There are two but for sign. Measured: the least over features of the largest cosine to one of the two directions
        in which most gradients point.
        """
        return of_xor(run).found.sel(threshold=2.0)

    @bound(
        "Definition 3.9",
        not_on=XOR_NEURONS,
        at_least=1 - CONE,
        because="Bound: the cone of a feature.",
        range=COSINE,
        note="Neurons that fire for two clusters have their sum or difference: at t = 1 gradients are all around the "
        "plane of the features. Lemma B.37 says no more than that features are among them.",
    )
    def the_set_holds_features_alone(self, run: xr.Dataset) -> xr.DataArray:
        """At low thresholds there are no other directions than features.

        Measured: the least over directions found of the largest cosine to a feature, at t = 1. A direction is one if it
        holds a tenth of the gradients that are long enough.
        """
        return of_xor(run).alone.sel(threshold=1.0)

    # --- Parities (Lemma B.47, Remark B.45) ---------------------------------------------------------------------------

    @identity(
        "derived, for Lemma B.47",
        on=PARITY_NEURONS,
        equals=1.0,
        within=0.1,
        because=TENTH,
        note="Conditions on the norms of parts of w are left out. Where fewer than one neuron in a thousand is sure "
        "nothing is counted.",
        range=POSITIVE,
    )
    def parity_sure_probability(self, run: xr.Dataset) -> xr.DataArray:
        r"""How many neurons are sure of a block has a closed form.

        $Q(1.5c)(1-2Q(c/2))^{r-1}$, $c=\tilde b/(\sigma_w\sqrt k)$. Measured: share of random neurons over this, mean
        over $c$ = 0.5 to 2 and $r$ = 1 and 3.
        """
        shares = [
            run.sure.isel(law=law, threshold=place) / predicted
            for law, (place, c) in product(range(len(PARITY_SIZES)), enumerate(PARITY_THRESHOLDS))
            if (predicted := theory.parity_sure_probability(c, PARITY_SIZES[law].blocks)) > 1e-3
        ]
        return xr.concat(shares, "place", coords="minimal", compat="override").mean("place", skipna=False)

    @bound(
        "Lemma B.50", on=PARITY_NEURONS, at_least=0.9, because=f"Bound: {STATED}", range=COSINE, note="At c = 2, r = 1."
    )
    def sure_parity_neurons_point_at_the_block(self, run: xr.Dataset) -> xr.DataArray:
        """Gradients of neurons that are sure of a block point at it.

        Measured: cosine to the block, mean over sure neurons.
        """
        return pointing(run).isel(law=0, threshold=PARITY_THRESHOLDS.index(2.0))

    @identity("Lemma B.50", on=PARITY_NEURONS, equals=1.0, within=0.05, because=FIVE, range=POSITIVE)
    def block_gradient_length(self, run: xr.Dataset) -> xr.DataArray:
        r"""The gradient of a neuron that fires for one whole block is that block.

        $G = p_A\sqrt k(1+u)D_j$, where $u$, of uniform inputs that have the block whole, vanishes as $2^{-k}$.
        Measured: norm of G over this for $w = D_1$ and a threshold that the whole block alone exceeds, mean over
        repetitions, the farthest from 1 over laws.
        """
        lengths = [theory.block_gradient_length(law.blocks, law.block, law.tuned) for law in PARITY_SIZES]
        return farthest(run.ideal_length.mean("threshold", skipna=False) / xr.DataArray(lengths, dims="law"), "law")

    @identity(
        "Remark B.45",
        not_on=PARITY_NEURONS,
        equals=0.0,
        within=0.05,
        note="φ and -φ are equally likely, but y changes its sign with φ: yx is the same at both and does not cancel.",
    )
    def remark_b45(self, run: xr.Dataset) -> xr.DataArray:
        r"""Labels of a structured parity are uncorrelated with its inputs.

        $E[yx] = 0$. Measured: mean of $yx$ along $D_j$ over $p_A\sqrt k$, mean over blocks and laws.
        """
        return mean(run.mean_along)

    @identity(
        "derived, for Remark B.45",
        on=PARITY_NEURONS,
        equals=1.0,
        within=0.05,
        because=FIVE,
        range=POSITIVE,
        corrects="remark-b45",
    )
    def label_input_mean(self, run: xr.Dataset) -> xr.DataArray:
        r"""Labels of a structured parity are correlated with every block.

        $E[yx] = 2p_A\sqrt k\sum_jD_j$. Measured: mean of $yx$ along $D_j$ over $2p_A\sqrt k$, mean over blocks and
        laws.
        """
        unit = [theory.label_input_mean(law.block, law.tuned) / (law.tuned * law.block**0.5) for law in PARITY_SIZES]
        return mean(run.mean_along / xr.DataArray(unit, dims="law"))

    @bound(
        "Lemmas B.47 and B.71",
        not_on=PARITY_NEURONS,
        at_least=0.9,
        range=COSINE,
        note="Claimed by way of E[yx] = 0. It is so at r = 1. At c = 2.",
    )
    def mirrors_point_at_the_block(self, run: xr.Dataset) -> xr.DataArray:
        r"""Mirror images of neurons that are sure of a block point at it, too, however many blocks there are.

        $(D_j,-1)$ is a gradient feature. Measured: cosine of the mirror image's gradient to the block, without sign,
        mean over sure neurons, at $r = 3$.
        """
        return self._sure_of_three(run, run.mirrors_own)

    @ordering(
        "derived, for Lemma B.47",
        on=PARITY_NEURONS,
        less_than=0.0,
        range=COSINE,
        note="At c = 2.",
        corrects="mirrors-point-at-the-block",
    )
    def mirrors_point_least_at_their_own_block(self, run: xr.Dataset) -> xr.DataArray:
        r"""Mirror images of neurons that are sure of a block point more at every other block than at it.

        $G(-w,-b) = E[yx] - G(w,b)$, and $E[yx]$ has all blocks twice. Measured: cosine of the mirror image's gradient
        to the block less the least of those to other blocks, both without sign, mean over sure neurons, at $r = 3$.
        """
        return self._sure_of_three(run, run.mirrors_own - run.mirrors_other)

    def _sure_of_three(self, run: xr.Dataset, found: xr.DataArray) -> xr.DataArray:
        return found.where(run.sure > 0).isel(law=1, threshold=PARITY_THRESHOLDS.index(2.0))

    @identity(
        "derived, for Lemma B.47",
        on=PARITY_NEURONS,
        equals=1.0,
        within=0.1,
        because=TENTH,
        range=POSITIVE,
        note="Neurons that are sure of a block at c = 2 are not there yet.",
        corrects="mirrors-point-at-the-block",
    )
    def mirrored_cosine(self, run: xr.Dataset) -> xr.DataArray:
        r"""The mirror image of a neuron that fires for one whole block alone points at all blocks, least at that one.

        $G = p_A\sqrt k((1-u)D_j+2\sum_{l\ne j}D_l)$, $u$ as for its own gradient. Measured: cosine to $D_j$ over what
        follows, for $-w = D_1$, at $r = 3$, mean over repetitions.
        """
        law = PARITY_SIZES[1]
        predicted = theory.mirrored_cosine(law.blocks, law.block, law.tuned)
        return mean(run.mirrored_cosine.isel(law=1)) / predicted

    # --- Nice neurons and the network that they make (Lemmas 3.13 and 3.14) ------------------------------------------

    @bound(
        "Lemma 3.13",
        on=GOOD,
        at_least=0.95,
        because=f"Bound: {STATED}; the lemma's constant in exp(-c mp) is not given.",
        law="share",
        note=f"Cones of γ = {CONE}, B_G = {SHORTEST}‖μ‖; p is the share of other neurons in it.",
    )
    def feature_emergence(self, run: xr.Dataset) -> xr.DataArray:
        r"""Every feature has at least mp/4 nice neurons after the first step.

        Measured: share of networks and features with so many, at the largest m.
        """
        return known(run.nice.isel(quarter=-1) >= 1, run.nice.isel(quarter=-1))

    @bound(
        "Lemma 3.14",
        on=GOOD,
        at_most=1.0,
        range=POSITIVE,
        note="OPT is read as 0. By itself the bound says little: it allows a loss of more than 10, and a network that "
        "always says 0 has one of 1.",
    )
    def good_network_exists(self, run: xr.Dataset) -> Found:
        r"""Few of the nice neurons make a network with a loss as small as printed.

        $rB_{a1}B_{x1}(\sqrt{2\gamma}+2\sqrt{B_b/B_G}/(mp)^{1/4})$ over OPT. Measured: hinge loss over this, or over 1
        where this is larger, mean over networks, the largest over m.
        """
        ratio = largest(run.hinge.mean("judged", skipna=False) / run.bound.clip(max=1.0))
        return Found(ratio, f"The loss is {in_words(run.hinge.isel(quarter=-1))} at the largest m.")

    @bound(
        "derived, for Lemma 3.14",
        on=GOOD,
        at_least=0.95,
        because=f"Bound: {STATED}",
        law="share",
        things=lambda study: GoodNetworks.samples,
    )
    def good_network_is_accurate(self, run: xr.Dataset) -> xr.DataArray:
        """That network is nearly always right.

        Measured: accuracy at the largest m, mean over networks, which see the same samples.
        """
        return mean(run.accuracy.isel(quarter=-1))

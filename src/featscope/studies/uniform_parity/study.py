"""The first gradient of a random neuron knows which signs a parity is of (dissertation, Sections B.5.5 and B.5.6).

Closed forms and what is mended are in `featscope.theory.uniform_parity`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, SHARE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story, farthest, last
from featscope.studies.gradient_features.probes import TESTED
from featscope.studies.reductions import largest, mean
from featscope.studies.summaries import in_case, percent, verdict
from featscope.studies.uniform_parity import figures
from featscope.studies.uniform_parity.arms import (
    CONES,
    ENUMERATED,
    FOUR,
    FOUR_ANGLES,
    FOUR_SAMPLED,
    PAIR,
    PAIR_ANGLES,
    PAIR_SAMPLED,
    SHUFFLED,
)
from featscope.studies.uniform_parity.first_gradient import EXACT, ROUNDED, FirstGradientClaims
from featscope.studies.uniform_parity.over_sizes import exponents, opens_at
from featscope.theory import uniform_parity as theory

NOISE = "Its first step is mostly the noise of its sample."
NOTHING = "Labels are other inputs'."


@dataclass(frozen=True)
class UniformParityStudy(FirstGradientClaims):
    """What the first gradient of a random neuron knows of the signs of a parity (dissertation, Section B.5.5).

    Options and arms are `UniformParityArms`'.
    """

    asks = (
        "Does one gradient step show which few of many random signs a parity is of, and how many samples does it take?"
    )

    # --- Networks that are right (Lemma B.64) -------------------------------------------------------------------------

    @bound(
        "Lemma B.64",
        on=ENUMERATED,
        at_most=EXACT,
        law="exact",
        because=ROUNDED,
        range=POSITIVE,
        corrects="wave-of-odd-blocks",
    )
    def wave_has_zero_hinge(self, run: xr.Dataset) -> xr.DataArray:
        r"""The wave with sign $(-1)^i$ is right on every input of an even parity.

        Measured: its hinge loss, the largest over all inputs and $k$.
        """
        return largest(run.hinge)

    @bound("Lemma B.51, read for even k", not_on=ENUMERATED, at_most=EXACT, law="exact", note="k is odd there.")
    def wave_of_odd_blocks(self, run: xr.Dataset) -> xr.DataArray:
        r"""The wave with the sign of odd blocks is right on them, too.

        Measured: its hinge loss, the largest over all inputs and $k$.
        """
        return largest(run.odd_hinge)

    @identity("derived, for Lemma B.64", on=ENUMERATED, equals=1.5**0.5, within=EXACT, law="exact", because=ROUNDED)
    def wave_norm(self, run: xr.Dataset) -> xr.DataArray:
        r"""The wave's read-out is larger than the printed bound by the root of 3/2.

        $\sqrt{6k(k+1)}$ against $2\sqrt{k(k+1)}$, so that the network is not in the family that the lemma names.
        Measured: their ratio, the farthest over $k$.
        """
        return farthest(run.wave_norm, "block", 1.5**0.5)

    # --- Random neurons (Lemma B.64) ----------------------------------------------------------------------------------

    @identity(
        "Lemma B.64",
        on=CONES,
        equals=1.0,
        within=0.05,
        because=f"Tolerance: 5 %; {STATED}",
        range=POSITIVE,
    )
    def equal_neurons_share(self, run: xr.Dataset) -> xr.DataArray:
        r"""So many random neurons as are equal on the block see it whole.

        Their share is $2^{1-k}$. Measured: share of random neurons over this, mean over $k$ and $d$.
        """
        run = self.placed(run, CONES)
        return mean(run.equal * 2.0 ** (run.block - 1))

    @bound("derived, for Lemma B.64", on=CONES, at_most=0.0, law="exact", because="Counted.", range=SHARE)
    def cones_hold_these_neurons(self, run: xr.Dataset) -> xr.DataArray:
        r"""The sup-norm cones of D and -D hold these neurons and no others.

        With $\gamma_\infty = \sqrt k/(d-k)$. Measured: share of neurons that are in a cone without being equal on
        $A$, or the other way round, the largest over $k$ and $d$.
        """
        return largest(run.strays)

    @bound("Equation B.556", on=CONES, at_most=1.0, law="exact", because="As printed.", range=POSITIVE)
    def sup_norm_distance(self, run: xr.Dataset) -> xr.DataArray:
        r"""The largest entry of the difference to the feature is as small as printed.

        $\|G/\|G\| \mp D\|_\infty \le \sqrt k/(d-k)$ where $w$ is equal on $A$. Measured: over this bound, the
        largest over neurons, $k$ and $d$. In closed form it is below $(k-1)/k$.
        """
        return largest(run.distance)

    @identity(
        "derived, for Lemma B.64",
        on=CONES,
        equals=1.0,
        within=0.05,
        law="exact",
        because="Tolerance: 5 % for d from 65 to 513; d grows only so far.",
        given=lambda study: study.dimensions[0] >= 65,
        range=POSITIVE,
        corrects="printed-gradient-norm",
    )
    def gradient_norm_order(self, run: xr.Dataset) -> xr.DataArray:
        r"""First gradients shrink with the dimension like a known power.

        $\|G\| \sim d^{-(k-1)/2}$. Measured: exponent in $d$ over $-(k-1)/2$, the farthest from 1 over $k$.
        """
        run = self.placed(run, CONES)
        return farthest(exponents(run) * -2 / (run.block - 1), "block")

    @identity(
        "Lemma B.64",
        not_on=CONES,
        equals=1.0,
        within=0.05,
        law="exact",
        note="The lemma has Θ(d^{-k}), its proof d^{Θ(k)} without the sign.",
    )
    def printed_gradient_norm(self, run: xr.Dataset) -> xr.DataArray:
        r"""They shrink like the printed power.

        $\|G\| \sim d^{-k}$. Measured: exponent in $d$ over $-k$, the farthest from 1 over $k$.
        """
        run = self.placed(run, CONES)
        return farthest(exponents(run) * -1 / run.block, "block")

    # --- Samples (Lemma B.54) -----------------------------------------------------------------------------------------

    @identity(
        "derived, for Lemma B.54",
        on=[PAIR_ANGLES, FOUR_ANGLES],
        equals=1.0,
        within=0.1,
        because=f"Tolerance: 10 %; {STATED}",
        range=POSITIVE,
    )
    def noise_of_samples(self, run: xr.Dataset) -> xr.DataArray:
        r"""What a sample's gradient has across the feature is known.

        Each coordinate has variance 1/(2n), a neuron being active half of the time. Measured: mean square of $G$ across
        $D$ over the predicted one, mean over sizes of the sample.
        """
        return mean(run.across)

    @identity(
        "derived, for Lemma B.54",
        on=[PAIR_ANGLES, FOUR_ANGLES],
        equals=1.0,
        within=0.3,
        because=f"Tolerance: 30 %, as sizes are a factor 3 apart; {STATED}",
        range=POSITIVE,
    )
    def angle_opens_at(self, run: xr.Dataset, arm: str) -> Found:
        r"""From a known size of the sample on gradients are within 45 degrees of the feature.

        $\tan^2 \approx 2d/(nk\xi_{k-1}^2)$ is 1 there. Measured: that size over the predicted one.
        """
        data = self.arm(arm).recipe.data
        wanted = theory.opening_samples(data.dimension, data.block)
        return Found(opens_at(self.placed(run, arm)) / wanted, f"Predicted: {wanted:,.0f} samples.")

    @identity(
        "derived, for Lemma B.54",
        on=[PAIR_ANGLES, FOUR_ANGLES],
        equals=1.0,
        within=EXACT,
        law="exact",
        because=ROUNDED,
        range=POSITIVE,
    )
    def opening_solves_the_closed_form(self, arm: str) -> float:
        r"""At the predicted size of the sample the closed form's angle is 45 degrees.

        Measured: $\tan^2$ of the closed form at that size.
        """
        data = self.arm(arm).recipe.data
        wanted = theory.opening_samples(data.dimension, data.block)
        return theory.sampled_tangent(data.dimension, data.block, wanted)

    # --- Training (Theorem B.56) --------------------------------------------------------------------------------------

    @bound(
        "Theorem B.56",
        on=[PAIR, FOUR],
        not_on={SHUFFLED: NOTHING},
        at_least=0.99,
        because=f"Bound: {STATED}",
        law="share",
        things=lambda study: TESTED,
        note="By Adam on fresh samples, where the algorithm has plain descent on the sample of the first step.",
    )
    def trained_with_exact_gradient(self, run: xr.Dataset) -> xr.DataArray:
        """With the first gradient in closed form the read-out alone learns the parity.

        Measured: accuracy on fresh samples at the end.
        """
        return last(run, run.accuracy)

    @bound(
        "Theorem B.56",
        on=[PAIR, FOUR],
        not_on={SHUFFLED: NOTHING},
        at_least=0.5,
        law="yes/no",
        because=f"Bound: most; {STATED}",
    )
    def hinge_is_small(self, run: xr.Dataset) -> xr.DataArray:
        """Its hinge loss is below a tenth.

        Measured: whether it is, on fresh samples at the end.
        """
        hinge = last(run, run.hinge)
        return (hinge < 0.1).where(hinge.notnull())

    @bound(
        "Lemma B.54",
        on=[PAIR, FOUR],
        at_most=1.0,
        because="As printed.",
        note="In so many steps the optimizer moves a weight by hardly more: it cannot fail here.",
        range=POSITIVE,
    )
    def readout_is_bounded(self, run: xr.Dataset) -> xr.DataArray:
        r"""The read-out that training finds is as small as that of the lemma.

        $\max|a| \le 8k$. Measured: $\max|a|/(8k)$ at the end.
        """
        return run.largest

    @identity(
        "derived, for Lemma B.63",
        on=[PAIR, FOUR],
        not_on={FOUR_SAMPLED: NOISE},
        equals=1.0,
        within=1e-6,
        law="exact",
        because="Tolerance: weights are of single precision.",
        range=POSITIVE,
    )
    def step_points_as_in_closed_form(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        r"""Neurons of the trained network that were equal on $A$ begin at the angle of the closed form.

        Measured: mean $|\cos(w, D)|$ after the first step over $(1+\frac{(k-1)^2}{k(d-k)})^{-1/2}$.
        """
        data = self.arm(arm).recipe.data
        return run.cosine / theory.cosine(data.dimension, data.block)

    @identity(
        "derived, for Lemma B.54",
        on=[PAIR_SAMPLED, FOUR_SAMPLED],
        equals=1.0,
        within=0.1,
        because="Tolerance: 10 %, chosen when 0.97 to 1.13 had been seen of single replicas.",
        range=POSITIVE,
    )
    def sampled_step_points_as_predicted(self, run: xr.Dataset, arm: str) -> Found:
        r"""With the first gradient of a sample they begin at the angle that its size foretells.

        Measured: mean $|\cos(w, D)|$ after the first step over $(1+\tan^2)^{-1/2}$ of that size; the largest sample
        where there are several.
        """
        found, size = run.cosine, self.four_samples
        if "samples" in found.dims:
            found, size = found.isel(samples=-1), self.pair_samples[-1]
        data = self.arm(arm).recipe.data
        foretold = (1 + theory.sampled_tangent(data.dimension, data.block, size)) ** -0.5
        return Found(found / foretold, f"Foretold: {foretold:.3f}.")

    @bound(
        "Theorem B.56",
        on=PAIR_SAMPLED,
        not_on={FOUR_SAMPLED: NOISE, SHUFFLED: NOTHING},
        at_least=0.99,
        because=f"Bound: {STATED}",
        law="share",
        things=lambda study: TESTED,
        note="The theorem asks for far more samples than are taken here.",
    )
    def trained_with_sampled_gradient(self, run: xr.Dataset) -> xr.DataArray:
        """With the first gradient of a sample the read-out learns the parity, too.

        Measured: accuracy on fresh samples at the end; the largest sample where there are several.
        """
        found = last(run, run.accuracy)
        return found.isel(samples=-1) if "samples" in found.dims else found

    @identity(
        "derived here",
        on=PAIR_SAMPLED,
        equals=0.5,
        within=0.05,
        law="draws",
        because=f"Tolerance: {STATED}",
        things=lambda study: TESTED,
        note="Where there is no label at all nothing is learned either.",
    )
    def labels_of_others_are_signs(self, runs: Runs) -> xr.DataArray:
        """The control has labels of both signs, which say nothing of its inputs, in place of none.

        Measured: share of labels that are 1, where they are of other inputs.
        """
        return runs[SHUFFLED].positive

    @bound(
        "derived, for Theorem B.56",
        on=FOUR_SAMPLED,
        not_on={SHUFFLED: NOTHING},
        at_least=0.55,
        because="Bound: a tenth of what is above chance; settled when 0.6 had been seen.",
        law="share",
        things=lambda study: TESTED,
        note="That it does not learn the parity is so of a network that is not trained, too.",
    )
    def sampled_gradient_teaches_a_part(self, run: xr.Dataset) -> xr.DataArray:
        """With the first gradient of too small a sample the read-out learns a little.

        Measured: accuracy on fresh samples at the end.
        """
        return last(run, run.accuracy)

    @ordering("derived, for Theorem B.56", on=PAIR_SAMPLED, more_than=0.0)
    def more_samples_learn_better(self, run: xr.Dataset) -> xr.DataArray:
        """The more samples the first step has, the better the network ends.

        Measured: accuracy at the end with the largest sample less that with the smallest.
        """
        accuracy = last(run, run.accuracy)
        return accuracy.isel(samples=-1) - accuracy.isel(samples=0)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Angles over samples; training; what is printed beside what is so; lengths over dimensions."""
        laws = {name: self.arm(name).recipe.data for name in (PAIR_ANGLES, FOUR_ANGLES)}
        yield figures.angles({**runs, **{name: self.placed(runs[name], name) for name in laws}}, laws)
        yield figures.training(self, runs, self.four_samples)
        yield figures.forms(self.placed(runs[ENUMERATED], ENUMERATED), self.enumerated)
        yield figures.lengths(self.placed(runs[CONES], CONES))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How many samples it takes until the first gradient shows the block."""
        learned = {"holds": "learns", "fails": "does not learn", "undecided": "may learn"}
        exact, sampled = (
            learned[verdict(claims, key)]
            for key in (f"trained-with-exact-gradient@{FOUR}", f"trained-with-sampled-gradient@{FOUR_SAMPLED}")
        )
        opened = float(opens_at(self.placed(runs[FOUR_ANGLES], FOUR_ANGLES)).mean(skipna=False))
        within = f"Within 45 degrees from {opened:,.0f} samples on." if np.isfinite(opened) else ""
        form, norm = f"first-gradient-on-block@{ENUMERATED}", f"printed-gradient-norm@{CONES}"
        return Story(
            f"After one step on all inputs a network {exact} a parity of four of {self.four_dimension} signs; on "
            f"{self.four_samples:,} samples it {sampled} it.",
            "A parity is the product of a few of many random signs. The first figure shows how near the first gradient "
            "of a neuron comes to the sum of these signs as the sample grows; dashed, what is predicted, and at the "
            "line it is within 45 degrees.",
            {
                f"angle-opens-at@{FOUR_ANGLES}": within,
                form: in_case(claims, form, "Exact over all inputs; the text lacks a factor 1/2.", ""),
                f"trained-with-exact-gradient@{FOUR}": "",
                f"trained-with-sampled-gradient@{FOUR_SAMPLED}": f"It ends at "
                f"{percent(last(runs[FOUR_SAMPLED], runs[FOUR_SAMPLED].accuracy))}.",
                norm: in_case(claims, norm, "The printed power of d is right.", "The printed power of d is wrong."),
            },
        )

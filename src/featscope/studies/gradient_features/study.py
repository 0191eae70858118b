"""Features are where the first gradients of random neurons point (dissertation, Chapter 3 and Appendix B).

Closed forms and what is mended are in `featscope.theory.gradient_features`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import COSINE, PAIRED, POSITIVE, SHARE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story, last, looked
from featscope.studies.gradient_features import figures, probes
from featscope.studies.gradient_features.arms import (
    LEVELS,
    LINEAR,
    MIXTURE,
    PARITY,
    PARITY_FITTING,
    PARITY_FROZEN,
    PARITY_NEURONS,
    PARITY_SMALL,
    PARITY_TICKET,
    SPREADS,
    STAIRS,
    XOR,
    XOR_TICKET,
    XOR_WORST,
)
from featscope.studies.gradient_features.at_start import AtStart
from featscope.studies.reductions import known, largest, mean, mean_of, smallest
from featscope.studies.summaries import percent, verdict

tested = probes.TESTED
HALF = 0.5
KNOTS = "Neurons near the feature all have thresholds near each other; a wave needs knots at k + 1 places."
SEEN = (
    f"Random features are fitted to {probes.TRAINED_ON:,} samples. At default sizes the network sees 54,000: 4,000 in "
    "its first step, 50,000 after it."
)


def level_loss(run: xr.Dataset) -> xr.DataArray:
    """Hinge loss of each level of the staircase, mean over its four clusters."""
    each = run.part_hinge.values.reshape(*run.part_hinge.shape[:-1], len(LEVELS), 4).mean(-1)
    dims = (*[dim for dim in run.part_hinge.dims if dim != "component"], "level")
    return xr.DataArray(each, {"step": run["step"]}, dims)


def learned_at(run: xr.Dataset) -> xr.DataArray:
    """The step after the last look at which a level's loss is a half or more; the end where it never is less."""
    steps = run["step"]
    above = (level_loss(run) >= HALF) | level_loss(run).isnull()
    return steps.where(above).max("step", skipna=True).fillna(0) + 1


@dataclass(frozen=True)
class GradientFeatures(AtStart):
    """Features are where the first gradients of random neurons point (dissertation, Chapter 3).

    Options and arms are `GradientFeaturesArms`'.
    """

    asks = (
        "Do the gradients of random neurons point at the features of the data, and is that how a network learns them?"
    )

    # --- Training (Theorems 3.12, 3.18, 3.22, B.42) -------------------------------------------------------------------

    @bound(
        "Theorem B.42",
        on=XOR,
        at_least=0.99,
        because=f"Bound: {STATED}",
        law="share",
        things=lambda study: tested,
        note="Drift bounds of Lemma B.9 need T η B_x1 = o(1), which is 25 at default sizes: they are not judged.",
    )
    def xor_trained(self, run: xr.Dataset) -> xr.DataArray:
        """Algorithm 1 learns XOR of four Gaussians.

        Measured: accuracy on fresh samples at the end.
        """
        return last(run, run.accuracy)

    @bound(
        "Theorem 3.22, Theorem 3.4",
        on=[PARITY, PARITY_FROZEN],
        at_least=0.99,
        because=f"Bound: {STATED}",
        law="share",
        things=lambda study: tested,
        note="By Adam, where the theorem has plain descent.",
    )
    def parity_trained(self, run: xr.Dataset) -> xr.DataArray:
        """It learns a parity, also with a frozen first layer.

        Measured: accuracy on fresh samples at the end.
        """
        return last(run, run.accuracy)

    @identity(
        "Theorem 3.22",
        on=PARITY_FROZEN,
        not_on={PARITY: ""},
        equals=0.0,
        within=0.0,
        law="exact",
        because="To the bit.",
        range=POSITIVE,
    )
    def frozen_neurons_stay(self, run: xr.Dataset) -> xr.DataArray:
        """Where the first layer is frozen no neuron turns after the first step.

        Measured: largest change of a neuron's cosine to its feature from the first step to the end.
        """
        return largest(abs(run.cosine_end - run.cosine_step))

    @bound(
        "Theorems 3.18 and B.27",
        on=[LINEAR, MIXTURE],
        at_least=0.99,
        because=f"Bound: {STATED}",
        law="share",
        things=lambda study: tested,
    )
    def easy_laws_trained(self, run: xr.Dataset) -> xr.DataArray:
        """It learns linear data and a mixture of separate clusters.

        Measured: accuracy on fresh samples at the end.
        """
        return last(run, run.accuracy)

    @bound(
        "derived, for Proposition B.1",
        on=PARITY_TICKET,
        at_least=0.75,
        because="Bound: half of what is above chance; settled when 0.87 had been seen.",
        law="share",
        things=lambda study: tested,
        note="That it learns less than others is so of neurons that are not trained, too.",
    )
    def ticket_learns_in_part(self, run: xr.Dataset) -> xr.DataArray:
        """The neurons nearest to the feature learn the parity in part.

        Measured: accuracy on fresh samples at the end.
        """
        return last(run, run.accuracy)

    @ordering(
        "derived here",
        on=PARITY_SMALL,
        more_than=0.0,
        note="The step is how the proof finds features. Training finds this one without it.",
    )
    def few_neurons_need_no_step(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """As few neurons as the ticket has learn the parity better without a feature step.

        Measured: accuracy on fresh samples at the end less that of the neurons nearest to the feature after the step.
        """
        return last(run, run.accuracy) - last(runs[PARITY_TICKET], runs[PARITY_TICKET].accuracy)

    @bound(
        "Section 3.3, derived",
        on=[XOR, PARITY],
        at_least=0.3,
        because=f"Bound: {STATED}",
        range=(-1.0, 1.0),
        note="At the start a neuron has a cosine of about 1/√d to a feature.",
    )
    def step_turns_neurons_to_features(self, run: xr.Dataset) -> xr.DataArray:
        """The first step turns neurons towards features.

        Measured: largest cosine, without sign, of a neuron to a feature after the step less that before, mean over
        neurons.
        """
        return mean(run.cosine_step - run.cosine_start)

    @bound(
        "Radhakrishnan et al. 2024, derived here",
        on=XOR,
        at_least=0.8,
        because=f"Bound: {STATED}",
        range=SHARE,
    )
    def outer_product_is_of_features(self, run: xr.Dataset) -> Found:
        """What the trained network responds to lies in the plane of the features.

        Measured: share of the average gradient outer product's trace there.
        """
        return Found(run.of_features, f"The plane is two of {self.dimension} dimensions.")

    @ordering("Radhakrishnan et al. 2024", on=XOR, more_than=0.3, because=f"Bound: {STATED}")
    def weights_agree_with_the_outer_product(self, run: xr.Dataset) -> xr.DataArray:
        """Weights come to agree with the average gradient outer product.

        Measured: cosine of WᵀW to it at the end less that of the start's weights.
        """
        return run.agreement - run.agreement_start

    # --- Lottery tickets (Proposition B.1) ----------------------------------------------------------------------------

    @bound(
        "Proposition B.1",
        on=XOR_TICKET,
        not_on={
            PARITY_TICKET: KNOTS,
            PARITY_FITTING: "It learns, and slower: with ten neurons a bend it has not ended.",
        },
        at_least=-0.01,
        because=f"Bound: a hundredth below it; {STATED} {PAIRED}",
        range=COSINE,
        note="The ticket is chosen by alignment alone. On XOR most neurons are aligned: as many random ones are hardly "
        "slower (figure `tickets`).",
    )
    def lottery_ticket(self, run: xr.Dataset, runs: Runs, arm: str) -> Found:
        """The neurons that are nearest to features after the first step learn alone what the whole network learns.

        Measured: accuracy at the end, less that of the whole network.
        """
        whole, found = runs[XOR if arm == XOR_TICKET else PARITY], last(run, run.accuracy)
        return Found(found - last(whole, whole.accuracy), trials=xr.full_like(found, tested))

    @identity(
        "Proposition B.1",
        on=[XOR_TICKET, PARITY_TICKET, PARITY_FITTING],
        equals=1.0,
        within=0.0,
        law="exact",
        because="A whole number.",
        range=POSITIVE,
        note="Without it a ticket could be the whole network, which learns what the whole network learns.",
    )
    def a_ticket_is_few_neurons(self, run: xr.Dataset) -> xr.DataArray:
        """A ticket has as few neurons as it was given.

        Measured: neurons that are trained, over those that were asked for.
        """
        return run.neurons / self.ticket

    @ordering(
        "Lemma 3.14", on=PARITY_FITTING, more_than=0.05, because="Bound: chosen after a first look, which had 0.11."
    )
    def thresholds_make_the_ticket(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """On a parity neurons near the feature do better alone if their thresholds fit, too.

        As many at each value where the answer bends. Measured: accuracy at the end, less that of as many neurons that
        are chosen by nearness.
        """
        return last(run, run.accuracy) - last(runs[PARITY_TICKET], runs[PARITY_TICKET].accuracy)

    @ordering("Proposition B.1", on=XOR_TICKET, more_than=0.0)
    def ticket_beats_the_worst(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """The ticket learns faster than as many neurons that are far from any feature.

        Measured: mean accuracy over steps, less theirs.
        """
        lead = run.accuracy - runs[XOR_WORST].accuracy
        return mean_of(lead, looked(run) & looked(runs[XOR_WORST]), "step")

    # --- Random features (Section 3.4.1) ------------------------------------------------------------------------------

    @bound(
        "Section 3.4.1",
        not_on=SPREADS,
        at_most=0.6,
        law="share",
        things=lambda study: tested,
        note="At the default smallest spread, 1, far fewer features than d² and samples than d² are enough. The regime "
        "matters: see `random-features-below`.",
    )
    def random_features_are_trivial(self, run: xr.Dataset) -> xr.DataArray:
        r"""Random features fewer than $d^2$ do no better than chance on XOR.

        Measured: accuracy of 400 random features at the smallest $\sigma_B$.
        """
        return probes.random_accuracy(run, 4 * self.quarter).sel(spread=self.spreads[0], count=400, drop=True)

    @ordering(
        "Section 3.4.1, corrected",
        on=SPREADS,
        more_than=0.05,
        because=f"Bound: {STATED}",
        corrects="random-features-are-trivial",
        note=SEEN,
    )
    def random_features_below(self, run: xr.Dataset) -> xr.DataArray | None:
        r"""At large spreads the network is better than as many random features.

        Measured: its accuracy less that of as many random features as it has neurons, at the largest $\sigma_B$.
        """
        lead = self._lead(run)
        return None if lead is None else lead.isel(spread=-1)

    @ordering("derived, for Section 3.4.1", on=SPREADS, more_than=0.0, note=SEEN)
    def lead_grows_with_spread(self, run: xr.Dataset) -> xr.DataArray | None:
        r"""The larger the spread, the larger the lead of the network.

        Measured: its lead over as many random features as it has neurons, at the largest $\sigma_B$ less that at the
        smallest.
        """
        lead = self._lead(run)
        return None if lead is None else lead.isel(spread=-1) - lead.isel(spread=0)

    def _lead(self, run: xr.Dataset) -> xr.DataArray | None:
        """Of the network over as many random features; None in runs stored before that do not have so many."""
        neurons = 4 * self.quarter
        random = probes.random_accuracy(run, neurons)
        if neurons not in random["count"]:
            return None
        return run.accuracy.isel(step=-1) - random.sel(count=neurons, drop=True)

    # --- Simplicity bias (Section B.3.1) ------------------------------------------------------------------------------

    @ordering(
        "Section B.3.1",
        on=STAIRS,
        more_than=0.0,
        note="The text has no formula. A part is learned when its hinge loss stays below a half.",
    )
    def simplicity_bias_staircase(self, run: xr.Dataset) -> Found:
        """What is learned first is what few features can do for most of the samples.

        Measured: log of steps until a part is learned, less that of the next heavier part, the smaller of two steps of
        the staircase.
        """
        at: xr.DataArray = xr.apply_ufunc(np.log, learned_at(run))
        rise = known(smallest(at.diff("level")), run.part_hinge.where(looked(run), 0.0))
        return Found(
            rise, "Steps: " + ", ".join(f"{float(one):.0f}" for one in np.exp(at.mean("replica").values)) + "."
        )

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Directions of neurons, thresholds, tickets, random features, the staircase."""
        yield from figures.all_of(self, runs, level_loss(runs[STAIRS]))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether first gradients are features, and what that explains."""
        words = {"holds": "points", "fails": "does not point", "undecided": "may point"}
        points = words[verdict(claims, f"step-turns-neurons-to-features@{XOR}")]
        ticket = {"holds": "are enough", "fails": "are not enough", "undecided": "may be enough"}
        near = {"holds": "makes", "fails": "does not make", "undecided": "may make"}
        remark = {"holds": "is right", "fails": "is wrong", "undecided": "may be wrong"}
        along = known((runs[XOR].cosine_step > 0.9).mean("neuron"), runs[XOR].cosine_step)
        return Story(
            f"The first gradient of a random neuron {points} at a feature of the data: on XOR of four Gaussians "
            f"{percent(along)} of neurons are within a cosine of .9 after one "
            f"step, and the network ends at {percent(last(runs[XOR], runs[XOR].accuracy))}.",
            "A network of random neurons says nothing at first. One step of gradient descent turns each neuron to the "
            "mean of what it fires for. The first figure shows where neurons point before that step, after it, and at "
            "the end.",
            {
                "step1-identity@first-step": "",
                f"xor-trained@{XOR}": "",
                f"lottery-ticket@{XOR_TICKET}": f"{self.ticket} of {4 * self.quarter} neurons "
                f"{ticket[verdict(claims, f'lottery-ticket@{XOR_TICKET}')]} on XOR.",
                f"lottery-ticket@{PARITY_TICKET}": "On a parity nearness to the feature alone "
                f"{near[verdict(claims, f'lottery-ticket@{PARITY_TICKET}')]} a ticket.",
                f"remark-b45@{PARITY_NEURONS}": "A remark that the parity proofs rest on "
                f"{remark[verdict(claims, f'remark-b45@{PARITY_NEURONS}')]}.",
            },
        )

"""What inverted exemplar labels do to in-context learning.

Sections are those of the dissertation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story
from featscope.studies.icl import EXACT, models_and, of_large, parameters
from featscope.studies.icl_flipped_labels import figures
from featscope.studies.icl_flipped_labels.arms import FOLLOWS, FREQUENCY, IGNORES, FlippedLabelsArms
from featscope.studies.reductions import largest
from featscope.studies.summaries import counted, percent, verdict
from featscope.theory.in_context import follower_accuracy, follower_trust

SMALL = 1e10
"""Parameters below which the smallest model may be expected to stay flat."""
STEEPEST = 1.5
"""The largest slope that accuracies from 0 to 1 over evenly spaced shares from 0 to 1 can have."""
FIGURES = "Section 5.6.1, Figures 5.1 and 5.2"
FLOATS = "Tolerance: rounding of log-probabilities in float32."
OF_SLOPE = f"of the slope -1 of a learner that trusts exemplars in proportion; {STATED}"
STAND_FOR = "Of hand-set learners `follows` stands for the largest, `ignores` for the smallest."
COMPARED = f"Compared with {IGNORES}. Hand-set learners."


@dataclass(frozen=True)
class IclFlippedLabels(FlippedLabelsArms):
    """What inverted exemplar labels do to in-context learning (dissertation, Section 5.6, Figures 5.1 and 5.2).

    Options and arms are `FlippedLabelsArms`'.
    """

    asks = "Do language models believe examples whose labels are wrong?"

    @ordering(
        FIGURES,
        on=models_and(FOLLOWS, COMPARED),
        more_than=0.01,
        note=f"Bound: one per cent, so that equal ones do not do; {STATED} {STAND_FOR}",
        things=lambda study: study.items,
        range=COSINE,
    )
    def larger_is_better_without_flips(self, runs: Runs, arm: str) -> Found | None:
        """Larger models do better as long as all labels are right.

        With no label inverted, the largest model is more accurate than the smallest. Measured: the difference of their
        accuracies on the same prompts.
        """
        return self.compared(runs, arm, lambda run: run.accuracy.isel(flip=0))

    @ordering(
        FIGURES,
        on=models_and(FOLLOWS, COMPARED),
        less_than=-0.1,
        note=f"Bound: a tenth {OF_SLOPE} {STAND_FOR}",
        things=lambda study: study.items,
        range=(-2 * STEEPEST, 2 * STEEPEST),
    )
    def larger_falls_faster(self, runs: Runs, arm: str) -> Found | None:
        """Inverted labels hurt larger models more.

        Accuracy falls faster with the share of inverted labels for the largest model than for the smallest. Measured:
        the difference of their slopes on the same prompts.
        """
        return self._exactly(self.compared(runs, arm, lambda run: run.slope), arm)

    @identity(
        FIGURES,
        on=models_and(IGNORES),
        not_on=FOLLOWS,
        equals=0.0,
        within=0.25,
        because=f"Tolerance: a quarter {OF_SLOPE}",
        things=lambda study: study.items,
        range=(-STEEPEST, STEEPEST),
    )
    def small_is_flat(self, runs: Runs, arm: str) -> Found | None:
        """A small model goes on as before, however many labels are inverted.

        The accuracy of the smallest model stays flat over the share of inverted labels. Measured: slope of accuracy
        over the share of labels inverted.
        """
        run = runs[arm]
        if arm in self.hand_set:
            return self._exactly(Found(run.slope), arm)
        return Found(run.slope, expected=parameters(run) < SMALL) if arm == self.by_size(runs)[0] else None

    @bound(
        FIGURES,
        on=models_and(FOLLOWS, "A hand-set learner."),
        not_on={IGNORES: "A hand-set learner."},
        at_most=0.5,
        note="The paper says that small models are seldom worse than guessing, and means that large ones are.",
        law="share",
        things=lambda study: study.items,
    )
    def large_falls_below_chance(self, runs: Runs, arm: str) -> Found | None:
        """Where all labels are inverted, a large model does worse than guessing.

        With all labels inverted, the largest model is less accurate than guessing. Measured: accuracy where all labels
        are inverted.
        """
        at_last = runs[arm].accuracy.isel(flip=-1)
        if arm in self.hand_set:
            return self._exactly(Found(at_last), arm) if arm == FOLLOWS else Found(at_last)
        found = of_large(at_last, runs[arm])
        return found if arm == self.by_size(runs)[-1] and (found.expected or len(self.models) > 1) else None

    def _exactly(self, found: Found | None, arm: str) -> Found | None:
        """``found``; of hand-set learners no chance enters, where it is all of `FOLLOWS` or a slope of `IGNORES`.

        How many of the items it is asked `IGNORES` knows is drawn.
        """
        return found._replace(law="exact") if found is not None and arm in self.hand_set else found

    @identity(
        "derived here",
        on=models_and(),
        equals=0.0,
        within=0.1,
        because="Tolerance: a tenth of a nat, for models in half precision.",
        law="exact",
        range=POSITIVE,
    )
    def readings_agree(self, run: xr.Dataset) -> xr.DataArray:
        """What a model prefers is what it prefers of whole texts.

        Its log-likelihoods of both labels differ as those of all tokens of the prompt with each label, each text read
        alone. Measured: the largest difference of the two, of a prompt a replica, in nats.
        """
        return largest(run.apart)

    # --- What is known of hand-set learners ---------------------------------------------------------------------------

    @identity("derived here", on=FOLLOWS, equals=0.0, within=EXACT, because=FLOATS, law="exact", range=SHARE)
    def follower_is_exact(self, run: xr.Dataset) -> xr.DataArray:
        """A learner that follows its exemplars is wrong as soon as most of them are.

        A hand-set learner that takes from the exemplars which word goes with which meaning is right while fewer than
        half of the labels are inverted, wrong beyond, and undecided at one half. Measured: the largest distance of its
        accuracy from 1, 1/2 and 0.
        """
        return largest(abs(run.accuracy - follower_accuracy(self.flips, self.shots)))

    @identity("derived here", on=FOLLOWS, equals=0.0, within=EXACT, because=FLOATS, law="exact", range=SHARE)
    def follower_trusts_in_proportion(self, run: xr.Dataset) -> xr.DataArray:
        r"""A learner that follows its exemplars trusts them as far as they agree.

        A hand-set learner that follows the exemplars gives the true label the probability $(M - k + \frac{1}{2})/(M +
        1)$ with $k$ of $M$ labels inverted. Measured: largest distance of the probability
        that it gives from that one.
        """
        return largest(abs(run.likely - follower_trust(self.flips, self.shots)))

    @identity("derived here", on=IGNORES, equals=0.0, within=EXACT, because=FLOATS, law="exact", range=SHARE)
    def ignorer_is_exact(self, run: xr.Dataset) -> xr.DataArray:
        """A learner that ignores its exemplars does not care for their labels.

        A hand-set learner that ignores the exemplars answers alike at every share of inverted labels. Measured: the
        largest difference of its accuracy from that with none inverted.
        """
        return largest(abs(run.accuracy - run.accuracy.isel(flip=0)))

    @identity("derived here", on=FREQUENCY, equals=1.0, within=EXACT, because=FLOATS, law="exact", range=(0.0, 2.0))
    def frequency_mirrors(self, run: xr.Dataset) -> xr.DataArray:
        """A learner that says the more frequent label is turned round with the labels.

        A hand-set learner that says the exemplars' more frequent label is right with all labels inverted exactly where
        it is wrong with none. Measured: the sum of both accuracies.
        """
        return run.accuracy.isel(flip=[0, -1]).sum("flip", skipna=False)

    @identity(
        "derived here",
        on=FREQUENCY,
        not_on=FOLLOWS,
        equals=0.5,
        within=0.25,
        because="Tolerance: a choice, as items and exemplars are drawn; settled when 0.55 (0.35 to 0.73) had been "
        "seen.",
        law="share",
        things=lambda study: study.items,
    )
    def frequency_knows_nothing(self, run: xr.Dataset) -> xr.DataArray:
        """The more frequent label of the exemplars is right of about half of the items.

        Measured: accuracy with no label inverted.
        """
        return run.accuracy.isel(flip=0)

    @identity(
        "derived here",
        on=IGNORES,
        equals=0.75,
        within=0.2,
        because="Tolerance: a choice, as texts are drawn; settled when 0.70 had been seen.",
        law="share",
        things=lambda study: study.items,
    )
    def ignorer_knows_three_quarters(self, run: xr.Dataset) -> xr.DataArray:
        """A learner that ignores its exemplars knows what it knows: three quarters of all texts.

        Measured: accuracy with no label inverted.
        """
        return run.accuracy.isel(flip=0)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Accuracy as in Figures 5.1 and 5.2, beside it who follows, and what the labels are."""
        models, hand_set = self.by_size(runs), list(self.hand_set)
        task = f"{self.task}, {self.data}" if self.data == "made-up" else self.task
        asked = f"Task {task}, {counted(self.shots, 'exemplar')}, {counted(self.items, 'item')} a replica"
        yield figures.accuracy(runs, asked, models, hand_set, self.flips)
        yield figures.following(runs, models, hand_set, self.flips)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """What becomes of right answers as examples turn wrong, in the smallest and the largest model."""
        right = {arm: [percent(run.accuracy.isel(flip=end)) for end in (0, -1)] for arm, run in runs.items()}
        both = {arm: "{} right with no label inverted, {} with all".format(*ends) for arm, ends in right.items()}
        small, *_, large = self.by_size(runs) * 2
        (before, after), (best, worst) = right[small], right[large]
        slope = float(runs[small].slope.mean(skipna=False))
        accuracy = runs[small].accuracy.mean("replica", skipna=False)
        change = float(accuracy[-1] - accuracy[0])
        turned, may = ("gives in", "may give in") if slope <= 0 else ("does better", "may do better")
        if slope * change < 0:  # it turns on the way
            turned, may = "does not go on as before on the way there", "may not go on as before on the way there"
        words = {"holds": "goes on much as before", "fails": turned, "undecided": may}
        found = (
            f"Where all examples are labelled wrong, {small} {words[verdict(claims, f'small-is-flat@{small}')]}: "
            f"{after} right, {before} before (guessing: 50 %)."
        )
        if small != large:
            words = {"holds": "hurt", "fails": "do not hurt", "undecided": "may hurt"}
            do, more = words[verdict(claims, f"larger-falls-faster@{large}")], "more"
            if do == "hurt" and float(runs[large].slope.mean(skipna=False)) >= 0:
                do, more = "help", "less"
            found = (
                f"Wrong examples {do} {large} {more} than {small}: from {best} right answers to {worst}, and from "
                f"{before} to {after}."
            )
        had_some = (runs[small].accuracy.isel(flip=0) != 0).values  # of none right none are given up
        given_up = percent(runs[small].override.isel(flip=-1, replica=had_some))
        return Story(
            found,
            f"A prompt shows {counted(self.shots, 'text')} with labels, then one whose label is asked for. Labels of "
            "more and more of these examples are inverted, from none to all; what counts as right stays. Curves show "
            "how often answers are right: left, language models; right, learners set by hand to follow the examples, "
            "to ignore them, or to say their more frequent label.",
            {
                f"small-is-flat@{small}": f"{both[small]}; it gives up {given_up} of what it had right.",
                f"larger-falls-faster@{large}": f"{both[large]}; {small} {both[small]}.",
                f"large-falls-below-chance@{large}": f"{worst} right.",
                f"follower-is-exact@{FOLLOWS}": f"{both[FOLLOWS]}.",
                f"ignorer-is-exact@{IGNORES}": f"{both[IGNORES]}.",
            },
        )

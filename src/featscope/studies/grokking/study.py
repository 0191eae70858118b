"""What is claimed of the two times of learning, and what is shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xarray as xr

from featscope.claims import COSINE, STATED, Claim, Found, bound, ordering
from featscope.figures import Figure
from featscope.studies.addition import JUDGED
from featscope.studies.base import Runs, Story, looked
from featscope.studies.grokking import figures, times
from featscope.studies.grokking.arms import (
    FEWER,
    LARGER,
    MORE,
    NO_DECAY,
    PRINTED,
    SAME_BOTH,
    SAME_P,
    GrokkingArms,
    same_points,
)
from featscope.studies.grokking.times import BEYOND, gap, log_ratio, more
from featscope.studies.summaries import of_all, verdict

AT_LEAST = "Replicas that had not generalised at the end count with the end: a lower bound."
AT_ONCE = "There the rule is learned at once."
FIRST = "k=2"


@dataclass(frozen=True)
class Grokking(GrokkingArms):
    """Adding two to five numbers modulo p by a transformer of two layers (Section 4.5, Figure 4.4).

    Options and arms are `GrokkingArms`'.
    """

    default_replicas = 6
    asks = "Why does grokking weaken as more numbers are added: the numbers, the modulus, or how many points there are?"

    # --- As printed -------------------------------------------------------------------------------------------------

    @bound(
        "Figure 4.4",
        on="k=2",
        not_on={"k=3": "Weaker there.", "k=4": AT_ONCE, "k=5": AT_ONCE},
        at_least=0.5,
        because=f"Bound: a factor of 1.6; {STATED}",
        note=AT_LEAST,
    )
    def two_steps_of_learning(self, run: xr.Dataset) -> Found:
        """Points to train on are fitted well before others are right.

        Measured: log of the steps to 95 % on other points over those to 95 % on the points to train on.
        """
        return Found(times.at_least(log_ratio(run), 0.5), self._came(run))

    @ordering("Figure 4.4", on=PRINTED[1:], more_than=0.0, note=AT_LEAST)
    def grokking_weakens_with_k(self, runs: Runs, arm: str) -> Found:
        """In the setting of the source grokking is weaker for more numbers than for two.

        Half of the points; p falls as k grows. Measured: log of the steps to 95 % on other points over those to 95 %
        on the points to train on, for two numbers less that for more.
        """
        return Found(more(log_ratio(runs[FIRST]), log_ratio(runs[arm])), self._came(runs[arm]))

    @ordering("Figure 4.4", on=PRINTED[1:], more_than=0.0, note=AT_LEAST)
    def gap_weakens_with_k(self, runs: Runs, arm: str) -> xr.DataArray:
        """In the setting of the source fewer steps lie between both for more numbers than for two.

        Measured: steps to 95 % on other points less those to 95 % on the points to train on, for two numbers less that
        for more.
        """
        return more(gap(runs[FIRST]), gap(runs[arm]))

    @ordering("derived, for Figure 4.4", on=PRINTED[1:], more_than=0.0, note=AT_LEAST)
    def chance_does_not_carry_it(self, runs: Runs, arm: str) -> xr.DataArray:
        """Grokking is weaker for more numbers if accuracy is counted from chance, too.

        Chance is 1/p. Measured: the same as for `grokking-weakens-with-k`, to 90 % of what is between chance and
        all.
        """
        return more(log_ratio(runs[FIRST], BEYOND), log_ratio(runs[arm], BEYOND))

    # --- What carries it --------------------------------------------------------------------------------------------

    @ordering(
        "derived, for Figure 4.4",
        on=lambda study: same_points(study)[1:],
        more_than=0.0,
        note=f"{AT_LEAST} Judged where numbers of points differ by a twentieth at most.",
    )
    def weakens_with_the_same_points(self, runs: Runs, arm: str) -> Found:
        """With as many points to train on grokking is weaker for more numbers than for two.

        p falls as k grows. Measured: log of the steps to 95 % on other points over those to 95 % on the points to
        train on, for two numbers less that for more.
        """
        return Found(more(log_ratio(runs[FIRST]), log_ratio(runs[arm])), self._came(runs[arm]))

    @ordering("derived, for Figure 4.4", on=SAME_P[1:], more_than=0.0, note=AT_LEAST)
    def weakens_at_the_same_modulus(self, runs: Runs, arm: str) -> Found:
        """At one modulus grokking is weaker for more numbers than for two.

        The number of points grows with k. Measured: log of the steps to 95 % on other points over those to 95 % on the
        points to train on, for two numbers less that for more.
        """
        return Found(more(log_ratio(runs[SAME_P[0]]), log_ratio(runs[arm])), self._came(runs[SAME_P[0]]))

    @ordering(
        "derived, for Figure 4.4",
        on=SAME_BOTH[1],
        more_than=0.0,
        note=f"{AT_LEAST} So k itself makes grokking stronger, not weaker.",
    )
    def strengthens_if_only_k_grows(self, runs: Runs) -> Found:
        """At one modulus and with as many points to train on grokking is stronger for four numbers than for three.

        Measured: log of the steps to 95 % on other points over those to 95 % on the points to train on, for four
        numbers less that for three.
        """
        return Found(more(log_ratio(runs[SAME_BOTH[1]]), log_ratio(runs["k=3"])), self._came(runs[SAME_BOTH[1]]))

    @ordering("derived, for Figure 4.4", on=["k=3", MORE], more_than=0.0, note=AT_LEAST)
    def more_points_weaken_it(self, runs: Runs, arm: str) -> Found:
        """At one k and one modulus grokking is weaker the more points there are to train on.

        Three numbers. Measured: log of the steps to 95 % on other points over those to 95 % on the points to train on,
        with three tenths of the points less that with more.
        """
        return Found(more(log_ratio(runs[FEWER]), log_ratio(runs[arm])), self._came(runs[FEWER]))

    @ordering("derived, for Figure 4.4", on=LARGER, more_than=0.0, note=AT_LEAST)
    def larger_modulus_weakens_it(self, runs: Runs, arm: str) -> Found:
        """At one k and half of the points grokking is weaker at a larger modulus, where there are more.

        Two numbers. Measured: log of the steps to 95 % on other points over those to 95 % on the points to train on,
        at the modulus of three numbers less that at a larger one.
        """
        return Found(more(log_ratio(runs[SAME_P[0]]), log_ratio(runs[arm])), self._came(runs[arm]))

    # --- Weight decay, and what changes -----------------------------------------------------------------------------

    @ordering("Figure 4.4", on=PRINTED[:2], more_than=0.0, range=COSINE)
    def weight_decay_brings_the_rule(self, runs: Runs, arm: str) -> xr.DataArray:
        """Weight decay brings other points to be right.

        Measured: largest accuracy on other points at any look with weight decay less that without.
        """
        plain = runs[NO_DECAY[PRINTED.index(arm)]]
        with_decay, without = (
            run.test_accuracy.where(looked(run), 0.0).max("step", skipna=False) for run in (runs[arm], plain)
        )
        return with_decay - without

    @bound(
        "derived, for Figure 4.4",
        on=PRINTED[:2],
        at_least=0.8,
        law="share",
        things=lambda study: min(JUDGED, study.points),
        because="Bound: four fifths, as six networks that are right on all support 0.91; chance is 1/p. Added when "
        "they had been seen to be.",
        note="Of the control. A network that is not trained learns no rule, keeps its norm and its frequencies, too.",
    )
    def fitted_without_decay(self, runs: Runs, arm: str) -> xr.DataArray:
        """Without weight decay the points to train on are learned by heart.

        Measured: accuracy of the same without weight decay on the points to train on, when a replica has learned, or at
        its last step.
        """
        plain = runs[NO_DECAY[PRINTED.index(arm)]]
        return times.at_own_end(plain, plain.accuracy)

    @ordering(
        "Section 4.5",
        on=PRINTED[:3],
        not_on={"k=5": "Modulo 5 there are two frequencies.", **dict.fromkeys(NO_DECAY, "Without weight decay.")},
        less_than=-0.05,
        because=f"Margin: {STATED}",
        range=COSINE,
    )
    def embeddings_lose_frequencies(self, run: xr.Dataset) -> xr.DataArray:
        r"""Embeddings use fewer frequencies at the end than at the start.

        Measured: $1/\sum q^2$ over the number of frequencies, $q$ the share of power of each; when a replica has
        learned, or at its last step, less that at the start.
        """
        return times.at_own_end(run, run.spread) - run.spread.isel(step=0)

    @ordering(
        "Section 4.5",
        on=PRINTED,
        not_on=dict.fromkeys(NO_DECAY, "Without weight decay."),
        less_than=0.0,
        note="Weight decay alone would make it fall further, whatever is learned.",
    )
    def norm_falls(self, run: xr.Dataset) -> xr.DataArray:
        """The norm of the weights falls.

        Measured: norm of all weights when a replica has learned, or at its last step, less that at the start.
        """
        return times.at_own_end(run, run.norm) - run.norm.isel(step=0)

    def _came(self, run: xr.Dataset) -> str:
        return f"Replicas that generalised: {times.reached(run, 'generalised')}."

    # --- What is shown ----------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Accuracy over steps, ratios of times, and what changes on the way."""
        yield figures.accuracies(runs, self.moduli)
        yield figures.ratios(self, runs, same_points(self))
        yield figures.others(self, runs)
        yield figures.measures(self, runs)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether grokking weakens with k, and what does it."""
        weakens = of_all(verdict(claims, f"grokking-weakens-with-k@{arm}") for arm in PRINTED[1:])
        points = verdict(claims, f"more-points-weaken-it@{MORE}")
        numbers = {"holds": "weakens", "fails": "does not always weaken", "undecided": "may weaken"}[weakens]
        alone = {"holds": "weakens", "fails": "does not weaken", "undecided": "may weaken"}[points]
        return Story(
            f"Grokking {numbers} as more numbers are added; at one k and one modulus it {alone} if there are more "
            "points.",
            f"A small transformer adds numbers modulo p, with half of all points to train on. Two numbers modulo "
            f"{self.moduli[0]} {times.in_a_sentence(runs[FIRST])}. The question is what closes the gap.",
            {
                "grokking-weakens-with-k@k=5": "",
                f"more-points-weaken-it@{MORE}": "",
                f"strengthens-if-only-k-grows@{SAME_BOTH[1]}": "Nothing but k differs.",
                "weight-decay-brings-the-rule@k=2": "",
            },
        )

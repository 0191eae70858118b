"""How much a label attends to its own sentence, and to an irrelevant one beside it.

Sections are those of the dissertation. The ratio is the mean over prompts of
norm(irrelevant) / norm(relevant).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from featscope.claims import POSITIVE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story
from featscope.studies.icl import EXACT, models_and, of_large
from featscope.studies.icl_attention import figures
from featscope.studies.icl_attention.arms import (
    CORRECT,
    FOCUSED,
    LAYOUTS,
    SWAPPED,
    UNIFORM,
    UNRELATED,
    WEIGHTS,
    WRONG,
    AttentionArms,
)
from featscope.studies.summaries import verdict

MORE = 0.05
FIGURE = "Section 5.6.2, Figure 5.3"
FLOATS = "Tolerance: rounding of weights in float32."
COMPARED, ALONE = f"Compared with {FOCUSED}. Hand-set readers, whom labels do not move.", "A hand-set reader."


@dataclass(frozen=True)
class IclAttention(AttentionArms):
    """What a label attends to, of its own sentence and an irrelevant one (dissertation, Section 5.6.2, Figure 5.3).

    Options and arms are `AttentionArms`'.
    """

    asks = "Does a label attend to the sentence that it is about, or to one beside the point?"

    @ordering(
        FIGURE,
        on=models_and(UNIFORM, COMPARED, CORRECT),
        more_than=MORE,
        note=f"Bound: {MORE}, so that equal ones do not do; {STATED} Of hand-set readers `uniform` stands for the "
        "largest, `focused` for the smallest.",
    )
    def larger_attends_to_both(self, runs: Runs, arm: str) -> Found | None:
        """Larger models are more easily distracted by a sentence that is beside the point.

        The largest model attends to the irrelevant sentence more, next to the relevant one, than the smallest does.
        Measured: the difference of their ratios, the mean over prompts of norm(irrelevant) / norm(relevant), with the
        right label.
        """
        return self.compared(runs, arm, lambda run: run.ratio, CORRECT, decides=0)

    @ordering(FIGURE, on=models_and(layout=WRONG), more_than=MORE)
    def larger_attends_to_both_wrong_label(self, runs: Runs, arm: str) -> Found | None:
        """Larger models are more easily distracted where the label is wrong, too.

        The largest model attends to the irrelevant sentence more, next to the relevant one, than the smallest does.
        Measured: the difference of their ratios, the mean over prompts of norm(irrelevant) / norm(relevant), with the
        wrong label.
        """
        return self.compared(runs, arm, lambda run: run.ratio, WRONG, decides=0)

    @bound(
        FIGURE,
        on=models_and(FOCUSED, ALONE, CORRECT),
        not_on={UNIFORM: ALONE},
        at_most=0.5,
        note=f"Bound: one half for 'mainly'; {STATED}",
        range=POSITIVE,
    )
    def small_attends_to_relevant(self, runs: Runs, arm: str) -> Found | None:
        """The smallest model attends mainly to the relevant sentence.

        Measured: the ratio, the mean over prompts of norm(irrelevant) / norm(relevant), with the right label.
        """
        run = runs[arm]
        if arm in self.hand_set:
            return Found(run.ratio)
        return of_large(run.ratio, run) if arm == self.by_size(runs, CORRECT)[0] else None

    @bound(
        "derived here",
        on=models_and(layout=CORRECT),
        at_most=0.0,
        note="Sentences nearer to the label are attended to more whatever they say; this takes the place out.",
    )
    def relevance_beyond_position(self, runs: Runs, arm: str) -> Found:
        """The relevant sentence is attended to for what it says, not for where it stands.

        It is attended to more than an irrelevant one that stands in its place. Measured: the mean over prompts of the
        logarithm of the length-normalised ratio, less that with two irrelevant sentences.
        """
        unrelated = runs[arm.removesuffix(CORRECT) + "-unrelated"]
        return of_large(runs[arm].log_ratio - unrelated.log_ratio, runs[arm])

    @bound(
        "derived here",
        on=lambda study: [name + layout for name in study.short_names for layout in (WRONG, SWAPPED, UNRELATED)],
        at_least=1e-3,
        because="Bound: far above rounding; a layout that is not shown leaves each prompt as it was.",
        range=POSITIVE,
    )
    def layouts_change_what_is_attended(self, runs: Runs, arm: str) -> xr.DataArray:
        """What another layout shows is attended to otherwise.

        Measured: mean over prompts of the difference of logarithms of norm(relevant), to the prompt with the right
        label and the relevant sentence first.
        """
        model = next(arm.removesuffix(layout) for layout in LAYOUTS if arm.endswith(layout))
        moved = np.log(runs[arm].relevant) - np.log(runs[model + CORRECT].relevant)
        return abs(moved).mean([axis for axis in moved.dims if axis != "replica"], skipna=False)

    @identity(
        "derived here",
        on=models_and(layout=CORRECT),
        equals=0.0,
        within=1e-2,
        because="Tolerance: of weights in half precision.",
        note="Models whose softmax has more than keys in it, as GPT-OSS with its sinks, tell other rows.",
        law="exact",
        range=POSITIVE,
    )
    def rows_are_the_final_layers(self, run: xr.Dataset) -> xr.DataArray:
        """What is measured is the last row of the final layer.

        Measured: largest difference of a weight to that which the model's own eager attention tells, of a prompt a
        replica.
        """
        return run.apart

    # --- What is known of hand-set weights ----------------------------------------------------------------------------

    @identity("derived here", on=tuple(WEIGHTS), relation="=", because=FLOATS, law="exact", range=POSITIVE)
    def normalised_is_exact(self, run: xr.Dataset, arm: str) -> Found:
        """Where lengths are taken out, hand-set weights have the ratio that they were given.

        Hand-set weights of 1 on the relevant sentence and $w$ elsewhere have a length-normalised ratio of $w$.
        Measured: the ratio's mean over prompts.
        """
        return Found(run.normalised_ratio, predicted=WEIGHTS[arm], tolerance=EXACT)

    @identity("derived here", on=tuple(WEIGHTS), relation="=", because=FLOATS, law="exact", range=POSITIVE)
    def raw_is_exact(self, run: xr.Dataset, arm: str) -> Found:
        """A ratio as it is measures the sentences' lengths, too.

        The raw ratio of hand-set weights is $w$ times the square root of the ratio of lengths. Measured: the raw ratio
        over that root, mean over prompts.
        """
        return Found(run.raw_over_lengths, predicted=WEIGHTS[arm], tolerance=EXACT)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Ratios, then Figure 5.3."""
        models = [arm.removesuffix(CORRECT) for arm in self.by_size(runs, CORRECT)]
        yield figures.ratios(runs, [*(model + layout for model in models for layout in LAYOUTS), *WEIGHTS])
        yield figures.norms(runs, models)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Which sentence a label attends to more, and whether the larger model is more distracted."""
        ratio = {arm: float(run.ratio.mean(skipna=False)) for arm, run in runs.items()}
        times = {arm: _times(mean) for arm, mean in ratio.items()}
        small, *_, large = [arm.removesuffix(CORRECT) for arm in self.by_size(runs, CORRECT)] * 2
        ours, theirs, swapped = times[small + CORRECT], times[large + CORRECT], times[small + SWAPPED]
        found = (
            f"Labels attend more to {_preferred(ratio[small + CORRECT], ratio[small + SWAPPED])} ({small}): an "
            f"irrelevant one gets {ours} as much if last, {swapped} if first."
        )
        if small != large:
            words = {"holds": "more", "fails": "no more", "undecided": "perhaps more"}
            more = words[verdict(claims, f"larger-attends-to-both@{large}{CORRECT}")]
            found = (
                f"{large} is {more} distracted by an irrelevant sentence than {small}: it gets {theirs} as much "
                f"attention as the other, there {ours}."
            )
        return Story(
            found,
            "A prompt is a review, a sentence beside the point, and a label of the review, which ends it. Bars show "
            "how much the label attends to the sentence beside the point, over how much to the review (1: both alike), "
            "for each model and layout of the prompt, and for two readers whose attention was set by hand.",
            {
                f"small-attends-to-relevant@{small}{CORRECT}": f"{ours} as much to the irrelevant one; "
                f"{times[small + WRONG]} with the wrong label.",
                f"larger-attends-to-both@{large}{CORRECT}": f"{theirs} as much to it; in {small} {ours}.",
                f"relevance-beyond-position@{small}{CORRECT}": f"The irrelevant one gets {ours} as much beside it, "
                f"{times[small + UNRELATED]} beside another irrelevant one.",
                f"larger-attends-to-both@{UNIFORM}": f"{times[UNIFORM]} as much with uniform weights, {times[FOCUSED]} "
                "with focused ones.",
                f"normalised-is-exact@{FOCUSED}": "",
            },
        )


def _times(ratio: float) -> str:
    if not np.isfinite(ratio):
        return "an unknown number of times"
    return f"{ratio:,.0f} times" if ratio >= 99.5 else f"{ratio:.2g} times"


def _preferred(ratio: float, swapped: float) -> str:
    """The sentence attended to more, by the ratio where the irrelevant one comes last and where it comes first."""
    if not np.isfinite([ratio, swapped]).all():
        return "one of two sentences"
    if (ratio > 1) == (swapped > 1):
        return "an irrelevant sentence" if ratio > 1 else "their own sentence"
    return "the nearer sentence" if ratio > 1 else "the farther sentence"

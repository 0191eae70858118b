"""Does a contrastive term help fine-tuning, and does pre-training on more kinds of data cost the target?

Sections and tables are those of the dissertation. Accuracies and their differences are in points from 0 to 100.
Differences are paired: in a replica all methods have one start, the same labelled samples and the same batches.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xarray as xr

from featscope.claims import POSITIVE, Claim, bound, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story
from featscope.studies.contrastive_fine_tuning import figures, published
from featscope.studies.contrastive_fine_tuning.arms import (
    APART,
    CLUSTERS,
    IMAGES,
    OPEN,
    PHOTOS,
    SIGN,
    TARGETS,
    TEXTS,
    UNIONS,
    WRONG,
    accuracy,
    difference,
    of_paper,
)
from featscope.studies.contrastive_fine_tuning.clusters import BOTH, BOTH_TERM, ENCODER, PLAIN, TERM
from featscope.studies.contrastive_fine_tuning.fewer import Fewer
from featscope.studies.contrastive_fine_tuning.recipe import (
    BARE,
    CONTRASTIVE,
    ONE,
    ONE_TERM,
    PROBE,
    TWO,
    TWO_TERM,
    UNTRAINED,
)
from featscope.studies.summaries import in_words, verdict

CONTROL = {WRONG: "Control: the term pulls different images together."}
_FULL = 1  # place of the larger λ


def tightness(run: xr.Dataset, features: int) -> xr.DataArray:
    """Silhouette of the classes."""
    return run.silhouette.isel(labels=0, views=0, classes=0, features=features, drop=True)


@dataclass(frozen=True)
class ContrastiveFineTuning(Fewer):
    """Fine-tuning with a contrastive term on frozen features (dissertation, Chapter 7 and Appendix F, real data).

    Options and arms are `ContrastiveFineTuningArms`'.
    """

    data_options = ("data",)
    asks = "Does a contrastive term help fine-tuning, beyond the second view that it needs?"

    # --- The term -----------------------------------------------------------------------------------------------------

    @ordering(
        "Section 7.3.3, Tables 7.1, 7.2 and F.5 to F.8",
        not_on={**dict.fromkeys(TARGETS, OPEN), **CONTROL},
        more_than=0.0,
        because=SIGN,
        range=APART,
    )
    def the_term_beats_fine_tuning(self, run: xr.Dataset) -> xr.DataArray:
        r"""The contrastive term helps fine-tuning.

        With $\lambda = 1$, the paper's for frozen encoders, the adapter that is trained on (7.9) is more accurate than
        the one without the term, at 100 labels. Both classify one view. Measured: the difference, in points.
        """
        return difference(run, ONE_TERM + _FULL, ONE)

    @ordering(
        "Section 7.3.3, Table 7.1",
        not_on={**dict.fromkeys(TARGETS, OPEN), **CONTROL},
        more_than=0.0,
        because=SIGN,
        range=APART,
    )
    def the_weaker_term_beats_fine_tuning(self, run: xr.Dataset) -> xr.DataArray:
        r"""The same at the weight that the paper has for a whole network.

        $\lambda = 0.1$. Measured: the difference, in points.
        """
        return difference(run, ONE_TERM, ONE)

    @ordering(
        "derived here",
        not_on={**dict.fromkeys(TARGETS, OPEN), **CONTROL},
        more_than=0.0,
        because=SIGN,
        note="The paper gives both the same augmentations; that the term sees two views of each image in a step, and "
        "fine-tuning one, it does not say. Here both classify both.",
        range=APART,
    )
    def the_term_beats_two_views(self, run: xr.Dataset) -> xr.DataArray:
        r"""The term helps beyond the second view that it needs.

        Where both classify two views of each image, the adapter with the term at $\lambda = 1$ is more accurate, at 100
        labels. Measured: the difference, in points.
        """
        return difference(run, TWO_TERM + _FULL, TWO)

    @ordering(
        "derived here",
        not_on={**dict.fromkeys(TARGETS, OPEN), **CONTROL},
        more_than=0.0,
        because=SIGN,
        range=APART,
    )
    def the_weaker_term_beats_two_views(self, run: xr.Dataset) -> xr.DataArray:
        r"""The same at the smaller weight.

        $\lambda = 0.1$. Measured: the difference, in points.
        """
        return difference(run, TWO_TERM, TWO)

    @ordering("derived here", not_on=dict.fromkeys(TARGETS, OPEN), more_than=0.0, because=SIGN, range=APART)
    def a_second_view_helps(self, run: xr.Dataset) -> xr.DataArray:
        """Two views of each image in a batch are better than one, without any term.

        Measured: the difference at 100 labels, in points.
        """
        return difference(run, TWO, ONE)

    @ordering(
        "Appendix F.3.4, Table F.5",
        not_on={IMAGES: OPEN, PHOTOS: OPEN},
        more_than=0.0,
        because=SIGN,
        note="In Table F.5 the gain falls from 6 to 15 points at 1 % of the labels to one at all of them.",
        range=APART,
    )
    def the_term_helps_most_with_few_labels(self, run: xr.Dataset) -> xr.DataArray:
        """The fewer labels there are, the more the term gains.

        Measured: the gain over fine-tuning at the fewest labels, less that at the most, in points.
        """
        gain = (accuracy(run, ONE_TERM + _FULL) - accuracy(run, ONE)).isel(views=0, classes=0, drop=True)
        return gain.isel(labels=0, drop=True) - gain.isel(labels=-1, drop=True)

    # --- What it is compared with -------------------------------------------------------------------------------------

    @ordering("Tables 7.1 and 7.2", not_on=dict.fromkeys(TARGETS, OPEN), more_than=0.0, because=SIGN, range=APART)
    def fine_tuning_beats_a_probe(self, run: xr.Dataset) -> xr.DataArray:
        """Fine-tuning is better than a linear probe.

        Measured: accuracy of the adapter without the term less that of a linear probe, at 100 labels, in points.
        """
        return difference(run, ONE, PROBE)

    @ordering("Tables F.6 and F.7", not_on=dict.fromkeys(TARGETS, OPEN), more_than=0.0, because=SIGN, range=APART)
    def augmentation_helps(self, run: xr.Dataset) -> xr.DataArray:
        """Ten stored views are better than the samples as they are.

        Measured: the difference of fine-tuning on one of ten views at a time and on none, at 100 labels, in points.
        """
        return difference(run, ONE, BARE)

    @ordering("Table F.9", not_on=dict.fromkeys(TARGETS, OPEN), more_than=0.0, because=SIGN, range=APART)
    def contrastive_training_helps_a_probe(self, run: xr.Dataset) -> xr.DataArray:
        """A probe does better after contrastive training on the target.

        The adapter is trained on all samples of the pool without labels, and a probe is fitted to what it makes of 100.
        Measured: its accuracy less that of a probe of the encoder's features, in points.
        """
        return difference(run, CONTRASTIVE, PROBE)

    @ordering(
        "derived here", on=IMAGES, not_on=(PHOTOS, *TEXTS), more_than=0.0, because=SIGN, given=of_paper, range=APART
    )
    def contrastive_training_does_something(self, run: xr.Dataset) -> xr.DataArray:
        """Contrastive training makes an adapter better than a random one.

        Measured: accuracy of a probe of the trained adapter less that of the untrained, at 100 labels, in points.
        """
        return difference(run, CONTRASTIVE, UNTRAINED)

    # --- Whether the term is there ------------------------------------------------------------------------------------

    @bound(
        "derived here",
        on=TARGETS,
        at_least=0.1,
        because="Bound: a tenth of a nat, a stated choice; below 0.001 training is refused.",
        given=of_paper,
        range=POSITIVE,
    )
    def the_term_is_there(self, run: xr.Dataset) -> xr.DataArray:
        r"""The contrastive term has something to say at the first step.

        NT-Xent at $\tau = 0.5$ of the untrained adapter's outputs. Measured: its value, in nats.
        """
        return run.first_term.isel(labels=0, views=0, classes=0, drop=True)

    @ordering("derived here", on=TARGETS, not_on=CONTROL, more_than=0.0, because=SIGN)
    def training_lowers_the_term(self, run: xr.Dataset) -> xr.DataArray:
        r"""The term that is trained on falls below that of training without it.

        NT-Xent at $\tau = 0.5$ of two views of a batch, after training on one view without the term and with it, at
        $\lambda = 1$ and 100 labels. Measured: the difference, in nats.
        """
        last = run.last_term.isel(labels=0, views=0, classes=0, drop=True)
        return last.isel(viewed=0, drop=True) - last.isel(viewed=ONE_TERM + _FULL - ONE, drop=True)

    @bound(
        "Appendix F.3.4",
        not_on={IMAGES: OPEN, PHOTOS: OPEN, **dict.fromkeys(TEXTS, "Of dropout views a cold term is silent.")},
        at_least=0.1,
        because="Bound: a tenth of a nat, a stated choice.",
        note="0.05 is the temperature of SimCSE, whose views are made by dropout as those of sentences are here.",
        range=POSITIVE,
    )
    def a_cold_term_is_there(self, run: xr.Dataset) -> xr.DataArray:
        r"""The same at $\tau = 0.05$, of the encoder's own features.

        Measured: NT-Xent of two views of a batch, in nats.
        """
        return run.cold_term.isel(labels=0, views=0, classes=0, drop=True)

    # --- How features lie ---------------------------------------------------------------------------------------------

    @ordering("derived here", on=CLUSTERS, more_than=0.0, because=SIGN, range=(-2.0, 2.0))
    def fine_tuning_makes_clusters(self, run: xr.Dataset) -> xr.DataArray:
        """Fine-tuning moves samples to others of their class.

        Measured: silhouette of the classes of test images in the adapter's features, trained on one view without the
        term, less that in the encoder's.
        """
        return tightness(run, PLAIN) - tightness(run, ENCODER)

    @ordering("Section 7.3.3, Figure F.8", not_on={CLUSTERS: OPEN}, more_than=0.0, because=SIGN, range=(-2.0, 2.0))
    def the_term_makes_cleaner_clusters(self, run: xr.Dataset) -> xr.DataArray:
        r"""Features that were trained with the term lie in cleaner clusters.

        The paper shows t-SNE maps. Measured: silhouette of the classes of test images in the features of fine-tuning on
        one view with $\lambda = 1$, less that without the term.
        """
        return tightness(run, TERM) - tightness(run, PLAIN)

    @ordering("derived here", not_on={CLUSTERS: OPEN}, more_than=0.0, because=SIGN, range=(-2.0, 2.0))
    def cleaner_clusters_beyond_two_views(self, run: xr.Dataset) -> xr.DataArray:
        """The same where both classify two views.

        Measured: the silhouette with the term less that without.
        """
        return tightness(run, BOTH_TERM) - tightness(run, BOTH)

    # --- What is printed ----------------------------------------------------------------------------------------------

    @ordering(
        "Tables 7.1, 7.2 and F.5 to F.8",
        on=("Table 7.1", "Table 7.2"),
        not_on={
            "Tables F.5 to F.8": "Not expected: F.5 (+ImageNet32, 5 %), F.6 (ImageNet, 10 views, 20 %) and F.7 "
            "(CIFAR-10, 10 views, 1 %; 100 views, 100 %) have it below fine-tuning."
        },
        more_than=0.0,
        because="Bound: 0; printed means. docs/tables/contrastive-regularisation.csv has them with their errors.",
        law="exact",
    )
    def printed_gains_are_all_above_zero(self, arm: str) -> float:
        """The term is better than fine-tuning wherever it is printed.

        Measured: the least printed gain, in points.
        """
        all_labels = {"Table 7.1": "F.5", "Table 7.2": "F.6 F.7 F.8"}
        if arm in all_labels:
            return min(published.gains(all_labels[arm], fractions=(100,), most_views=False))
        return min(published.gains("F.5 F.6 F.7 F.8"))

    @ordering(
        "Tables F.9 to F.11",
        on=tuple(name for name in published.PROBES if name != "CINIC-10"),
        not_on={"CINIC-10": "Not expected: 88.38 after, 88.41 before."},
        more_than=0.0,
        because="Bound: 0; printed means.",
        law="exact",
    )
    def printed_probes_gain(self, arm: str) -> float:
        """A linear probe gains by contrastive training on the target.

        Measured: the printed gain, in points.
        """
        before, after = published.PROBES[arm]
        return after - before

    @ordering(
        "Tables F.1 to F.4",
        on=("Table F.1, 2k and 44k labels", "Table F.2, 1k labels", "Table F.3, 1k labels", "Table F.3, 8k labels"),
        not_on={
            "Table F.1, all labels": "Not expected: with all labels diverse pre-training wins on both.",
            "Table F.2, 8k labels": "Not expected: with 8000 labels diverse pre-training wins on both.",
        },
        more_than=0.0,
        because="Bound: 0; printed means.",
        law="exact",
    )
    def printed_trade_off(self, arm: str) -> float:
        """Diverse pre-training loses on the target and wins on the wider task.

        Measured: the smaller of printed loss and printed gain, in points.
        """
        (specific, diverse), (narrow, wide) = published.TRADE_OFF[arm]
        return min(specific - diverse, wide - narrow)

    # --- What is shown ------------------------------------------------------------------------------------------------

    @property
    def warning(self) -> str:
        """What must be said of the data first."""
        return "MADE-UP SAMPLES: this says nothing about the paper. " if self.is_stand_in else ""

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Gains, accuracies, curves, the trade-off, maps of features, what is printed."""
        yield figures.gains(runs, self.warning)
        yield figures.accuracies(runs, self.warning)
        yield figures.growth(runs, self.warning)
        if UNIONS in runs:
            yield figures.trade_off(runs[UNIONS], self.warning)
            yield figures.parts(runs, self.warning)
        if CLUSTERS in runs:
            yield figures.clusters(runs[CLUSTERS], self.warning)
        yield figures.printed()

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """On how many sets the term helps, and on how many beyond a second view."""
        counts = {
            name: [verdict(claims, f"{name}@{arm}") for arm in TARGETS if arm in runs]
            for name in ("the-term-beats-fine-tuning", "the-term-beats-two-views")
        }
        (helps, beyond), of = (
            (found.count("holds") for found in counts.values()),
            len(counts["the-term-beats-two-views"]),
        )
        fails = sum("fails" in pair for pair in zip(*counts.values(), strict=True))
        gain = in_words(difference(runs[IMAGES], TWO_TERM + _FULL, TWO), "{:+.2f}") if IMAGES in runs else "?"
        before = "MADE-UP SAMPLES. " if self.is_stand_in else ""
        said = (
            f"A contrastive term helps fine-tuning on {helps} of {of} data sets, on {beyond} beyond its second view"
            if helps or beyond
            else f"No gain by a contrastive term is to be seen on any of {of} data sets"
        )
        return Story(
            f"{before}{said}; it harms on {fails}. CIFAR-10: {gain} points beyond the second view.",
            f"{self.warning}Of each image or sentence a fixed encoder makes features, also of ten altered copies "
            "(views). A small network on these is trained with 100 labels. The term pulls the two views of a sample "
            "together, and different samples apart. Bars are what it adds to the same training without it, by its "
            "weight, and what the second view adds alone.",
            {
                "the-term-beats-two-views@images": f"{gain} points on CIFAR-10.",
                "the-term-beats-fine-tuning@images": "",
                "more-sets-cost-the-target@unions": "",
                "the-term-is-there@trec": "",
            },
        )

"""Whether filters gather in clusters, and whether early gradients of a filter agree.

The text is Section 2.6 and Appendix A.7.4 of the dissertation, with Figures 2.3 and A.13 to A.17 and Table A.7.
Clusters are found by a rule here (two-means of filters of length 1), where the text picks them by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, PAIRED, POSITIVE, SHARE, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story
from featscope.studies.learned_filters import figures
from featscope.studies.learned_filters.arms import (
    DIGITS,
    DIGITS_LARGE,
    DIGITS_STILL,
    PHOTOS,
    PHOTOS_STILL,
    RESIDUAL,
    RESIDUAL_LOT,
    RESIDUAL_STILL,
    RESIDUAL_WIDE,
    TRAINED,
    USUAL,
    WIDE_LOT,
    LearnedFiltersArms,
)
from featscope.studies.learned_filters.clusters import PICKED
from featscope.studies.reductions import mean
from featscope.studies.summaries import in_case, in_words, verdict
from featscope.theory import gradient_consistency as theory

higher = partial(ordering, more_than=0.0, because=PAIRED, range=COSINE)
"""A difference whose sign is what matters."""
STILL = dict.fromkeys((DIGITS_STILL, PHOTOS_STILL, RESIDUAL_STILL), "Control: filters of the start.")
BY_LOT = {RESIDUAL: RESIDUAL_LOT, RESIDUAL_WIDE: WIDE_LOT}
WIDTHS = "Of widths 128 and 256 in the text."
NARROW = dict.fromkeys((RESIDUAL, RESIDUAL_WIDE), WIDTHS)
TABLE = {
    128: ((0.9727, 0.8655, 0.6549), (0.7454, 0.5083, 0.6533)),
    256: ((0.8646, 0.9665, 0.9121), (0.7087, 0.6919, 0.9135)),
}
"""Table A.7: cosines of three averages with their mean, and of pairs."""
LEAST_PRINTED = 0.4260
"""Of all mean cosines within a cluster in the captions of Figures A.16 and A.17."""
OPPOSITE = -0.5099
"""Of all cosines of centres there, the nearest to 0."""


def end(values: xr.DataArray) -> xr.DataArray:
    """At the last stage, mean over layers."""
    values = values.isel(stage=-1, drop=True)
    return values.mean("layer", skipna=False) if "layer" in values.dims else values


def silhouette(run: xr.Dataset) -> xr.DataArray:
    """Of two clusters, at the end."""
    return end(run.silhouettes.isel(count=0))


def in_two(study: LearnedFiltersArms) -> tuple[str, ...]:
    """Arms of hidden units whose filters form two clusters in the text."""
    return (DIGITS,) if in_four(study) else (DIGITS, PHOTOS)


def in_four(study: LearnedFiltersArms) -> Mapping[str, str]:
    """Arms whose filters form four, with where the text says so."""
    svhn = "svhn" in study.photographs.lower()
    return {PHOTOS: "Of SVHN the text has four clusters (Figure A.15)."} if svhn else {}


@dataclass(frozen=True)
class LearnedFilters(LearnedFiltersArms):
    """Filters that are learned from real images (dissertation, Section 2.6 and Appendix A.7.4).

    Options and arms are `LearnedFiltersArms`'.
    """

    asks = "Do filters that are learned from real images gather in clusters, and do their early gradients agree?"
    data_options = ("digits", "photographs")

    # --- Clusters -----------------------------------------------------------------------------------------------------

    @bound(
        "derived here",
        on=[*TRAINED, DIGITS_LARGE],
        relation=">",
        law="share",
        because=f"Bound: nine tenths of digits, six tenths of photographs; {STATED}",
        note="Without this nothing that is said of filters is about learning. Replicas are judged by the same test "
        "images, each of which counts once: as if a replica had had a part of them.",
    )
    def classes_are_learned(self, run: xr.Dataset, arm: str) -> Found:
        """The two classes are told apart.

        Measured: test accuracy at the end, mean over replicas.
        """
        return Found(
            run.accuracy,
            predicted=0.9 if arm in (DIGITS, DIGITS_LARGE) else 0.6,
            trials=run.tests / run.sizes["replica"],
        )

    @bound(
        "derived here",
        on=[*TRAINED, DIGITS_LARGE],
        at_most=0.01,
        because=f"Bound: one in a hundred, as there are images twice; {STATED}",
        law="exact",
        range=SHARE,
    )
    def tests_are_new_images(self, run: xr.Dataset) -> xr.DataArray:
        """Networks are judged by images that they were not trained on.

        Measured: share of test images that are among those that were trained on.
        """
        return run.seen

    @bound(
        "Figures 2.3, A.13 and A.14; captions of A.16 and A.17",
        on=DIGITS,
        not_on={
            PHOTOS: "Of hidden units the text says that there are two clusters, and not how they lie.",
            **dict.fromkeys((RESIDUAL, RESIDUAL_WIDE), f"Picked by hand in the text. {WIDTHS}"),
            DIGITS_LARGE: "First weights as usual: what is learned is small beside them.",
            **STILL,
        },
        at_most=OPPOSITE,
        range=COSINE,
        because="Bound: the nearest to 0 that the captions print, of filters picked by hand.",
    )
    def two_centres_are_opposite(self, run: xr.Dataset) -> xr.DataArray:
        """Filters fall in two clusters on opposite sides.

        Measured: cosine of the centres of two clusters at the end.
        """
        return end(run.between)

    @higher("Figures 2.3, A.13 and A.14", on=in_two, not_on=in_four)
    def two_clusters_fit_best(self, run: xr.Dataset) -> xr.DataArray:
        """Two clusters fit the filters of hidden units better than three to six.

        Measured: silhouette of two clusters at the end less the largest of three to six.
        """
        of = end(run.silhouettes)
        return of.isel(count=0) - of.isel(count=slice(1, None)).max("count", skipna=False)

    @higher("Figures 2.3 and A.13 to A.17", on=(DIGITS, PHOTOS), not_on=NARROW)
    def training_makes_clusters(self, run: xr.Dataset) -> xr.DataArray:
        """Training makes clusters tighter than those that the same rule finds at the start.

        Measured: silhouette of two clusters at the end less that at the start, mean over layers.
        """
        two = run.silhouettes.isel(count=0).mean("layer", skipna=False)
        return two.isel(stage=-1) - two.isel(stage=0)

    @higher(
        "derived here",
        on=DIGITS_LARGE,
        note="The text says 'random Gaussian' and no more; with first weights of the usual length there is little.",
        given=lambda study: study.spread < USUAL,
    )
    def small_start_makes_clusters(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Whether clusters are seen depends on how large the first weights are.

        Measured: silhouette of two clusters at the end of training from small first weights less that from usual ones.
        """
        return silhouette(runs[DIGITS]) - silhouette(run)

    @higher(
        "Appendix A.7.4",
        on=(RESIDUAL, RESIDUAL_WIDE),
        note="Hidden units begin at a tenth of the usual first weights, residual networks at these. From usual ones "
        "hidden units on digits have hardly more (`small-start-makes-clusters`): the start is as good a reason.",
    )
    def residual_clusters_are_weaker(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Filters of residual networks gather less than hidden units.

        Measured: silhouette of two clusters at the end, of hidden units on photographs less of the residual network.
        """
        return silhouette(runs[PHOTOS]) - silhouette(run)

    @higher(
        "Appendix A.7.4, Figures A.16 and A.17",
        not_on={RESIDUAL_WIDE: f"{WIDTHS} Random filters gather the less the more weights they have."},
    )
    def wider_gathers_more(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Filters of a wider residual network gather more.

        Measured: silhouette of two clusters at the end, mean over groups of blocks, less that of the narrow network.
        """
        return silhouette(run) - silhouette(runs[RESIDUAL])

    @ordering(
        "derived, for Figures A.16 and A.17",
        on=(RESIDUAL, RESIDUAL_WIDE),
        more_than=PICKED**-0.5,
        range=COSINE,
        note=f"The bound is what {PICKED} unrelated filters have with their own mean, 1/√{PICKED}, which alone is more "
        f"than the least that the captions print, {LEAST_PRINTED}. How many were picked, the text does not say.",
    )
    def picked_clusters_are_in_random_filters(self, run: xr.Dataset) -> xr.DataArray:
        """Filters that are picked by hand look like a cluster before any training, more than any few do.

        Measured: mean cosine of the five filters nearest to each centre with the centre of these five, at the start,
        mean over groups of blocks with a cluster of five or more.
        """
        return run.picked.isel(stage=0).mean("layer", skipna=True)  # NaN where no cluster has five

    # --- When, and by what --------------------------------------------------------------------------------------------

    @higher(
        "Appendix A.7.4",
        not_on={
            **dict.fromkeys((RESIDUAL, RESIDUAL_WIDE), "At 20 epochs in the text; here training ends after 5."),
            **dict.fromkeys((DIGITS, PHOTOS), "The text says it of residual networks only."),
        },
        range=(-np.inf, np.inf),
    )
    def filters_change_early(self, run: xr.Dataset) -> xr.DataArray:
        """Filters change more in the first 3/20 of training than in all the rest.

        Measured: length of the former change less that of the latter, over the length at the start, mean over layers.
        """
        return mean(run.early - run.late)

    @higher(
        "Appendix A.7.4, Table A.7",
        not_on={
            **dict.fromkeys((RESIDUAL, RESIDUAL_WIDE), f"{WIDTHS} Narrower ones turn sooner as a whole."),
            **dict.fromkeys(BY_LOT.values(), "Control: labels by lot."),
        },
    )
    def early_gradients_agree(self, run: xr.Dataset) -> xr.DataArray:
        """Early gradients of a filter point in similar directions.

        Measured: mean cosine of its averages over steps 1-10, 11-20 and 21-30, of the filter nearest to a cluster's
        centre.
        """
        return mean(run.agreement)

    @higher("derived, for Table A.7", on=(RESIDUAL, RESIDUAL_WIDE), corrects="early-gradients-agree")
    def labels_make_gradients_agree(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """They agree more than where labels are given by lot.

        Measured: mean cosine of averages over ten steps, mean over filters, less the same with labels by lot.
        """
        return mean(run.agreement_of_all - runs[BY_LOT[arm]].agreement_of_all)

    @bound(
        "Table A.7",
        not_on=NARROW,
        at_least=0.5083,
        range=COSINE,
        because="Bound: the least that the table prints for a pair.",
    )
    def gradients_agree_as_printed(self, run: xr.Dataset) -> xr.DataArray:
        """Early gradients agree as much as the table prints.

        Measured: mean cosine of averages over ten steps, of the filter nearest to a cluster's centre.
        """
        return mean(run.agreement)

    @identity(
        "derived, for Table A.7",
        on=RESIDUAL,
        equals=theory.unrelated_to_mean(3),
        within=1e-9,
        law="exact",
        because="Tolerance: rounding.",
        corrects=("gradients-agree-as-printed", "printed-similarity-is-significant"),
    )
    def unrelated_gradients_look_alike(self) -> float:
        r"""Three gradients that have nothing in common have a cosine of 0.58 with their mean, each.

        $\cos(v_i, \bar v) = 1/\sqrt3$ for orthogonal vectors of one length. Measured: of three directions in 9,216
        dimensions.
        """
        v = np.eye(3, 9216)
        of_all = v.mean(0)
        return float(v[0] @ of_all / np.linalg.norm(of_all))

    @bound(
        "Appendix A.7.4",
        not_on={RESIDUAL: "The average is in its own mean. 0.6 is what nothing in common gives."},
        at_least=0.3,
        law="exact",
        because=f"Bound: three tenths above what unrelated gradients have; {STATED}",
        note="'A similarity of 0.6 is regarded as very significant as the filters are in a high dimension of 9216.'",
    )
    def printed_similarity_is_significant(self) -> float:
        """A cosine of 0.6 with the mean of three is far above that of unrelated gradients.

        Measured: the least such cosine in Table A.7 less that of unrelated gradients.
        """
        return min(TABLE[128][0]) - theory.unrelated_to_mean(3)

    @bound(
        "Table A.7",
        on=RESIDUAL,
        at_most=1e-4,
        law="exact",
        range=POSITIVE,
        because="Bound: cosines of four digits.",
        note="They follow only if the three averages are of very different length: 1 to {:.2f} to {:.2f} for "
        "ResNet(128), so that the first is most of the mean.".format(*theory.implied(*TABLE[128]).norms),
    )
    def table_is_consistent(self) -> float:
        """The six cosines of each row of the table can be had at once.

        Measured: largest difference to those of three vectors of the best lengths, over both rows.
        """
        return max(theory.implied(*row).off for row in TABLE.values())

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Maps by cosines, filters as images, clusters by layer, gradients."""
        yield figures.maps(runs)
        yield figures.images(runs)
        yield figures.by_layer(runs)
        yield figures.gradients(runs, TABLE)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether there are two clusters, and on what that depends."""
        own = verdict(claims, f"two-centres-are-opposite@{DIGITS}")
        words = {"holds": "fall in two opposite clusters", "fails": "fall in no two opposite clusters"}
        centres = [in_words(end(runs[arm].between)) for arm in (DIGITS, DIGITS_LARGE)]
        picked = f"picked-clusters-are-in-random-filters@{RESIDUAL}"
        made_up = [
            note
            for told, note in (
                (self.digits == "digits", "Digits are scikit-learn's, 8 x 8 pixels, in place of MNIST"),
                (self.photographs == "shapes", "photographs are made up: discs and rings"),
            )
            if told
        ]
        said = f" {'; '.join(made_up)}." if made_up else ""
        return Story(
            f"Filters learned from zeros and ones {words.get(own, 'may fall in two clusters')} (cosine {centres[0]}) "
            f"from small first weights; from usual ones {centres[1]}.",
            "Each point is a filter, near to others that look alike; colours are two clusters that a rule finds at the "
            "end, traced back to the start. The same rule finds two in filters that were never trained, so that what "
            "counts is the difference." + said,
            {
                f"two-centres-are-opposite@{DIGITS}": "",
                f"small-start-makes-clusters@{DIGITS_LARGE}": "",
                picked: in_case(
                    claims, picked, "So a hand proves little.", "They are no more alike than any few filters."
                ),
                f"labels-make-gradients-agree@{RESIDUAL}": "",
                f"unrelated-gradients-look-alike@{RESIDUAL}": "The text takes 0.6 for very significant.",
            },
        )

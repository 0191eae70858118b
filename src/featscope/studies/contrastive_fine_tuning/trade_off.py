"""What pre-training on more kinds of data costs the target, and what it gives to all."""

from dataclasses import dataclass

import xarray as xr

from featscope.claims import identity, ordering
from featscope.studies.base import Runs
from featscope.studies.contrastive_fine_tuning.arms import (
    APART,
    DRAWN_APART,
    IMAGES,
    KINDS,
    OPEN,
    SIGN,
    UNIONS,
    ContrastiveFineTuningArms,
    fewest,
    of_paper,
)
from featscope.studies.contrastive_fine_tuning.recipe import UNTRAINED
from featscope.studies.reductions import largest, smallest


def of_target(run: xr.Dataset) -> xr.DataArray:
    """Accuracy on the target after pre-training, in percent."""
    return 100 * run.accuracy.isel(target=0, drop=True)


@dataclass(frozen=True)
class TradeOff(ContrastiveFineTuningArms):
    """Claims on pre-training, of the arms `unions` and `kinds`."""

    @ordering(
        "Section 7.3.2, Figures 7.1, 7.3 and F.2", not_on={UNIONS: OPEN}, more_than=0.0, because=SIGN, range=APART
    )
    def more_sets_cost_the_target(self, run: xr.Dataset) -> xr.DataArray:
        """Pre-training on more kinds of data costs the target.

        Measured: accuracy on CIFAR-10 after pre-training on it alone, less that after pre-training on all four sets, in
        points.
        """
        target = of_target(run).isel(share=0, drop=True)
        return target.isel(sets=0, drop=True) - target.isel(sets=-1, drop=True)

    @ordering(
        "Section 7.3.2, Figures 7.1, 7.3 and F.2", on=UNIONS, more_than=0.0, because=SIGN, given=of_paper, range=APART
    )
    def more_sets_serve_all(self, run: xr.Dataset) -> xr.DataArray:
        """Pre-training on more kinds of data serves all of them.

        Measured: mean accuracy on the four sets after pre-training on all of them, less that after pre-training on
        CIFAR-10 alone, in points.
        """
        average = 100 * run.accuracy.isel(share=0, drop=True).mean("target", skipna=False)
        return average.isel(sets=-1, drop=True) - average.isel(sets=0, drop=True)

    @ordering(
        "Section 7.3.2, Figure 7.5",
        on=UNIONS,
        more_than=0.0,
        because=SIGN,
        given=of_paper,
        range=(-1.0, 1.0),
    )
    def features_move_away(self, run: xr.Dataset) -> xr.DataArray:
        """The more sets, the less alike are features to those of pre-training on one.

        Measured: linear CKA of the target's features with those of one set, after two sets less after four.
        """
        similarity = run.similarity.isel(share=0, drop=True)
        return similarity.isel(sets=1, drop=True) - similarity.isel(sets=-1, drop=True)

    @ordering("Appendix F.3.3, Figure F.6", on=UNIONS, more_than=0.0, because=SIGN, given=of_paper, range=APART)
    def less_of_the_target_costs(self, run: xr.Dataset) -> xr.DataArray:
        """Pre-training on a fifth of the target's images is worse than on all of them.

        Measured: accuracy on CIFAR-10 after pre-training on all of its images and nothing else, less that after a
        fifth of them, in points.
        """
        target = of_target(run).isel(sets=0, drop=True)
        return target.isel(share=0, drop=True) - target.isel(share=-1, drop=True)

    @ordering("Appendix F.3.3, Figure F.6", on=UNIONS, more_than=0.0, because=SIGN, given=of_paper, range=APART)
    def other_sets_stand_in_for_the_target(self, run: xr.Dataset) -> xr.DataArray:
        """The less there is of the target, the more other sets serve it.

        In the paper the curve falls with the sets where all of the relevant images are there, and rises again where
        few are. Measured: what the other three sets add to accuracy on CIFAR-10 beside a fifth of its images, less
        what they add beside all, in points.
        """
        target = of_target(run)
        added = target.isel(sets=-1, drop=True) - target.isel(sets=0, drop=True)
        return added.isel(share=-1, drop=True) - added.isel(share=0, drop=True)

    @ordering("derived here", on=(UNIONS, KINDS), more_than=0.0, because=DRAWN_APART, range=APART)
    def pretraining_does_something(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray:
        """Pre-training makes an adapter better than a random one.

        The random one has twice as many outputs, which should help it, if anything. Measured: accuracy on CIFAR-10
        after pre-training on it and whatever is added last, less that of a probe of the untrained adapter of `images`,
        at 100 labels, in points.
        """
        added = {UNIONS: {"share": 0, "sets": -1}, KINDS: {"part": -1}}[arm]
        target = of_target(run) if arm == UNIONS else 100 * run.accuracy
        return target.isel(added, drop=True) - fewest(runs[IMAGES], UNTRAINED)

    @ordering("Appendix F.3.3, Figure F.5", on=KINDS, more_than=0.0, because="Bound: none is no more.", law="exact")
    def kinds_are_ever_more(self, run: xr.Dataset) -> xr.DataArray:
        """Images are of ever more kinds.

        Measured: kinds of the images beside the target's, from one part of all kinds to the next; the least rise.
        """
        return smallest(run.kinds.diff("part"))

    @identity(
        "Appendix F.3.3, Figure F.5",
        on=KINDS,
        equals=0.0,
        within=0.0,
        because="Tolerance: none, these are counts.",
        law="exact",
    )
    def as_many_images_of_more_kinds(self, run: xr.Dataset) -> xr.DataArray:
        """However many kinds there are, there are as many images.

        Measured: images beside the target's, the most less the fewest.
        """
        return largest(run.beside) - smallest(run.beside)

    @ordering("Appendix F.3.3, Figure F.5", not_on={KINDS: OPEN}, more_than=0.0, because=SIGN, range=APART)
    def more_kinds_cost_the_target(self, run: xr.Dataset) -> xr.DataArray:
        """Of as many images, more kinds cost the target.

        Measured: accuracy on CIFAR-10 after pre-training on it and on images of a seventh of the kinds, less that with
        as many images of all, in points.
        """
        return 100 * (run.accuracy.isel(part=0, drop=True) - run.accuracy.isel(part=-1, drop=True))

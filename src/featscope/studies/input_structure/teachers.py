"""Claims about how the teacher is chosen: networks by size, on images and on Gaussians (Figure A.22)."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, PAIRED, bound, ordering
from featscope.studies.input_structure.arms import SIZES, InputStructureArms
from featscope.studies.input_structure.by_size import FITTED, classical_minimum
from featscope.studies.reductions import known

higher = partial(ordering, more_than=0.0, because=PAIRED, range=COSINE)
"""A difference whose sign is what matters."""
LOG = (-np.inf, np.inf)


@dataclass(frozen=True)
class TeacherClaims(InputStructureArms):
    """What Algorithm 3 rests on."""

    @higher(
        "Figure A.22(a)",
        on=SIZES,
        range=LOG,
        note="Only where training goes on long after images are fitted. Sizes that are picked and compared by the same "
        "losses would descend twice by chance alone.",
    )
    def loss_descends_twice(self, run: xr.Dataset) -> xr.DataArray:
        """The test loss of teachers falls with size, rises, and falls again.

        Two sizes are picked by the mean of all other replicas: the classical minimum, and the largest loss beyond it.
        Measured: the least of three differences: the smallest size's loss less that at the first; that at the second
        less that at the first; that at the second less that of the largest size.
        """
        return xr.DataArray([self._turns(run, replica) for replica in range(run.sizes["replica"])], dims="replica")

    def _turns(self, run: xr.Dataset, replica: int) -> float:
        """By how much the loss of one replica falls, rises and falls, at sizes that the others pick; the least."""
        if run.sizes["replica"] == 1:  # there are no others
            return np.nan
        # Some of the others may have diverged.
        others = run[["loss", "fitted"]].drop_isel(replica=replica).mean("replica", skipna=True)
        (lowest,) = classical_minimum(others.loss.values[None], others.fitted.values[None])
        beyond = min(lowest + 1, len(self.sizes) - 1)
        peak = beyond + int(others.loss.values[beyond:].argmax())
        own = run.loss.isel(replica=replica).values
        if not np.isfinite([*own, *others.loss.values, *others.fitted.values]).all():
            return np.nan
        return float(min(own[0] - own[lowest], own[peak] - own[lowest], own[peak] - own[-1]))

    def _grid(self, run: xr.Dataset) -> xr.DataArray:
        return xr.DataArray(np.array(self.sizes), dims="size")

    def _above_its_neighbours(self, loss: xr.DataArray, size: int) -> xr.DataArray | None:
        """The lesser loss of the next sizes on both sides, less that at ``size``; None where this is not tried."""
        if size not in self.sizes:
            return None
        place = self.sizes.index(size)
        beside = [one for one in (place - 1, place + 1) if 0 <= one < len(self.sizes)]
        return loss.isel(size=beside).min("size", skipna=False) - loss.isel(size=place)

    @higher(
        "derived, for Algorithm 3",
        on=SIZES,
        note="So the size of least loss is not that of the best labels, as the text says itself of 'more complicated' "
        "data.",
    )
    def accuracy_has_no_minimum(self, run: xr.Dataset) -> xr.DataArray:
        """Accuracy does not turn where the loss does: larger teachers name more images right.

        Measured: test accuracy of the largest teacher less that at the classical minimum of the loss.
        """
        return run.right.isel(size=-1) - self._at(run.right, run.chosen)

    @higher("Algorithm 3", on=SIZES, range=LOG, note="The teacher of all other arms of digits has this size.")
    def teacher_is_at_the_minimum(self, run: xr.Dataset) -> xr.DataArray | None:
        """The teacher's size is at the classical minimum.

        Measured: test loss of teachers of the next smaller or the next larger size, whichever is less, less that of
        this size.
        """
        return self._above_its_neighbours(run.loss, self.teacher)

    @higher(
        "Appendix A.7.5, Figure A.22(a)",
        not_on={SIZES: "The text has all of MNIST and gives no training settings; both move the minimum."},
        range=LOG,
    )
    def minimum_at_nine(self, run: xr.Dataset) -> xr.DataArray | None:
        """The classical minimum of teachers is at 9 hidden units.

        Measured: test loss of teachers of the next smaller or the next larger size, whichever is less, less that of 9.
        """
        return self._above_its_neighbours(run.loss, 9)

    @bound(
        "Appendix A.7.5",
        not_on={SIZES: "The minimum is where what is gained by size meets what finite data cost."},
        at_most=0.0,
        range=LOG,
        because="Bound: 0, that data do not count.",
        note="'The local minimum approximates the complexity of the ground-truth labeling function.'",
    )
    def minimum_is_of_the_labelling(self, run: xr.Dataset) -> xr.DataArray:
        """The classical minimum depends on the labelling, not on how many images there are.

        Measured: with a quarter of the images, test loss at the size that is best with all, less the least of smaller
        sizes.
        """
        return self._lost(run)

    @higher(
        "derived, for Appendix A.7.5", on=SIZES, range=LOG, corrects=("minimum-at-nine", "minimum-is-of-the-labelling")
    )
    def minimum_grows_with_samples(self, run: xr.Dataset) -> xr.DataArray:
        """With more images of the same labelling the classical minimum is at a larger size.

        Measured: with a quarter of the images, test loss at the size that is best with all, less the least of smaller
        sizes.
        """
        return self._lost(run)

    def _lost(self, run: xr.Dataset) -> xr.DataArray:
        smaller = run.loss_of_fewer.where(self._grid(run) < run.chosen, np.inf).min("size", skipna=False)
        return self._at(run.loss_of_fewer, run.chosen) - smaller

    @higher(
        "Figure A.22(b)",
        on=SIZES,
        range=LOG,
        note="On Gaussians of independent pixels, as many as images. 'About' is a factor of two here.",
    )
    def student_minimum_at_teacher_size(self, run: xr.Dataset) -> xr.DataArray:
        """Students on Gaussians have their classical minimum at about their teacher's size.

        Measured: for the chosen teacher, in the classical regime, least test loss of students of less than half or more
        than twice its size, less the least of the others. Nothing where either are none.
        """
        loss, apart = run.student_loss.isel(teacher=0), np.abs(np.log2(self._grid(run) / run.chosen))
        fitted = run.student_fitted.isel(teacher=0)
        classical = self._classical(fitted)
        least = (loss.where(classical & which, np.inf).min("size", skipna=False) for which in (apart > 1, apart <= 1))
        away, own = (one.where(one < np.inf) for one in least)
        return known(away - own, fitted, run.chosen)

    @higher(
        "Figure A.22(c)",
        not_on={SIZES: "A teacher of 50 units has more weights than there are Gaussians at the default size."},
        range=LOG,
    )
    def student_minimum_grows_with_teacher(self, run: xr.Dataset) -> xr.DataArray:
        """A larger teacher moves the minimum of students on Gaussians to larger sizes.

        Measured: of its students, test loss at the size that is best for the chosen teacher's, less the least of larger
        ones in the classical regime (of the next larger one, where that is beyond).
        """
        loss, grid = run.student_loss.isel(teacher=1), self._grid(run)
        before = run.least.isel(teacher=0)
        fitted = run.student_fitted.isel(teacher=1)
        following = grid.where(grid > before).min("size", skipna=True)
        beyond = (grid == following) | ((grid > before) & self._classical(fitted))
        least = loss.where(beyond, np.inf).min("size", skipna=False)
        return known(self._at(loss, before) - least, fitted)

    def _at(self, values: xr.DataArray, size: xr.DataArray) -> xr.DataArray:
        """``values`` of one size; NaN where that is NaN."""
        grid = xr.DataArray(np.array(self.sizes), dims="size")
        return values.where(grid == size).max("size", skipna=True)  # there is one

    def _classical(self, fitted: xr.DataArray) -> xr.DataArray:
        """Whether a size is not beyond the first that fits what it is trained on."""
        return (fitted >= FITTED).cumsum("size").shift(size=1, fill_value=0) == 0

"""Claims about how the teacher is chosen: networks by size, on images and on Gaussians (Figure A.22)."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, PAIRED, STATED, bound, identity, ordering
from featscope.studies.input_structure.arms import SIZES, InputStructureArms

higher = partial(ordering, more_than=0.0, because=PAIRED, range=COSINE)
"""A difference whose sign is what matters."""
LOG = (-np.inf, np.inf)
OCTAVE = f"Tolerance: a factor of two for 'roughly the same'; {STATED}"


@dataclass(frozen=True)
class TeacherClaims(InputStructureArms):
    """What Algorithm 3 rests on."""

    @higher("Figure A.22(a)", on=SIZES, range=LOG, note="Only where training goes on long after images are fitted.")
    def loss_descends_twice(self, run: xr.Dataset) -> xr.DataArray:
        """The test loss of teachers falls with size, rises, and falls again.

        Measured: the least of three differences: the smallest size's loss less that at the classical minimum; the
        largest beyond it less that; the largest less that of the largest size.
        """
        lowest = self._lowest(run)
        peak = run.loss.where(self._beyond(run)).max("size")
        parts = [run.loss.isel(size=0) - lowest, peak - lowest, peak - run.loss.isel(size=-1)]
        return xr.concat(parts, "part").min("part")

    def _grid(self, run: xr.Dataset) -> xr.DataArray:
        return xr.DataArray(np.array(self.sizes), dims="size")

    def _lowest(self, run: xr.Dataset) -> xr.DataArray:
        return run.loss.where(self._grid(run) == run.chosen).max("size")

    def _beyond(self, run: xr.Dataset) -> xr.DataArray:
        return self._grid(run) >= run.chosen

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
        return run.right.isel(size=-1) - run.right.where(self._grid(run) == run.chosen).max("size")

    @identity(
        "Appendix A.7.5, Figure A.22(a)",
        not_on={SIZES: "The text has all of MNIST and gives no training settings; both move the minimum."},
        equals=float(np.log2(9)),
        within=0.3,
        because=f"Tolerance: to the nearest size that is tried; {STATED}",
        range=LOG,
    )
    def minimum_at_nine(self, run: xr.Dataset) -> xr.DataArray:
        """The classical minimum of teachers is at 9 hidden units.

        Measured: its binary logarithm.
        """
        return np.log2(run.chosen)

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

        Measured: binary logarithm of the size at the minimum, less that with a quarter of the images.
        """
        return self._growth(run)

    @ordering("derived, for Appendix A.7.5", on=SIZES, more_than=0.0, because=PAIRED, range=LOG)
    def minimum_grows_with_samples(self, run: xr.Dataset) -> xr.DataArray:
        """With more images of the same labelling the classical minimum is at a larger size.

        Measured: binary logarithm of the size at the minimum, less that with a quarter of the images.
        """
        return self._growth(run)

    def _growth(self, run: xr.Dataset) -> xr.DataArray:
        return np.log2(run.chosen) - np.log2(run.chosen_of_fewer)

    @identity(
        "Figure A.22(b)",
        on=SIZES,
        equals=0.0,
        within=1.0,
        because=OCTAVE,
        range=LOG,
        note="On Gaussians of independent pixels, as many as images.",
    )
    def student_minimum_at_teacher_size(self, run: xr.Dataset) -> xr.DataArray:
        """Students on Gaussians have their classical minimum at about their teacher's size.

        Measured: binary logarithm of the former over the latter, for the chosen teacher.
        """
        return np.log2(run.least.isel(teacher=0)) - np.log2(run.chosen)

    @ordering("Figure A.22(c), (d)", on=SIZES, more_than=0.0, because=PAIRED, range=LOG)
    def student_minimum_grows_with_teacher(self, run: xr.Dataset) -> xr.DataArray:
        """Larger teachers move the minimum of students on Gaussians to larger sizes.

        Measured: binary logarithm of the size at the minimum for the largest teacher, less that for the chosen one.
        """
        return np.log2(run.least.isel(teacher=-1)) - np.log2(run.least.isel(teacher=0))

"""What is learned of real and of injected inputs under one labelling, and how the labelling teacher is chosen.

The text is Section 2.6 and Appendix A.7.5 of the dissertation, with Algorithm 3 and Figures 2.4 and A.18 to A.22.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

from featscope.claims import COSINE, PAIRED, ROUNDING, STATED, Claim, Found, bound, identity, ordering
from featscope.figures import Figure
from featscope.studies.base import Runs, Story
from featscope.studies.input_structure import figures
from featscope.studies.input_structure.arms import (
    COVARIANCE,
    DIGITS,
    FOREIGN,
    FRACTIONS,
    PHOTOS_WHITE,
    SAME,
    SIZES,
    WHITE,
    WIDE,
    InputStructureArms,
)
from featscope.studies.input_structure.networks import balance
from featscope.studies.input_structure.teachers import TeacherClaims, higher
from featscope.studies.summaries import in_case, percent, verdict

INJECTED = (WHITE, COVARIANCE, FOREIGN, *FRACTIONS.values(), WIDE)
"""Arms of digits whose injected inputs are of another kind."""
ALIKE = {SAME: "Control: both parts are digits."}
TEXT = "Figures 2.4, A.18 to A.21"
NEAR = f"Bound: five points in a hundred for 'about as well'; {STATED}"
WEAK = "For MNIST the text calls the trend weak. Labelled Gaussians are more data of the real part's labelling, too."
OWN_TEACHER = "Each kind has a teacher of its own, trained on it, so that labels differ between kinds, too."
AS_MANY = "Judged where as many are injected: another data set may have too few images."
SAME_SHARE = 0.01
"""Shares of injected inputs that are no farther apart are taken for the same."""
LEARNED = 0.1
"""By how much accuracy on a part must rise for it to be learned earlier or later."""
ARITHMETIC = "The mixture is the two parts' weighted mean, so this follows from the two claims on parts."


def end(values: xr.DataArray) -> xr.DataArray:
    """At the last look."""
    return values.isel(look=-1, drop=True)


def gap(run: xr.Dataset) -> xr.DataArray:
    """Accuracy on real inputs less that on injected ones, at the end."""
    return end(run.original) - end(run.injected)


def injected(study: InputStructureArms) -> tuple[str, ...]:
    """Arms whose injected inputs are of another kind."""
    return (*INJECTED, *study.photo_arms())


def separated(study: InputStructureArms) -> tuple[str, ...]:
    """Arms of which the text says that the parts are clearly apart."""
    return (WIDE, *study.photo_arms())


def foreign(study: InputStructureArms) -> tuple[str, ...]:
    """Arms with images of another data set."""
    return (FOREIGN, *study.photo_arms()[1:])


def white(study: InputStructureArms) -> tuple[str, ...]:
    """Arms of each kind of networks with Gaussians of independent pixels."""
    return (WHITE, *study.photo_arms()[:1])


@dataclass(frozen=True)
class InputStructure(TeacherClaims):
    """A teacher labels real and injected inputs, a student learns both (dissertation, Section 2.6, Appendix A.7.5).

    Options and arms are `InputStructureArms`'.
    """

    asks = "With the labelling kept, do real inputs make learning easier than inputs without their structure?"
    default_replicas = 6
    data_options = ("digits", "photographs", "foreign")

    # --- The two parts ------------------------------------------------------------------------------------------------

    @higher(TEXT, on=injected, not_on=ALIKE)
    def injected_part_is_worse(self, run: xr.Dataset) -> xr.DataArray:
        """The student is worse on injected inputs than on real ones.

        Both are labelled by one teacher. Measured: accuracy on real test inputs less that on injected ones, at the end.
        """
        return gap(run)

    @higher(TEXT, on=injected, not_on=ALIKE, range=(-2 / LEARNED, 2 / LEARNED))
    def injected_part_is_slower(self, run: xr.Dataset) -> Found:
        """What is learned of injected inputs is learned later.

        Measured: accuracy less that before the first step, over the same at the end; the mean over twelve looks, of
        real inputs less that of injected ones. Nothing where accuracy on a part rises by less than a tenth.
        """
        hardly = (_gain(run.original) < LEARNED) | (_gain(run.injected) < LEARNED)
        why = f"In {int(hardly.sum())} of {hardly.size} replicas accuracy on a part rose by less than {LEARNED}."
        return Found(_progress(run.original) - _progress(run.injected), why if hardly.any() else "")

    @bound(TEXT, on=injected, at_most=0.05, because=NEAR, range=COSINE)
    def original_part_as_alone(self, run: xr.Dataset) -> xr.DataArray:
        """Real inputs are learned about as well as without injected ones.

        Measured: accuracy on them of a student that saw no others less that of the student of both, at the end. Both
        take as many steps from one start; the second sees real inputs in a part of them.
        """
        return end(run.alone) - end(run.original)

    @higher(
        "derived here",
        on=INJECTED,
        note="A student that can be what the teacher is has one labelling to learn; the text says 'about as well'.",
    )
    def injected_inputs_help_real_ones(self, run: xr.Dataset) -> xr.DataArray:
        """Beside injected inputs real ones are learned better than alone.

        Measured: accuracy on real inputs of the student of both less that of one that saw no others, at the end.
        """
        return end(run.original) - end(run.alone)

    @higher(
        "derived here",
        on=injected,
        note="Of a student that learned nothing real inputs would not be learned worse either.",
    )
    def alone_real_inputs_are_learned(self, run: xr.Dataset) -> xr.DataArray:
        """Without injected inputs, too, real ones are learned.

        Measured: accuracy on them of a student that saw no others at the end less that before the first step.
        """
        return _gain(run.alone)

    @higher(TEXT, on=separated, not_on={**dict.fromkeys(INJECTED[:-1], WEAK), **ALIKE}, note=ARITHMETIC)
    def mixture_below_alone(self, run: xr.Dataset, arm: str) -> xr.DataArray:
        """Accuracy on the mixture is below that of training on real inputs alone.

        Measured: the latter less the former, at the end. The mixture has as much of each part as training has.
        """
        share = self.share_injected(arm, run)
        return end(run.alone) - (1 - share) * end(run.original) - share * end(run.injected)

    @higher(
        "derived, for Algorithm 3",
        on=injected,
        note="A student that names one class throughout has the share of that class. Without this, nothing that is "
        "said of the injected part is about learning.",
    )
    def injected_part_is_learned_at_all(self, run: xr.Dataset) -> xr.DataArray:
        """On injected inputs the student does better than the most frequent label.

        Measured: its accuracy there at the end less the share of that label among them.
        """
        return end(run.injected) - run.majority

    # --- Which injected inputs ----------------------------------------------------------------------------------------

    @higher("Figure A.19", on=foreign, note=f"{OWN_TEACHER} {AS_MANY}")
    def foreign_images_help_more_than_noise(self, run: xr.Dataset, runs: Runs, arm: str) -> xr.DataArray | None:
        """Injected images of another data set are learned better than Gaussians.

        Measured: accuracy on the former less that on Gaussians of independent pixels, at the end.
        """
        twin = WHITE if arm == FOREIGN else PHOTOS_WHITE
        own, other = (np.asarray(self.share_injected(name, runs[name])) for name in (arm, twin))
        if np.abs(own - other).max() > SAME_SHARE:
            return None
        return end(run.injected) - end(runs[twin].injected)

    @higher(
        "derived here",
        on=COVARIANCE,
        note="The text takes 'Gaussian' and does not say of what covariance. A quadratic network sees little else. "
        f"{OWN_TEACHER}",
    )
    def covariance_is_structure(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """Gaussians with the images' mean and covariance are learned better than those of independent pixels.

        Measured: accuracy on the former less that on the latter, at the end.
        """
        return end(run.injected) - end(runs[WHITE].injected)

    @higher("derived, for Figure A.20", on=FRACTIONS[0.75], note="The text says that the trend is the same for any α.")
    def gap_falls_with_fraction(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """The more of the inputs are Gaussians, the less the parts are apart.

        Measured: accuracy on real inputs less that on Gaussians at the end, where a quarter are Gaussians less where
        three quarters are.
        """
        return gap(runs[FRACTIONS[0.25]]) - gap(run)

    @higher("Figure A.21", on={WIDE: ""})
    def wider_student_separates_more(self, run: xr.Dataset, runs: Runs) -> xr.DataArray:
        """A student of 50 hidden units has its two parts further apart.

        Measured: accuracy on real inputs less that on Gaussians, of 50 hidden units less of the student, at the end.
        """
        return gap(run) - gap(runs[WHITE])

    @ordering(
        "derived here",
        not_on={WHITE: "Were it so, it would explain the gap without any structure."},
        more_than=0.0,
        because=PAIRED,
        range=COSINE,
        note="A student that is wrong near the boundary is wrong more often where more inputs are near it. So the two "
        "parts are not alike in all but their structure, as 'the labelling function is kept' would have it.",
    )
    def teacher_is_less_sure_of_injected_inputs(self, run: xr.Dataset) -> xr.DataArray:
        """The teacher is less sure of injected inputs than of real ones, though R asks for sure answers.

        Measured: its largest probability less its second largest; on real test inputs less on injected ones.
        """
        return run.margin_gap

    # --- The regulariser ----------------------------------------------------------------------------------------------

    @higher("(A.290)", on=white, range=(-10.0, 10.0), given=lambda study: study.weight > 0)
    def regulariser_balances_labels(self, run: xr.Dataset) -> xr.DataArray:
        r"""The regulariser makes classes equally likely on injected inputs.

        Measured: $R_1$ on injected test inputs of a teacher trained without it, less that of one trained with it.
        """
        return run.first_free - run.first

    @higher("(A.291)", on=white, range=(-10.0, 10.0), given=lambda study: study.weight * study.sharpness > 0)
    def regulariser_sharpens_answers(self, run: xr.Dataset) -> xr.DataArray:
        r"""The regulariser makes the teacher surer of injected inputs.

        Measured: $R_2$ on injected test inputs of a teacher trained without it, less that of one trained with it.
        """
        return run.second_free - run.second

    @identity(
        "derived, for (A.289)",
        on=WHITE,
        equals=0.0,
        within=1e-9,
        law="exact",
        because=ROUNDING,
        note="Printed are f(x) for f(x_i), and no λ. At λ = 0 answers that know nothing are best, too.",
    )
    def regulariser_is_information(self) -> float:
        r"""At $\lambda = 1$ the regulariser is what inputs tell of their labels, with a minus.

        $R_1 + R_2 = -\frac1m\sum_i \mathrm{KL}(f(x_i)\,\|\,\bar f)$. Measured: largest difference, random answers.
        """
        answers = torch.rand(20, 50, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 4
        answers = answers / answers.sum(-1, keepdim=True)
        first, second = (one.numpy() for one in balance(answers))
        p = answers.numpy()
        told = (p * np.log(p / p.mean(1, keepdims=True))).sum(-1).mean(-1)
        return float(abs(first + second + told).max())

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Students over steps, teachers and students over sizes, where all end."""
        yield figures.learning(self, runs)
        yield figures.sizes(self, runs[SIZES])
        yield figures.endings(runs, (*DIGITS, *self.photo_arms()))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How far the two parts are apart, on which data."""
        run, coloured = runs[WHITE], runs[COVARIANCE]
        own = verdict(claims, f"injected-part-is-worse@{WHITE}")
        second, twice, grows, falls = (
            f"covariance-is-structure@{COVARIANCE}",
            f"loss-descends-twice@{SIZES}",
            f"minimum-grows-with-samples@{SIZES}",
            f"gap-falls-with-fraction@{FRACTIONS[0.75]}",
        )
        words = {"holds": "Real inputs are easier", "fails": "Real inputs are no easier"}
        made_up = [
            note
            for source, note in (
                (self.digits == "digits", "Digits are scikit-learn's, 8 x 8 pixels, in place of MNIST"),
                (self.photographs == "shapes", "photographs are made up: coloured shapes"),
            )
            if source
        ]
        said = f" {'; '.join(made_up)}." if made_up else ""
        return Story(
            f"{words.get(own, 'Real inputs may be easier')}: a student names "
            f"{percent(end(run.original))} of digits and {percent(end(run.injected))} of Gaussians as its teacher.",
            "A teacher that was trained on digits labels digits and injected inputs; a student learns both. Lines show "
            "how often the student agrees with its teacher on each part. Of Gaussians with the digits' covariance it "
            f"learns {percent(end(coloured.injected))}." + said,
            {
                f"injected-part-is-worse@{WHITE}": "",
                second: in_case(
                    claims,
                    second,
                    "A part of the structure that counts is in second moments.",
                    "Second moments alone are no help.",
                ),
                twice: in_case(
                    claims, twice, "So the classical regime can be told.", "So the classical regime cannot be told."
                ),
                grows: in_case(
                    claims,
                    grows,
                    "It is no property of the labelling alone.",
                    "With fewer images it is at no smaller size.",
                ),
                falls: in_case(
                    claims,
                    falls,
                    "It depends on how many there are of each.",
                    "More Gaussians do not bring them nearer.",
                ),
            },
        )


def _progress(curve: xr.DataArray) -> xr.DataArray:
    """Mean over looks of what is learned by then of all that will be; NaN where that is less than `LEARNED`."""
    gain = _gain(curve)
    return ((curve - curve.isel(look=0, drop=True)) / gain.where(gain >= LEARNED)).mean("look", skipna=False)


def _gain(curve: xr.DataArray) -> xr.DataArray:
    """By how much it is higher at the last look than before the first step."""
    return end(curve) - curve.isel(look=0, drop=True)

"""What `input-structure` runs: kinds of injected inputs beside digits and photographs, and networks by size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import xarray as xr

from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.input_structure import probes
from featscope.studies.input_structure.by_size import Sizes
from featscope.studies.input_structure.inputs import Injection, Kind
from featscope.studies.input_structure.mixing import LOOKS, Family, Mixing
from featscope.studies.input_structure.networks import Fit
from featscope.studies.input_structure.stages import Staged

WHITE: Final = "white"
COVARIANCE: Final = "covariance"
FOREIGN: Final = "foreign"
SAME: Final = "same"
WIDE, SIZES = "wide", "sizes"
FRACTIONS = {0.25: "fraction=0.25", 0.75: "fraction=0.75"}
PHOTOS_WHITE, PHOTOS_FOREIGN = "photos-white", "photos-foreign"
DIGITS = (WHITE, COVARIANCE, FOREIGN, SAME, *FRACTIONS.values(), WIDE)
PHOTOS = (PHOTOS_WHITE, PHOTOS_FOREIGN)
_WIDE = 50


@dataclass(frozen=True)
class InputStructureArms(Study):
    """A teacher labels real and injected inputs, a student learns both (dissertation, Section 2.6, Appendix A.7.5).

    Attributes:
        digits: for networks of one hidden layer: "digits", those that come with scikit-learn; a folder with MNIST's
            files; or a data set of the Hub, such as "ylecun/mnist". They are made grey.
        photographs: for residual networks, and injected beside digits: "shapes" for procedural images; a folder with
            the Hub's parquet files; or a data set of the Hub, such as "cifar10", "svhn" or "tiny-imagenet".
        foreign: injected beside photographs, named in the same way.
        train: labelled images; half of what there is where that is fewer, or where it is 0. None is 0 on CUDA, and on
            the CPU 2,000 digits and 1,500 photographs.
        test: images of each part to judge by; half of what there is where that is fewer, or where it is 0. None is 0
            on CUDA, and on the CPU 1,000 digits and 500 photographs.
        side: pixels that images are brought to; 0 for images as they are. None is 0 on CUDA, and on the CPU 8 for
            digits, 16 for photographs.
        sizes: hidden units of networks that are tried on the arm `sizes`, where the teacher's size is chosen.
        larger: of a second teacher there.
        teacher: hidden units of the teacher of all other arms of digits.
        student: of its student.
        steps: of networks of one hidden layer.
        residual_teacher: filters of the residual teacher.
        residual_student: of its student.
        residual_steps: of residual networks, which learn photographs on two more arms; 0 for none, as in minutes on
            a CPU a residual teacher learns next to nothing.
        weight: of the regulariser R of (A.289).
        sharpness: λ within it.
    """

    name = "input-structure"

    digits: str = "digits"
    photographs: str = "shapes"
    foreign: str = "digits"
    train: int | None = None
    test: int | None = None
    side: int | None = None
    sizes: tuple[int, ...] = (2, 3, 4, 6, 9, 13, 20, 40, 100)
    larger: int = 50
    teacher: int = 6
    student: int = 9
    steps: int = 2000
    residual_teacher: int = 5
    residual_student: int = 9
    residual_steps: int = 0
    weight: float = 1.0
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        for name, bundled in (("digits", "digits"), ("photographs", "shapes")):
            require(self, name, getattr(self, name) != "", f"{bundled!r}, a folder, or a data set of the Hub")
        for name in ("train", "test", "side"):
            require(self, name, (getattr(self, name) or 0) >= 0, ">= 0")
        looked = "Students are looked at twelve times."
        require(self, "steps", self.steps >= LOOKS - 1, f">= {LOOKS - 1}", looked)
        enough = self.residual_steps == 0 or self.residual_steps >= LOOKS - 1
        require(self, "residual_steps", enough, f"0 or >= {LOOKS - 1}", looked)
        several = len(self.sizes) >= 3
        require(self, "sizes", several, "three sizes or more, smallest first")
        self.arms()  # the options of its parts say what is wrong with theirs

    def smallest(self) -> "InputStructureArms":
        """Few images and sizes, on bundled digits and made-up images."""
        return replace(
            self,
            digits="digits",
            photographs="shapes",
            foreign="digits",
            train=60,
            test=20,
            side=8,
            sizes=(2, 6, 9, 30),
            larger=9,
            steps=12,
        )

    def arms(self) -> Sequence[Arm[Staged]]:
        """Digits with each kind of injection, fractions, a wider student, sizes; then photographs."""
        data = Injection(self.digits, self.photographs, WHITE, 0.5, self.train, self.test, self.side)
        family = Family(data, "quadratic", Fit(self.steps), self.weight, self.sharpness)
        few = (1500, 500, 16)
        photos = replace(data, images=self.photographs, foreign=self.foreign, grey=False, on_cpu=few)
        residual_fit = Fit(self.residual_steps or LOOKS, 64, 0.003, 5)
        residual = replace(family, data=photos, kind="residual", fit=residual_fit)
        by_size = Sizes(family, self.sizes, self.larger)
        parts = 3 * family.fit.parts

        def mixed(name: str, about: str, kind: Kind, student: int = 0, fraction: float = 0.5) -> Arm[Staged]:
            photo = name in PHOTOS
            one = residual if photo else family
            sizes = (self.residual_teacher, self.residual_student) if photo else (self.teacher, self.student)
            learner = Mixing(
                replace(one, data=replace(one.data, kind=kind, fraction=fraction)), sizes[0], student or sizes[1]
            )
            parts = 2 * one.fit.parts
            label = name.replace("-", " ").replace("=", " ")
            role: Role = "control" if kind == "same" else "arm"
            return Arm(name, Staged(learner, parts, parts), about, label, role, at_end=(probes.mixed,))

        made = [
            mixed(WHITE, "digits with Gaussians of independent pixels, half and half", WHITE),
            mixed(COVARIANCE, "Gaussians with the digits' mean and covariance instead", COVARIANCE),
            mixed(FOREIGN, "grey photographs instead", FOREIGN),
            mixed(SAME, "more digits instead", SAME),
            *(mixed(name, f"{a:.0%} of inputs are Gaussians", WHITE, fraction=a) for a, name in FRACTIONS.items()),
            mixed(WIDE, f"the student has {_WIDE} hidden units", WHITE, _WIDE),
            Arm(
                SIZES,
                Staged(by_size, parts, parts),
                "teachers by size on digits, and students by size on Gaussians",
                "sizes",
                at_end=(probes.sizes,),
            ),
        ]
        if self.residual_steps:
            made += [
                mixed(PHOTOS_WHITE, "photographs with Gaussians, residual networks", WHITE),
                mixed(PHOTOS_FOREIGN, "photographs with images of another data set", FOREIGN),
            ]
        return made

    def photo_arms(self) -> tuple[str, ...]:
        """Arms of photographs that there are."""
        return PHOTOS if self.residual_steps else ()

    def share_injected(self, arm: str, run: xr.Dataset) -> xr.DataArray | float:
        """Share of training inputs that are injected; what was asked for, in runs that do not have it stored.

        It is less than was asked for where another data set has too few images.
        """
        asked: float = self.arm(arm).recipe.learner.family.data.fraction
        return run.share.fillna(asked) if "share" in run else asked

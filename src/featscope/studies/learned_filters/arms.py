"""What `learned-filters` runs: hidden units and residual networks on two classes, and controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from featscope.options import require
from featscope.studies.base import Arm, Role, Study
from featscope.studies.learned_filters.training import CHUNK, CHUNKS, Filters
from featscope.training import Iteration, Measurement, Recursion

DIGITS, DIGITS_LARGE, DIGITS_STILL = "digits", "digits-large-start", "digits-untrained"
PHOTOS, PHOTOS_STILL = "photographs", "photographs-untrained"
RESIDUAL, RESIDUAL_WIDE = "residual", "residual-wide"
RESIDUAL_LOT, WIDE_LOT, RESIDUAL_STILL = "residual-shuffled", "residual-wide-shuffled", "residual-untrained"
TRAINED = (DIGITS, PHOTOS, RESIDUAL, RESIDUAL_WIDE)
USUAL = 1.0
"""Spread of first weights as they usually are."""
_RESIDUAL_RATE = 0.01
_ABOUT = {
    "accuracy": "test accuracy",
    "tests": "test images",
    "seen": "share of test images that are among those that were trained on",
    "early": "change of filters in the first 3/20 of training, over their first length",
    "late": "change of filters after that",
    "agreement": "cosines of mean gradients of steps 1-10, 11-20 and 21-30 of the filter nearest to a cluster's centre",
    "agreement_of_all": "the same, mean over filters",
    "to_mean": "cosines of these gradients with their mean",
    "cosines": "cosines of filters of the last layer with each other",
    "members": "cluster at the end, of two",
    "silhouettes": "silhouette of two to six clusters",
    "own": "mean cosine of a filter with the centre of its cluster, of two",
    "between": "cosine of the centres",
    "picked": "mean cosine of the five filters nearest to each centre with their own centre, of clusters with five",
    "filters": "filters of the first layer",
}
_DIMS: Mapping[str, tuple[str, ...]] = {
    "early": ("layer",),
    "late": ("layer",),
    "agreement": ("pair",),
    "agreement_of_all": ("pair",),
    "to_mean": ("chunk",),
    "cosines": ("stage", "filter", "other"),
    "members": ("filter",),
    "silhouettes": ("stage", "layer", "count"),
    "own": ("stage", "layer"),
    "between": ("stage", "layer"),
    "picked": ("stage", "layer"),
    "filters": ("stage", "unit", "channel", "row", "column"),
}


@dataclass(frozen=True)
class LearnedFiltersArms(Study):
    """Filters that are learned from real images (dissertation, Section 2.6 and Appendix A.7.4).

    Attributes:
        digits: zeros and ones: "digits", those that come with scikit-learn; a folder with MNIST's files; or a data set
            of the Hub. They are made grey.
        photographs: of the first two classes, airplanes and automobiles in CIFAR-10: "shapes" for procedural images; a
            folder with the Hub's parquet files; or a data set of the Hub, such as "cifar10", "svhn" or "tiny-imagenet".
        train: images to train on; all that there are where that is fewer, or where it is 0.
        side: pixels that photographs are brought to; 0 for images as they are. None is 0 on CUDA, and 16 on the CPU.
        hidden: units of networks of one hidden layer, m.
        spread: standard deviation of their first weights, times the root of the inputs' dimension.
        rate: their step size.
        width: filters of the first stage of a residual network.
        wider: the same of a wider one.
        steps: of training.
    """

    name = "learned-filters"

    digits: str = "digits"
    photographs: str = "shapes"
    train: int = 2000
    side: int | None = None
    hidden: int = 50
    spread: float = 0.1
    rate: float = 0.05
    width: int = 4
    wider: int = 8
    steps: int = 150

    def __post_init__(self) -> None:
        least = CHUNKS * CHUNK
        require(self, "steps", self.steps >= least, f">= {least}", "Gradients of so many steps are compared.")
        require(self, "hidden", self.hidden >= 4, ">= 4")
        require(self, "width", self.width >= 4, ">= 4")
        require(self, "wider", self.wider > self.width, f"> width = {self.width}")
        for name, bundled in (("digits", "digits"), ("photographs", "shapes")):
            require(self, name, getattr(self, name) != "", f"{bundled!r}, a folder, or a data set of the Hub")
        self.arms()  # the options of its parts say what is wrong with theirs

    def smallest(self) -> "LearnedFiltersArms":
        """Few images and filters, on bundled digits and made-up images."""
        return replace(
            self, digits="digits", photographs="shapes", train=150, side=8, hidden=20, width=4, wider=5, steps=30
        )

    def arms(self) -> Sequence[Arm[Iteration]]:
        """Hidden units on digits and photographs, residual networks, and what each is to be compared with."""
        digits = Filters(
            self.digits, True, 0, 0, self.train, "hidden", self.hidden, self.spread, self.rate, steps=self.steps
        )
        photos = replace(digits, images=self.photographs, grey=False, side=self.side, side_on_cpu=16)
        residual = replace(photos, kind="residual", width=self.width, rate=_RESIDUAL_RATE)

        def arm(name: str, learner: Filters, about: str, role: Role = "arm") -> Arm[Iteration]:
            label = name.replace("-", " ")
            return Arm(name, Iteration(learner, 1, 1), about, label, role, at_end=(found,))

        large = replace(digits, spread=USUAL, rate=self.rate / 5)
        return [
            arm(DIGITS, digits, "hidden units on zeros and ones, small first weights"),
            arm(DIGITS_LARGE, large, "first weights as usual, smaller steps"),
            arm(DIGITS_STILL, replace(digits, steps=0), "the start of the first", "control"),
            arm(PHOTOS, photos, "hidden units on two classes of photographs"),
            arm(PHOTOS_STILL, replace(photos, steps=0), "its start", "control"),
            arm(RESIDUAL, residual, f"ResNet({self.width}) on two classes of photographs"),
            arm(RESIDUAL_WIDE, replace(residual, width=self.wider), f"ResNet({self.wider})"),
            arm(RESIDUAL_LOT, replace(residual, shuffled=True), "labels given to images by lot", "control"),
            arm(
                WIDE_LOT,
                replace(residual, width=self.wider, shuffled=True),
                f"the same of ResNet({self.wider})",
                "control",
            ),
            arm(RESIDUAL_STILL, replace(residual, steps=0), "the start of the residual network", "control"),
        ]


def found(experiment: Recursion) -> Mapping[str, Measurement]:
    """All that was found."""
    learner = experiment.learner
    return {name: Measurement(learner.get_buffer(name), _ABOUT[name], _DIMS.get(name, ())) for name in learner.shapes}

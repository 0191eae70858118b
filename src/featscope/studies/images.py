"""What the studies of images share: options, how their arms train, and what is said of their claims."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import xarray as xr

from featscope.claims import COSINE, Found, ordering
from featscope.models import Encoder, ProjectionHead
from featscope.options import require
from featscope.studies.base import Arm, Study
from featscope.training import Measurement, TorchOptimizer
from featscope.training.gradient import LearnerConfig, ObjectiveConfig, SourceConfig
from featscope.training.image_objectives import ImageTraining
from featscope.views import CropColor

GAIN = 0.01
GAINED = "Bound: one point in a hundred, a stated choice that a network which learns nothing cannot reach."
SIGN = "Bound: 0, the sign of a difference paired by replica."
UNTRAINED = {"untrained": "Control: the untrained network takes the place of the trained one."}
UNSAID = "The paper does not say so; without it nothing else here means anything."

gained = partial(ordering, more_than=GAIN, range=COSINE)
"""A difference of shares that has to be seen."""
higher = partial(ordering, more_than=0.0, because=SIGN, range=COSINE)
"""A difference of shares whose sign is what matters."""


def against_itself(measured: xr.DataArray, arm: str) -> Found:
    """What was measured on ``arm``. Where the untrained network is compared with itself no chance enters."""
    varies = bool(measured.max() > measured.min())
    return Found(measured, law="exact" if arm == "untrained" and not varies else None)


@dataclass(frozen=True)
class ImageStudy(Study):
    """Base of studies that train a small network on images, one replica at a time.

    A replica is one experiment, so that every measurement has a leading replica axis of 1.

    Attributes:
        data: "cifar10", "cifar100", "stl10" or another data set of the Hub by its name; a folder with the Hub's
            parquet files; or "shapes" for procedural images of coloured shapes, which need no files.
        augmentation: crop and colour distortion.
        projection: the head that the contrastive loss sees the features through.
        optimizer: of all arms.
        batch: images in a batch, which has twice as many views.
        steps: length of training.
        probe_every: steps between measurements.
    """

    data: str = "cifar10"
    augmentation: CropColor = field(default_factory=CropColor)
    projection: ProjectionHead = field(default_factory=ProjectionHead)
    optimizer: TorchOptimizer = field(default_factory=lambda: TorchOptimizer("AdamW", lr=2e-3))
    batch: int = 128
    steps: int = 300
    probe_every: int = 50

    on_cpu: ClassVar[Mapping[str, int]]
    """What options that are None for all images on CUDA stand for on the CPU."""
    few: ClassVar[Mapping[str, Any]]
    """What makes the study small, beside few steps on small batches of shapes."""

    def __post_init__(self) -> None:
        require(self, "data", self.data != "", "'shapes', a folder, or a data set of the Hub such as 'cifar10'")
        for name in self.on_cpu:
            require(self, name, (getattr(self, name) or 0) >= 0, ">= 0")
        require(self, "batch", self.batch >= 2, ">= 2", "One pair has no negatives and no variance.")
        require(self, "steps", self.steps >= 0, ">= 0")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")
        self.arms()  # the options of its parts say what is wrong with theirs

    def smallest(self) -> "ImageStudy":
        """Three steps, and few of all that costs time, on every device."""
        few = {**self.on_cpu, **self.few}  # no size is left to the device
        return replace(self, data="shapes", batch=8, steps=3, probe_every=2, **few)

    def measure(self, experiment: Any) -> Mapping[str, Measurement]:
        """What is measured at the end."""
        raise NotImplementedError

    def trained(
        self, name: str, data: SourceConfig, learner: LearnerConfig, objective: ObjectiveConfig, about: str, label: str
    ) -> Arm[ImageTraining]:
        """An arm without rules."""
        recipe = ImageTraining(data, learner, objective, self.optimizer, {}, self.steps, self.probe_every)
        return Arm(name, recipe, about, label, at_end=(self.measure,))

    def untrained(self, arm: Arm[ImageTraining]) -> Arm[ImageTraining]:
        """The control that is measured as ``arm`` is, before its first step."""
        recipe, about = replace(arm.recipe, steps=0), "The network that all arms begin from."
        return replace(arm, name="untrained", recipe=recipe, about=about, label="untrained", role="control")

    def initial(self, experiment: Any) -> Encoder:
        """The network that all arms begin from: the same one at every call."""
        return self.arm("untrained").recipe.initial(experiment)

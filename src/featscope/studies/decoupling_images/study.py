"""The study `decoupling-images`: its options, its arms, and what each arm trains."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from torch import nn
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.data import Images
from featscope.figures import Figure
from featscope.losses import NTXent
from featscope.models import AlexNet, Encoder, ProjectionHead, WideResNet
from featscope.models.encoders import initialise
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.decoupling_images import figures, judge, measures
from featscope.studies.decoupling_images.statements import STATEMENTS
from featscope.training import Experiment, Measurement, TorchOptimizer
from featscope.training.image_objectives import ClassifyViews, InBatchContrastive
from featscope.views import CropColor, SameSample, View

ViewName = Literal["none", "crop", "crop-colour"]


@dataclass(frozen=True)
class DecouplingImages(Study):
    """What crops and colour distortion do to contrastive features (Wen & Li 2021, Figures 1-4).

    The paper gives no number and no setting of these experiments; what follows are the usual ones of SimCLR,
    made small. All arms of a replica begin with the same network and the same images.

    Attributes:
        data: "cifar10" or another data set of the Hub by its name; a folder with the Hub's parquet files; or
            "shapes" for procedural images of coloured shapes, which need no files.
        train: training images; 0 for all, None for 5,000 on the CPU and all on CUDA.
        test: test images; 0 for all, None for 4,000 on the CPU and all on CUDA.
        network: which of the two networks below is trained.
        alexnet: the network of Figures 2 and 4.
        wide_resnet: the network of Figures 1 and 3, far too slow for a CPU.
        augmentation: crop and colour distortion; the arms that only crop take its crop.
        projection: the head that the contrastive loss sees the features through.
        loss: the contrastive loss.
        optimizer: of all arms.
        batch: images in a batch; a contrastive one has twice as many views.
        steps: length of training.
        probe_every: steps between measurements.
        view: the arm's augmentation (set by the study).
        supervised: whether the arm learns from labels (set by the study).
    """

    data: str = "cifar10"
    train: int | None = None
    test: int | None = None
    network: Literal["alexnet", "wide-resnet"] = "alexnet"
    alexnet: AlexNet = field(default_factory=AlexNet)
    wide_resnet: WideResNet = field(default_factory=WideResNet)
    augmentation: CropColor = field(default_factory=CropColor)
    projection: ProjectionHead = field(default_factory=ProjectionHead)
    loss: NTXent = field(default_factory=NTXent)
    optimizer: TorchOptimizer = field(default_factory=lambda: TorchOptimizer("AdamW", lr=2e-3))
    batch: int = 128
    steps: int = 400
    probe_every: int = 50
    view: Annotated[ViewName, Suppress] = "crop-colour"
    supervised: Annotated[bool, Suppress] = False

    name: ClassVar[str] = "decoupling-images"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 4
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(self, "data", self.data != "", "'shapes', a folder, or a data set of the Hub such as 'cifar10'")
        require(self, "train", self.train is None or self.train >= 0, ">= 0")
        require(self, "test", self.test is None or self.test >= 0, ">= 0")
        require(self, "batch", self.batch >= 2, ">= 2", "One pair has no negatives.")
        require(self, "steps", self.steps >= 0, ">= 0")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def arms(self) -> Sequence[Arm]:
        """Three contrastive ones, two supervised ones, and the network they begin from."""

        def arm(name: str, about: str, view: ViewName, *, supervised: bool = False, control: bool = False) -> Arm:
            steps = 0 if control else self.steps
            config = replace(self, view=view, supervised=supervised, steps=steps)
            assays = (measures.firing, measures.readout, config.measure_filters)
            return Arm(name, config, about, control, at_end=assays)

        return [
            arm("none", "Contrastive; both views are the image itself.", "none"),
            arm("crop", "Contrastive; views are random crops.", "crop"),
            arm("crop-colour", "Contrastive; views are random crops with distorted colours.", "crop-colour"),
            arm("supervised-crop", "Trained on labels, with random crops.", "crop", supervised=True),
            arm(
                "supervised-crop-colour",
                "Trained on labels, with random crops and distorted colours.",
                "crop-colour",
                supervised=True,
            ),
            arm("untrained", "The network that all arms begin from.", "none", control=True),
        ]

    def build(self, streams: Streams) -> Experiment:
        """The experiment of one replica."""
        everything = streams.device.type == "cuda"
        train = self.train if self.train is not None else (0 if everything else 5000)
        test = self.test if self.test is not None else (0 if everything else 4000)
        if self.data == "shapes":  # there is no "all" of a generator
            train, test = train or 5000, test or 4000
        source = Images(self.data, train, test).build(streams.at("data"))
        learner = self.initial_encoder(streams)
        views: dict[str, View] = {
            "none": SameSample(),
            "crop": self.augmentation.crop,
            "crop-colour": self.augmentation,
        }
        if self.supervised:
            head = initialise(nn.Linear(learner.features, len(source.class_names)), streams.at("head"))
            objective: nn.Module = ClassifyViews(views[self.view], head, self.batch)
        else:
            projection = self.projection.build(learner.features, streams.at("head"))
            objective = InBatchContrastive(views[self.view], projection, self.loss, self.batch)
        return Experiment(source, learner, objective, self.optimizer, [], streams)

    def initial_encoder(self, streams: Streams) -> Encoder:
        """The network before its first step: the same one at every call."""
        config = self.alexnet if self.network == "alexnet" else self.wide_resnet
        return config.build(streams.at("learner")).to(streams.device)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Firing and filters."""
        return measures.during(experiment, self.initial_encoder(experiment.streams))

    def measure_filters(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """The filters and their distance from the initial ones."""
        return measures.filters(experiment, self.initial_encoder(experiment.streams))

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The three Messages and the firing order."""
        return judge.claims(runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """Read-outs, firing, filters, maps."""
        return figures.figures(runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """How many claims hold, and the two numbers that matter most."""
        return judge.headline(runs, claims)

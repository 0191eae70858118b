"""The study `prediction-head-images`: its options, its arms, and what each arm trains."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from torch import nn
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.data import Images
from featscope.figures import Figure
from featscope.losses import NonContrastive
from featscope.models import Encoder, PredictionHead, ProjectionHead, ResNet18
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.prediction_head_images import figures, judge, measures
from featscope.studies.prediction_head_images.statements import STATEMENTS
from featscope.training import EMA, Experiment, Measurement, TorchOptimizer
from featscope.training.image_objectives import PredictViews
from featscope.views import CropColor

HeadKind = Literal["none", "identity", "linear", "mlp"]


@dataclass(frozen=True)
class PredictionHeadImages(Study):
    """Which part of SimSiam and BYOL keeps features from collapsing, on images (Wen & Li 2022, Section 8).

    Head, projection, optimizer, momentum and strength of the augmentation are the paper's; it gives neither batch nor
    length of training. The network is narrow and the images are small so that all arms fit into minutes on a CPU. All
    arms of a replica begin with the same encoder and projection, and see the same images.

    Attributes:
        data: "cifar10", "cifar100", "stl10" or another data set of the Hub by its name; a folder with the Hub's
            parquet files; or "shapes" for procedural images of coloured shapes, which need no files.
        train: training images; 0 for all, None for 5,000 on the CPU and all on CUDA.
        test: test images; 0 for all, None for 2,000 on the CPU and all on CUDA.
        side: height and width that images are brought to, in pixels; 0 for images as they are, None for 16 on the CPU
            and as they are on CUDA.
        network: the encoder; the paper's is 64 wide and has BatchNorm.
        augmentation: crop and colour distortion, the strengths of the paper's code base.
        projection: maps features to what is predicted.
        ema: how the target network follows, in the arm that has one.
        optimizer: of all arms.
        batch: images in a batch, which has twice as many views.
        steps: length of training.
        probe_every: steps between measurements.
        head: the arm's prediction head (set by the study).
        loss: the arm's loss (set by the study).
        averages: whether the arm has a target network of its own (set by the study).
    """

    data: str = "cifar10"
    train: int | None = None
    test: int | None = None
    side: int | None = None
    network: ResNet18 = field(default_factory=lambda: ResNet18(width=8))
    augmentation: CropColor = field(default_factory=lambda: CropColor(grayscale=0.1))
    projection: ProjectionHead = field(default_factory=lambda: ProjectionHead(hidden=512, outputs=64))
    ema: EMA = field(default_factory=EMA)
    optimizer: TorchOptimizer = field(default_factory=lambda: TorchOptimizer("Adam", lr=3e-3))
    batch: int = 128
    steps: int = 200
    probe_every: int = 20
    head: Annotated[PredictionHead, Suppress] = field(default_factory=PredictionHead)
    # The ε of a BatchNorm layer: with real networks an output may be constant.
    loss: Annotated[NonContrastive, Suppress] = field(default_factory=lambda: NonContrastive(eps=1e-5))
    averages: Annotated[bool, Suppress] = False

    name: ClassVar[str] = "prediction-head-images"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 5
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.images("cpu")  # says what is wrong with the options of the data
        require(self, "batch", self.batch >= 2, ">= 2", "One pair has no variance.")
        require(self, "steps", self.steps >= 0, ">= 0")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def images(self, device: str) -> Images:
        """The data on a device "cpu" or "cuda"."""

        def size(given: int | None, on_cpu: int) -> int:
            everything = 0 if self.data != "shapes" else on_cpu  # there is no "all" of a generator
            return given if given is not None else (on_cpu if device == "cpu" else everything)

        side = self.side if self.side is not None else (16 if device == "cpu" else 0)
        return Images(self.data, size(self.train, 5000), size(self.test, 2000), side)

    def arms(self) -> Sequence[Arm]:
        """Heads under batch normalisation, two of them also under l2 and with a moving average, and where all begin."""

        def arm(
            name: str,
            about: str,
            kind: HeadKind,
            normalization: Literal["batch", "l2"] = "batch",
            averages: bool = False,
            control: bool = False,
        ) -> Arm:
            config = replace(
                self,
                head=replace(self.head, kind=kind),
                loss=replace(self.loss, normalization=normalization),
                averages=averages,
                steps=0 if control else self.steps,
            )
            assays = (measures.collapse, measures.readout, config.measure_parts)
            return Arm(name, config, about, control, at_end=assays)

        return [
            arm("identity", "Identity-initialised head with frozen diagonal, batch-normalised outputs.", "identity"),
            arm("none", "No prediction head.", "none"),
            arm("linear", "A linear head that begins at random.", "linear"),
            arm("mlp", "A head with a hidden layer that begins at random.", "mlp"),
            arm(
                "identity-ema",
                "The identity-initialised head; targets come from a moving average (BYOL).",
                "identity",
                averages=True,
            ),
            arm("none-ema", "No prediction head; targets come from a moving average.", "none", averages=True),
            arm("identity-l2", "The identity-initialised head, with outputs of norm 1 instead.", "identity", "l2"),
            arm("none-l2", "No prediction head, with outputs of norm 1.", "none", "l2"),
            arm("untrained", "The network that all arms begin from.", "identity", control=True),
        ]

    def build(self, streams: Streams) -> Experiment:
        """The experiment of one replica."""
        source = self.images(streams.device.type).build(streams.at("data"))
        learner = self.initial_encoder(streams)
        projection = self.projection.build(learner.features, streams.at("projection"))
        head = self.head.build(self.projection.outputs, streams.at("head"))
        target = self.ema.target(nn.Sequential(learner, projection)) if self.averages else None
        objective = PredictViews(self.augmentation, projection, head, self.loss, self.batch, target)
        return Experiment(source, learner, objective, self.optimizer, [self.ema] if self.averages else [], streams)

    def initial_encoder(self, streams: Streams) -> Encoder:
        """The network before its first step: the same one at every call."""
        return self.network.build(streams.at("learner")).to(streams.device)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Collapse, and the head."""
        return measures.during(experiment)

    def measure_parts(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Whether the parts of the arm are what they are said to be."""
        return measures.parts(experiment, self.initial_encoder(experiment.streams))

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """What the comparison rests on, then Figures 1 to 4."""
        return judge.claims(runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """Figures 2, 1 and 3 of the paper, then spectra, then the course of training."""
        return figures.figures(runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """The accuracies, the collapse, and how many claims hold."""
        return judge.headline(runs, claims)

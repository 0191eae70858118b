"""The study `longtail-images`: its options, its arms, and what each arm trains."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.data import LongTailedImages
from featscope.figures import Figure
from featscope.losses import NTXent
from featscope.models import AlexNet, Encoder, ProjectionHead, ResNet18
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.longtail_images import figures, judge, measures
from featscope.studies.longtail_images.statements import STATEMENTS
from featscope.training import Experiment, MagnitudePruning, Measurement, TorchOptimizer
from featscope.training.image_objectives import InBatchContrastive
from featscope.views import CropColor


@dataclass(frozen=True)
class LongTailImages(Study):
    """Contrastive pre-training on long-tailed images, with and without forward magnitude pruning (Table 2).

    The paper gives neither network nor settings; what follows are the usual ones of SimCLR, made small. All arms of a
    replica begin with the same network, and the balanced ones have as many images as the long-tailed ones.

    Attributes:
        data: "cifar10", "cifar100" or another data set of the Hub by its name; a folder with the Hub's parquet files,
            or with images and lists of them (ImageNet-LT); or "shapes" for procedural images, which need no files.
        imbalance: images of the largest class over those of the smallest, ρ. None where the training split is
            long-tailed as it is (ImageNet-LT); there are then no balanced arms.
        largest: training images of the largest class; 0 for all of a class, None for 1,000 on the CPU and all on CUDA.
        probe: images of each class that the linear probe is fitted to; 0 for all, None for 500 on the CPU and all on
            CUDA.
        test: test images of each class; 0 for all, None for 1,000 on the CPU and all on CUDA.
        side: height and width that images are brought to, in pixels; 0 for images as they are.
        network: which of the two networks below is trained.
        alexnet: a network for a CPU.
        resnet18: the network of Jiang et al. 2021, whom the paper follows; slow on a CPU even if it is narrow.
        augmentation: crop and colour distortion.
        projection: the head that the contrastive loss sees the features through.
        loss: the contrastive loss.
        pruning: of both branches. The paper does not say how much. Entries and a straight-through gradient, as heads
            and cosines leave no other reading of Algorithm 1 for a deep network.
        optimizer: of all arms.
        batch: images in a batch, which has twice as many views.
        steps: length of training.
        probe_every: steps between measurements.
        balanced: whether the arm trains on balanced images (set by the study).
        prunes: whether the arm prunes (set by the study).
    """

    data: str = "cifar10"
    imbalance: float | None = 100.0
    largest: int | None = None
    probe: int | None = None
    test: int | None = None
    side: int = 0
    network: Literal["alexnet", "resnet18"] = "alexnet"
    alexnet: AlexNet = field(default_factory=lambda: AlexNet(width=16))
    resnet18: ResNet18 = field(default_factory=ResNet18)
    augmentation: CropColor = field(default_factory=CropColor)
    projection: ProjectionHead = field(default_factory=ProjectionHead)
    loss: NTXent = field(default_factory=NTXent)
    pruning: MagnitudePruning = field(
        default_factory=lambda: MagnitudePruning(0.5, granularity="entry", gradient="straight-through")
    )
    optimizer: TorchOptimizer = field(default_factory=lambda: TorchOptimizer("AdamW", lr=2e-3))
    batch: int = 128
    steps: int = 300
    probe_every: int = 50
    balanced: Annotated[bool, Suppress] = False
    prunes: Annotated[bool, Suppress] = False

    name: ClassVar[str] = "longtail-images"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS
    default_replicas: ClassVar[int] = 6
    replica_axis: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.images("cpu")  # says what is wrong with the options of the data
        through = self.pruning.gradient == "straight-through"
        require(self, "pruning", through, "one with gradient 'straight-through'", "Heads take no pairs of outputs.")
        require(self, "batch", self.batch >= 2, ">= 2", "One pair has no negatives.")
        require(self, "steps", self.steps >= 0, ">= 0")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def images(self, device: str) -> LongTailedImages:
        """The data of this arm on a device "cpu" or "cuda"."""

        def size(given: int | None, on_cpu: int) -> int:
            everything = 0 if self.data != "shapes" else on_cpu  # there is no "all" of a generator
            return given if given is not None else (on_cpu if device == "cpu" else everything)

        return LongTailedImages(
            self.data,
            self.imbalance,
            size(self.largest, 1000),
            self.balanced,
            size(self.probe, 500),
            size(self.test, 1000),
            self.side,
        )

    def arms(self) -> Sequence[Arm]:
        """Long-tailed and balanced images, each with and without pruning, and the network that all begin from."""

        def arm(name: str, about: str, *, balanced: bool = False, prunes: bool = False, control: bool = False) -> Arm:
            steps = 0 if control else self.steps
            config = replace(self, balanced=balanced, prunes=prunes, steps=steps)
            assays = (measures.readout, config.measure_pruning, config.measure_doubt)
            return Arm(name, config, about, control, at_start=(measures.data,), at_end=assays)

        arms = [
            arm("plain", "Long-tailed images."),
            arm("pruned", "Long-tailed images, with pruning.", prunes=True),
            arm("untrained", "The network that all arms begin from.", control=True),
        ]
        if self.imbalance is not None:
            arms[2:2] = [
                arm("balanced", "As many balanced images.", balanced=True),
                arm("balanced-pruned", "As many balanced images, with pruning.", balanced=True, prunes=True),
            ]
        return arms

    def build(self, streams: Streams) -> Experiment:
        """The experiment of one replica."""
        source = self.images(streams.device.type).build(streams.at("data"))
        learner = self.initial_encoder(streams)
        projection = self.projection.build(learner.features, streams.at("head"))
        objective = InBatchContrastive(self.augmentation, projection, self.loss, self.batch)
        rules = [self.pruning] if self.prunes else []
        return Experiment(source, learner, objective, self.optimizer, rules, streams)

    def initial_encoder(self, streams: Streams) -> Encoder:
        """The network before its first step: the same one at every call."""
        config = self.alexnet if self.network == "alexnet" else self.resnet18
        return config.build(streams.at("learner")).to(streams.device)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """How far the weights have moved."""
        return measures.during(experiment)

    def measure_pruning(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """What the arm prunes, and what pruning would take from its network."""
        return measures.pruning(experiment, self.pruning, self.initial_encoder(experiment.streams))

    def measure_doubt(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """What pruning does to the logits, class by class."""
        return measures.doubt(experiment, self.pruning)

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """Table 2, what it rests on, and the mechanism that the paper gives for it."""
        return judge.claims(runs, self.imbalance, self.pruning.ratio)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """Table 2 beside what was measured, then class by class."""
        return figures.figures(runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """The accuracies, and how many claims hold."""
        return judge.headline(runs, claims)

"""The study: data, learner, schedule and arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from featscope.claims import Claim
from featscope.data import SparseCoding
from featscope.figures import Figure
from featscope.losses import InfoNCE
from featscope.models import SymmetricReLU
from featscope.options import ConfigError, require
from featscope.streams import Streams
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.decoupling import figures, identities, judge, measures
from featscope.studies.decoupling.statements import STATEMENTS
from featscope.theory.decoupling import Stage1, activity, noise_variance
from featscope.training import (
    SGD,
    BiasSchedule,
    Contrastive,
    Experiment,
    FirstTime,
    Measurement,
    Supervised,
    TorchOptimizer,
)
from featscope.training.experiment import Objective, RuleConfig
from featscope.views import SameSample


@dataclass(frozen=True)
class SignLabels:
    """Supervised training on y = sign <w*, z> (Definition 3.1).

    Attributes:
        samples: batch size.
    """

    samples: int = 512

    def __post_init__(self) -> None:
        require(self, "samples", self.samples >= 1, ">= 1")

    def build(self, width: int, streams: Streams) -> Supervised:
        """The objective, with a random head of norm 1 in expectation."""
        head = streams.at("head").normal(width) / width**0.5
        return Supervised(head, partial(measures.sign_labels, streams=streams), self.samples)


@dataclass(frozen=True)
class Decoupling(Study):
    """Contrastive learning with RandomMask decouples sparse features from dense noise; without, it does not.

    Attributes:
        data: sparse coding, x = M z + ξ (Definition 2.1).
        learner: symmetrised ReLU neurons (Section 2.2).
        objective: InfoNCE on views (equation 2.1), or sign labels.
        optimizer: gradient descent with step size η and decay λ.
        bias: the three-stage schedule; None keeps b = 0.
        steps: most training steps of any arm.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "decoupling"
    statements = STATEMENTS

    data: SparseCoding = field(default_factory=SparseCoding)
    learner: SymmetricReLU = field(default_factory=SymmetricReLU)
    objective: Contrastive | SignLabels = field(default_factory=Contrastive)
    optimizer: SGD | TorchOptimizer = field(default_factory=SGD)
    bias: BiasSchedule | None = field(default_factory=BiasSchedule)
    steps: int = 700
    probe_every: int = 25

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    @property
    def contrast(self) -> Contrastive:
        """The objective, which must be contrastive for the study as a whole."""
        if not isinstance(self.objective, Contrastive):
            raise ConfigError("Decoupling.objective = SignLabels is out of range: only an arm of the study sets it")
        return self.objective

    def arms(self) -> Sequence[Arm["Decoupling"]]:
        """Augmented and its twins."""
        require(self, "data", self.data.features >= 6, "data with features >= 6", "One arm halves the features.")
        require(self, "data", self.data.input_dim > self.data.features, "data with input_dim > features")
        require(self, "data", self.data.noise > 0, "data with noise > 0", "What happens to noise is the question.")
        require(self, "bias", self.bias is not None, "a BiasSchedule", "Only an arm of the study does without.")
        contrast = self.contrast
        no_mask = replace(self, objective=replace(contrast, view=SameSample()), bias=None)
        frame = self.data.dictionary if self.data.dictionary != "canonical" else "qr"
        half = self.data.input_dim // 2 if self.data.input_dim // 2 >= self.data.features else self.data.input_dim
        at_size = [
            replace(no_mask, data=replace(self.data, input_dim=d1, dictionary=frame)).shortened(300, 100)
            for d1 in (self.data.input_dim // 4, self.data.input_dim // 2)
            if d1 >= self.data.features
        ]
        small = replace(
            self,
            data=replace(self.data, input_dim=half),
            learner=replace(self.learner, width=max(self.learner.width // 2, 1)),
            objective=replace(
                contrast, anchors=max(contrast.anchors // 2, 1), negatives=max(contrast.negatives // 2, 1)
            ),
        ).shortened(self.steps, 100)
        return [
            Arm(
                "augmented",
                self,
                "positive pairs by RandomMask",
                at_start=(identities.at_initialisation, measures.baselines),
                at_end=(measures.census, measures.readouts, measures.bias_gradient, identities.gradients),
            ),
            Arm(
                "plain",
                no_mask.shortened(300),
                "no augmentation: both views are the sample itself",
                at_start=(identities.without_mask,),
                at_end=(measures.census, measures.readouts, measures.bias_gradient),
            ),
            Arm(
                "canonical",
                replace(self, data=replace(self.data, dictionary="canonical")).shortened(150),
                "features on single coordinates, which RandomMask destroys: nothing may be learned",
                control=True,
                at_end=(measures.census, measures.readouts),
            ),
            Arm(
                "literal-bias",
                replace(self, bias=BiasSchedule(reset=1.0, growth=1.0)).shortened(600, 50),
                "the paper's own bias schedule",
                stop_at="all_dead",
                at_end=(measures.census,),
            ),
            Arm(
                "supervised",
                replace(self, objective=SignLabels(contrast.anchors + contrast.negatives)).shortened(200, 50),
                "the same network with a linear head on sign labels",
                at_end=(measures.census, measures.readouts),
            ),
            Arm(
                "stage-one",
                replace(
                    self,
                    learner=replace(self.learner, init_norm=2e-4),
                    bias=replace(self.bias or BiasSchedule(), reset=0.0, growth=0.0),
                ).shortened(250, 25),
                "a tiny start and b = 0 throughout: Stage I as the theory has it",
                at_end=(identities.pair_statistics,),
            ),
            Arm(
                "smaller",
                replace(
                    self,
                    data=replace(self.data, features=self.data.features // 2, input_dim=self.data.input_dim // 2),
                    learner=replace(self.learner, width=max(self.learner.width // 2, 1)),
                ).shortened(self.steps, 100),
                "the augmented arm with half as many features, input dimensions and neurons, for trends in size",
                at_end=(measures.census, measures.bias_gradient),
            ),
            *(
                Arm(
                    f"tau-{tau:g}",
                    replace(small, objective=replace(small.contrast, loss=InfoNCE(tau))),
                    f"temperature {tau:g}, at half the input dimension, width and batch",
                    at_end=(measures.census,),
                )
                for tau in (0.5, 1.0, 2.0)
            ),
            *(Arm(f"plain-{c.data.input_dim}", c, f"no augmentation at d1 = {c.data.input_dim}") for c in at_size),
        ]

    def shortened(self, steps: int, probe_every: int | None = None) -> "Decoupling":
        """The same for at most ``steps`` steps."""
        return replace(self, steps=min(steps, self.steps), probe_every=probe_every or self.probe_every)

    def stage1(self, anchors: float) -> Stage1:
        """What the theory says of Stage I with batches of ``anchors``."""
        return Stage1(
            p=activity(self.data.features, self.data.sparsity),
            s2=noise_variance(self.data.features, self.data.noise),
            features=self.data.features,
            input_dim=self.data.input_dim,
            lr=self.optimizer.lr,
            weight_decay=self.optimizer.weight_decay,
            keys=self.contrast.negatives + 1,
            anchors=anchors,
        )

    def build(self, streams: Streams) -> Experiment:
        """Data, learner and rules of the replicas of ``streams``."""
        source = self.data.build(streams.at("dictionary"))
        learner = self.learner.build(self.data.input_dim, streams.at("weights"))
        objective: Objective = (
            self.objective.build(self.learner.width, streams)
            if isinstance(self.objective, SignLabels)
            else self.objective
        )
        rules: list[RuleConfig] = []
        if self.bias is not None:
            rules = [self.bias, FirstTime("all_dead", measures.all_dead, every=20)]
        return Experiment(source, learner, objective, self.optimizer, rules, streams)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Alignments, norms, biases and firing."""
        return measures.trajectory(experiment)

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs, claims)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found, in one sentence."""
        return judge.headline(self, runs, claims)

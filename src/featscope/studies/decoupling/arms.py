"""What `decoupling` trains: options, the augmented arm and its twins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, log
from typing import Any

from featscope.data import SparseCoding
from featscope.losses import InfoNCE
from featscope.models import SymmetricReLU
from featscope.options import require
from featscope.studies import Arm, Study
from featscope.studies.decoupling import probes
from featscope.studies.decoupling.heads import HeadsAt
from featscope.studies.decoupling.ladders import LADDERS
from featscope.studies.decoupling.ledger import ThresholdLedger
from featscope.studies.decoupling.objectives import MaskedNegatives, SignTasks
from featscope.theory import decoupling as theory
from featscope.theory.ideal_network import IdealNetwork
from featscope.training import (
    SGD,
    BiasSchedule,
    Contrastive,
    FirstTime,
    Measurement,
    SignLabels,
    TorchOptimizer,
    Training,
)
from featscope.training.gradient import RuleConfig
from featscope.views import SameSample

CAP = 0.65
"""Default cap of a threshold over the norm. At d = 32 the neuron w_i = M_i fires on its own feature most exactly near
it: of the inputs on which it fires or should 14.5 % are wrong, and 14.1 % at the best threshold, .675 (closed form,
`IdealNetwork.wrong_firing`)."""

LOUD_START = 0.25
"""Norm of neurons at the start of `loud-start`. Training must take it to about .55 before the loss is gone, in which
features gain 2.2^(p/s²) = 1.6 on noise (both in closed form at the default size). At 1 the loss is 1e-8 before the
first step, and nothing is learned."""

WINDOW_STARTS, WINDOW_ENDS, HORIZON = 1.01, 1.49, 1.99
"""Powers of d at which η t starts and ends in Corollary 3.5, and ends in Theorem E.1."""


@dataclass(frozen=True)
class DecouplingArms(Study):
    """Contrastive learning with RandomMask and without: where features are decoupled from noise, quiet or loud.

    Attributes:
        data: sparse coding, x = M z + ξ (Definition 2.1).
        learner: symmetrised ReLU neurons (Section 2.2).
        objective: InfoNCE on views (equation 2.1); negatives are not augmented, and shared by a batch's anchors.
        optimizer: gradient descent with step size η and decay λ.
        bias: the three-stage schedule; the paper's own, reset = growth = 1, kills every neuron at reachable sizes. Its
            cap is in units of the norm, as the paper's own binds too late for training to settle.
        steps: most training steps of any arm but `horizon`, which goes on for four times as many at most.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "decoupling"
    asks = "Why does hiding half of the input help a network to learn?"
    default_replicas = 20  # with 8, shares of 0.98 stay undecided
    ladders = LADDERS

    data: SparseCoding = field(default_factory=SparseCoding)
    learner: SymmetricReLU = field(default_factory=SymmetricReLU)
    objective: Contrastive = field(default_factory=Contrastive)
    optimizer: SGD | TorchOptimizer = field(default_factory=SGD)
    bias: BiasSchedule = field(default_factory=lambda: BiasSchedule(cap_ratio=CAP))
    steps: int = 1300
    probe_every: int = 25

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def smallest(self) -> "DecouplingArms":
        """Six features, eight neurons, small batches."""
        data, learner = replace(self.data, features=6, input_dim=32), replace(self.learner, width=8)
        return replace(self, data=data, learner=learner, objective=replace(self.objective, anchors=8, negatives=8))

    @property
    def stage1(self) -> theory.Stage1:
        """What the theory says of the data and of Stage I, with batches of this size."""
        data, optimizer, keys = self.data, self.optimizer, self.objective.negatives + 1
        p, s2 = theory.activity(data.features, data.sparsity), theory.noise_variance(data.features, data.noise)
        sizes = data.features, data.input_dim
        return theory.Stage1(p, s2, *sizes, optimizer.lr, optimizer.weight_decay, keys, self.objective.anchors)

    @property
    def halved(self) -> "DecouplingArms":
        """The study with half as many features and input dimensions."""
        data = self.data
        return replace(self, data=replace(data, features=data.features // 2, input_dim=data.input_dim // 2))

    def ideal(self, data: SparseCoding, threshold: float) -> IdealNetwork:
        """The network w_i = M_i for ``data``, with thresholds in that ratio to the norms."""
        p, s2 = theory.activity(data.features, data.sparsity), theory.noise_variance(data.features, data.noise)
        return IdealNetwork(p, s2, data.features, data.input_dim, threshold)

    def at_equal_clock(self, features: int) -> int:
        """Steps after which η t = d^c for ``features``, with the power c that ``steps`` are of the study's own d."""
        lr = self.optimizer.lr
        power = log(max(self.steps * lr, 1.0)) / log(self.data.features)
        return max(1, round(features**power / lr))

    def at_power(self, power: float) -> int:
        """Steps after which η t = d^power, the clock of Theorem E.1 and Corollary 3.5; one at least."""
        steps = self.data.features**power / self.optimizer.lr
        require(self.optimizer, "lr", isfinite(steps), "one of which d^2/η steps are a number")
        return max(1, round(steps))

    @property
    def moments(self) -> tuple[int, int]:
        """First and last step of Corollary 3.5's window."""
        return self.at_power(WINDOW_STARTS), self.at_power(WINDOW_ENDS)

    @property
    def horizon(self) -> int:
        """Last step of Theorem E.1's window; four times `steps` at most, as it grows as the square of d."""
        return max(1, min(self.at_power(HORIZON), 4 * self.steps))

    def arms(self) -> Sequence[Arm[Training]]:
        """Augmented and its twins."""
        data, learner, contrast = self.data, self.learner, self.objective
        features, d1 = data.features, data.input_dim
        require(self, "data", features >= 6, "data with features >= 6", "One arm halves the features.")
        require(self, "data", d1 > features, "data with input_dim > features")
        require(contrast.loss, "scale", contrast.loss.scale == "tau", "'tau'", "Closed forms are of the paper's loss.")
        require(self, "data", data.noise > 0, "data with noise > 0", "What happens to noise is the question.")

        dead = FirstTime("all_dead", probes.all_dead, every=20)
        rules: Mapping[str, RuleConfig] = {"bias": self.bias, "all_dead": dead}
        training = Training(data, learner, contrast, self.optimizer, rules, self.steps, self.probe_every)
        first, last = self.moments
        heads = HeadsAt(float(first), float(last), probes.LABELS)
        augmented = replace(training, rules={**rules, "ledger": ThresholdLedger(self.bias), "heads": heads})
        plain = replace(training, objective=replace(contrast, view=SameSample()), rules={}).shortened(300)
        frame = "qr" if data.dictionary == "canonical" else data.dictionary
        at_half = replace(training, learner=replace(learner, width=max(learner.width // 2, 1)), probe_every=100)
        narrow = replace(data, input_dim=d1 // 2 if d1 // 2 >= features else d1)
        anchors, negatives = max(contrast.anchors // 2, 1), max(contrast.negatives // 2, 1)
        half_batch = replace(contrast, anchors=anchors, negatives=negatives)
        masked = MaskedNegatives(contrast.view, InfoNCE(1.0), anchors, negatives)
        at_one = replace(half_batch, loss=InfoNCE(1.0))
        small = replace(at_half, data=narrow, objective=at_one)
        unmasked, louder = replace(at_one, view=SameSample()), replace(narrow, noise=2 * data.noise)
        by_norm = {"bias": replace(self.bias, stage1_ends="norm")}  # features are no measure of noise that grows too
        ends = "the last" if self.horizon == self.at_power(HORIZON) else "before the last"
        labelled = contrast.anchors + contrast.negatives
        loud = replace(data, features=max(features // 2, 3), sparsity=data.sparsity / 2)
        return [
            Arm(
                "augmented",
                augmented,
                "positive pairs by RandomMask",
                "with masking",
                at_start=(probes.exact_at_start, probes.baselines),
                at_end=(
                    probes.census,
                    probes.readouts,
                    probes.bias_gradient,
                    probes.gradients,
                    probes.thresholds,
                    probes.dense_parts,
                    probes.optimal_learner,
                    probes.masked_views,
                    probes.read_on_the_way,
                ),
                watch=probes.with_noise_pull,
            ),
            Arm(
                "plain",
                plain,
                "no augmentation: both views are the sample itself",
                "without masking",
                at_start=(probes.without_mask,),
                at_end=(probes.census, probes.readouts, probes.bias_gradient),
            ),
            Arm(
                "canonical",
                replace(training, data=replace(data, dictionary="canonical")).shortened(700),
                "features on single coordinates, which RandomMask destroys: nothing may be learned",
                "features that masking destroys",
                role="control",
                at_end=(probes.census, probes.readouts),
            ),
            Arm(
                "literal-bias",
                replace(training, rules={**rules, "bias": BiasSchedule(reset=1.0, growth=1.0)}).shortened(600, 50),
                "the paper's own bias schedule",
                "the paper's schedule",
                stop_at="all_dead",
                at_end=(probes.census,),
            ),
            Arm(
                "supervised",
                replace(training, objective=SignTasks(samples=labelled)).shortened(400, 50),
                "the same network with linear heads on sign labels of 31 random tasks",
                "trained on labels",
                at_end=(probes.census, probes.readouts),
            ),
            Arm(
                "one-label",
                replace(training, objective=SignLabels(labelled)).shortened(400, 50),
                "one task alone, whose gradient moves all neurons in one direction: features cannot be told apart",
                "trained on one label",
                at_end=(probes.census,),
            ),
            Arm(
                "stage-one",
                replace(
                    training,
                    learner=replace(learner, init_norm=2e-4),
                    rules={**rules, "bias": replace(self.bias, reset=0.0, growth=0.0)},
                ).shortened(250, 5),
                "a tiny start and b = 0 throughout: Stage I as the theory has it",
                "Stage I alone",
                at_end=(probes.pair_statistics, probes.dense_parts),
            ),
            Arm(
                "smaller",
                replace(at_half, data=replace(data, features=features // 2, input_dim=d1 // 2)).shortened(
                    self.at_equal_clock(features // 2)
                ),
                "the augmented arm with half as many features, input dimensions and neurons, after as long by the "
                "theorem's clock, in which η t is a power of d",
                "half the size",
                at_end=(probes.census, probes.bias_gradient),
            ),
            *(
                Arm(
                    f"tau-{tau:g}",
                    replace(at_half, data=narrow, objective=replace(half_batch, loss=InfoNCE(tau))),
                    f"temperature {tau:g}, at half the input dimension, width and batch",
                    f"temperature {tau:g}",
                    at_end=(probes.census,),
                )
                for tau in (0.5, 1.0, 2.0)
            ),
            Arm(
                "horizon",
                replace(small, steps=self.horizon),
                f"temperature 1 at half size, on to step {self.horizon:,}, {ends} of Theorem E.1, d^1.99/η",
                "to the horizon",
            ),
            Arm(
                "masked-negatives",
                replace(at_half, data=narrow, objective=masked),
                "temperature 1 at half size, with negatives that are masked too",
                "negatives masked too",
                at_start=(probes.masked_negatives,),
                at_end=(probes.census,),
            ),
            Arm(
                "thresholds-only",
                replace(small, objective=unmasked, rules=by_norm),
                "no augmentation at half size, but thresholds, which rise from when all weights have grown",
                "unmasked, with thresholds",
                at_end=(probes.readouts,),
            ),
            Arm(
                "louder",
                replace(small, data=louder, rules=by_norm),
                "masking at half size under noise of twice the variance; thresholds rise from when all weights have "
                "grown",
                "masked, louder noise",
                at_end=(probes.readouts,),
            ),
            Arm(
                "louder-unmasked",
                replace(small, data=louder, objective=unmasked, rules=by_norm),
                "the same without augmentation",
                "unmasked, louder noise",
                at_end=(probes.readouts,),
            ),
            Arm(
                "loud-start",
                replace(plain, data=loud, learner=replace(learner, init_norm=LOUD_START), probe_every=50),
                f"no augmentation, half as many features, half as many of them at a time, and a start of norm "
                f"{LOUD_START}, from which the loss is gone before features have outgrown noise",
                "unmasked, loud start",
            ),
            *(
                Arm(
                    f"plain-{size}",
                    replace(plain, data=replace(data, input_dim=size, dictionary=frame), probe_every=100),
                    f"no augmentation at d1 = {size}",
                    f"unmasked, d1 = {size}",
                )
                for size in (d1 // 4, d1 // 2)
                if size >= features
            ),
        ]

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """Alignments, norms, biases and firing."""
        return probes.trajectory(experiment)

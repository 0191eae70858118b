"""What `prediction-head` follows and trains: options and arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from featscope.data import PatchFeatures
from featscope.losses import NonContrastive
from featscope.models import CubicPatches, HandSetHead, IdentityInit, Online
from featscope.options import require
from featscope.studies import Arm, Axis, Study
from featscope.studies.base import Role
from featscope.studies.prediction_head import probes
from featscope.studies.prediction_head.ladders import LADDERS
from featscope.studies.prediction_head.objectives import PredictAverage
from featscope.training import EMA, SGD, Measurement, PredictOtherView, Recipe, Training
from featscope.training.flow import Following
from featscope.training.infinite_batches import InfiniteBatches, RandomStarts, RescuedTraining, TrainingStart

INTEGRATION = 4000  # most steps of a flow, of which none takes a fourth
AVERAGED, SPHERICAL = 6000, 2000  # steps, after which all that is claimed has been seen or has not
ALMOST = 0.75  # of the strong feature: a weak one that is learned soon
EARLY = 60.0  # time of the flow that Algorithm 1 can afford from random weights


@dataclass(frozen=True)
class PredictionHeadArms(Study):
    """Why non-contrastive learning does not collapse: what the prediction head does (Wen & Li 2022).

    Arms follow the gradient flow of infinite batches from many random starts, or train on batches as Algorithm 1
    does. The first arm is what `featscope sweep` varies.

    Attributes:
        data: patches with a strong and a weak feature (Definition 3.1); the weak one must not be stronger. Arms on
            batches have 16 patches and a weak feature of 3/4 of the strong one, from given overlaps in 32 dimensions.
        learner: cubic neurons (Section 3.1); their number is 2, as in the theorem, but in the arm `widths`, and they
            start at random, but for arms on batches that have given overlaps.
        head: the head that begins as the identity; on batches from given overlaps its rate is 0.3.
        objective: Algorithm 1's loss and batch; `random-batches` and its twin have 1800 samples.
        optimizer: Algorithm 1's step size η, without weight decay; that of `random-batches` and its twin is 0.02.
        starts: random starts in a replica of the flow.
        duration: how long the flow is followed, in units of 1/η; beside Algorithm 1 as long as that trains, at least,
            and until 60 where it chooses the random weights of `random-batches`.
        steps: most steps of Algorithm 1; flows end by themselves.
        probe_every: steps between measurements of Algorithm 1.
    """

    name = "prediction-head"
    ladders = LADDERS

    data: PatchFeatures = field(default_factory=PatchFeatures)
    learner: CubicPatches = field(default_factory=CubicPatches)
    head: IdentityInit = field(default_factory=lambda: IdentityInit(rate=0.1))
    objective: PredictOtherView = field(default_factory=PredictOtherView)
    optimizer: SGD = field(default_factory=lambda: SGD(lr=0.01, weight_decay=0.0))
    starts: int = 125
    duration: float = 1e6
    steps: int = 8000
    probe_every: int = 100

    def __post_init__(self) -> None:
        require(self, "starts", self.starts >= 1, ">= 1")
        require(self, "duration", self.duration > 0, "> 0")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def smallest(self) -> "PredictionHeadArms":
        """Two starts a replica, small batches."""
        return replace(self, starts=2, objective=replace(self.objective, samples=16))

    @property
    def wide_networks(self) -> int:
        """Networks of `probes.WIDEST` neurons in a replica of the arm `widths`."""
        return min(25, self.starts)

    def arms(self) -> Sequence[Arm]:
        """With and without the head, what else is left out, sizes, and Algorithm 1 on batches."""
        require(self, "learner", self.learner.width == 2, "a learner of width 2", "The theorem is about two neurons.")
        why = "Those that are given are the arm `batches`'s own; what is said of the others is of random weights."
        require(self, "learner", self.learner.overlaps is None, "a learner with overlaps None", why)
        weaker = self.data.weak <= self.data.strong
        require(self, "data", weaker, "data with weak <= strong", "Raise --data.strong, or lower --data.weak.")
        plain = self.optimizer.weight_decay == 0
        require(self, "optimizer", plain, "an optimizer with weight_decay 0", "The flow beside it has none.")
        own = self.objective.loss == NonContrastive()
        require(self, "objective", own, "the loss NonContrastive() as it is", "Flow and theory are of that one.")
        few = RandomStarts(min(50, self.starts))
        single = RandomStarts(self.wide_networks * probes.WIDEST, width=1)
        strong, most = self.data.strong, INTEGRATION
        almost = replace(self.data, patches=16, weak=ALMOST * strong)
        equal = replace(self.data, strong=almost.weak, weak=almost.weak)
        head = InfiniteBatches(self.data, RandomStarts(self.starts), self.head, duration=self.duration, steps=most)
        alone = replace(head, head=None)
        no_stop = replace(head, loss=NonContrastive(stop_gradient=False))
        as_they_are = replace(head, loss=NonContrastive(normalization="none"), duration=1e3)
        rare = replace(head, data=replace(equal, strong_share=0.9))
        both = replace(head, data=replace(self.data, both=True))
        longer = replace(head, start=few, duration=1e3 * self.duration)
        sizes = Axis("data.input_dim", (32, 100, 316, 1000, 3162, 10000)), Axis("data.weak", (strong / 4, strong / 2))
        ratios = (Axis("data.weak", tuple(share * strong for share in (0.1, 0.25, 0.5, 0.75))),)

        small = replace(almost, input_dim=32)
        given = Online(CubicPatches(overlaps=(0.30, 0.05, 0.12, 0.15)), IdentityInit(rate=0.3))
        batches = Training(small, given, self.objective, self.optimizer, steps=self.steps, probe_every=self.probe_every)
        batches_alone = replace(batches, learner=replace(given, head=None))
        as_long = max(self.duration, self.steps * self.optimizer.lr)
        beside = InfiniteBatches(
            small, TrainingStart(given.encoder), given.head, duration=as_long, steps=INTEGRATION, probe_every=2
        )
        early = replace(head, data=almost, duration=EARLY)
        averaged = replace(batches, objective=PredictAverage(samples=self.objective.samples), rules={"ema": EMA()})
        averaged = averaged.shortened(AVERAGED)
        averaged_alone = replace(averaged, learner=batches_alone.learner)
        on_sphere = replace(self.objective, loss=NonContrastive(normalization="l2"))
        spherical = replace(batches_alone, objective=on_sphere).shortened(SPHERICAL)
        learner, steps = Online(self.learner, self.head), min(self.steps, 5000)
        objective, sgd = replace(self.objective, samples=1800), SGD(lr=0.02, weight_decay=0.0)
        random = RescuedTraining(early.data, learner, objective, sgd, steps=steps, probe_every=50, flow=early)
        random_alone = replace(random, learner=replace(learner, head=None))

        def flow(name: str, recipe: Recipe, about: str, label: str, **more: Any) -> Arm:
            return Arm(name, recipe, about, label, **{"stop_at": "arrived", "at_end": (probes.outcomes,)} | more)

        def hand_set(name: str, gap: float, about: str, label: str, role: Role) -> Arm:
            recipe = Following(HandSetHead(gap, self.starts), 1e4, steps=most)
            return flow(name, recipe, about, label, role=role, at_end=(probes.rank,))

        return [
            flow(
                "head", head, "gradient flow of infinite batches, with head", "with head", at_start=(probes.gradient,)
            ),
            flow("no-head", alone, "the same starts, E = I throughout", "without head"),
            flow("no-stop-gradient", no_stop, "targets are differentiated too", "no stop-gradient"),
            flow("no-normalization", as_they_are, "outputs as they are", "no normalisation"),
            flow("tied-head", replace(head, tied=True), "a trained head that is kept symmetric", "symmetric head"),
            flow(
                "frozen-head",
                replace(head, frozen=True),
                "the head stays as it is once it has risen, and never comes back",
                "frozen head",
            ),
            flow(
                "rare-weak",
                rare,
                "features of equal strength, one nine times as frequent (Remark 3.2 (1))",
                "rare feature",
            ),
            flow("both-features", both, "every sample has both features (Remark 3.2 (2))", "both features"),
            flow(
                "equal-no-head",
                replace(alone, data=equal),
                "features of equal strength and frequency, no head: neither may lead",
                "equal features",
                role="control",
            ),
            flow("ratios", replace(alone, start=few), "no head, over the weak feature", "weak varies", over=ratios),
            flow(
                "sizes", longer, "with the head, over input dimension and weak feature", "dimension varies", over=sizes
            ),
            flow("widths", replace(alone, start=single), "64 neurons without head", "wide", at_end=(probes.widths,)),
            Arm(
                "batches",
                batches,
                "Algorithm 1 from given overlaps, with the head",
                "batches",
                watch=probes.trajectory_and_directions,
            ),
            Arm(
                "batches-no-head",
                batches_alone,
                "the same without",
                "batches, no head",
                watch=probes.trajectory_and_directions,
            ),
            Arm("batches-average", averaged, "targets from a moving average of the network", "averaged targets"),
            Arm("batches-average-no-head", averaged_alone, "the same without head", "averaged targets, no head"),
            Arm(
                "batches-sphere",
                spherical,
                "no head, and outputs of every sample scaled to norm 1 in place of batch normalisation",
                "norm 1, no head",
                watch=probes.trajectory_and_directions,
            ),
            Arm(
                "batches-flow",
                beside,
                "gradient flow from the same weights, with the head",
                "beside batches",
                "reference",
                stop_at="arrived",
            ),
            Arm(
                "random-batches",
                random,
                "Algorithm 1 from random weights that the flow's head rescues early",
                "random batches",
                stop_at="unrescued",
            ),
            Arm(
                "random-batches-no-head",
                random_alone,
                "the same without head",
                "random, no head",
                stop_at="unrescued",
            ),
            hand_set(
                "hand-set-gap",
                16.0,
                "a linear network whose head is set by hand, inputs of very unequal variance",
                "hand-set head",
                "reference",
            ),
            hand_set("hand-set-equal", 1.0, "the same with inputs of equal variance", "equal inputs", "control"),
        ]

    def watch(self, experiment: Any) -> Mapping[str, Measurement]:
        """Overlaps, noise and head of the first starts."""
        return probes.trajectory(experiment)

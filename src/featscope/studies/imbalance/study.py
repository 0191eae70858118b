"""The study: data, learner and arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from featscope.claims import Claim
from featscope.data import SparseTokens
from featscope.figures import Figure
from featscope.models import TokenMLP
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.axes import Axis
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.imbalance import figures, identities, judge, measures
from featscope.studies.imbalance.statements import STATEMENTS
from featscope.theory.imbalance import Stage1, activities
from featscope.training import SGD, BiasSchedule, ContrastivePairs, Experiment, FirstTime, Measurement
from featscope.training.experiment import RuleConfig


@dataclass(frozen=True)
class Imbalance(Study):
    """Rare features are learned late, weakly, or not at all.

    The first arm is the setting of the papers' curves: one minority feature, b = 0, early stopping.

    Attributes:
        data: token sequences with majority and minority features (P, Assumptions 3.1-3.4).
        learner: fixed attention and bilateral-ReLU neurons (P, Section 2).
        objective: InfoNCE on pairs, in-batch negatives (P (1)-(3)).
        optimizer: gradient descent with step size η and decay λ.
        bias: the three-stage schedule (V (70)) on the arms of the curves; None keeps b = 0.
        curve_steps: steps after which the curves over ε_min are read. They depend on it, and the papers do not say.
        steps: most training steps of any arm.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "imbalance"
    statements = STATEMENTS

    data: SparseTokens = field(default_factory=SparseTokens)
    learner: TokenMLP = field(default_factory=TokenMLP)
    objective: ContrastivePairs = field(default_factory=ContrastivePairs)
    optimizer: SGD = field(default_factory=lambda: SGD(lr=0.05, weight_decay=0.001))
    bias: BiasSchedule | None = None
    curve_steps: int = 150
    steps: int = 1500
    probe_every: int = 25

    def __post_init__(self) -> None:
        require(self, "curve_steps", self.curve_steps >= 1, ">= 1")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def arms(self) -> Sequence[Arm["Imbalance"]]:
        """The papers' curves, Stage 1 from a tiny start, the earlier paper's heat map, and a long run."""
        d, d1 = self.data.features, self.data.input_dim
        require(self, "data", 0 < self.data.minority < d, "data with 0 < minority < features", "Some are rare.")
        require(self, "data", self.data.eps_min > 0, "data with eps_min > 0", "Rare features must occur.")
        require(self, "data", d1 > d, "data with input_dim > features", "What is off the features must be something.")
        curves = self.shortened(self.curve_steps)
        half = replace(self.data, minority=d // 2)
        stage_one = replace(
            self,
            data=half,
            learner=replace(self.learner, init_norm=2e-3),
            # In the papers' range, d^-1.49 to d^-1.01; the decay of the curves is too small to be seen in Stage 1.
            optimizer=replace(self.optimizer, weight_decay=d**-1.25),
            bias=None,
        ).shortened(60, 5)
        heat_map = replace(
            self,
            data=replace(self.data, features=9, input_dim=50, minority=4, eps_min=0.3, activity=0.15),
            learner=replace(self.learner, width=30),
            objective=replace(self.objective, pairs=128),
            bias=BiasSchedule(reset=0.6, growth=1.0, cap_ratio=0.8, feature_energy=0.5),
        ).shortened(500)
        return [
            Arm(
                "imbalanced",
                curves,
                "one setting of the curves, for `featscope sweep` to vary",
                at_end=(measures.represented,),
            ),
            Arm(
                "stage-one",
                stage_one,
                "half of the features rare, a tiny start and b = 0: Stage 1 as the theory has it",
                at_start=(identities.growth_identity, measures.census),
            ),
            Arm(
                "stage-one-narrow",
                replace(stage_one, data=replace(half, input_dim=max(d + 1, d1 // 4))),
                "the same in a quarter of the input dimensions",
            ),
            Arm(
                "figures-1-2",
                curves,
                "the curves of P, Figures 1 and 2",
                over=(Axis("data.eps_min", (0.1, 0.4, 0.7, 1.0)), Axis("data.noise_std", (0.01, 0.03, 0.05))),
            ),
            Arm(
                "figures-3-4",
                curves,
                "the curves of P, Figures 3 and 4",
                at_end=(measures.represented,),
                over=(Axis("data.eps_min", (0.05, 0.2, 0.35, 0.5)), Axis("data.noise_std", (0.03, 0.05, 0.075, 0.1))),
            ),
            Arm(
                "heat-map",
                heat_map,
                "the small network of V, Figure 1, with the bias schedule",
                at_end=(identities.gradients, identities.optimal_learner),
            ),
            Arm("heat-map-unbiased", replace(heat_map, bias=None), "the same without biases"),
            Arm(
                "heat-map-balanced",
                replace(heat_map, data=replace(heat_map.data, eps_min=1.0)),
                "the same with equal frequencies: nothing may tell the features apart",
                control=True,
            ),
            Arm(
                "late",
                replace(
                    self,
                    data=replace(half, input_dim=min(d1, 3 * d), eps_min=0.25),
                    learner=replace(self.learner, width=60),
                    optimizer=replace(self.optimizer, weight_decay=0.01),
                    bias=None,
                ).shortened(1500, 100),
                "long training of a small network at b = 0, half of the features rare",
            ),
        ]

    def shortened(self, steps: int, probe_every: int | None = None) -> "Imbalance":
        """The same for at most ``steps`` steps."""
        return replace(self, steps=min(steps, self.steps), probe_every=probe_every or self.probe_every)

    def arm(self, name: str) -> "Imbalance":
        """The config of an arm."""
        return next(arm.config for arm in self.arms() if arm.name == name)

    @property
    def stage1(self) -> Stage1:
        """What the theory says of Stage 1 under uniform attention."""
        data, pairs = self.data, self.objective.pairs
        return Stage1(
            activities=activities(data.features, data.minority, data.eps_min, data.activity),
            tokens=data.tokens,
            input_dim=data.input_dim,
            noise_variance=data.noise_std**2 / data.tokens,
            lr=self.optimizer.lr,
            weight_decay=self.optimizer.weight_decay,
            keys=pairs,
            anchors=pairs,
            temperature=self.objective.loss.temperature,
            loss_scale=self.objective.loss.scale,
            token_activity=data.token_activity,
        )

    def build(self, streams: Streams) -> Experiment:
        """Data, learner and rules of the replicas of ``streams``."""
        source = self.data.build(streams.at("dictionary"), means=self.learner.attention == "uniform")
        learner = self.learner.build(self.data.tokens, self.data.input_dim, streams.at("weights"))
        rules: list[RuleConfig] = [
            FirstTime("t1", measures.features_lead, every=1),
            FirstTime("t1_of_every_neuron", measures.half_of_every_neuron, every=5),
        ]
        if self.bias is not None:
            rules.append(self.bias)
        return Experiment(source, learner, self.objective, self.optimizer, rules, streams)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Alignments, norms, biases, and what rare and common features get."""
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

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
        bias: the three-stage schedule (V (70)); None keeps b = 0.
        steps: most training steps of an arm; curves over ε_min depend on it, so it is always reported.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "imbalance"
    statements = STATEMENTS

    data: SparseTokens = field(default_factory=SparseTokens)
    learner: TokenMLP = field(default_factory=TokenMLP)
    objective: ContrastivePairs = field(default_factory=ContrastivePairs)
    optimizer: SGD = field(default_factory=lambda: SGD(lr=0.05, weight_decay=0.001))
    bias: BiasSchedule | None = None
    steps: int = 150
    probe_every: int = 25

    def __post_init__(self) -> None:
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def arms(self) -> Sequence[Arm["Imbalance"]]:
        """The papers' curves, Stage 1 from a tiny start, the earlier paper's heat map, and a long run."""
        require(self, "data", self.data.minority >= 1, "data with minority >= 1", "Rare features are the question.")
        require(self, "data", self.data.minority < self.data.features, "data with minority < features")
        half = replace(self.data, minority=self.data.features // 2)
        heat_map = replace(
            self,
            data=SparseTokens(features=9, input_dim=50, minority=4, eps_min=0.3, activity=0.15),
            learner=replace(self.learner, width=30),
            objective=replace(self.objective, pairs=128),
            bias=BiasSchedule(reset=0.6, growth=1.0, cap_ratio=0.8, feature_energy=0.5),
            steps=500,
        )
        return [
            Arm(
                "imbalanced",
                self,
                "the setting of the curves: b = 0 and early stopping",
                at_end=(measures.represented,),
            ),
            Arm(
                "stage-one",
                replace(self, data=half, learner=replace(self.learner, init_norm=2e-3), steps=60, probe_every=5),
                "half of the features rare, a tiny start and b = 0: Stage 1 as the theory has it",
                at_start=(identities.growth_identity, measures.census),
            ),
            Arm(
                "figures-1-2",
                self,
                "the curves of P, Figures 1 and 2",
                over=(Axis("data.eps_min", (0.1, 0.4, 0.7, 1.0)), Axis("data.noise_std", (0.01, 0.03, 0.05))),
            ),
            Arm(
                "figures-3-4",
                self,
                "the curves of P, Figures 3 and 4",
                at_end=(measures.represented,),
                over=(Axis("data.eps_min", (0.05, 0.2, 0.35, 0.5)), Axis("data.noise_std", (0.03, 0.05, 0.075, 0.1))),
            ),
            Arm(
                "heat-map",
                heat_map,
                "the small network of V, Figure 1, with the bias schedule",
                at_end=(identities.pseudo_loss,),
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
                    data=replace(half, input_dim=60, eps_min=0.25),
                    learner=replace(self.learner, width=60),
                    optimizer=replace(self.optimizer, weight_decay=0.01),
                    steps=1500,
                    probe_every=100,
                ),
                "long training of a small network at b = 0",
            ),
        ]

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
            rules = [self.bias]
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

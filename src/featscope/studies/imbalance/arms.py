"""What `imbalance` trains: options, and the arms of the papers' figures, of Stage 1 and of a long run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from featscope.data import SparseTokens
from featscope.models import TokenMLP
from featscope.models.token_mlp import Attention
from featscope.options import require
from featscope.studies import Arm, Axis, Study
from featscope.studies.imbalance import probes, samples
from featscope.studies.imbalance.ladders import LADDERS
from featscope.training import SGD, BiasSchedule, ContrastivePairs, FirstTime, GradientTraining, Measurement, Training
from featscope.training.gradient import RuleConfig

FIGURES_1_2 = (Axis("data.eps_min", (0.1, 0.4, 0.7, 1.0)), Axis("data.noise_std", (0.01, 0.03, 0.05)))
FIGURES_3_4 = (Axis("data.eps_min", (0.05, 0.2, 0.35, 0.5)), Axis("data.noise_std", (0.03, 0.05, 0.075, 0.1)))


@dataclass(frozen=True)
class ImbalanceArms(Study):
    """When, and how strongly, rare features are learned, over their frequency.

    The first arm is the setting of the papers' curves: one minority feature, b = 0, early stopping.

    Attributes:
        data: token sequences with majority and minority features (the paper, Assumptions 3.1-3.4).
        learner: fixed attention and bilateral-ReLU neurons (the paper, Section 2).
        objective: InfoNCE on pairs, in-batch negatives (the paper's (1)-(3)).
        optimizer: gradient descent with step size η and decay λ.
        bias: the three-stage schedule (the workshop version's (70)) on the arms of the curves; None keeps b = 0.
        curve_steps: steps after which the curves over ε_min are read. They depend on it, and the papers do not say.
        steps: most training steps of any arm.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "imbalance"
    default_replicas = 12  # with 8, shares of 0.9 stay undecided where few are counted
    asks = "What becomes of features that a network rarely sees?"
    ladders = LADDERS

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

    def smallest(self) -> "ImbalanceArms":
        """Six features, few neurons and pairs."""
        data, objective = SparseTokens(features=6, input_dim=24), ContrastivePairs(pairs=16)
        return replace(self, data=data, learner=TokenMLP(width=8), objective=objective)

    def arms(self) -> Sequence[Arm[Training]]:
        """The papers' curves, Stage 1 from a tiny start, the earlier paper's heat map, and a long run."""
        data, d, d1 = self.data, self.data.features, self.data.input_dim
        require(self, "data", 0 < data.minority < d, "data with 0 < minority < features", "Some are rare.")
        require(self, "data", data.eps_min > 0, "data with eps_min > 0", "Rare features must occur.")
        two = not data.frequencies
        require(self, "data", two, "data without frequencies", "Claims and closed forms know eps_min alone.")
        require(self, "data", d1 > d, "data with input_dim > features", "What is off the features must be something.")

        rules: Mapping[str, RuleConfig | None] = {
            "t1": FirstTime("t1", probes.features_lead, every=1),
            "t1_of_every_neuron": FirstTime("t1_of_every_neuron", probes.half_of_every_neuron, every=5),
            "bias": None,
        }
        unbiased = Training(data, self.learner, self.objective, self.optimizer, rules, self.steps, self.probe_every)
        curves = replace(unbiased, rules={**rules, "bias": self.bias}).shortened(self.curve_steps)
        half = replace(data, minority=d // 2)
        stage_one = replace(
            unbiased.shortened(60, 5),
            data=half,
            learner=replace(self.learner, init_norm=2e-3),
            # In the papers' range, d^-1.49 to d^-1.01; the decay of the curves is too small to be seen in Stage 1.
            optimizer=replace(self.optimizer, weight_decay=d**-1.25),
        )
        heat_map = replace(
            unbiased.shortened(500),
            rules={**rules, "bias": BiasSchedule(reset=0.6, growth=1.0, cap_ratio=0.8, feature_energy=0.5)},
            data=replace(data, features=9, input_dim=50, minority=4, eps_min=0.3, activity=0.15),
            learner=replace(self.learner, width=30),
            objective=replace(self.objective, pairs=128),
        )
        late = replace(
            unbiased.shortened(1500, 100),
            data=replace(half, input_dim=min(d1, 3 * d), eps_min=0.25),
            learner=replace(self.learner, width=60),
            optimizer=replace(self.optimizer, weight_decay=0.01),
        )
        balanced = replace(heat_map, data=replace(heat_map.data, eps_min=1.0))  # type: ignore[type-var]
        # Lucky neurons are seen among a thousand only if rare features are nearly as frequent as others.
        # Samples show about two features, so that one of them can lift a neuron above its threshold and others do not.
        sparse = min(data.activity, 2 / d)
        among_many = replace(half, input_dim=min(d1, 3 * d), eps_min=0.9, activity=sparse)
        many = replace(self.learner, width=50 * d, init_norm=0.02)
        lottery = replace(
            unbiased.shortened(500, 10),
            rules={**rules, "bias": BiasSchedule(reset=0.6, growth=1.0, cap_ratio=0.7, feature_energy=0.5)},
            data=among_many,
            learner=many,
            objective=replace(self.objective, pairs=64, noise="dense"),  # of more neurons than inputs
            optimizer=replace(self.optimizer, lr=self.optimizer.lr * data.activity / sparse / 2, weight_decay=0.005),
        )
        few = replace(
            lottery,
            data=replace(among_many, eps_min=0.6),
            learner=replace(many, width=10 * d),
            objective=replace(self.objective, pairs=128, noise="dense"),
        )
        in_few_dims = replace(half, input_dim=max(d + 1, d1 // 4))
        narrow = replace(stage_one, data=in_few_dims)
        masked = replace(narrow, data=replace(in_few_dims, token_activity=self.data.token_activity / 2))
        # Linear attention pulls several times as hard.
        attentions: dict[Attention, float] = {"softmax": self.optimizer.lr, "linear": self.optimizer.lr / 5}
        attending = [
            Arm(
                f"{attention}-attention",
                replace(
                    narrow.shortened(20, 5),
                    learner=replace(self.learner, init_norm=2e-3, attention=attention),
                    objective=replace(self.objective, pairs=4 * self.objective.pairs, noise="dense"),
                    optimizer=replace(self.optimizer, lr=lr, weight_decay=d**-1.25),
                ),
                f"Stage 1, narrow, under {attention} attention",
                f"{attention} attention",
                at_start=(samples.attention,),
            )
            for attention, lr in attentions.items()
        ]
        return [
            Arm(
                "imbalanced",
                curves,
                "one setting of the curves, the one that a sweep varies",
                "one rare feature",
                at_end=(probes.represented,),
            ),
            Arm(
                "stage-one",
                stage_one,
                "half of the features rare, a tiny start and b = 0: Stage 1 as the theory has it",
                "Stage 1",
                at_start=(probes.growth_identity, probes.census, samples.data, samples.logits, samples.batches),
            ),
            Arm("stage-one-narrow", narrow, "the same in a quarter of the input dimensions", "Stage 1, narrow"),
            Arm("figures-1-2", curves, "the curves of the paper, Figures 1 and 2", "Figures 1, 2", over=FIGURES_1_2),
            Arm(
                "figures-3-4",
                curves,
                "the curves of the paper, Figures 3 and 4",
                "Figures 3, 4",
                at_end=(probes.represented,),
                over=FIGURES_3_4,
            ),
            Arm(
                "heat-map",
                heat_map,
                "the small network of the workshop version, Figure 1, with the bias schedule",
                "growing biases",
                at_end=(probes.gradients, probes.optimal_learner, samples.firing, samples.one_update),
                watch=probes.with_regret,
            ),
            Arm("heat-map-unbiased", replace(heat_map, rules=rules), "the same without biases", "no biases"),
            Arm(
                "heat-map-balanced",
                balanced,
                "the same with equal frequencies: nothing may tell the features apart",
                "equal frequencies",
                role="control",
            ),
            Arm(
                "lottery",
                lottery,
                "many neurons, a tiny start, growing biases and rare features that are nearly as frequent as others: "
                "which neurons win",
                "many neurons",
                at_end=(samples.firing, probes.thresholds),
            ),
            Arm(
                "few-neurons",
                few,
                "the same with a fifth of the neurons, rarer features and twice as many pairs",
                "few neurons",
            ),
            Arm("token-masking", masked, "Stage 1, narrow; half of the tokens show a feature", "some tokens show it"),
            *attending,
            Arm("late", late, "long training of a small network at b = 0, half of the features rare", "long training"),
        ]

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Alignments, norms, biases, and what rare and common features get."""
        return probes.trajectory(experiment)

"""What `pruning` trains: options, and arms from planted and from random starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from featscope.data import SparseTokens
from featscope.models import PlantedStart, TokenMLP
from featscope.options import require
from featscope.studies import Arm, Axis, Study
from featscope.studies.pruning import probes
from featscope.training import (
    SGD,
    ContrastivePairs,
    GradientTraining,
    MagnitudePruning,
    Measurement,
    ProportionalBias,
    Training,
)
from featscope.training.gradient import RuleConfig

JUDGED, LITTLE = 0.125, 0.05  # pruning ratios that claims are made of
NEXT, RAREST = 0.2, 0.1  # ε of two rare tiers
MOST_NEURONS = 1_000_000  # of a feature: ratios that leave one of them differ as numbers
RATIOS = (0.0, LITTLE, JUDGED, 2 * JUDGED)
over = partial(Axis, "rules.pruning.ratio")


def follows_theory(study: "PruningArms") -> bool:
    """Whether training has the theory's gradient; by that of the pruned network hidden neurons only decay."""
    return study.pruning.gradient == "theory"


@dataclass(frozen=True)
class PruningArms(Study):
    """Does hiding the smallest neurons from the logits give rare features their share?

    The first arm starts from a network that holds every feature, where the mechanism works.

    Attributes:
        data: token sequences with majority and minority features.
        start: the network at the start; only arms of the study start at random.
        objective: InfoNCE on pairs, in-batch negatives.
        optimizer: gradient descent with step size η and decay λ; λ must compare with p_min for pruning to matter.
        bias: thresholds.
        pruning: what the loss does not see (Algorithm 1). Most arms go through several ratios instead of its own.
        settling_steps: steps of arms from a planted start, after which they have settled.
        steps: most training steps of any arm.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "pruning"

    data: SparseTokens = field(
        default_factory=lambda: SparseTokens(input_dim=100, minority=5, eps_min=0.1, noise_std=0.05)
    )
    start: PlantedStart | TokenMLP = field(default_factory=PlantedStart)
    objective: ContrastivePairs = field(default_factory=lambda: ContrastivePairs(pairs=512))
    optimizer: SGD = field(default_factory=lambda: SGD(lr=0.1, weight_decay=0.05))
    bias: ProportionalBias = field(default_factory=ProportionalBias)
    pruning: MagnitudePruning = field(default_factory=lambda: MagnitudePruning(ratio=0.125))
    settling_steps: int = 600
    steps: int = 1400
    probe_every: int = 50

    def __post_init__(self) -> None:
        require(self, "settling_steps", self.settling_steps >= 1, ">= 1")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")
        neurons, dense = self.pruning.granularity == "neuron", self.objective.noise == "dense"
        require(self, "pruning", neurons, "pruning of granularity 'neuron'", "Single entries belong to no feature.")
        require(self, "objective", dense, "an objective with noise 'dense'", "Two networks look at each batch.")

    def smallest(self) -> "PruningArms":
        """Eight features, few pairs."""
        return replace(
            self,
            data=SparseTokens(features=8, input_dim=32, minority=3, eps_min=0.1, noise_std=0.05),
            objective=ContrastivePairs(pairs=32),
        )

    def arms(self) -> Sequence[Arm[Training]]:
        """From planted to stationary, what one step does, and random starts."""
        data, objective = self.data, self.objective
        start: Any = self.start
        require(self, "start", isinstance(start, PlantedStart), "a PlantedStart", "Only arms start at random.")
        several, allowed = 2 <= start.neurons <= MOST_NEURONS, f"a start with 2 to {MOST_NEURONS:,} neurons"
        require(self, "start", several, allowed, "One of a feature's neurons is pruned alone.")
        require(self, "data", 0 < data.minority < data.features, "data with 0 < minority < features", "Some are rare.")
        require(self, "data", data.eps_min > 0, "data with eps_min > 0", "A feature that is never there has no share.")
        shown = data.token_activity == 1
        two = not data.frequencies
        require(self, "data", two, "data without frequencies", "Claims and closed forms know eps_min alone.")
        require(self, "data", shown, "data with token_activity = 1", "The closed forms know no other.")
        decays = self.optimizer.weight_decay > 0
        require(self, "optimizer", decays, "an optimizer with weight_decay > 0", "Nothing settles without.")
        rules: Mapping[str, RuleConfig | None] = {"bias": self.bias, "pruning": self.pruning}
        settling = min(self.settling_steps, self.steps)
        planted = Training(data, start, objective, self.optimizer, rules, settling, self.probe_every)
        single = replace(
            planted,
            data=replace(data, minority=1, eps_min=0.3),
            learner=PlantedStart(start.neurons, amplitude=0.6, minority_amplitude=0.3, jitter=0.0),
            objective=replace(objective, pairs=2 * objective.pairs),
            rules={"bias": ProportionalBias(0.0, 0.0), "pruning": replace(self.pruning, ratio=1 / data.features)},
            steps=1,
        )
        few = max(1, data.features // 6)
        frequencies = (1.0,) * (data.features - 2 * few) + (NEXT,) * few + (RAREST,) * few
        tiers = replace(
            planted,
            data=replace(data, minority=2 * few, frequencies=frequencies),
            rules={**rules, "pruning": replace(self.pruning, start=settling // 2)},
            probe_every=min(10, self.probe_every),
        )
        late = replace(self.pruning, start=500, score="norm")
        random = replace(
            planted,
            data=replace(data, eps_min=0.3),
            learner=TokenMLP(width=10 * data.features, init_norm=0.05),
            objective=replace(objective, pairs=max(2, objective.pairs // 2)),
            rules={"bias": ProportionalBias(first=0.3, last=0.5, begins=200, takes=300), "pruning": late},
            steps=min(1400, self.steps),
            probe_every=100,
        )
        by_direction = replace(random, rules={**random.rules, "pruning": replace(late, score="direction")})
        each = 1 / start.neurons
        return [
            Arm(
                "stationary",
                planted,
                "a planted start, and the smallest neurons hidden from the logits; a ratio of 0 is no pruning",
                f"planted, by {self.pruning.score}",
                at_end=(probes.one_update,),
                over=[over(RATIOS)],
            ),
            Arm(
                "straight-through",
                replace(planted, rules={**rules, "pruning": replace(self.pruning, gradient="straight-through")}),
                "the gradient of the pruned network instead of the theory's",
                "straight-through",
                watch=probes.of_hidden,
            ),
            Arm(
                "too-much",
                planted,
                "so much pruned that it cannot be one neuron of each feature: some features are hidden altogether",
                "too much",
                over=[over((0.0, 1 - each, 1 - each / 2))],
            ),
            Arm(
                "balanced",
                replace(planted, data=replace(data, eps_min=1.0)),
                "equal frequencies: there is nothing to rebalance",
                "equal frequencies",
                role="control",
                over=[over((0.0, JUDGED))],
            ),
            Arm(
                "tiers",
                tiers,
                "three tiers of frequency, pruned once they have settled: the rarest is to catch up with the next, and "
                "then both with the most frequent",
                "three tiers",
                over=[over((0.0, JUDGED))],
                watch=probes.of_tiers,
            ),
            Arm(
                "one-step",
                single,
                "a planted start whose minority neurons are the smallest, and a single step",
                "one step",
                at_start=(probes.one_step,),
            ),
            Arm(
                "one-step-noiseless",
                replace(single, data=replace(single.data, noise_std=0.0)),  # type: ignore[type-var]
                "the same without noise, where the growth has a closed form",
                "one noiseless step",
                at_start=(probes.one_step,),
            ),
            Arm(
                "random-start",
                random,
                "random weights, pruned once neurons have settled",
                "random, by norm",
                over=[over(RATIOS)],
            ),
            Arm(
                "random-start-direction",
                by_direction,
                "the same, neurons ranked by the energy of all neurons along them",
                "random, by direction",
                over=[over(RATIOS[1:])],
            ),
        ]

    def watch(self, experiment: GradientTraining) -> Mapping[str, Measurement]:
        """Energies of rare and common features, and what is pruned."""
        return probes.energies(experiment)

"""The study: data, learner, pruning and arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from featscope.claims import Claim
from featscope.data import SparseTokens, SparseTokensSource
from featscope.figures import Figure
from featscope.models import TokenMLP, TokenMLPNetwork
from featscope.options import ConfigError, require
from featscope.streams import Draws, Streams
from featscope.studies.axes import Axis
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.pruning import figures, judge, measures
from featscope.studies.pruning.judge import JUDGED, LITTLE
from featscope.studies.pruning.statements import STATEMENTS
from featscope.training import (
    SGD,
    ContrastivePairs,
    Experiment,
    MagnitudePruning,
    Measurement,
    ProportionalBias,
)

RATIOS = (0.0, LITTLE, JUDGED, 2 * JUDGED)


@dataclass(frozen=True)
class PlantedStart:
    """A network that holds every feature already: w = amplitude M_j + N(0, jitter² I), some neurons for each feature.

    Attributes:
        neurons: neurons of a feature.
        amplitude: of majority features.
        minority_amplitude: of minority features.
        jitter: standard deviation of what is added to each weight.
    """

    neurons: int = 2
    amplitude: float = 0.3
    minority_amplitude: float = 0.3
    jitter: float = 0.01

    def __post_init__(self) -> None:
        require(self, "neurons", self.neurons >= 1, ">= 1")
        require(self, "amplitude", self.amplitude > 0, "> 0")
        require(self, "minority_amplitude", self.minority_amplitude > 0, "> 0")
        require(self, "jitter", self.jitter >= 0, ">= 0")

    def build(self, source: SparseTokensSource, draws: Draws) -> TokenMLPNetwork:
        """The network on the features of ``source``, under uniform attention."""
        amplitude = torch.full_like(source.activity, self.amplitude)
        amplitude[:, amplitude.shape[1] - source.minority :] = self.minority_amplitude
        planted = (source.dictionary * amplitude[:, None]).mT.repeat_interleave(self.neurons, dim=1)
        return TokenMLPNetwork(planted + self.jitter * draws.normal(*planted.shape[1:]), source.tokens)


@dataclass(frozen=True)
class Pruning(Study):
    """Does hiding the smallest neurons from the logits give rare features their share?

    The first arm starts from a network that holds every feature, where the mechanism works.

    Attributes:
        data: token sequences with majority and minority features.
        start: the network at the start; only arms of the study start at random.
        objective: InfoNCE on pairs, in-batch negatives.
        optimizer: gradient descent with step size η and decay λ; λ must compare with p_min for pruning to matter.
        bias: thresholds.
        pruning: what the loss does not see (P, Algorithm 1). Most arms go through several ratios instead of its own.
        settling_steps: steps of arms from a planted start, after which they have settled.
        steps: most training steps of any arm.
        probe_every: steps between measurements (log-spaced ones are added).
    """

    name = "pruning"
    statements = STATEMENTS

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
        neurons = self.pruning.granularity == "neuron"
        require(self, "pruning", neurons, "pruning of granularity 'neuron'", "Single entries belong to no feature.")
        dense = self.objective.noise == "dense"
        require(self, "objective", dense, "an objective with noise 'dense'", "Two networks look at each batch.")

    @property
    def planted(self) -> PlantedStart:
        """The start, which must be planted for the study as a whole."""
        if not isinstance(self.start, PlantedStart):
            raise ConfigError(
                f"Pruning.start = {self.start!r} is out of range: allowed is a PlantedStart. Only arms start at random."
            )
        return self.start

    def arms(self) -> Sequence[Arm["Pruning"]]:
        """From planted to stationary, what one step does, and random starts."""
        data, planted = self.data, self.planted
        several = planted.neurons >= 2
        require(self, "start", several, "a start with neurons >= 2", "One of a feature's neurons is pruned alone.")
        require(self, "data", 0 < data.minority < data.features, "data with 0 < minority < features", "Some are rare.")
        require(self, "data", data.eps_min > 0, "data with eps_min > 0", "A feature that is never there has no share.")
        shown = data.token_activity == 1
        require(self, "data", shown, "data with token_activity = 1", "The closed forms know no other.")
        decays = self.optimizer.weight_decay > 0
        require(self, "optimizer", decays, "an optimizer with weight_decay > 0", "Nothing settles without.")
        settling = self.shortened(self.settling_steps)
        one_step = replace(
            self,
            data=replace(data, minority=1, eps_min=0.3),
            start=PlantedStart(planted.neurons, amplitude=0.6, minority_amplitude=0.3, jitter=0.0),
            objective=replace(self.objective, pairs=2 * self.objective.pairs),
            bias=ProportionalBias(0.0, 0.0),
            pruning=replace(self.pruning, ratio=1 / data.features),
        ).shortened(1)
        random = replace(
            self,
            data=replace(data, eps_min=0.3),
            start=TokenMLP(width=10 * data.features, init_norm=0.05),
            objective=replace(self.objective, pairs=max(2, self.objective.pairs // 2)),
            bias=ProportionalBias(first=0.3, last=0.5, begins=200, takes=300),
            pruning=replace(self.pruning, start=500),
        ).shortened(1400, 100)
        by_direction = replace(random, pruning=replace(random.pruning, score="direction"))
        ratio = "pruning.ratio"
        return [
            Arm(
                "stationary",
                settling,
                "a planted start, and the smallest neurons hidden from the logits; a ratio of 0 is no pruning",
                at_end=(measures.one_update,),
                over=(Axis(ratio, RATIOS),),
            ),
            Arm(
                "straight-through",
                replace(settling, pruning=replace(self.pruning, gradient="straight-through")),
                "the gradient of the pruned network instead of the theory's",
            ),
            Arm(
                "too-much",
                settling,
                "so much pruned that it cannot be one neuron of each feature: some features are hidden altogether",
                over=(Axis(ratio, (0.0, 1 - 1 / planted.neurons, 1 - 0.5 / planted.neurons)),),
            ),
            Arm(
                "balanced",
                replace(settling, data=replace(data, eps_min=1.0)),
                "equal frequencies: there is nothing to rebalance",
                control=True,
                over=(Axis(ratio, (0.0, JUDGED)),),
            ),
            Arm(
                "one-step",
                one_step,
                "a planted start whose minority neurons are the smallest, and a single step",
                at_start=(measures.one_step,),
            ),
            Arm(
                "one-step-noiseless",
                replace(one_step, data=replace(one_step.data, noise_std=0.0)),
                "the same without noise, where the growth has a closed form",
                at_start=(measures.one_step,),
            ),
            Arm(
                "random-start",
                random,
                "random weights, pruned once neurons have settled",
                over=(Axis(ratio, RATIOS),),
            ),
            Arm(
                "random-start-direction",
                by_direction,
                "the same, neurons ranked by the energy of all neurons along them",
                over=(Axis(ratio, RATIOS[1:]),),
            ),
        ]

    def shortened(self, steps: int, probe_every: int | None = None) -> "Pruning":
        """The same for at most ``steps`` steps."""
        return replace(self, steps=min(steps, self.steps), probe_every=probe_every or self.probe_every)

    def build(self, streams: Streams) -> Experiment:
        """Data, learner and rules of the replicas of ``streams``."""
        start = self.start
        means = isinstance(start, PlantedStart) or start.attention == "uniform"
        source = self.data.build(streams.at("dictionary"), means=means)
        if isinstance(start, PlantedStart):
            learner = start.build(source, streams.at("weights"))
        else:
            learner = start.build(self.data.tokens, self.data.input_dim, streams.at("weights"))
        return Experiment(source, learner, self.objective, self.optimizer, [self.bias, self.pruning], streams)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Energies of rare and common features, and what is pruned."""
        return measures.trajectory(experiment)

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs, claims)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found, in one sentence."""
        return judge.headline(runs, claims)

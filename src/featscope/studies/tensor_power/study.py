"""The study: sequences, powers and arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Annotated, ClassVar

import torch
from tyro.conf import Suppress

from featscope.claims import Claim, Statement
from featscope.figures import Figure
from featscope.options import require
from featscope.streams import Streams
from featscope.studies.axes import Axis
from featscope.studies.base import Arm, Runs, Study
from featscope.studies.tensor_power import figures, judge, measures
from featscope.studies.tensor_power.statements import STATEMENTS
from featscope.theory.tensor_power import rival_threshold
from featscope.training import Experiment, Measurement
from featscope.training.power_method import PowerMethod, PowerSequences, Rival

WIDTH = 0.25
STARTS = (0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class TensorPower(Study):
    """How fast x_{t+1} = x_t + η C_t x_t^q grows, and what it leaves to a rival (Wen & Li 2022, Appendix G).

    Attributes:
        power: q. The paper's neurons grow with q = 5 at first.
        weight: q' of Lemma G.3's sums.
        step_size: η.
        start: smallest x_0; sequences begin uniformly between it and a quarter more.
        scale: mean of C_t, which is log-normal.
        spread: standard deviation of log C_t.
        strongest: max S_t, by which the rival's factor is larger.
        sequences: sequences in a replica.
        steps: most training steps of any arm, of 100 steps of the recursion each.
        probe_every: training steps between measurements (log-spaced ones are added).
        level: A, the unit of x (not an option of the command line).
        lead: the arm's own: x_0/(y_0 (max S)^(1/(q-1))), which sets y_0; Corollary G.2 asks for more than 1 (set by the
            study).
        strength: the arm's own: S_t constant, or uniform up to its largest value (set by the study).
    """

    power: int = 5
    weight: int = 3
    step_size: float = 0.01
    start: float = 0.2
    scale: float = 1.0
    spread: float = 0.5
    strongest: float = 2.0
    sequences: int = 16
    steps: int = 5000
    probe_every: int = 4
    level: Annotated[float, Suppress] = 1.0
    lead: Annotated[float, Suppress] = judge.LITTLE_LEAD
    strength: Annotated[Rival, Suppress] = "constant"

    name: ClassVar[str] = "tensor-power"
    statements: ClassVar[Sequence[Statement]] = STATEMENTS

    def __post_init__(self) -> None:
        require(self, "power", self.power >= 1, ">= 1")
        require(self, "weight", self.weight >= 0, ">= 0")
        require(self, "step_size", 0 < self.step_size < 1, "(0, 1)")
        require(self, "level", self.level > 0, "> 0")
        inside = 0 < (1 + WIDTH) * self.start < self.level
        require(self, "start", inside, f"(0, {self.level / (1 + WIDTH):g})", "Sequences begin below `level`.")
        require(self, "scale", self.scale > 0, "> 0")
        require(self, "spread", self.spread >= 0, ">= 0")
        require(self, "strongest", self.strongest > 0, "> 0")
        comparable = self.power > 1 or self.strongest == 1
        require(self, "strongest", comparable, "1 where power = 1", "No lead makes up for S then.")
        require(self, "lead", self.lead > 0, "> 0")
        require(self, "sequences", self.sequences >= 1, ">= 1")
        require(self, "steps", self.steps >= 1, ">= 1")
        require(self, "probe_every", self.probe_every >= 1, ">= 1")

    def arms(self) -> Sequence[Arm["TensorPower"]]:
        """Powers, step sizes, starts and rivals; then where nothing of it applies."""
        summable = self.power >= self.weight + 2
        require(self, "power", summable, f">= weight + 2 = {self.weight + 2}", "Lemma G.3 asks for it.")
        require(self, "power", self.power > 3, "> 3", "One control is judged as if it were 3.")
        cubic = self.cubic

        def arm(name: str, config: "TensorPower", about: str, *over: Axis, control: bool = False) -> Arm["TensorPower"]:
            return Arm(name, config, about, control=control, stop_at="passed", at_end=(measures.outcomes,), over=over)

        return [
            arm(
                "step-sizes",
                self,
                "the power of the paper's neurons, over η; the rival's S is constant",
                Axis("step_size", (0.001, 0.003, 0.01, 0.03, 0.1)),
            ),
            arm("starts", cubic, "power 3, the least that the lemmas allow, over x_0", Axis("start", STARTS)),
            arm(
                "rivals",
                replace(self, strength="random"),
                "rivals with random S_t, over the leader's lead",
                Axis("lead", (1.01, judge.LITTLE_LEAD, 1.5, 2.0, 3.0, log(judge.DIMENSION))),
            ),
            arm(
                "steep",
                replace(self, power=20, weight=3, start=0.65, step_size=0.001),
                "power 20, where the printed bound of Lemma G.3 is too large",
            ),
            arm(
                "large-factors",
                replace(self, step_size=1e-4, scale=1e6),
                "a tiny η and factors of a million: few steps, and large",
                control=True,
            ),
            arm("overtaken", replace(self, lead=0.9), "a rival that the leader is not ahead of", control=True),
            arm(
                "wrong-power",
                replace(self, weight=cubic.weight),
                f"power {self.power}, judged as if it were 3: sums are far larger",
                control=True,
            ),
            arm(
                "linear",
                replace(cubic, power=1, strongest=1.0),
                "power 1, judged as if it were 3: growth is geometric and favours nobody",
                Axis("start", STARTS),
                control=True,
            ),
        ]

    @property
    def cubic(self) -> "TensorPower":
        """The same at the least power that the lemmas allow."""
        return replace(self, power=3, weight=1)

    def build(self, streams: Streams) -> Experiment:
        """Sequences at their starts."""
        uniform = streams.at("start").uniform(self.sequences, dtype=torch.float64)
        leader = self.start * (1 + WIDTH * uniform)
        rival = leader / (self.lead * rival_threshold(self.strongest, self.power))
        sequences = PowerSequences(
            leader,
            rival,
            self.power,
            self.weight,
            self.strength,
            step_size=self.step_size,
            level=self.level,
            scale=self.scale,
            spread=self.spread,
            strongest=self.strongest,
        )
        return PowerMethod(sequences, streams)

    def watch(self, experiment: Experiment) -> Mapping[str, Measurement]:
        """Leader and rival."""
        return measures.trajectory(experiment)

    def claims(self, runs: Runs) -> Iterable[Claim]:
        """The verdicts."""
        return judge.claims(self, runs)

    def figures(self, runs: Runs, claims: Sequence[Claim]) -> Iterable[Figure]:
        """The figures, in the order of the story."""
        return figures.figures(self, runs)

    def headline(self, runs: Runs, claims: Sequence[Claim]) -> str:
        """What was found, in one sentence."""
        return judge.headline(self, runs, claims)

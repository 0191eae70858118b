"""What `tensor-power` runs: options, and arms over step sizes, starts, rivals and powers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import log

from featscope.models import PowerMethod, Powers
from featscope.options import require
from featscope.studies import Arm, Axis, Study
from featscope.studies.base import Role
from featscope.studies.tensor_power import probes
from featscope.studies.tensor_power.ladders import LADDERS
from featscope.studies.tensor_power.replay import replayed
from featscope.training import Iteration, Measurement, Recursion

CUBIC = 3  # the least power that Lemma G.1 allows; Lemma G.3 asks for 5
LITTLE_LEAD, DIMENSION = 1.1, 100  # d, where log d is a lead
ETAS = Axis("learner.step_size", (0.001, 0.003, 0.01, 0.03, 0.1))
STARTS = Axis("learner.start", (0.02, 0.05, 0.1, 0.2))
LEADS = Axis("learner.lead", (1.01, LITTLE_LEAD, 1.5, 2.0, 3.0, log(DIMENSION)))


@dataclass(frozen=True)
class TensorPowerArms(Powers, Study):
    """How fast x_{t+1} = x_t + η C_t x_t^q grows, and what it leaves to a rival (Wen & Li 2022, Appendix G).

    The options of `Powers`, and how long sequences are followed.

    Attributes:
        steps: most training steps of any arm, of 100 steps of the recursion each.
        probe_every: training steps between measurements (log-spaced ones are added).
    """

    name = "tensor-power"
    ladders = LADDERS

    steps: int = 5000
    probe_every: int = 4

    def __post_init__(self) -> None:
        least = max(CUBIC + 1, self.weight + 2)
        why = f"Lemma G.3 asks for weight + 2 = {self.weight + 2}, and one control is judged as if it were {CUBIC}."
        require(self, "power", self.power >= least, f">= {least}", why)
        super().__post_init__()

    def smallest(self) -> "TensorPowerArms":
        """Six sequences: in eight replicas there are the 44 draws that decide what is said of every sequence."""
        return replace(self, sequences=6)

    def arms(self) -> Sequence[Arm[Iteration]]:
        """Powers, step sizes, starts and rivals; then where nothing of it applies."""
        own = PowerMethod(**{option.name: getattr(self, option.name) for option in fields(Powers)})
        cubic = replace(own, power=CUBIC, weight=1)
        steep = replace(own, power=20, weight=3, start=0.65, step_size=0.001)

        def arm(
            name: str, sequences: PowerMethod, about: str, label: str, *over: Axis, role: Role = "arm"
        ) -> Arm[Iteration]:
            recipe = Iteration(sequences, self.steps, self.probe_every)
            return Arm(
                name, recipe, about, label, role, stop_at="passed", at_end=(probes.outcomes, replayed), over=over
            )

        control = partial(arm, role="control")
        return [
            arm(
                "step-sizes", own, "the power of the paper's neurons, over η; the rival's S is constant", "over η", ETAS
            ),
            arm("starts", cubic, "power 3, the least that Lemma G.1 allows, over x_0", "power 3, over x_0", STARTS),
            arm(
                "rivals",
                replace(own, strength="random"),
                "rivals with random S_t, over the leader's lead",
                "random rivals",
                LEADS,
            ),
            arm("steep", steep, "power 20, where the printed bound of Lemma G.3 is too large", "power 20"),
            arm(
                "large-factors",
                replace(own, step_size=1e-4, scale=1e6),
                "a tiny η and factors of a million: few steps, and large",
                "large factors",
            ),
            control("overtaken", replace(own, lead=0.9), "a rival that the leader is not ahead of", "leader behind"),
            control(
                "wrong-power",
                replace(own, weight=cubic.weight),
                f"power {self.power}, judged as if it were 3: sums are far larger",
                "judged by power 3",
            ),
            control(
                "linear",
                replace(cubic, power=1, strongest=1.0),
                "power 1, judged as if it were 3: growth is geometric and favours nobody",
                "power 1",
                STARTS,
            ),
        ]

    def watch(self, experiment: Recursion) -> Mapping[str, Measurement]:
        """Leader and rival."""
        return probes.trajectory(experiment)
